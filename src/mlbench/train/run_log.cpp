#include "mlbench/train/run_log.h"

#include <sys/resource.h>

#include <exception>
#include <utility>

#include "mlbench/metrics/metric.h"

namespace mlbench::train {

namespace {

int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

}  // namespace

RunLog::RunLog(const TrainContext& context, const EvaluationPlan& plan, const track::StepClock& clock)
    : c_(context), plan_(plan), clock_(clock) {}

void RunLog::begin(int64_t step, int64_t last_step) {
  Json effective = c_.framework.effective();
  effective.update(c_.optimizer.effective());
  c_.recorder.event({{"event", "begin"},
                     {"start_step", step},
                     {"parameters", c_.framework.layout().parameter_count()},
                     {"effective", effective},
                     {"versions", c_.framework.versions()},
                     {"comm_stack", c_.comm.description()},
                     {"steps_per_epoch", plan_.steps_per_epoch()},
                     {"last_step", last_step},
                     {"samples_before", plan_.samples_after(step)},
                     {"peak_rss", peak_rss_bytes()}});
}

void RunLog::step(track::StepSample sample) {
  sample.end_ns = c_.recorder.nanoseconds_since_start();
  c_.recorder.push(sample);
  if (c_.progress != nullptr) c_.progress->store(sample.step + 1, std::memory_order_relaxed);
  check_recorder();
}

void RunLog::epoch(int64_t step, const MetricSet& metrics) {
  Json event = {{"event", "epoch"}, {"step", step}, {"epoch", step / plan_.steps_per_epoch()}};
  if (is_first_rank()) {
    event.update(
        {{"train_ns", clock_.train_ns()}, {"train_loss", metrics.value("loss")}, {"metrics", metrics.values()}});
  }
  c_.recorder.event(std::move(event));
}

void RunLog::evaluation(int64_t step, int64_t duration_ns, const MetricSet& metrics) {
  Json event = {{"event", "evaluation"}, {"step", step}, {"duration_ns", duration_ns}};
  if (is_first_rank()) {
    event.update({{"epoch", epochs_after(step)},
                  {"samples", plan_.samples_after(step)},
                  {"split", "test"},
                  {"train_ns", clock_.train_ns()},
                  {"metrics", metrics.values()}});
  }
  c_.recorder.event(std::move(event));
}

void RunLog::goal(int64_t step, const MetricSet& metrics) {
  if (!is_first_rank()) return;
  const spec::GoalSpec& goal = c_.run.task.task.goal;
  c_.recorder.event({{"event", "goal"},
                     {"step", step},
                     {"metric", goal.metric},
                     {"split", goal.split},
                     {"target", spec::goal_target(goal, c_.run.limits.light)},
                     {"value", metrics.value(goal.metric)},
                     {"train_ns", clock_.train_ns()},
                     {"epoch", epochs_after(step)}});
}

void RunLog::checkpoint(int64_t step, const std::filesystem::path& folder) {
  Json event = {{"event", "checkpoint"}, {"step", step}};
  if (is_first_rank()) event["path"] = folder.filename().string();
  c_.recorder.event(std::move(event));
}

void RunLog::operations(int64_t step, Json operations) {
  c_.recorder.event({{"event", "operations"}, {"step", step}, {"operations", std::move(operations)}});
}

void RunLog::end(int64_t step, StopReason reason, const std::string& weights_sha256) {
  c_.recorder.event({{"event", "end"},
                     {"step", step},
                     {"reason", name_of(reason)},
                     {"weights_sha256", weights_sha256},
                     {"samples", plan_.samples_after(step)},
                     {"peak_rss", peak_rss_bytes()}});
  c_.recorder.flush();
  check_recorder();
}

double RunLog::epochs_after(int64_t step) const {
  return static_cast<double>(step) / static_cast<double>(plan_.steps_per_epoch());
}

void RunLog::check_recorder() const {
  if (const auto error = c_.recorder.failed()) std::rethrow_exception(error);
}

}  // namespace mlbench::train
