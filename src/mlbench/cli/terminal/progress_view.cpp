#include "mlbench/cli/terminal/progress_view.h"

#include <fmt/format.h>

#include "mlbench/base/printable.h"
#include "mlbench/cli/context.h"
#include "mlbench/record/events.h"
#include "mlbench/report/draw/table.h"
#include "mlbench/spec/hosts.h"

namespace mlbench::cli {

namespace {
std::string stage(const spec::RunSpec& run, const report::Progress& progress, Phase phase, const std::string& waits) {
  if (phase == Phase::kWaiting) return waits.empty() ? "waits" : waits.substr(0, waits.find(':'));
  if (phase == Phase::kQueued || progress.segment == 0) {
    const std::string image = spec::engine_text(run.engine, "image");
    return image.empty() ? "starting" : "starting containers of " + image;
  }
  if (!progress.prepared) return "preparing data";
  if (progress.end) return "ending";
  return progress.training ? "training" : "building the model";
}

// "step 375 of 12,000"
std::string steps_of(const report::Progress& progress) {
  const std::string steps = "step " + report::format_count(progress.steps_done);
  return progress.last_step > 0 ? fmt::format("{} of {}", steps, report::format_count(progress.last_step)) : steps;
}

// "measuring all_reduce, 4096 bytes"
std::string measuring(const spec::RunSpec& run, const report::Progress& progress, Phase phase,
                      const std::string& waits) {
  if (phase != Phase::kStarted || progress.segment == 0 || progress.end) return stage(run, progress, phase, waits);
  if (!progress.collective) return progress.training ? "measuring" : "connecting";
  return fmt::format("measuring {}, {} bytes", progress.collective->operation, progress.collective->size_bytes);
}
}  // namespace

std::string progress_line(const spec::RunSpec& run, const report::Progress& progress, Phase phase, double elapsed_s,
                          const std::string& waits) {
  if (spec::collectives_of(run) != nullptr) {
    return fmt::format("{}  {}  {}", run.name, measuring(run, progress, phase, waits),
                       report::format_elapsed(elapsed_s));
  }
  std::string line = run.name;
  const std::string now = stage(run, progress, phase, waits);
  if (now == "ending" && progress.last_step > 0) line += "  " + steps_of(progress);
  if (now != "training" || progress.steps_per_epoch == 0) {
    return fmt::format("{}  {}  {}", line, now, report::format_elapsed(elapsed_s));
  }
  line += fmt::format("  epoch {:.2f}", double(progress.steps_done) / double(progress.steps_per_epoch));
  if (progress.last_step > 0) {
    line += fmt::format(" of {:.3g}", double(progress.last_step) / double(progress.steps_per_epoch));
  }
  line += "  " + steps_of(progress);
  if (progress.loss && run.emulated_step_s == 0) line += "  loss " + report::format_metric(*progress.loss);
  if (progress.samples_per_s) {
    // What a task of text trains on, and its losses are means over, are tokens.
    const char* unit = run.task.task.data.batching == "samples" ? "samples" : "tokens";
    line += fmt::format("  {} {}/s", report::format_rate(*progress.samples_per_s * double(run.workers)), unit);
  }
  const spec::GoalSpec& goal = run.task.task.goal;
  if (!spec::measures_throughput(run) && progress.evaluation) {
    const Json metrics = record::get(*progress.evaluation, record::member::kMetrics, Json::object());
    if (metrics.contains(goal.metric) && metrics[goal.metric].is_number()) {
      line += fmt::format("  {} {} (goal {:g})", goal.metric, report::format_metric(metrics[goal.metric].get<double>()),
                          spec::goal_target(goal, run.limits.light));
    }
  }
  return line + "  " + report::format_elapsed(elapsed_s);
}

ProgressView::ProgressView(std::FILE* out, bool terminal, std::chrono::seconds interval)
    : out_(out), terminal_(terminal), interval_(interval) {}

void ProgressView::show(const spec::RunSpec& run, const report::Progress& progress, Phase phase, double elapsed_s,
                        const std::string& waits) {
  std::string line = printable_lines(progress_line(run, progress, phase, elapsed_s, waits), "");
  if (terminal_) {
    // The last column stays free, since some terminals wrap when it is written.
    const auto width = static_cast<size_t>(terminal_width(fileno(out_)) - 1);
    if (line.size() > width) line.resize(width);
    tell(out_, "\r\x1b[K" + line);
    drawn_ = true;
    return;
  }
  const std::string key = fmt::format("{} {} {}", run.name, stage(run, progress, phase, waits), progress.evaluations);
  if (key == last_stage_ && elapsed_s - last_line_s_ < double(interval_.count())) return;
  last_stage_ = key;
  last_line_s_ = elapsed_s;
  tell(out_, line + "\n");
}

void ProgressView::note(const std::string& text) {
  clear();
  tell(out_, printable_lines(text, "") + "\n");
}

void ProgressView::clear() {
  if (drawn_) tell(out_, "\r\x1b[K");
  drawn_ = false;
}

}  // namespace mlbench::cli
