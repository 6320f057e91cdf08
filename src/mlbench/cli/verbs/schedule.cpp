#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>

#include "mlbench/base/choices.h"
#include "mlbench/base/files.h"
#include "mlbench/base/text.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/verbs/schedule_plot.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/dataset/description.h"
#include "mlbench/report/draw/gnuplot.h"
#include "mlbench/report/draw/table.h"
#include "mlbench/schedule/schedule.h"
#include "mlbench/spec/epoch.h"
#include "mlbench/spec/run_options.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

int64_t expected_steps_per_epoch(const spec::TaskSpec& task, int64_t workers, int64_t training_samples) {
  const spec::DataSpec& data = task.data;
  const int64_t global_batch = task.global_batch > 0 ? task.global_batch : task.batch_size * workers;
  if (data.batching == "columns") {
    const double mean = static_cast<double>(data.bptt) * (1 - data.short_probability / 2);
    const auto height = static_cast<double>(training_samples / global_batch);
    return std::max<int64_t>(1, std::llround(height / mean));
  }
  if (data.batching == "tokens") {
    constexpr int64_t kUsualLength = 32;
    const int64_t length = data.max_length > 0 ? (data.max_length + 1) / 2 : kUsualLength;
    return spec::steps_per_epoch(training_samples * length, global_batch);
  }
  return spec::steps_per_epoch(training_samples, global_batch);
}

int64_t train_split_samples(const spec::TaskSpec& task) {
  for (const dataset::SplitSpec& split : dataset::find_description(task.data.name).splits) {
    if (split.name == "train") return split.samples;
  }
  throw UserError(fmt::format("data set '{}' of task '{}' has no split 'train'", task.data.name, task.name));
}

Curve lr_curve(const spec::TaskSpec& task, int64_t workers, int64_t training_samples, int64_t points) {
  Curve curve;
  curve.workers = workers;
  curve.steps_per_epoch = expected_steps_per_epoch(task, workers, training_samples);
  const auto steps = std::max<int64_t>(1, spec::steps_of_epochs(task.epochs, curve.steps_per_epoch));
  const auto schedule =
      schedule::make_schedule(task.schedule, {task.optimizer.lr, workers, curve.steps_per_epoch, steps});
  const int64_t count = std::min(points, steps);
  for (int64_t i = 0; i < count; ++i) {
    // i * (steps - 1) / (count - 1), whose product need not fit.
    const int64_t parts = std::max<int64_t>(count - 1, 1);
    const int64_t step = (steps - 1) / parts * i + (steps - 1) % parts * i / parts;
    curve.epochs.push_back(double(step) / double(curve.steps_per_epoch));
    curve.lr.push_back(schedule->lr(step));
  }
  return curve;
}

report::Chart chart_of(const std::string& title, const std::vector<Curve>& curves) {
  report::Chart chart;
  chart.id = "schedule";
  chart.title = title;
  chart.x_label = "epoch";
  chart.y_label = "learning rate";
  for (const Curve& curve : curves) {
    report::ChartSeries& series = chart.series.emplace_back();
    series.name = counted(curve.workers, "worker");
    for (size_t i = 0; i < curve.lr.size(); ++i) series.points.push_back({curve.epochs[i], curve.lr[i]});
  }
  return chart;
}

namespace {

struct PlotOptions {
  std::string task, rules, variant, output;
  std::vector<std::string> workers, overrides;
};

report::ImageFormat image_format(const fs::path& output) {
  const std::string extension = output.extension();
  if (extension == ".png") return report::ImageFormat::kPng;
  if (extension == ".svg") return report::ImageFormat::kSvg;
  throw UserError(fmt::format("-o '{}': {}", output.string(), unknown_text("extension", extension, {".png", ".svg"})));
}

void write_image(const fs::path& output, report::ImageFormat format, const report::Chart& chart) {
  const std::string image = report::draw(chart, format);
  const UserUmask named;
  write_file_atomically(output, image);
}

ExitCode plot(const Context& context, const PlotOptions& options) {
  std::vector<spec::Override> overrides;
  for (const std::string& text : options.overrides) overrides.push_back(spec::parse_override(text));
  const spec::TaskSpec task = spec::find_task(options.task, options.rules, options.variant, overrides).task;
  std::vector<int64_t> counts;
  for (const std::string& text : options.workers) {
    counts.push_back(parse_count(text, "--workers", {1, spec::kMostWorkers}));
  }
  if (counts.empty()) counts = task.workers;
  const int64_t samples = train_split_samples(task);
  const fs::path output = options.output.empty() ? fs::path() : fs::absolute(options.output);
  const bool draws = !output.empty();
  const auto format = draws ? image_format(output) : report::ImageFormat::kPng;

  std::vector<Curve> curves;
  for (const int64_t count : counts) curves.push_back(lr_curve(task, count, samples, output.empty() ? 200 : 1000));
  if (context.json) {
    Json rows = Json::array();
    for (const Curve& curve : curves) {
      rows.push_back({{"workers", curve.workers},
                      {"steps_per_epoch", curve.steps_per_epoch},
                      {"epochs", curve.epochs},
                      {"lr", curve.lr}});
    }
    if (draws) write_image(output, format, chart_of(task.title, curves));
    print_json(rows);
    return ExitCode::kOk;
  }
  if (draws) {
    write_image(output, format, chart_of(task.title, curves));
    print(output.string() + "\n");
  } else if (is_terminal(STDOUT_FILENO)) {
    const int width = std::clamp(terminal_width(STDOUT_FILENO), 60, 200);
    print(report::draw_text(chart_of(task.title, curves), width));
  } else {
    report::Table table({{"workers", "", report::Align::kRight},
                         {"epoch", "", report::Align::kRight},
                         {"lr", "", report::Align::kRight}});
    for (const int64_t count : counts) {
      const Curve curve = lr_curve(task, count, samples, 21);
      for (size_t i = 0; i < curve.lr.size(); ++i) {
        table.add_row(
            {std::to_string(count), fmt::format("{:.2f}", curve.epochs[i]), fmt::format("{:.6g}", curve.lr[i])});
      }
    }
    print(table.render());
  }
  if (task.schedule.decay == "plateau") {
    say("plateau decay depends on the validation loss: the curve is that of a run that always improves");
  }
  if (task.schedule.by_length) {
    say("each step's rate is multiplied by the length of its sequences over the usual one: the curve is that of the "
        "usual");
  }
  return ExitCode::kOk;
}

}  // namespace

void add_schedule(CLI::App& app, Program& program) {
  CLI::App* group = app.add_subcommand("schedule", "Learning-rate schedules");
  group->require_subcommand(1);
  CLI::App* verb = add_verb(*group, program, "plot", "Draw a task's learning rate over its epochs");
  auto options = std::make_shared<PlotOptions>();
  verb->add_option("--task", options->task, "see 'mlbench list tasks'")->type_name("TASK")->required();
  verb->add_option("--rules", options->rules, "rule set (default: the newest)")->type_name("RULES");
  verb->add_option("--variant", options->variant, "official variant (default: the first)")->type_name("VARIANT");
  verb->add_option("--set", options->overrides, "override a key of the task (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  verb->add_option("--workers", options->workers, "worker counts (default: the official ones)")->type_name("K");
  verb->add_option("-o,--output", options->output, "write an image: FILE.png or FILE.svg")->type_name("FILE");
  act(*verb, program, [options](const Context& context) { return plot(context, *options); });
}

}  // namespace mlbench::cli
