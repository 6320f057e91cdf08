#include "mlbench/train/train.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "mlbench/base/log.h"
#include "mlbench/checkpoint/checkpoint.h"
#include "mlbench/data/train_loader.h"
#include "mlbench/schedule/schedule.h"
#include "mlbench/train/evaluation.h"
#include "mlbench/train/snapshot.h"

namespace mlbench::train {

namespace {

constexpr int64_t kProfileWarmUp = 3;  // steps

int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

class TrainRun {
 public:
  explicit TrainRun(const TrainContext& context);
  TrainResult run();

 private:
  void step();
  void finish_epoch();
  void evaluate();
  bool check_goal(const std::string& split, const MetricSet& metrics);
  std::optional<StopReason> reason_to_stop();
  bool out_of_time();
  NamedState capture();
  void write_checkpoint();
  void restore(int64_t step);
  std::string hash_weights();
  void check_recorder() const;
  void record_operations();

  const TrainContext& c_;
  const spec::TaskSpec& task_;
  EvaluationPlan plan_;
  int64_t last_step_;  // exclusive
  StopReason last_step_reason_;
  std::unique_ptr<schedule::Schedule> schedule_;
  std::unique_ptr<data::TrainLoader> loader_;
  std::unique_ptr<data::EvalLoader> evaluation_loader_;
  optim::FlatTensors tensors_;
  track::StepClock clock_;
  MetricSet train_metrics_;  // of the current epoch, this rank
  MetricSet evaluation_metrics_;
  int64_t step_ = 0;        // steps done
  int64_t first_step_ = 0;  // of this segment
  int64_t profiled_samples_ = 0;
  int64_t evaluation_ns_ = 0;  // of this segment
  int64_t next_time_check_ = 0;
  bool goal_reached_ = false;
};

int64_t epochs_to_steps(double epochs, int64_t steps_per_epoch) {
  return static_cast<int64_t>(std::ceil(epochs * static_cast<double>(steps_per_epoch) - 1e-9));
}

TrainRun::TrainRun(const TrainContext& context)
    : c_(context),
      task_(context.run.task.task),
      plan_(task_.evaluation, context.data.split("train").samples, task_.batch_size * context.run.workers),
      last_step_(epochs_to_steps(task_.epochs, plan_.steps_per_epoch())),
      last_step_reason_(StopReason::kEpochs),
      tensors_{context.framework.parameters(), context.framework.gradients()},
      clock_(context.clock),
      train_metrics_(task_.evaluation.metrics),
      evaluation_metrics_(task_.evaluation.metrics) {
  const spec::Limits& limits = c_.run.limits;
  const auto limit = [&](int64_t steps, StopReason reason) {
    if (steps > 0 && (steps < last_step_ || c_.run.fixed_batch)) {
      last_step_ = steps;
      last_step_reason_ = reason;
    }
  };
  limit(epochs_to_steps(limits.max_epochs, plan_.steps_per_epoch()), StopReason::kMaxEpochs);
  limit(limits.max_steps, StopReason::kMaxSteps);

  schedule_ = schedule::make_schedule(task_.schedule, {task_.optimizer.lr, c_.run.workers, plan_.steps_per_epoch()});
  if (c_.resume_step) {
    restore(*c_.resume_step);
  } else {
    c_.framework.initialise();
  }
  first_step_ = step_;

  const data::Shard shard{c_.run.workers, c_.comm.rank(), task_.batch_size};
  data::LoaderOptions options;
  options.shard = shard;
  options.seed = c_.run.seed;
  options.first_step = step_;
  options.fixed_batch = c_.run.fixed_batch;
  loader_ = data::make_train_loader(c_.data.split("train"),
                                    data::make_transform(task_.data.train_transform, task_.data, c_.run.seed), options);
  evaluation_loader_ = make_evaluation_loader(c_.run, c_.data, c_.comm.rank());
}

void TrainRun::step() {
  using record::StepKind;
  const data::Batch& batch = loader_->next();
  clock_.lap(StepKind::kBatchLoad);

  track::StepSample sample;
  sample.step = step_;
  sample.epoch = static_cast<int32_t>(step_ / plan_.steps_per_epoch());
  sample.samples = batch.view.samples;
  if (step_ >= first_step_ + kProfileWarmUp) profiled_samples_ += batch.view.samples;
  sample.lr = schedule_->lr(step_);
  c_.framework.begin_step(step_);
  clock_.lap(StepKind::kInit);

  double loss = 0;
  if (batch.view.samples > 0) {
    c_.framework.forward(batch.view, framework::Mode::kTrain);
    clock_.lap(StepKind::kForward);
    loss = c_.framework.loss();
    clock_.lap(StepKind::kLoss);
    // This rank's share of the mean over the global batch: the exchange only has to sum.
    c_.framework.backward(static_cast<double>(batch.view.samples) / static_cast<double>(batch.global_samples), false);
  } else {
    c_.framework.zero_gradients();
  }
  clock_.lap(StepKind::kBackward);
  sample.bytes = c_.optimizer.aggregate(tensors_);
  clock_.lap(StepKind::kAggregate);
  c_.optimizer.step(tensors_, sample.lr);
  clock_.lap(StepKind::kOptimizer);
  if (batch.view.samples > 0) {
    const metrics::Outputs batch_outputs = outputs_of(c_.framework, batch.view, loss);
    sample.loss_sum = batch_outputs.loss_sum;
    train_metrics_.add(batch_outputs);
  }
  ++step_;
  const bool epoch_ends = step_ % plan_.steps_per_epoch() == 0 && !c_.run.fixed_batch;
  if (epoch_ends) train_metrics_.merge(c_.comm);
  clock_.lap(StepKind::kMetrics);

  sample.kinds_ns = clock_.take();
  sample.end_ns = c_.recorder.nanoseconds_since_start();
  c_.recorder.push(sample);
  if (c_.progress != nullptr) c_.progress->store(step_, std::memory_order_relaxed);
  if (epoch_ends) finish_epoch();
}

void TrainRun::finish_epoch() {
  if (c_.comm.rank() == 0) {
    c_.recorder.event({{"event", "epoch"},
                       {"step", step_},
                       {"epoch", step_ / plan_.steps_per_epoch()},
                       {"train_ns", clock_.train_ns()},
                       {"train_loss", train_metrics_.value("loss")},
                       {"metrics", train_metrics_.values()}});
  } else {
    c_.recorder.event({{"event", "epoch"}, {"step", step_}, {"epoch", step_ / plan_.steps_per_epoch()}});
  }
  if (task_.goal.split == "train" && check_goal("train", train_metrics_)) goal_reached_ = true;
  train_metrics_.reset();
}

void TrainRun::evaluate() {
  const TimePoint start = c_.clock.now();
  // Each rank trains on with its own running statistics; their average is what is evaluated.
  const at::Tensor buffers = c_.framework.buffers();
  const std::vector<float> own(buffers.data_ptr<float>(), buffers.data_ptr<float>() + buffers.numel());
  const std::vector<float> averaged = average_buffers(c_.framework, c_.comm);
  std::copy(averaged.begin(), averaged.end(), buffers.data_ptr<float>());

  evaluation_metrics_.reset();
  add_shard(c_.framework, *evaluation_loader_, evaluation_metrics_);
  evaluation_metrics_.merge(c_.comm);
  std::copy(own.begin(), own.end(), buffers.data_ptr<float>());

  schedule_->on_evaluation(step_, evaluation_metrics_.value("loss"));
  const int64_t duration_ns = (c_.clock.now() - start).count();
  evaluation_ns_ += duration_ns;
  next_time_check_ = step_;
  Json event = {{"event", "evaluation"}, {"step", step_}, {"duration_ns", duration_ns}};
  if (c_.comm.rank() == 0) {
    event.update({{"epoch", static_cast<double>(step_) / static_cast<double>(plan_.steps_per_epoch())},
                  {"samples", plan_.samples_after(step_)},
                  {"split", "test"},
                  {"train_ns", clock_.train_ns()},
                  {"metrics", evaluation_metrics_.values()}});
  }
  c_.recorder.event(std::move(event));
  if (task_.goal.split == "test" && check_goal("test", evaluation_metrics_)) goal_reached_ = true;
}

bool TrainRun::check_goal(const std::string& split, const MetricSet& metrics) {
  if (task_.goal.metric.empty()) return false;
  const double value = metrics.value(task_.goal.metric);
  if (!metrics::goal_met(task_.goal, c_.run.limits.light, value)) return false;
  if (c_.comm.rank() == 0) {
    c_.recorder.event({{"event", "goal"},
                       {"step", step_},
                       {"metric", task_.goal.metric},
                       {"split", split},
                       {"target", metrics::goal_target(task_.goal, c_.run.limits.light)},
                       {"value", value},
                       {"train_ns", clock_.train_ns()},
                       {"epoch", static_cast<double>(step_) / static_cast<double>(plan_.steps_per_epoch())}});
  }
  return true;
}

bool TrainRun::out_of_time() {
  if (c_.run.limits.max_time_s <= 0 || step_ < next_time_check_) return false;
  // Rank 0's clock decides. It looks again after a tenth of the time left, so that short steps pay next to nothing.
  const double elapsed_s = static_cast<double>(c_.elapsed_before_ns + clock_.train_ns() + evaluation_ns_) * 1e-9;
  const double left_s = c_.run.limits.max_time_s - elapsed_s;
  const double train_s = static_cast<double>(std::max<int64_t>(clock_.train_ns(), 1)) * 1e-9;
  const double steps_left = left_s / train_s * static_cast<double>(step_ - first_step_);  // unknown before the first: 0
  int64_t next = left_s <= 0 ? -1 : step_ + std::max<int64_t>(1, static_cast<int64_t>(0.1 * steps_left));
  c_.comm.broadcast({&next, 1, DType::kInt64, {}}, 0);
  next_time_check_ = next;
  return next < 0;
}

std::optional<StopReason> TrainRun::reason_to_stop() {
  if (goal_reached_) return StopReason::kGoal;
  if (step_ >= last_step_) return last_step_reason_;
  if (out_of_time()) return StopReason::kMaxTime;
  return std::nullopt;
}

NamedState TrainRun::capture() {
  NamedState state;
  const std::vector<float> averaged = average_buffers(c_.framework, c_.comm);
  export_model(c_.framework, averaged, c_.comm, state);
  c_.optimizer.export_state(state);
  schedule_->export_state(state);
  std::vector<double> sums = train_metrics_.gather_sums();
  if (c_.comm.size() > 1) c_.comm.all_reduce(view_of(std::span(sums)), comm::ReduceOp::kSum);
  const auto bytes = std::as_bytes(std::span(sums));
  state.tensors["train/epoch_metric_sums"] = {
      DType::kFloat64, {static_cast<int64_t>(sums.size())}, {bytes.begin(), bytes.end()}};
  state.scalars["train/step"] = step_;
  state.scalars["train/task_hash"] = c_.run.task.hash;
  state.scalars["train/framework"] = c_.run.framework;
  state.scalars["train/workers"] = c_.run.workers;
  state.scalars["train/threads_per_worker"] = c_.run.threads_per_worker;
  state.scalars["train/seed"] = static_cast<int64_t>(c_.run.seed);
  return state;
}

void TrainRun::write_checkpoint() {
  const NamedState state = capture();
  if (c_.comm.rank() == 0) {
    const auto path = checkpoint::write_checkpoint(std::filesystem::path(c_.run.run_dir) / "checkpoints", step_, state);
    c_.recorder.event({{"event", "checkpoint"}, {"step", step_}, {"path", path.filename().string()}});
  } else {
    c_.recorder.event({{"event", "checkpoint"}, {"step", step_}});
  }
}

void TrainRun::restore(int64_t step) {
  const auto folder = std::filesystem::path(c_.run.run_dir) / "checkpoints";
  std::string steps;
  for (const checkpoint::CheckpointInfo& info : checkpoint::list_checkpoints(folder)) {
    steps += (steps.empty() ? "" : ", ") + std::to_string(info.step);
    if (info.step != step) continue;
    const NamedState state = checkpoint::read_checkpoint(info.path);
    const auto must_equal = [&](const std::string& name, const std::string& found, const std::string& expected) {
      if (found != expected) {
        throw UserError("checkpoint " + info.path.string() + " was written by another run: " + name + " is " + found +
                        ", this run's is " + expected);
      }
    };
    must_equal("task", state.text("train/task_hash"), c_.run.task.hash);
    must_equal("framework", state.text("train/framework"), c_.run.framework);
    must_equal("workers", std::to_string(state.integer("train/workers")), std::to_string(c_.run.workers));
    import_model(state, c_.comm.rank(), c_.framework);
    c_.optimizer.import_state(state);
    schedule_->import_state(state);
    // The stored sums are those of all ranks: rank 0 goes on with them, the others from zero.
    const HostTensor& stored = state.tensor("train/epoch_metric_sums");
    std::vector<double> sums(stored.bytes.size() / sizeof(double));
    if (c_.comm.rank() == 0) std::memcpy(sums.data(), stored.bytes.data(), stored.bytes.size());
    train_metrics_.scatter_sums(sums);
    step_ = state.integer("train/step");
    return;
  }
  throw UserError("no checkpoint at step " + std::to_string(step) + " in " + folder.string() +
                  (steps.empty() ? ": there is none" : ": there are steps " + steps));
}

std::string TrainRun::hash_weights() {
  const std::vector<float> averaged = average_buffers(c_.framework, c_.comm);
  const at::Tensor parameters = c_.framework.parameters();
  const std::string hash = models::weights_sha256(
      c_.framework.layout(), {parameters.data_ptr<float>(), static_cast<size_t>(parameters.numel())}, averaged);
  std::vector<uint8_t> all(hash.size() * static_cast<size_t>(c_.comm.size()));
  const std::span<const uint8_t> own(reinterpret_cast<const uint8_t*>(hash.data()), hash.size());
  c_.comm.all_gather(const_view_of(own), view_of(std::span(all)));
  for (int rank = 0; rank < c_.comm.size(); ++rank) {
    const std::string other(reinterpret_cast<const char*>(all.data()) + hash.size() * static_cast<size_t>(rank),
                            hash.size());
    MLBENCH_CHECK(other == hash, "rank " + std::to_string(rank) + " ended with other weights than rank " +
                                     std::to_string(c_.comm.rank()) + ": " + other + ", " + hash);
  }
  return hash;
}

// Of the steps since profiling began: this thread's mean.
void TrainRun::record_operations() {
  const bool timed = c_.run.profile == "time";
  const int64_t steps = step_ - first_step_ - kProfileWarmUp;
  if (c_.run.profile == "off" || c_.comm.rank() != 0 || (timed && steps < 1)) return;
  const double samples = static_cast<double>(profiled_samples_) / static_cast<double>(std::max<int64_t>(steps, 1)) /
                         static_cast<double>(c_.run.threads_per_worker);
  const auto known = [&](double value) { return timed && value > 0 ? Json(value) : Json(nullptr); };
  Json operations = Json::array();
  for (const framework::OperationCost& cost : c_.framework.costs()) {
    operations.push_back({{"name", cost.name},
                          {"implementation", cost.implementation},
                          {"forward_s", known(cost.forward_s / static_cast<double>(steps))},
                          {"backward_s", known(cost.backward_s / static_cast<double>(steps))},
                          {"forward_floor_s", known(cost.forward_floor_s * samples)},
                          {"backward_floor_s", known(cost.backward_floor_s * samples)},
                          {"forward_flops", known(cost.forward_flops * samples)},
                          {"backward_flops", known(cost.backward_flops * samples)},
                          {"bytes", timed ? Json(std::llround(static_cast<double>(cost.bytes) * samples)) : Json()}});
  }
  c_.recorder.event({{"event", "operations"}, {"step", step_}, {"operations", std::move(operations)}});
}

void TrainRun::check_recorder() const {
  if (const auto error = c_.recorder.failed()) std::rethrow_exception(error);
}

TrainResult TrainRun::run() {
  Json effective = c_.framework.effective();
  effective.update(c_.optimizer.effective());
  c_.recorder.event({{"event", "begin"},
                     {"start_step", step_},
                     {"parameters",
                      [&] {
                        int64_t count = 0;
                        for (const auto& range : c_.framework.layout().ranges)
                          count += range.trainable ? range.count : 0;
                        return count;
                      }()},
                     {"effective", effective},
                     {"versions", c_.framework.versions()},
                     {"comm_stack", c_.comm.description()},
                     {"steps_per_epoch", plan_.steps_per_epoch()},
                     {"last_step", last_step_},
                     {"samples_before", plan_.samples_after(step_)},
                     {"peak_rss", peak_rss_bytes()}});
  c_.comm.barrier();
  std::optional<StopReason> reason;
  clock_.resume();
  while (!(reason = reason_to_stop())) {
    if (c_.run.profile == "time" && step_ == first_step_ + kProfileWarmUp) c_.framework.profile(true);
    step();
    check_recorder();
    if (c_.run.fixed_batch) continue;
    const bool evaluation_due = plan_.due(step_) || step_ == last_step_;
    if (evaluation_due) {
      evaluate();
      clock_.resume();
    }
    if (goal_reached_ || step_ >= last_step_) continue;
    const spec::CheckpointPolicy& policy = c_.run.checkpoint;
    if ((policy.every_steps > 0 && step_ % policy.every_steps == 0) ||
        (policy.every_epoch && step_ % plan_.steps_per_epoch() == 0)) {
      write_checkpoint();
      clock_.lap(record::StepKind::kCheckpoint);
    }
  }
  // Out of time between evaluations: the last weights are still worth a value.
  if (*reason == StopReason::kMaxTime && !c_.run.fixed_batch && !plan_.due(step_) && step_ > first_step_) evaluate();

  TrainResult result{*reason, step_, hash_weights()};
  if (c_.run.checkpoint.at_end && !c_.run.fixed_batch) write_checkpoint();
  record_operations();
  c_.recorder.event({{"event", "end"},
                     {"step", step_},
                     {"reason", name_of(*reason)},
                     {"weights_sha256", result.weights_sha256},
                     {"samples", plan_.samples_after(step_)},
                     {"peak_rss", peak_rss_bytes()}});
  c_.recorder.flush();
  check_recorder();
  c_.comm.barrier();
  return result;
}

}  // namespace

std::string_view name_of(StopReason reason) {
  switch (reason) {
    case StopReason::kGoal:
      return "goal";
    case StopReason::kMaxSteps:
      return "max_steps";
    case StopReason::kMaxEpochs:
      return "max_epochs";
    case StopReason::kMaxTime:
      return "max_time";
    case StopReason::kEpochs:
      return "epochs";
  }
  return "";
}

TrainResult train(const TrainContext& context) { return TrainRun(context).run(); }

}  // namespace mlbench::train
