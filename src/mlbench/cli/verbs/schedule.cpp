#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "mlbench/base/choices.h"
#include "mlbench/base/files.h"
#include "mlbench/base/text.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/verbs/schedule_plot.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/report/draw/gnuplot.h"
#include "mlbench/report/draw/table.h"
#include "mlbench/spec/run_options.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

report::Chart chart_of(const std::string& title, const std::vector<plan::Curve>& curves) {
  report::Chart chart;
  chart.id = "schedule";
  chart.title = title;
  chart.x_label = "epoch";
  chart.y_label = "learning rate";
  for (const plan::Curve& curve : curves) {
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
  const int64_t samples = plan::train_split_samples(task);
  const fs::path output = options.output.empty() ? fs::path() : fs::absolute(options.output);
  const bool draws = !output.empty();
  const auto format = draws ? image_format(output) : report::ImageFormat::kPng;

  std::vector<plan::Curve> curves;
  const int64_t points = draws ? 1000 : 200;
  for (const int64_t count : counts) curves.push_back(plan::lr_curve(task, count, samples, points));
  if (context.json) {
    Json rows = Json::array();
    for (const plan::Curve& curve : curves) {
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
      const plan::Curve curve = plan::lr_curve(task, count, samples, 21);
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
