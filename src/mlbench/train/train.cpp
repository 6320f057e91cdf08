#include "mlbench/train/train.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "mlbench/base/run_folder.h"
#include "mlbench/comm/operation_clock.h"
#include "mlbench/data/workload.h"
#include "mlbench/metrics/metric.h"
#include "mlbench/schedule/schedule.h"
#include "mlbench/spec/batch_scaling.h"
#include "mlbench/spec/split.h"
#include "mlbench/track/step_clock.h"
#include "mlbench/train/bad_images.h"
#include "mlbench/train/checkpoint_keeper.h"
#include "mlbench/train/evaluation.h"
#include "mlbench/train/evaluation_plan.h"
#include "mlbench/train/layer_spans.h"
#include "mlbench/train/profile_report.h"
#include "mlbench/train/run_log.h"
#include "mlbench/train/snapshot.h"
#include "mlbench/train/split_translator.h"
#include "mlbench/train/stop_rule.h"

namespace mlbench::train {

namespace {

using record::SpanKind;

// The run's batches, from the one that follows `steps_done` steps.
std::unique_ptr<data::TrainLoader> make_loader(const TrainContext& context, const data::Workload& workload,
                                               int64_t steps_done, data::BadSampleRule bad,
                                               std::shared_ptr<data::RingGauge> ring) {
  data::LoaderOptions options;
  options.rank = context.comm.rank();
  options.first_step = steps_done;
  options.fixed_batch = context.run.fixed_batch;
  options.threads = std::max(context.decoding_threads, 1);
  options.cores = context.other_cores;
  options.bad = std::move(bad);
  options.ring = std::move(ring);
  auto loader = workload.make_train_loader(options);
  return context.wrap_loader ? context.wrap_loader(std::move(loader)) : std::move(loader);
}

// Tells the optimizer which gradients are final, where it listens. Where a step fails, tells the optimizer that the
// step will not be finished.
class GradientListener {
 public:
  GradientListener(framework::Framework& framework, optim::Optimizer& optimizer)
      : framework_(framework), optimizer_(optimizer), listens_(optimizer.listens()) {
    if (!listens_) return;
    framework_.on_gradient_ready([this](int64_t first, int64_t count) { optimizer_.ready(first, count); });
  }
  ~GradientListener() {
    if (listens_) framework_.on_gradient_ready({});
    optimizer_.abandon();
  }
  GradientListener(const GradientListener&) = delete;
  GradientListener& operator=(const GradientListener&) = delete;

 private:
  framework::Framework& framework_;
  optim::Optimizer& optimizer_;
  const bool listens_;
};

// While an object of this class lives, averaged weights, where there are any, are the parameters, so that they are
// evaluated, hashed and stored.
class AveragedWeights {
 public:
  AveragedWeights(optim::Optimizer& optimizer, optim::FlatTensors& tensors) : optimizer_(optimizer), tensors_(tensors) {
    optimizer_.swap_average(tensors_);
  }
  ~AveragedWeights() { optimizer_.swap_average(tensors_); }
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  optim::Optimizer& optimizer_;
  optim::FlatTensors& tensors_;
};

class TrainRun {
 public:
  explicit TrainRun(const TrainContext& context);
  TrainResult run();

 private:
  Position take_start();
  Position position() const { return {step_, stop_rule_.goal_reached()}; }
  data::BadSampleRule bad_rule();
  void step();
  void train_step();
  bool ranks_meet(int64_t step) const;
  double compute_gradients(const data::Batch& batch, track::StepSample& sample);
  void add_to_metrics(const BatchView& batch, double loss, track::StepSample& sample);
  void finish_epoch();
  void evaluate();
  void tell_evaluation(double loss);
  void write_checkpoint();
  TrainResult stop();
  void check_goal(const std::string& split, const MetricSet& metrics);

