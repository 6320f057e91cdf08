#include "mlbench/train/run_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/build_info.h"
#include "mlbench/base/clock.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/log.h"
#include "mlbench/base/or_null.h"
#include "mlbench/base/storage.h"
#include "mlbench/metrics/metric.h"
#include "mlbench/models/layer_kinds.h"
#include "mlbench/models/model.h"
#include "mlbench/objects/object_store.h"
#include "mlbench/record/bfloat16_speed.h"
#include "mlbench/record/events.h"
#include "mlbench/record/feed.h"
#include "mlbench/spec/split.h"

namespace mlbench::train {

namespace {

constexpr int64_t kLoggedBadImages = 10;

// Notes that a reader of the figures must know about how they were computed.
Json notes_on(const Json& effective, const spec::RunSpec& run) {
  Json notes = Json::array();
  if (const double holdout = run.task.task.data.holdout; holdout > 0) {
    notes.push_back(
        fmt::format("{:g} of the training set is held out and evaluated; split \"test\" means that part", holdout));
  }
  if (const std::string& of_task = run.task.task.framework; !of_task.empty() && of_task != run.framework) {
    notes.push_back(
        fmt::format("task {} names framework {}, and this run took {}", run.task.task.name, of_task, run.framework));
  }
  if (run.convolution != "auto" && effective.value("convolution", "") != run.convolution) {
    const auto why = effective.value("convolution_why", std::vector<std::string>{"the framework computes none"});
    notes.push_back(
        fmt::format("--convolution {}: no convolution has this order ({})", run.convolution, fmt::join(why, "; ")));
  }
  if (const auto found = effective.find("bfloat16_speed"); found != effective.end()) {
    const record::Bfloat16Speed speed = record::bfloat16_speed_from_json(*found, "bfloat16_speed");
    if (speed.verdict == record::kSlower) notes.push_back(record::describe_bfloat16(speed, run.framework));
  }
  return notes;
}

// How fast this rank's processor computes in bfloat16, as the home has it. Nothing is measured beside a run.
record::Bfloat16Speed bfloat16_speed_here(const spec::RunSpec& run) {
  const std::string_view work = models::main_work(models::describe_model(run.task.task));
  return record::kept_bfloat16_speed({run.cache_dir, build_info().build_id, run.framework}, work)
      .value_or(
          record::bfloat16_speed_not_known(work, "not measured for this build and the processor of rank 0's host"));
}

// Where the samples come from; null where that is a disk.
std::shared_ptr<const objects::ObjectStore> store_of(const dataset::PreparedDataset& data) {
  for (const dataset::CachedSplit& split : data.splits()) {
    if (split.stored != nullptr) return split.stored->store;
  }
  return nullptr;
}

using record::add_members;
using record::EventKind;
using record::make_event;
namespace member = record::member;

// Adds to `event` what this process has read since `before`. Nothing where the kernel does not say.
void add_read_bytes(Json& event, const std::optional<ReadBytes>& before) {
  const auto now = read_bytes_so_far();
  if (!now || !before) return;
  add_members(event, {member::kDeviceReadBytes(now->devices - before->devices),
                      member::kCallReadBytes(now->calls - before->calls)});
}

void add_counters(Json& event, const objects::Counters& counters) {
  add_members(event, {member::kObjects(counters.objects), member::kObjectBytes(counters.bytes),
                      member::kObjectRequests(counters.requests), member::kObjectRetries(counters.retries),
                      member::kObjectCacheHits(counters.cache_hits), member::kObjectCacheBytes(counters.cache_bytes)});
}

// Adds nothing where there is no ring, or nothing was taken from it.
void add_ring(Json& event, const data::RingCounts& counts) {
  if (counts.takes == 0) return;
  add_members(event, {member::kRing(record::to_json(record::Ring{
                         .capacity = counts.capacity,
                         .takes = counts.takes,
                         .waits = counts.waits,
                         .mean_fill = static_cast<double>(counts.fills) / static_cast<double>(counts.takes),
                         .min_fill = counts.min_fill}))});
}

// Adds what comparing checksums has cost this process so far.
void add_checks(Json& event, const dataset::PreparedDataset& data, const objects::ObjectStore* store) {
  CheckCost images;
  for (const dataset::CachedSplit& split : data.splits()) {
    if (split.stored != nullptr) images += split.stored->images_checked->so_far();
  }
  const objects::Counters counters = store != nullptr ? store->counters() : objects::Counters();
  const auto told = [](const CheckCost& cost) {
    return cost.bytes > 0 ? std::optional(record::CheckedBytes{cost.bytes, to_seconds(cost.ns)}) : std::nullopt;
  };
  const Json checks = record::to_json(record::Checks{.images = told(images),
                                                     .objects = told(counters.checked),
                                                     .cache_blocks = told(counters.cache_checked),
                                                     .records = told(data.records_checked())});
  if (!checks.empty()) add_members(event, {member::kChecks(checks)});
}

}  // namespace

RunLog::RunLog(const TrainContext& context, const data::BatchPlan& plan, const track::StepClock& clock)
    : c_(context),
      plan_(plan),
      clock_(clock),
      told_loss_scale_(context.optimizer.loss_scale()),
      store_(store_of(context.data)) {}

void RunLog::begin(int64_t step, int64_t last_step) {
  read_at_epoch_ = read_bytes_so_far();
  if (store_ != nullptr) objects_at_epoch_ = store_->counters();
  c_.recorder.on_last_word([store = store_, data = c_.data, ring = ring_, before = read_at_epoch_](Json& event) {
    add_read_bytes(event, before);
    if (store != nullptr) add_counters(event, store->counters());
    add_ring(event, ring->so_far());
    add_checks(event, data, store.get());
  });
  Json effective = c_.framework.effective();
  effective.update(c_.optimizer.effective());
  if (c_.decoding_threads > 0) effective["decoding_threads"] = c_.decoding_threads;
  effective["collectives_by"] = c_.comm.collectives_by();
  if (effective.value("precision", "") == "bf16" && effective.value("device", "") == "cpu") {
    effective["bfloat16_speed"] = record::to_json(bfloat16_speed_here(c_.run));
  }
  Json versions = c_.framework.versions();
  versions.update(c_.comm.versions());
  const auto lies_on = [](const std::string& folder) { return text_or_null(storage_kind(folder)); };
  Json storage = {{"data", lies_on(c_.run.cache_dir)}, {"run", lies_on(c_.run.run_dir)}};
  if (store_ != nullptr) {
    storage["data"] = store_->kind();
    storage["endpoint"] = store_->endpoint();
  }
  Json event = make_event(EventKind::kBegin,
                          {member::kStartStep(step), member::kStorage(storage),
                           member::kParameters(c_.framework.layout().parameter_count()), member::kEffective(effective),
                           member::kVersions(versions), member::kCommStack(c_.comm.description()),
                           member::kStepsPerEpoch(plan_.steps_per_epoch()), member::kLastStep(last_step),
                           member::kSamplesBefore(plan_.samples_after(step)), member::kPeakRss(peak_rss_bytes())});
  if (Json notes = notes_on(effective, c_.run); !notes.empty()) add_members(event, {member::kNotes(std::move(notes))});
  c_.recorder.event(std::move(event));
}

void RunLog::step(track::StepSample sample) {
  sample.end_ns = c_.recorder.nanoseconds_since_start();
  c_.recorder.push(sample);
  if (c_.progress != nullptr) c_.progress->store(sample.step + 1, std::memory_order_relaxed);
  check_recorder();
}

void RunLog::update(int64_t step, const optim::StepOutcome& outcome) {
  if (!is_first_rank()) return;
  const double scale = c_.optimizer.loss_scale();
  if (scale != told_loss_scale_) {  // the scale changes after every skipped step, too
    told_loss_scale_ = scale;
    c_.recorder.event(make_event(EventKind::kLossScale, {member::kStep(step), member::kLossScale(scale),
                                                         member::kSkippedSteps(c_.optimizer.skipped_steps())}));
  }
  if (outcome.skipped || !outcome.gradient_norm) return;
  ++normed_steps_;
  norm_sum_ += *outcome.gradient_norm;
  clipped_steps_ += outcome.clipped ? 1 : 0;
}

void RunLog::epoch(int64_t step, const MetricSet* metrics) {
  Json event = make_event(EventKind::kEpoch, {member::kStep(step), member::kEpoch(plan_.epoch_of(step))});
  if (is_first_rank()) add_members(event, {member::kTrainNs(clock_.train_ns())});
  if (is_first_rank() && metrics != nullptr) {
    add_members(event, {member::kTrainLoss(metrics->value("loss")), member::kMetrics(metrics->values())});
  }
  if (normed_steps_ > 0) {
    add_members(event, {member::kGradientNorm(norm_sum_ / static_cast<double>(normed_steps_)),
                        member::kClippedSteps(clipped_steps_)});
    normed_steps_ = clipped_steps_ = 0;
    norm_sum_ = 0;
  }
  add_read_bytes(event, std::exchange(read_at_epoch_, read_bytes_so_far()));
  if (store_ != nullptr) {
    const objects::Counters before = std::exchange(objects_at_epoch_, store_->counters());
    add_members(event, {member::kObjectBytes(objects_at_epoch_.bytes - before.bytes),
                        member::kObjectCacheBytes(objects_at_epoch_.cache_bytes - before.cache_bytes)});
  }
  add_ring(event, ring_->since_last());
  c_.recorder.event(std::move(event));
}

void RunLog::evaluation(int64_t step, int64_t duration_ns, bool cadence, const MetricSet& metrics) {
  Json event = make_event(EventKind::kEvaluation, {member::kStep(step), member::kDurationNs(duration_ns)});
  if (is_first_rank()) {
    add_members(event, {member::kEpoch(plan_.epochs_after(step)), member::kSamples(plan_.samples_after(step)),
                        member::kSplit(spec::kTestSplit), member::kTrainNs(clock_.train_ns()),
                        member::kMetrics(metrics.values()), member::kCadence(cadence)});
  }
  c_.recorder.event(std::move(event));
}

void RunLog::bad_image(int64_t step, const data::BadSample& bad, const std::string& name) {
  c_.recorder.event(make_event(EventKind::kBadImage,
                               {member::kStep(step), member::kSplit(bad.split), member::kSample(bad.number),
                                member::kStandIn(bad.stand_in), member::kImage(name), member::kMessage(bad.reason)}));
  if (++bad_images_ > kLoggedBadImages) return;
  spdlog::warn("sample {} of split '{}' ({}) cannot be decoded, and sample {} stands in: {}{}", bad.number, bad.split,
               name, bad.stand_in, bad.reason, bad_images_ == kLoggedBadImages ? "; this log names no more" : "");
}

void RunLog::averaging(int64_t step) {
  if (is_first_rank()) c_.recorder.event(make_event(EventKind::kAveraging, {member::kStep(step)}));
}

void RunLog::goal(int64_t step, const MetricSet& metrics) {
  if (!is_first_rank()) return;
  const spec::GoalSpec& goal = c_.run.task.task.goal;
  c_.recorder.event(make_event(
      EventKind::kGoal,
      {member::kStep(step), member::kMetric(goal.metric), member::kSplit(goal.split),
       member::kTarget(spec::goal_target(goal, c_.run.limits.light)), member::kValue(metrics.value(goal.metric)),
       member::kTrainNs(clock_.train_ns()), member::kEpoch(plan_.epochs_after(step))}));
}

void RunLog::checkpoint(int64_t step, const std::filesystem::path& folder) {
  Json event = make_event(EventKind::kCheckpoint, {member::kStep(step)});
  if (is_first_rank()) add_members(event, {member::kPath(folder.filename().string())});
  c_.recorder.event(std::move(event));
}

void RunLog::operations(int64_t step, Json operations) {
  c_.recorder.event(
      make_event(EventKind::kOperations, {member::kStep(step), member::kOperationCosts(std::move(operations))}));
}

void RunLog::end(int64_t step, StopReason reason, const std::string& weights_sha256) {
  Json event =
      make_event(EventKind::kEnd, {member::kStep(step), member::kReason(std::string(name_of(reason))),
                                   member::kWeightsSha256(weights_sha256), member::kSamples(plan_.samples_after(step)),
                                   member::kPeakRss(peak_rss_bytes())});
  if (is_first_rank() && c_.optimizer.scales_loss()) {
    add_members(event,
                {member::kLossScale(c_.optimizer.loss_scale()), member::kSkippedSteps(c_.optimizer.skipped_steps())});
  }
  if (const std::vector<int64_t> staleness = c_.optimizer.staleness(); !staleness.empty()) {
    add_members(event, {member::kStaleness(Json(staleness))});
  }
  c_.recorder.last_word(std::move(event));
  c_.recorder.flush();
  check_recorder();
}

void RunLog::check_recorder() const {
  if (const auto error = c_.recorder.failed()) std::rethrow_exception(error);
}

}  // namespace mlbench::train
