#include "mlbench/record/build_record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/or_null.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/text.h"
#include "mlbench/record/curve.h"
#include "mlbench/record/events.h"
#include "mlbench/record/exchange.h"
#include "mlbench/record/legacy_names.h"
#include "mlbench/record/record_fields.h"
#include "mlbench/record/record_parts.h"
#include "mlbench/record/tracker_lines.h"
#include "mlbench/spec/algorithm.h"
#include "mlbench/spec/declaration.h"
#include "mlbench/spec/goal_option.h"

namespace mlbench::record {

namespace {

bool has_ended(const RunProgress& progress) {
  return progress.state != RunState::kQueued && progress.state != RunState::kRunning;
}

template <typename T>
std::optional<T> positive(T value) {
  return value > T{} ? std::optional(value) : std::nullopt;
}

// Makes a part of the record from what a rank or a host said. Words of another form become a note.
template <typename T>
std::optional<T> part_if_read(const Json& words, const std::string& what, std::vector<std::string>& notes) {
  if (!words.is_object()) return std::nullopt;
  try {
    return read_part<T>(words, what);
  } catch (const UserError& error) {
    notes.push_back(fmt::format("left out: {}", error.what()));
    return std::nullopt;
  }
}

template <typename T>
T part_of(const Json& words, const std::string& what, std::vector<std::string>& notes) {
  return part_if_read<T>(words, what, notes).value_or(T{});
}

template <typename T>
std::vector<T> parts_of(const Json& list, const std::string& what, std::vector<std::string>& notes) {
  std::vector<T> parts;
  if (!list.is_array()) return parts;
  for (const Json& words : list) parts.push_back(part_of<T>(words, what, notes));
  return parts;
}

// ---- what the spools say --------------------------------------------------------------------------------------------

struct Spools {
  std::vector<std::vector<RankSpool>> ranks;  // [rank][segment - 1]
  std::vector<std::string> notes;
};

std::string left_out(const std::filesystem::path& file, int64_t lines) {
  return fmt::format("{}: {} left out: damaged, nested deeper than {} or too long", file.filename().string(),
                     counted(lines, "line"), kDeepestNesting);
}

Spools read_spools(const spec::RunSpec& spec, const RunProgress& progress) {
  Spools spools;
  const std::filesystem::path run_dir = spec.run_dir;
  const auto started = [&](int64_t segment) {
    std::error_code error;
    return std::filesystem::exists(steps_path(run_dir, segment, 0), error);
  };
  // A supervisor may have died before it wrote that a segment began.
  auto segments = static_cast<int64_t>(progress.segments.size());
  while (started(segments + 1)) ++segments;
  for (int64_t rank = 0; rank < spec.workers; ++rank) {
    auto& of_rank = spools.ranks.emplace_back();
    for (int64_t segment = 1; segment <= segments; ++segment) {
      try {
        of_rank.push_back(read_spool(run_dir, segment, rank));
        if (const int64_t count = of_rank.back().left_out; count > 0) {
          spools.notes.push_back(left_out(events_path(run_dir, segment, rank), count));
        }
      } catch (const std::runtime_error& error) {
        of_rank.emplace_back();
        spools.notes.push_back(std::string("measurements lost: ") + error.what());
      }
    }
  }
  return spools;
}

// The last event of that kind in any segment.
Json last_event(const std::vector<RankSpool>& segments, EventKind kind) {
  for (auto spool = segments.rbegin(); spool != segments.rend(); ++spool) {
    const auto found = events_of(*spool, kind);
    if (!found.empty()) return found.back();
  }
  return Json::object();
}

// ---- parts of the record --------------------------------------------------------------------------------------------

std::vector<Segment> segments_of(const RunProgress& progress, const Spools& spools,
                                 const std::vector<SegmentTimes>& times) {
  std::vector<Segment> segments = progress.segments;
  for (size_t i = 0; i < segments.size(); ++i) {
    const Clocks clocks = derive_clocks({spools.ranks.at(0).at(i)});
    segments[i].steps = clocks.steps;
    segments[i].wall_s = times[i].wall_s;
    segments[i].train_s = to_seconds(clocks.train_ns);
    segments[i].train_legacy_s = to_seconds(clocks.train_legacy_ns);
  }
  return segments;
}

Json checkpoint_every(const spec::CheckpointPolicy& policy) {
  if (policy.every_epoch) return "epoch";
  return policy.every_steps > 0 ? Json(policy.every_steps) : Json(nullptr);
}

Requested requested_of(const spec::RunSpec& spec) {
  const Json& options = spec.task.task.optimizer.options;
  Requested requested;
  requested.device = spec.device;
  requested.precision = spec.precision;
  const auto given = [&](const char* name) { return options.value(name, Json(nullptr)); };
  if (const Json overlap = given("overlap"); overlap.is_boolean()) requested.overlap = overlap.get<bool>();
  if (const Json by_layer = given("by_layer"); by_layer.is_boolean()) requested.by_layer = by_layer.get<bool>();
  if (const Json bucket = given("bucket_mb"); bucket.is_number()) requested.bucket_mb = bucket.get<double>();
  requested.checkpoint_every = checkpoint_every(spec.checkpoint);
  if (spec::trains(spec)) requested.convolution = spec.convolution;
  requested.profile = spec.profile;
  requested.timeline = spec.timeline;
  return requested;
}

DataSet data_of(const spec::RunSpec& spec, const Json& prepared, std::vector<std::string>& notes) {
  Json said = {{"name", spec.data_name}, {"synthetic", spec.synthetic}};
  if (spec.fixed_batch) said["fixed_batch"] = true;
  if (const Json found = field_of(prepared, member::kData); found.is_object()) said.update(found);
  return part_of<DataSet>(said, "what rank 0 says of its data", notes);
}

// Where the ranks' data and files lie: "nfs"; "data nfs, run local"; "not known" where a rank did not say.
Storage storage_of(const Spools& spools) {
  const auto of_all = [&](const char* part) {
    std::set<std::string> kinds;
    for (const auto& segments : spools.ranks) {
      const Json kind = field_of(field_of(last_event(segments, EventKind::kBegin), member::kStorage), part);
      kinds.insert(kind.is_string() ? kind.get<std::string>() : "");
    }
    return kinds.contains("") ? std::string() : fmt::format("{}", fmt::join(kinds, " + "));
  };
  const std::string data = of_all("data"), run = of_all("run");
  const std::string kind = data.empty() || run.empty() ? "not known"
                           : data == run               ? run
                                                       : fmt::format("data {}, run {}", data, run);
  Storage storage;
  storage.kind = kind;
  storage.data = data;
  storage.run = run;
  storage.endpoint = of_all("endpoint");
  return storage;
}

ClockSums clocks_of(const RunProgress& progress, const std::vector<RankSpool>& segments, const Clocks& clocks) {
  ClockSums sums;
  sums.queue_s = progress.queue_s;
  sums.wall_s = progress.wall_s;
  for (const RankSpool& spool : segments) {
    for (const Json& event : events_of(spool, EventKind::kPrepared)) {
      sums.prepare_s = sums.prepare_s.value_or(0) + get(event, member::kPrepareS);
    }
  }
  sums.train_s = to_seconds(clocks.train_ns);
  sums.train_legacy_s = to_seconds(clocks.train_legacy_ns);
  return sums;
}

Throughput throughput_of(const Spools& spools, const Clocks& clocks, int64_t workers) {
  Throughput throughput;
  int64_t samples = 0;
  for (const auto& segments : spools.ranks) {
    samples += derive_clocks(segments).samples;
    for (const RankSpool& spool : segments) {
      for (const Json& event : spool.events) {
        throughput.peak_rss = std::max(throughput.peak_rss, find(event, member::kPeakRss));
      }
    }
  }
  const double train_s = to_seconds(clocks.train_ns);
  if (train_s > 0) throughput.samples_per_s = static_cast<double>(samples) / train_s;
  throughput.median_samples_per_s = median_rate(spools.ranks.at(0), workers);
  throughput.samples = samples;
  throughput.steps = clocks.steps;
  return throughput;
}

// The hash of the weights with which all ranks ended.
std::string weights_of(const Spools& spools, std::vector<std::string>& notes) {
  std::set<std::string> hashes;
  for (const auto& segments : spools.ranks) {
    if (segments.empty()) continue;
    for (const Json& end : events_of(segments.back(), EventKind::kEnd)) hashes.insert(get(end, member::kWeightsSha256));
  }
  hashes.erase("");
  if (hashes.size() > 1) notes.push_back(fmt::format("ranks ended with {} different weights_sha256", hashes.size()));
  return hashes.size() == 1 ? *hashes.begin() : "";
}

// Notes how the updates of this run differed from the task's rule.
void note_updates(const std::vector<RankSpool>& segments, std::vector<std::string>& notes) {
  for (const Json& note : get(last_event(segments, EventKind::kBegin), member::kNotes, Json::array())) {
    if (note.is_string()) notes.push_back(note);
  }
  Json scale = last_event(segments, EventKind::kEnd);
  if (!find(scale, member::kSkippedSteps)) scale = last_event(segments, EventKind::kLossScale);
  if (const auto skipped = find(scale, member::kSkippedSteps)) {
    notes.push_back(fmt::format("steps skipped, as their gradients overflowed: {}; loss scale {:g}", *skipped,
                                get(scale, member::kLossScale)));
  }
  if (const Json averaging = last_event(segments, EventKind::kAveraging); is(averaging, EventKind::kAveraging)) {
    notes.push_back(fmt::format("weights are averaged from step {} on", get(averaging, member::kStep)));
  }
}

// The sum of what the ranks say at the ends of their segments; empty where none does.
std::optional<std::vector<int64_t>> staleness_of(const Spools& spools) {
  std::vector<int64_t> sums;
  for (const auto& segments : spools.ranks) {
    for (const RankSpool& spool : segments) {
      for (const Json& end : events_of(spool, EventKind::kEnd)) {
        const Json counts = get(end, member::kStaleness, Json::array());
        sums.resize(std::max(sums.size(), counts.size()));
        for (size_t i = 0; i < counts.size(); ++i) sums[i] += integer_of(counts[i]).value_or(0);
      }
    }
  }
  return sums.empty() ? std::nullopt : std::optional(std::move(sums));
}

// Why the run ended; "" where it did not end by itself.
std::string stop_reason_of(const std::vector<RankSpool>& segments) {
  if (segments.empty()) return "";
  for (const Json& end : events_of(segments.back(), EventKind::kEnd)) {
    const std::string reason = get(end, member::kReason);
    for (const char* known : {"goal", "max_steps", "max_epochs", "max_time", "epochs", "done"}) {
      if (reason == known) return reason;
    }
  }
  return "";
}

std::vector<TrackerLine> lines_of(const spec::RunSpec& spec, int64_t rank, std::vector<std::string>& notes) {
  try {
    TrackerLines read = read_tracker_lines(spec.run_dir, rank);
    if (read.left_out > 0) notes.push_back(left_out(tracker_lines_path(spec.run_dir, rank), read.left_out));
    return std::move(read.lines);
  } catch (const std::runtime_error& error) {
    notes.push_back(std::string("measurements lost: ") + error.what());
    return {};
  }
}

// The declared goal with the target that counts.
std::optional<spec::GoalSpec> declared_goal(const spec::RunSpec& spec) {
  if (!spec::declares_task(spec)) return std::nullopt;
  spec::GoalSpec goal = spec.task.task.goal;
  goal.target = spec::goal_target(goal, spec.limits.light);
  return goal;
}

std::optional<Declared> declared_of(const spec::RunSpec& spec) {
  if (!spec::declares_task(spec)) return std::nullopt;
  const spec::TaskSpec& task = spec.task.task;
  return Declared{.task = task.name,
                  .rules = task.rules,
                  .variant = task.variant,
                  .data = spec.data_name,
                  .goal = spec::goal_text(task.goal, spec.limits.light)};
}

// Why the run did not reach the goal that it declares, "" where it did.
std::string why_missed(const Record& record) {
  if (!record.custom->declared || record.goal->reached) return "";
  const Goal& goal = *record.goal;
  const std::string missed = fmt::format("the declared goal {} was missed", record.custom->declared->goal);
  if (goal.best) return fmt::format("{}: the best {} is {:.6g}", missed, goal.metric, goal.best->value);
  return fmt::format("{}: no {} on {} data was recorded, under the name {}", missed, goal.metric, goal.split,
                     legacy_name_of({goal.split, goal.metric, goal.split == spec::kTestSplit ? kAllRanks : 0}).name);
}

// The samples of all ranks, over rank 0's train clock.
void add_tracker_samples(Record& record, const spec::RunSpec& spec, const std::vector<TrackerLine>& rank_0) {
  std::optional<int64_t>& samples = record.throughput.samples;
  samples = tracker_samples(rank_0);
  if (!samples) return;
  for (int64_t rank = 1; rank < spec.workers; ++rank) {
    *samples += tracker_samples(lines_of(spec, rank, record.notes)).value_or(0);
  }
  const double train_s = record.clocks.train_s.value_or(0);
  if (train_s > 0) record.throughput.samples_per_s = static_cast<double>(*samples) / train_s;
}

// The measurements of a custom run are what its script recorded.
void add_tracker_figures(Record& record, const spec::RunSpec& spec, const spec::Command& command,
                         const RunProgress& progress) {
  const auto started = parse_stamp(progress.started_at);
  const std::vector<TrackerLine> lines = lines_of(spec, 0, record.notes);
  TrackerFigures figures = tracker_figures(lines, started ? unix_us(*started) : 0, declared_goal(spec));
  if (figures.left_out > 0) {
    record.notes.push_back(
        fmt::format("{} evaluations and epochs are too many for a record: left out", figures.left_out));
  }
  record.goal = std::move(figures.goal);
  record.steps_s = std::move(figures.steps_s);
  record.evaluations = std::move(figures.evaluations);
  record.epochs = std::move(figures.epochs);
  record.clocks.train_s = record.clocks.train_legacy_s = figures.train_s;
  record.throughput.steps = figures.steps;
  record.custom = Custom{.command = command.words, .declared = declared_of(spec), .result = figures.result};
  add_tracker_samples(record, spec, lines);
  if (const std::string why = why_missed(record); !why.empty() && has_ended(progress)) record.notes.push_back(why);
}

// What a benchmark of collectives measured so far.
Collectives collectives_of(const spec::CollectivesSpec& spec, const std::vector<RankSpool>& segments,
                           std::vector<std::string>& notes) {
  Collectives found{.spec = spec};
  for (const RankSpool& spool : segments) {
    for (const Json& event : events_of(spool, EventKind::kCollective)) {
      auto row = part_if_read<CollectiveRow>(get(event, member::kRow), "a row of the benchmark", notes);
      if (row) found.rows.push_back(std::move(*row));
    }
    for (const Json& event : events_of(spool, EventKind::kPairs)) {
      found.pairs = part_if_read<PairMatrix>(get(event, member::kMatrix), "the matrix of pairs", notes);
    }
  }
  return found;
}

// The environment as the supervisor saw it, with the versions that rank 0 reported.
Json environment_json(const RunProgress& progress, const Json& begin) {
  Json environment = progress.environment;
  if (const Json versions = field_of(begin, member::kVersions); versions.is_object()) {
    Json& libraries = environment["libraries"];
    if (!libraries.is_object()) libraries = Json::object();
    libraries.update(versions);
  }
  return environment;
}

// Says what the run trains and how. Of a task that this program does not know (a later program's, or a damaged one) a
// note says so.
void tell_algorithm(const spec::RunSpec& spec, Record& record, std::vector<std::string>& notes) {
  if (!spec.task.canonical.is_object()) return;
  if (spec::trains(spec) || spec::declares_task(spec)) {
    record.problem_hash = spec::problem_hash_of(spec.task.canonical);
  }
  if (!spec::trains(spec)) return;
  try {
    record.algorithm = algorithm_of(spec.task, spec.overrides);
  } catch (const UserError& error) {
    notes.push_back(fmt::format("the algorithm is not known: {}", error.what()));
  }
}

// What was asked for.
Record asked_of(const spec::RunSpec& spec, const RunProgress& progress, const Json& begin) {
  const spec::TaskSpec& task = spec.task.task;
  Record record;
  record.id = spec.id;
  record.name = spec.name;
  record.created_at = spec.created_at;
  record.started_at = progress.started_at;
  record.finished_at = progress.finished_at;
  record.executor = spec.executor;
  record.repeat = spec.repeat;
  record.task = task.name;
  record.rules = task.rules;
  record.variant = task.variant;
  record.division = spec.division;
  record.overrides = spec.overrides;
  record.task_hash = spec.task.hash;
  record.framework = spec.framework;
  record.backend = spec.backend;
  record.comm_stack = get(begin, member::kCommStack);
  if (spec::uses_worker(spec)) record.communication = spec.communication;
  record.workers = spec.workers;
  record.threads_per_worker = spec.threads_per_worker;
  record.inter_op_threads = spec.inter_op_threads;
  record.oversubscribed = spec.oversubscribed || progress.oversubscribed;
  record.shared_host = spec.share_host;
  record.emulated_step_s = positive(spec.emulated_step_s);
  record.seed = spec.seed;
  record.limits = {.max_steps = positive(spec.limits.max_steps),
                   .max_epochs = positive(spec.limits.max_epochs),
                   .max_time_s = positive(spec.limits.max_time_s),
                   .light = spec.limits.light,
                   .to_the_end = spec.limits.to_the_end,
                   .others = {}};
  record.requested = requested_of(spec);
  if (!spec.engine.empty() || spec.cpus > 0) {
    record.engine = spec.engine;
    record.engine["cpus"] = positive_or_null(spec.cpus);
  }
  return record;
}

}  // namespace

Record build_record(const spec::RunSpec& spec, const RunProgress& progress) {
  const Spools spools = read_spools(spec, progress);
  const std::vector<RankSpool>& rank0 = spools.ranks.at(0);
  const std::vector<SegmentTimes> times = segment_times(rank0, progress);
  const Clocks clocks = derive_clocks(rank0);
  const Json begin = last_event(rank0, EventKind::kBegin);

  Record record = asked_of(spec, progress, begin);
  std::vector<std::string>& notes = record.notes;
  notes = progress.notes;
  notes.insert(notes.end(), spools.notes.begin(), spools.notes.end());
  tell_algorithm(spec, record, notes);
  record.weights_sha256 = weights_of(spools, notes);
  note_updates(rank0, notes);
  record.state = name_of(progress.state);
  record.stop_reason = stop_reason_of(rank0);
  record.effective = part_of<Effective>(field_of(begin, member::kEffective), "what rank 0 says of its choices", notes);
  record.failure = progress.failure;
  record.segments = segments_of(progress, spools, times);
  if (!record.segments.empty()) record.exit_codes = record.segments.back().exit_codes;
  record.environment = part_of<Environment>(environment_json(progress, begin), "the supervisor's environment", notes);
  if (progress.placement.is_array()) {
    record.placement = parts_of<RankPlace>(progress.placement, "where a rank runs", notes);
  }
  record.allocation = part_if_read<Allocation>(progress.allocation, "what the engine gave", notes);
  record.hosts = parts_of<Host>(progress.hosts, "what a host says of itself", notes);
  record.data = data_of(spec, last_event(rank0, EventKind::kPrepared), notes);
  if (spec.max_bad > 0) record.data.bad_images = bad_images_of(spools.ranks, spec.max_bad);
  record.storage = storage_of(spools);
  record.exchange = exchange_of(spec, std::ssize(rank0), *record.effective, has_ended(progress) ? &notes : nullptr);
  if (record.exchange) record.exchange->staleness = staleness_of(spools);
  record.evaluations = evaluations_of(rank0, times);
  record.epochs = epochs_of(rank0, times);
  record.ring = tell_feed(spools.ranks, record.epochs, record.storage);
  if (!host_sees_passes(record)) {
    for (Epoch& epoch : record.epochs) epoch.accelerator_utilisation.reset();
  }
  record.goal = goal_of(spec, rank0, times, record.evaluations, record.epochs);
  if (record.goal && record.data.official != true) record.goal->target_loss.reset();
  if (const auto moment = goal_moment(rank0); moment && record.goal) {
    const bool at_its_end = derive_clocks(rank0, *moment).steps == clocks.steps;
    record.goal->exchange =
        at_its_end ? record.exchange : exchange_of(spec, std::ssize(rank0), *record.effective, nullptr, *moment);
  }
  record.clocks = clocks_of(progress, rank0, clocks);
  record.steps_s = seconds_by_kind(clocks);
  record.waited_for_data_s = waited_for_data_s(spools.ranks);
  record.throughput = throughput_of(spools, clocks, spec.workers);
  record.utilisation = part_of<Utilisation>(progress.utilisation, "what the supervisor saw of the use", notes);
  record.energy = part_if_read<Energy>(progress.energy, "what the supervisor saw of the energy", notes);
  const Json costs = field_of(last_event(rank0, EventKind::kOperations), member::kOperationCosts);
  record.operations = parts_of<OperationCost>(costs, "what rank 0 says of its operations", notes);
  record.parameters = find(begin, member::kParameters);
  if (const auto* measured = spec::collectives_of(spec)) record.collectives = collectives_of(*measured, rank0, notes);
  if (const auto* command = spec::command_of(spec)) add_tracker_figures(record, spec, *command, progress);
  return record;
}

}  // namespace mlbench::record
