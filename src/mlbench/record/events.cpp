#include "mlbench/record/events.h"

#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/errors.h"

namespace mlbench::record {

namespace {

using enum MemberType;

constexpr MemberRow kMemberRows[] = {
    {"sequence", kInteger, "", "of this file, from 0"},
    {"end_ns", kInteger, "ns", "monotonic, since the segment's start on this rank"},
    {"step", kInteger, "steps", "steps done"},
    {"epoch", kNumber, "epochs", "epochs done; of an evaluation, with the part of the one begun"},
    {"train_ns", kInteger, "ns", "train clock of this segment"},
    {"duration_ns", kInteger, "ns", "how long the evaluation took"},
    {"samples", kInteger, "samples", "trained on, of all ranks, since the run's first step"},
    {"peak_rss", kInteger, "bytes", "largest resident memory of this process so far"},
    {"device_read_bytes", kInteger, "bytes",
     "fetched for this process from devices or other machines: of the epoch, or of the segment at its end; absent "
     "where "
     "the kernel does not say"},
    {"call_read_bytes", kInteger, "bytes", "the same of what read() and its like returned; recv() is not in it"},
    {"objects", kInteger, "", "that an object store lists for the data; absent of data on disk"},
    {"object_bytes", kInteger, "bytes",
     "of objects, from the store: of the epoch, or at the end since this process began; what came twice counts twice"},
    {"object_requests", kInteger, "", "to the store, lists and repeated ones included"},
    {"object_retries", kInteger, "", "of these: repeated after a failure that may pass"},
    {"object_cache_hits", kInteger, "", "reads of blocks that the cache of objects had"},
    {"object_cache_bytes", kInteger, "bytes", "the same as object_bytes, of what the cache of objects gave"},
    {"ring", kObject, "",
     "how full the ring of batches that are decoded ahead was, as in the record: of the epoch, or of the segment at "
     "its "
     "end; absent where there is none"},
    {"checks", kObject, "", "bytes and seconds of checksums since this process began, as in the record"},
    {"split", kText, "", "train | test"},
    {"metrics", kObject, "", "value by metric, of all ranks"},
    {"train_loss", kNumber, "", "mean over the epoch's samples, of all ranks"},
    {"gradient_norm", kNumber, "",
     "of the whole gradient before it is clipped; mean over the epoch's steps of this segment, skipped ones left out"},
    {"clipped_steps", kInteger, "steps", "of those, how many exceeded the norm to which gradients are clipped"},
    {"loss_scale", kNumber, "", "of the next step"},
    {"skipped_steps", kInteger, "steps", "that changed nothing, as their gradient overflowed; since the run's first"},
    {"staleness", kList, "steps",
     "of this rank in this segment, counted by the staleness of their weights, from 0; absent where none can be stale"},
    {"cadence", kBoolean, "", "due by the task's own cadence; false: a limit brought it about, and it meets no goal"},
    {"prepare_s", kNumber, "s", "until the data set could be read, before the train clock"},
    {"data", kObject, "", "which data set, as in the record"},
    {"start_step", kInteger, "steps", "done before this segment"},
    {"last_step", kInteger, "steps", "where the run ends at the latest"},
    {"steps_per_epoch", kInteger, "steps", ""},
    {"samples_before", kInteger, "samples", "trained on before this segment, of all ranks"},
    {"parameters", kInteger, "", "trainable ones, without padding"},
    {"effective", kObject, "", "settings as they turned out, as in the record"},
    {"versions", kObject, "", "of libraries"},
    {"comm_stack", kText, "", "the communicator with what wraps it"},
    {"storage", kObject, "",
     "on what the prepared `data` and the files of the `run` lie: local, nfs, s3, ...; else null. Of s3, the "
     "`endpoint`"},
    {"notes", kList, "", "sentences that the record's notes take over"},
    {"sample", kInteger, "", "number of an image that cannot be decoded, in its split"},
    {"stand_in", kInteger, "", "number of the image that was taken in its place, in the same split"},
    {"image", kText, "", "name of the image's file, with that of its folder or shard"},
    {"metric", kText, "", "of the goal"},
    {"target", kNumber, "", "of the goal"},
    {"value", kNumber, "", "of the goal's metric when it was met"},
    {"path", kText, "", "folder of the checkpoint, in checkpoints/"},
    {"operations", kList, "", "of a training step, as the record has them (--profile, --explain)"},
    {"row", kObject, "", "a size of a benchmark of collectives, as in api/collectives.schema.json"},
    {"matrix", kObject, "", "latency and bandwidth of every pair of ranks, as in api/collectives.schema.json"},
    {"reason", kText, "",
     "goal | max_steps | max_epochs | max_time | epochs | done | stopped | supervisor_lost | comm_timeout"},
    {"weights_sha256", kText, "", "of parameters and averaged buffers"},
    {"kind", kText, "", "comm_timeout | comm_error | disk_full | io_error | rank_error"},
    {"operation", kText, "", "of communication that was under way, or the last one"},
    {"sequence_number", kInteger, "", "of that operation, from 1"},
    {"message", kText, "", ""},
};

constexpr std::string_view kPreparedAlways[] = {"prepare_s", "data"};
constexpr std::string_view kBeginAlways[] = {"effective", "versions", "comm_stack", "peak_rss"};
constexpr std::string_view kBeginSometimes[] = {
    "start_step", "last_step", "steps_per_epoch", "samples_before", "parameters", "storage", "notes"};
constexpr std::string_view kEpochAlways[] = {"step", "epoch"};
constexpr std::string_view kEpochSometimes[] = {
    "train_ns",          "train_loss",      "metrics",      "gradient_norm",      "clipped_steps",
    "device_read_bytes", "call_read_bytes", "object_bytes", "object_cache_bytes", "ring"};
constexpr std::string_view kEvaluationAlways[] = {"step", "duration_ns"};
constexpr std::string_view kEvaluationSometimes[] = {"epoch", "samples", "split", "train_ns", "metrics", "cadence"};
constexpr std::string_view kCheckpointAlways[] = {"step"};
constexpr std::string_view kCheckpointSometimes[] = {"path"};
constexpr std::string_view kGoalAlways[] = {"step", "metric", "split", "target", "value", "train_ns", "epoch"};
constexpr std::string_view kLossScaleAlways[] = {"step", "loss_scale", "skipped_steps"};
constexpr std::string_view kBadImageAlways[] = {"step", "split", "sample", "stand_in", "image", "message"};
constexpr std::string_view kAveragingAlways[] = {"step"};
constexpr std::string_view kOperationsAlways[] = {"step", "operations"};
constexpr std::string_view kCollectiveAlways[] = {"row"};
constexpr std::string_view kPairsAlways[] = {"matrix"};
constexpr std::string_view kEndAlways[] = {"step", "reason"};
constexpr std::string_view kEndSometimes[] = {"weights_sha256",
                                              "samples",
                                              "peak_rss",
                                              "loss_scale",
                                              "skipped_steps",
                                              "staleness",
                                              "device_read_bytes",
                                              "call_read_bytes",
                                              "objects",
                                              "object_bytes",
                                              "object_requests",
                                              "object_retries",
                                              "object_cache_hits",
                                              "object_cache_bytes",
                                              "ring",
                                              "checks"};
constexpr std::string_view kFailureAlways[] = {"kind", "operation", "message"};
constexpr std::string_view kFailureSometimes[] = {
    "step",         "sequence_number", "device_read_bytes", "call_read_bytes",   "objects",
    "object_bytes", "object_requests", "object_retries",    "object_cache_hits", "object_cache_bytes",
    "ring",         "checks"};

constexpr EventRow kEventRows[] = {
    {EventKind::kPrepared, "prepared", "the data set can be read", kPreparedAlways, {}},
    {EventKind::kBegin, "begin", "what is measured is about to start", kBeginAlways, kBeginSometimes},
    {EventKind::kEpoch, "epoch", "an epoch of training has ended", kEpochAlways, kEpochSometimes},
    {EventKind::kEvaluation, "evaluation", "an evaluation has ended", kEvaluationAlways, kEvaluationSometimes},
    {EventKind::kCheckpoint, "checkpoint", "a checkpoint is on disk", kCheckpointAlways, kCheckpointSometimes},
    {EventKind::kGoal, "goal", "the goal was met", kGoalAlways, {}},
    {EventKind::kLossScale, "loss_scale", "the scale of the loss has changed", kLossScaleAlways, {}},
    {EventKind::kBadImage, "bad_image", "this rank met an image that cannot be decoded", kBadImageAlways, {}},
    {EventKind::kAveraging, "averaging", "weights are averaged from the next step on", kAveragingAlways, {}},
    {EventKind::kOperations, "operations", "what each operation of a step is and cost", kOperationsAlways, {}},
    {EventKind::kCollective, "collective", "a size of a benchmark of collectives is measured", kCollectiveAlways, {}},
    {EventKind::kPairs, "pairs", "every pair of ranks is measured", kPairsAlways, {}},
    {EventKind::kEnd, "end", "this rank ends by itself", kEndAlways, kEndSometimes},
    {EventKind::kFailure, "failure", "this rank ends with an error", kFailureAlways, kFailureSometimes},
};

bool fits(const Json& value, MemberType type) {
  switch (type) {
    case kText:
      return value.is_string();
    case kInteger:
      return integer_of(value).has_value();
    case kNumber:
      return value.is_number() || value.is_null();
    case kBoolean:
      return value.is_boolean();
    case kObject:
      return value.is_object();
    case kList:
      return value.is_array();
  }
  return false;
}

const EventRow& row_of(EventKind kind) { return *std::ranges::find(kEventRows, kind, &EventRow::kind); }

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

std::span<const MemberRow> event_members() { return kMemberRows; }
std::span<const EventRow> event_types() { return kEventRows; }
std::string_view name_of(EventKind kind) { return row_of(kind).name; }

std::optional<EventKind> kind_of(const Json& event) {
  const auto name = find(event, Member<std::string>{"event"});
  const auto row = std::ranges::find(kEventRows, name.value_or(""), &EventRow::name);
  return row == std::end(kEventRows) ? std::nullopt : std::optional(row->kind);
}

void add_members(Json& event, Members members) {
  const EventRow& row = row_of(kind_of(event).value());
  for (const auto& [name, value] : members) {
    MLBENCH_CHECK(contains(row.always, name) || contains(row.sometimes, name),
                  fmt::format("event '{}' has no member '{}'", row.name, name));
    event[std::string(name)] = value;
  }
}

Json make_event(EventKind kind, Members members) {
  const EventRow& row = row_of(kind);
  Json event = {{"event", row.name}};
  add_members(event, members);
  for (const std::string_view name : row.always) {
    MLBENCH_CHECK(event.contains(name), fmt::format("event '{}' without its member '{}'", row.name, name));
  }
  return event;
}

std::optional<Json> parse_event(std::string_view line) {
  auto event = try_parse_json(line, inputs::kEventLine);
  if (!event || !event->is_object()) return std::nullopt;
  const auto name = event->find("event");
  if (name != event->end() && !name->is_string()) return std::nullopt;
  for (const MemberRow& row : kMemberRows) {
    const auto found = event->find(row.name);
    if (found != event->end() && !fits(*found, row.type)) return std::nullopt;
  }
  return event;
}

}  // namespace mlbench::record
