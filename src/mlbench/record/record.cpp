#include "mlbench/record/record.h"

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
#include "mlbench/record/record_parts.h"
#include "mlbench/record/tracker_lines.h"

namespace mlbench::record {

namespace {

constexpr int64_t kSchemaVersion = 1;

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
  // A supervisor may have died before it wrote that it began a segment.
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

Json failure_json(const std::optional<Failure>& failure) {
  if (!failure) return nullptr;
  return {{"kind", failure->kind},
          {"rank", failure->rank < 0 ? Json(nullptr) : Json(failure->rank)},
          {"host", text_or_null(failure->host)},
          {"operation", text_or_null(failure->operation)},
          {"sequence", failure->sequence < 0 ? Json(nullptr) : Json(failure->sequence)},
          {"message", failure->message},
          {"log_tail", failure->log_tail}};
}

Json segments_json(const RunProgress& progress, const Spools& spools, const std::vector<SegmentTimes>& times) {
  Json list = Json::array();
  for (size_t i = 0; i < progress.segments.size(); ++i) {
    const SegmentInfo& info = progress.segments[i];
    const Clocks clocks = derive_clocks({spools.ranks.at(0).at(i)});
    Json codes = Json::array();
    for (const auto& code : info.exit_codes) codes.push_back(or_null(code));
    list.push_back({{"index", info.index},
                    {"start_step", info.start_step},
                    {"started_at", text_or_null(info.started_at)},
                    {"finished_at", text_or_null(info.finished_at)},
                    {"lost_s", info.lost_s},
                    {"exit_codes", codes},
                    {"failure", failure_json(info.failure)},
                    {"steps", clocks.steps},
                    {"wall_s", times[i].wall_s},
                    {"train_s", to_seconds(clocks.train_ns)},
                    {"train_legacy_s", to_seconds(clocks.train_legacy_ns)}});
  }
  return list;
}

Json checkpoint_every(const spec::CheckpointPolicy& policy) {
  return policy.every_epoch ? Json("epoch") : positive_or_null(policy.every_steps);
}

// These choices, in one order; what else `given` holds follows.
Json choices_json(const Json& given) {
  Json choices = Json::object();
  for (const char* name : {"device", "precision", "layout", "overlap", "buckets", "by_layer", "pinned"}) {
    choices[name] = field_of(given, name);
  }
  if (given.is_object()) choices.update(given);
  return choices;
}

Json data_json(const spec::RunSpec& spec, const Json& prepared) {
  Json data = {{"name", spec.data_name},
               {"fingerprint", nullptr},
               {"official", nullptr},
               {"synthetic", spec.synthetic},
               {"samples", nullptr}};
  if (const Json found = field_of(prepared, member::kData); found.is_object()) data.update(found);
  return data;
}

// What the ranks' data and files lie on: "nfs"; "data nfs, run local"; "not known" where a rank did not say.
Json storage_json(const Spools& spools) {
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
  return {{"kind", kind},        {"data", text_or_null(data)}, {"run", text_or_null(run)},
          {"endpoint", nullptr}, {"objects", nullptr},         {"bytes", nullptr}};
}

Json clocks_json(const RunProgress& progress, const std::vector<RankSpool>& segments, const Clocks& clocks) {
  Json prepare = nullptr;
  for (const RankSpool& spool : segments) {
    for (const Json& event : events_of(spool, EventKind::kPrepared)) {
      prepare = (prepare.is_null() ? 0.0 : prepare.get<double>()) + get(event, member::kPrepareS);
    }
  }
  return {{"queue_s", progress.queue_s},
          {"wall_s", progress.wall_s},
          {"prepare_s", prepare},
          {"train_s", to_seconds(clocks.train_ns)},
          {"train_legacy_s", to_seconds(clocks.train_legacy_ns)}};
}

Json median_rate(const std::vector<RankSpool>& segments, int64_t workers) {
  std::vector<std::pair<double, uint64_t>> rates;  // samples per second, steps
  uint64_t steps = 0;
  for (const RankSpool& spool : segments) {
    for (const StepRecord& record : spool.steps) {
      if (record.total_ns() <= 0) continue;
      rates.emplace_back(
          static_cast<double>(record.samples) * static_cast<double>(workers) / to_seconds(record.total_ns()),
          record.count);
      steps += record.count;
    }
  }
  std::sort(rates.begin(), rates.end());
  uint64_t seen = 0;
  for (size_t i = 0; i < rates.size(); ++i) {
    seen += rates[i].second;
    if (2 * seen == steps) return (rates[i].first + rates[i + 1].first) / 2;
    if (2 * seen > steps) return rates[i].first;
  }
  return nullptr;
}

Json throughput_json(const Spools& spools, const Clocks& clocks, int64_t workers) {
  int64_t samples = 0;
  Json peak_rss = nullptr;
  for (const auto& segments : spools.ranks) {
    samples += derive_clocks(segments).samples;
    for (const RankSpool& spool : segments) {
      for (const Json& event : spool.events) {
        const auto rss = find(event, member::kPeakRss);
        if (rss && (peak_rss.is_null() || *rss > peak_rss.get<int64_t>())) peak_rss = *rss;
      }
    }
  }
  const double train_s = to_seconds(clocks.train_ns);
  return {{"samples_per_s", train_s > 0 ? Json(static_cast<double>(samples) / train_s) : Json(nullptr)},
          {"median_samples_per_s", median_rate(spools.ranks.at(0), workers)},
          {"peak_rss", peak_rss},
          {"samples", samples},
          {"steps", clocks.steps}};
}

// The weights that all ranks ended with.
Json weights_json(const Spools& spools, std::vector<std::string>& notes) {
  std::set<std::string> hashes;
  for (const auto& segments : spools.ranks) {
    if (segments.empty()) continue;
    for (const Json& end : events_of(segments.back(), EventKind::kEnd)) hashes.insert(get(end, member::kWeightsSha256));
  }
  hashes.erase("");
  if (hashes.size() > 1) notes.push_back(fmt::format("ranks ended with {} different weights_sha256", hashes.size()));
  return hashes.size() == 1 ? Json(*hashes.begin()) : Json(nullptr);
}

// What the updates of this run were beside the task's rule.
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

// Why the run ended; null where it did not end by itself.
Json stop_reason_json(const std::vector<RankSpool>& segments) {
  if (segments.empty()) return nullptr;
  for (const Json& end : events_of(segments.back(), EventKind::kEnd)) {
    const std::string reason = get(end, member::kReason);
    for (const char* known : {"goal", "max_steps", "max_epochs", "max_time", "epochs", "done"}) {
      if (reason == known) return reason;
    }
  }
  return nullptr;
}

// A custom run's measurements are what its script recorded.
void add_tracker_figures(Json& record, const spec::RunSpec& spec, const RunProgress& progress) {
  const auto started = parse_stamp(progress.started_at);
  TrackerLines read;
  try {
    read = read_tracker_lines(spec.run_dir, 0);
  } catch (const std::runtime_error& error) {
    record["notes"].push_back(std::string("measurements lost: ") + error.what());
  }
  if (read.left_out > 0) record["notes"].push_back(left_out(tracker_lines_path(spec.run_dir, 0), read.left_out));
  Json figures = tracker_figures(read.lines, started ? unix_us(*started) : 0);
  if (const auto count = figures["left_out"].get<int64_t>(); count > 0) {
    record["notes"].push_back(fmt::format("{} evaluations and epochs are too many for a record: left out", count));
  }
  for (const char* part : {"goal", "steps_s", "evaluations", "epochs"}) record[part] = std::move(figures[part]);
  record["clocks"].update(figures["clocks"]);
  record["throughput"]["steps"] = figures["steps"];
  record["custom"] = {{"command", spec.command}, {"result", figures["result"]}};
}

// What a benchmark of collectives measured so far.
Json collectives_json(const spec::CollectivesSpec& spec, const std::vector<RankSpool>& segments) {
  Json results = Json::array(), pairs = nullptr;
  for (const RankSpool& spool : segments) {
    for (const Json& event : events_of(spool, EventKind::kCollective)) results.push_back(get(event, member::kRow));
    for (const Json& event : events_of(spool, EventKind::kPairs)) pairs = get(event, member::kMatrix);
  }
  return {{"config", {{"spec", spec::to_json(spec)}}}, {"results", results}, {"pairs", pairs}};
}

// As the supervisor saw it, with the versions that rank 0 told.
Json environment_json(const RunProgress& progress, const Json& begin) {
  Json environment = progress.environment;
  if (const Json versions = field_of(begin, member::kVersions); versions.is_object()) {
    Json& libraries = environment["libraries"];
    if (!libraries.is_object()) libraries = Json::object();
    libraries.update(versions);
  }
  return environment;
}

// What was asked for, in the order of the schema.
Json asked_json(const spec::RunSpec& spec, const RunProgress& progress, const Json& begin, const Json& exit_codes) {
  const spec::TaskSpec& task = spec.task.task;
  Json overrides = Json::array();
  for (const spec::Override& setting : spec.overrides) {
    overrides.push_back({{"key", setting.key}, {"value", setting.value}});
  }
  Json record = Json::object();
  record["schema_version"] = kSchemaVersion;
  record["id"] = spec.id;
  record["name"] = spec.name;
  record["created_at"] = spec.created_at;
  record["started_at"] = text_or_null(progress.started_at);
  record["finished_at"] = text_or_null(progress.finished_at);
  record["executor"] = spec.executor;
  record["repeat"] = spec.repeat;
  record["task"] = task.name;
  record["rules"] = text_or_null(task.rules);
  record["variant"] = text_or_null(task.variant);
  record["division"] = spec.division;
  record["overrides"] = overrides;
  record["task_hash"] = spec.task.hash;
  record["framework"] = spec.framework;
  record["backend"] = spec.backend;
  record["comm_stack"] = field_of(begin, member::kCommStack);
  record["communication"] = spec::uses_worker(spec) ? spec::to_json(spec.communication) : Json(nullptr);
  record["workers"] = spec.workers;
  record["threads_per_worker"] = spec.threads_per_worker;
  record["inter_op_threads"] = spec.inter_op_threads;
  record["oversubscribed"] = spec.oversubscribed || progress.oversubscribed;
  record["shared_host"] = spec.share_host;
  record["seed"] = spec.seed;
  record["exit_codes"] = exit_codes;
  record["limits"] = {{"max_steps", positive_or_null(spec.limits.max_steps)},
                      {"max_epochs", positive_or_null(spec.limits.max_epochs)},
                      {"max_time_s", positive_or_null(spec.limits.max_time_s)},
                      {"light", spec.limits.light},
                      {"to_the_end", spec.limits.to_the_end}};
  return record;
}

}  // namespace

std::string_view name_of(RunState state) {
  switch (state) {
    case RunState::kQueued:
      return "queued";
    case RunState::kRunning:
      return "running";
    case RunState::kFinished:
      return "finished";
    case RunState::kFailed:
      return "failed";
    case RunState::kStopped:
      return "stopped";
  }
  return "";
}

Json build_record(const spec::RunSpec& spec, const RunProgress& progress) {
  const spec::TaskSpec& task = spec.task.task;
  const Spools spools = read_spools(spec, progress);
  const std::vector<RankSpool>& rank0 = spools.ranks.at(0);
  const std::vector<SegmentTimes> times = segment_times(rank0, progress);
  const Clocks clocks = derive_clocks(rank0);
  const Json begin = last_event(rank0, EventKind::kBegin);
  const Json evaluations = evaluations_json(rank0, times);
  const Json epochs = epochs_json(rank0, times);
  const Json segments = segments_json(progress, spools, times);

  std::vector<std::string> notes = progress.notes;
  notes.insert(notes.end(), spools.notes.begin(), spools.notes.end());
  const Json weights = weights_json(spools, notes);
  note_updates(rank0, notes);
  const Json effective = choices_json(field_of(begin, member::kEffective));
  const bool ended = progress.state != RunState::kQueued && progress.state != RunState::kRunning;
  const Json exchange = exchange_json(spec, std::ssize(rank0), effective, ended ? &notes : nullptr);

  Json utilisation = {{"cpu", nullptr}, {"gpu", nullptr}};
  if (progress.utilisation.is_object()) utilisation.update(progress.utilisation);
  const Json operations = field_of(last_event(rank0, EventKind::kOperations), member::kOperationCosts);
  const bool no_codes = segments.empty() || segments.back()["exit_codes"].empty();
  const Json exit_codes = no_codes ? Json(nullptr) : segments.back()["exit_codes"];

  Json record = asked_json(spec, progress, begin, exit_codes);
  record["notes"] = notes;
  record["state"] = name_of(progress.state);
  record["stop_reason"] = stop_reason_json(rank0);
  record["requested"] = choices_json({{"precision", spec.precision},
                                      {"device", spec.device},
                                      {"by_layer", task.optimizer.options.value("by_layer", Json(nullptr))},
                                      {"bucket_mb", task.optimizer.options.value("bucket_mb", Json(nullptr))},
                                      {"overlap", task.optimizer.options.value("overlap", Json(nullptr))},
                                      {"checkpoint_every", checkpoint_every(spec.checkpoint)},
                                      {"profile", spec.profile},
                                      {"timeline", spec.timeline}});
  record["effective"] = effective;
  record["failure"] = failure_json(progress.failure);
  record["segments"] = segments;
  record["environment"] = environment_json(progress, begin);
  record["engine"] = spec::to_json(spec.engine);
  record["placement"] = progress.placement;
  record["allocation"] = progress.allocation;
  record["hosts"] = progress.hosts;
  record["data"] = data_json(spec, last_event(rank0, EventKind::kPrepared));
  record["storage"] = storage_json(spools);
  record["goal"] = goal_json(spec, rank0, times, evaluations, epochs);
  if (record["goal"].is_object() && record["data"]["official"] != true) record["goal"].erase("target_loss");
  if (const auto moment = goal_moment(rank0); moment && record["goal"].is_object()) {
    const bool at_its_end = derive_clocks(rank0, *moment).steps == clocks.steps;
    record["goal"]["exchange"] =
        at_its_end ? exchange : exchange_json(spec, std::ssize(rank0), effective, nullptr, *moment);
  }
  record["clocks"] = clocks_json(progress, rank0, clocks);
  record["steps_s"] = steps_json(clocks);
  record["exchange"] = exchange;
  record["throughput"] = throughput_json(spools, clocks, spec.workers);
  record["utilisation"] = utilisation;
  record["evaluations"] = evaluations;
  record["epochs"] = epochs;
  record["operations"] = operations.is_array() ? operations : Json::array();
  record["parameters"] = field_of(begin, member::kParameters);
  record["weights_sha256"] = weights;
  record["collectives"] = spec.collectives ? collectives_json(*spec.collectives, rank0) : Json(nullptr);
  record["custom"] = nullptr;
  if (spec::kind_of(spec) == spec::RunKind::kCommand) add_tracker_figures(record, spec, progress);
  return record;
}

}  // namespace mlbench::record