  const TrainContext& c_;
  const spec::TaskSpec& task_;
  const MetricSource metric_source_;
  const std::unique_ptr<const data::Workload> made_workload_;  // null: `workload_` is the context's
  const data::Workload& workload_;
  const data::BatchPlan& plan_;
  EvaluationPlan evaluations_;
  std::unique_ptr<schedule::Schedule> schedule_;
  const bool replicated_;
  const bool emulated_;             // nothing is learnt: there are no losses and no metrics
  const bool measures_throughput_;  // nothing is evaluated, and no checkpoint stands at the end that was not due
  optim::FlatTensors tensors_;
  MetricSet train_metrics_;  // of the current epoch, on this rank
  MetricSet evaluation_metrics_;
  BadImages bad_images_;
  CheckpointKeeper checkpoints_;
  const Position start_;  // where this segment starts
  int64_t step_;          // steps done
  int64_t stored_step_;   // steps done at the last checkpoint
  track::StepClock clock_;
  comm::OperationClock operation_clock_;
  StopRule stop_rule_;
  ProfileReport profile_;
  RunLog log_;
  std::unique_ptr<data::TrainLoader> loader_;
  std::unique_ptr<data::EvalLoader> evaluation_loader_;
  std::unique_ptr<SplitTranslator> translator_;  // null: the task measures no translations
  LayerSpans layer_spans_;
  GradientListener listener_;  // last: operations end before what observes them, and before the tensors
};

TrainRun::TrainRun(const TrainContext& context)
    : c_(context),
      task_(context.run.task.task),
      metric_source_(metric_source(task_)),
      made_workload_(context.workload == nullptr ? make_workload(context.run, context.data) : nullptr),
      workload_(made_workload_ ? *made_workload_ : *context.workload),
      plan_(workload_.plan()),
      evaluations_(task_.evaluation, plan_),
      schedule_(
          schedule::make_schedule(task_.schedule, {task_.optimizer.lr, context.run.workers, plan_.steps_per_epoch(),
                                                   plan_.steps_after(spec::epochs_of(task_, context.run.workers))})),
      replicated_(context.optimizer.promise().replicated),
      emulated_(context.run.emulated_step_s > 0),
      measures_throughput_(spec::measures_throughput(context.run)),
      tensors_(optim::flat_tensors(context.framework.parameters(), context.framework.gradients())),
      train_metrics_(metrics::without_translations(task_.evaluation.metrics)),
      evaluation_metrics_(task_.evaluation.metrics),
      bad_images_(context.data, context.run.max_bad),
      checkpoints_(context, *schedule_, train_metrics_, bad_images_),
      start_(take_start()),
      step_(start_.steps),
      stored_step_(start_.steps),
      clock_(context.clock, context.timeline),
      operation_clock_(context.comm.board(), context.clock),
      stop_rule_(context, clock_, plan_, start_),
      profile_(context),
      log_(context, plan_, clock_),
      loader_(make_loader(context, workload_, step_, bad_rule(), log_.ring())),
      evaluation_loader_(
          workload_.make_eval_loader({context.run.workers, context.comm.rank(), std::max(context.decoding_threads, 1),
                                      context.other_cores, bad_rule()})),
      translator_(SplitTranslator::make(task_, context.data, context.clock)),
      layer_spans_(context.framework, context.timeline),
      listener_(context.framework, context.optimizer) {}

data::BadSampleRule TrainRun::bad_rule() {
  return {bad_images_.most(), [this](const data::BadSample& bad) {
            if (!bad_images_.add(bad)) return;
            log_.bad_image(step_, bad, bad_images_.name_of(bad));
            bad_images_.check_limit();
          }};
}

Position TrainRun::take_start() {
  if (c_.resume_step) {
    const Position stored = checkpoints_.restore(*c_.resume_step);
    c_.optimizer.swap_average(tensors_);
    return stored;
  }
  c_.framework.initialise();
  return {};
}

void TrainRun::step() {
  if (c_.timeline != nullptr) c_.timeline->set_step(step_);
  train_step();
  if (c_.timeline != nullptr) c_.timeline->set_step(-1);
}

// Computes forward pass, loss and backward pass of each micro-batch; gradients add up. Returns the loss of the last
// one, whose metrics can wait for the exchange.
double TrainRun::compute_gradients(const data::Batch& batch, track::StepSample& sample) {
  using record::StepKind;
  double loss = 0;
  for (const BatchView& part : batch.micro) {
    const bool first = &part == &batch.micro.front(), last = &part == &batch.micro.back();
    c_.framework.forward(part, framework::Mode::kTrain);
    clock_.lap(StepKind::kForward);
    loss = c_.framework.loss();
    clock_.lap(StepKind::kLoss);
    c_.framework.backward(
        {.scale = batch.share_of(part) * c_.optimizer.loss_scale(), .accumulate = !first, .last = last});
    clock_.lap(StepKind::kBackward);
    if (last) break;
    add_to_metrics(part, loss, sample);
    clock_.lap(StepKind::kMetrics);
  }
  if (batch.micro.empty()) {
    c_.framework.zero_gradients();
    clock_.lap(StepKind::kBackward);
  }
  return loss;
}

void TrainRun::add_to_metrics(const BatchView& batch, double loss, track::StepSample& sample) {
  if (emulated_) {
    sample.loss_sum = std::numeric_limits<double>::quiet_NaN();
    return;
  }
  const metrics::Outputs outputs = outputs_of(c_.framework, batch, loss, metric_source_);
  sample.loss_sum += outputs.loss_sum;
  train_metrics_.add(outputs);
}

// Whether ranks do something together behind this many steps that is no step.
bool TrainRun::ranks_meet(int64_t step) const {
  const bool epoch_ends = plan_.ends_epoch(step);
  return epoch_ends || evaluations_.due(step) || checkpoints_.due(step, epoch_ends) || step == stop_rule_.last_step() ||
         stop_rule_.looks_at_clock(step);
}

void TrainRun::train_step() {
  using record::StepKind;
  const data::Batch& batch = loader_->next();
  profile_.begin_step(batch.samples);
  clock_.lap(StepKind::kBatchLoad);

  track::StepSample sample;
  sample.step = step_;
  sample.epoch = static_cast<int32_t>(batch.epoch);
  sample.samples = batch.weight;
  sample.lr = schedule_->lr(step_ - c_.optimizer.skipped_steps(), {batch.relative_length});
  operation_clock_.take();  // resets the clock, so that the exchange is what the step itself sends
  c_.optimizer.begin({step_, sample.lr, batch.share()}, tensors_);
  c_.framework.begin_step(step_);
  clock_.lap(StepKind::kInit);

  const double last_loss = compute_gradients(batch, sample);
  sample.hidden_ns = operation_clock_.take();
  sample.bytes = c_.optimizer.finish();
  clock_.lap(StepKind::kAggregate);
  sample.exchange_ns = sample.hidden_ns + operation_clock_.take();
  log_.update(step_ + 1, c_.optimizer.step(tensors_, sample.lr, batch.sum_divisor));
  c_.framework.synchronize();
  const int64_t in_update_ns = operation_clock_.take();  // of rules that exchange something themselves
  clock_.lap(StepKind::kOptimizer);
  clock_.move(StepKind::kOptimizer, StepKind::kAggregate, in_update_ns);
  sample.bytes += c_.optimizer.after_update(tensors_);
  if (ranks_meet(step_ + 1)) sample.bytes += c_.optimizer.settle(tensors_);
  sample.exchange_ns += in_update_ns + operation_clock_.take();
  clock_.lap(StepKind::kAggregate);
  if (!batch.micro.empty()) add_to_metrics(batch.micro.back(), last_loss, sample);
  ++step_;
  const bool epoch_ends = plan_.ends_epoch(step_) && !c_.run.fixed_batch;
  if (epoch_ends && !emulated_) train_metrics_.merge(c_.comm);
  if (epoch_ends) bad_images_.share(c_.comm);
  clock_.lap(StepKind::kMetrics);

  sample.kinds_ns = clock_.take();
  log_.step(sample);
  if (epoch_ends) finish_epoch();
}

void TrainRun::finish_epoch() {
  log_.epoch(step_, emulated_ ? nullptr : &train_metrics_);
  if (emulated_) return;
  check_goal(spec::kTrainSplit, train_metrics_);
  train_metrics_.reset();
}

void TrainRun::tell_evaluation(double loss) {
  schedule_->on_evaluation(step_ - c_.optimizer.skipped_steps(), loss);
  const bool averaged = c_.optimizer.averages();
  c_.optimizer.on_evaluation(loss);
  if (c_.optimizer.averages() && !averaged) log_.averaging(step_);
}

void TrainRun::write_checkpoint() {
  const AveragedWeights average(c_.optimizer, tensors_);
  log_.checkpoint(step_, checkpoints_.write(position()));
  stored_step_ = step_;
}

// Ends a run that was stopped: writes what it can go on from, and nothing that takes longer.
TrainResult TrainRun::stop() {
  c_.optimizer.settle(tensors_);
  if (stored_step_ != step_ && !c_.run.fixed_batch) write_checkpoint();
  clock_.skip(SpanKind::kCheckpoint, "checkpoint");
  log_.end(step_, StopReason::kStopped, "");
  c_.comm.barrier();
  return {StopReason::kStopped, step_, ""};
}

// Evaluates. An evaluation that only a limit brings about moves no schedule and meets no goal.
void TrainRun::evaluate() {
  const bool cadence = evaluations_.due(step_);
  const TimePoint start = c_.clock.now();
  loader_->pause();
  {
    const AveragedWeights average(c_.optimizer, tensors_);
    const auto add = [this](MetricSet& metrics) {
      add_shard(c_.framework, *evaluation_loader_, metric_source_, metrics);
      if (translator_) translator_->add_shard(c_.framework, *evaluation_loader_, metrics);
    };
    evaluate_averaged(c_.framework, c_.comm, replicated_, add, evaluation_metrics_);
  }
  bad_images_.share(c_.comm);
  if (translator_) {
    translator_->write(c_.comm, translations_dir(c_.run.run_dir), step_, evaluation_metrics_);
  }
  if (cadence) tell_evaluation(evaluation_metrics_.value("loss"));
  const int64_t duration_ns = (c_.clock.now() - start).count();
  stop_rule_.add_evaluation(step_, duration_ns);
  log_.evaluation(step_, duration_ns, cadence, evaluation_metrics_);
  if (cadence) check_goal(spec::kTestSplit, evaluation_metrics_);
  clock_.skip(SpanKind::kEvaluation, "evaluation");
}

void TrainRun::check_goal(const std::string& split, const MetricSet& metrics) {
  if (stop_rule_.check_goal(split, metrics)) log_.goal(step_, metrics);
}

TrainResult TrainRun::run() {
  log_.begin(step_, stop_rule_.last_step());
  c_.comm.barrier();
  std::optional<StopReason> reason;
  clock_.skip(SpanKind::kPrepare, "start");
  while (!(reason = stop_rule_.reason_to_stop(step_))) {
    step();
    if (c_.run.fixed_batch) continue;
    const bool evaluates = evaluations_.due(step_) || step_ == stop_rule_.last_step();
    if (evaluates && !measures_throughput_) evaluate();
    const bool last = !measures_throughput_ && stop_rule_.ends_after(step_);  // which has its checkpoint below
    if (!last && checkpoints_.due(step_, plan_.ends_epoch(step_))) {
      write_checkpoint();
      clock_.lap(record::StepKind::kCheckpoint);
    }
  }
  if (c_.stop != nullptr) c_.stop->leave();
  if (*reason == StopReason::kStopped) return stop();
  // When time runs out between evaluations, the last weights are evaluated, too.
  if (*reason == StopReason::kMaxTime && !measures_throughput_ && !evaluations_.due(step_) && step_ > start_.steps) {
    evaluate();
  }

  bad_images_.share(c_.comm);
  TrainResult result{*reason, step_, ""};
  {
    const AveragedWeights average(c_.optimizer, tensors_);
    result.weights_sha256 = agreed_weights_sha256(c_.framework, c_.comm, replicated_);
  }
  clock_.skip(SpanKind::kCheckpoint, "weights_sha256");
  if (c_.run.checkpoint.at_end && !measures_throughput_) {
    write_checkpoint();
    clock_.skip(SpanKind::kCheckpoint, "checkpoint");
  }
  if (auto operations = profile_.operations()) log_.operations(step_, *std::move(operations));
  log_.end(step_, *reason, result.weights_sha256);
  clock_.skip(SpanKind::kCheckpoint, "record");
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
    case StopReason::kStopped:
      return "stopped";
  }
  return "";
}

TrainResult train(const TrainContext& context) { return TrainRun(context).run(); }

}  // namespace mlbench::train
