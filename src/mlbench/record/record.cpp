#include "mlbench/record/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/record/events.h"
#include "mlbench/record/exchange.h"
#include "mlbench/record/tracker_lines.h"

namespace mlbench::record {

namespace {

constexpr int64_t kSchemaVersion = 1;

double seconds(int64_t ns) { return static_cast<double>(ns) / 1e9; }
Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }
template <typename T>
Json positive_or_null(T value) {
  return value > T{} ? Json(value) : Json(nullptr);
}
// Null as well when `object` is no object: a rank may not have said that yet.
Json field_of(const Json& object, std::string_view name) {
  return object.is_object() ? object.value(name, Json(nullptr)) : Json(nullptr);
}

template <typename T>
Json field_of(const Json& event, const Member<T>& member) {
  return field_of(event, member.name);
}

// ---- what the spools say --------------------------------------------------------------------------------------------

struct Spools {
  std::vector<std::vector<RankSpool>> ranks;  // [rank][segment - 1]
  std::vector<std::string> notes;
};

std::string left_out(const std::filesystem::path& file, int64_t lines) {
  return fmt::format("{}: {} line{} left out: damaged, nested deeper than {} or too long", file.filename().string(),
                     lines, lines == 1 ? "" : "s", kDeepestNesting);
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

std::vector<Json> events_of(const RankSpool& spool, EventKind kind) {
  std::vector<Json> found;
  std::ranges::copy_if(spool.events, std::back_inserter(found), [&](const Json& event) { return is(event, kind); });
  return found;
}

// The last event of that kind in any segment.
Json last_event(const std::vector<RankSpool>& segments, EventKind kind) {
  for (auto spool = segments.rbegin(); spool != segments.rend(); ++spool) {
    const auto found = events_of(*spool, kind);
    if (!found.empty()) return found.back();
  }
  return Json::object();
}

// ---- times of rank 0 over segments ----------------------------------------------------------------------------------

std::optional<std::chrono::system_clock::time_point> parse_stamp(const std::string& text) {
  try {
    if (!text.empty()) return parse_utc(text);
  } catch (const UserError&) {
  }
  return std::nullopt;
}

struct SegmentTimes {
  double launch_s = 0;  // from the segment's launch to the start of rank 0's clock
  double wall_s = 0;    // its whole length, as far as known
  int64_t train_before_ns = 0;
  double wall_before_s = 0;
  std::vector<std::pair<uint64_t, int64_t>> train_ns_until;  // by the number of steps done
};

std::vector<std::pair<uint64_t, int64_t>> train_ns_until(const std::vector<StepRecord>& steps) {
  std::vector<std::pair<uint64_t, int64_t>> rows;
  rows.reserve(steps.size());
  for (const StepRecord& record : steps) rows.emplace_back(record.first_step + record.count, record.total_ns());
  std::sort(rows.begin(), rows.end());
  int64_t sum = 0;
  for (auto& [end, ns] : rows) ns = sum += ns;
  return rows;
}

std::vector<SegmentTimes> segment_times(const std::vector<RankSpool>& spools, const RunProgress& progress) {
  std::vector<SegmentTimes> all;
  for (size_t i = 0; i < spools.size(); ++i) {
    const RankSpool& spool = spools[i];
    SegmentTimes times;
    times.train_ns_until = train_ns_until(spool.steps);
    if (i > 0) {
      times.train_before_ns = all[i - 1].train_before_ns + derive_clocks({spools[i - 1]}).train_ns;
      times.wall_before_s = all[i - 1].wall_before_s + all[i - 1].wall_s;
    }
    int64_t end_ns = spool.steps.empty() ? 0 : spool.steps.back().end_ns;
    for (const Json& event : spool.events) end_ns = std::max(end_ns, get(event, member::kEndNs));
    const SegmentInfo info = i < progress.segments.size() ? progress.segments[i] : SegmentInfo{};
    const auto launched = parse_stamp(info.started_at);
    const auto ended = parse_stamp(info.finished_at);
    if (launched && spool.header.start_wall_us > 0) {
      const std::chrono::system_clock::time_point started{std::chrono::microseconds(spool.header.start_wall_us)};
      times.launch_s = std::max(0.0, to_seconds(started - *launched));
    }
    times.wall_s = times.launch_s + seconds(end_ns);
    if (launched && ended) times.wall_s = std::max(times.wall_s, to_seconds(*ended - *launched));
    all.push_back(times);
  }
  return all;
}

// Train clock of rank 0 within a segment when `step` steps were done, for events that don't carry it.
int64_t train_ns_at(const SegmentTimes& times, const Json& event) {
  if (const auto given = find(event, member::kTrainNs)) return *given;
  const auto step = static_cast<uint64_t>(get(event, member::kStep));
  const auto behind = std::upper_bound(times.train_ns_until.begin(), times.train_ns_until.end(), step,
                                       [](uint64_t wanted, const auto& row) { return wanted < row.first; });
  return behind == times.train_ns_until.begin() ? 0 : std::prev(behind)->second;
}

// ---- parts of the record --------------------------------------------------------------------------------------------

Json segments_json(const RunProgress& progress, const Spools& spools, const std::vector<SegmentTimes>& times) {
  Json list = Json::array();
  for (size_t i = 0; i < progress.segments.size(); ++i) {
    const SegmentInfo& info = progress.segments[i];
    const Clocks clocks = derive_clocks({spools.ranks.at(0).at(i)});
    Json codes = Json::array();
    for (const auto& code : info.exit_codes) codes.push_back(code ? Json(*code) : Json(nullptr));
    list.push_back({{"index", info.index},
                    {"start_step", info.start_step},
                    {"started_at", text_or_null(info.started_at)},
                    {"finished_at", text_or_null(info.finished_at)},
                    {"lost_s", info.lost_s},
                    {"exit_codes", codes},
                    {"steps", clocks.steps},
                    {"wall_s", times[i].wall_s},
                    {"train_s", seconds(clocks.train_ns)},
                    {"train_legacy_s", seconds(clocks.train_legacy_ns)}});
  }
  return list;
}

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

// Events of one kind over the segments, the later segment's where `key` exists twice, in the order of keys.
template <typename Key, typename Make>
auto latest(const std::vector<RankSpool>& segments, EventKind kind, Key key, Make make) {
  std::map<decltype(key(Json())), Json> found;
  for (size_t i = 0; i < segments.size(); ++i) {
    for (const Json& event : events_of(segments[i], kind)) found[key(event)] = make(i, event);
  }
  Json list = Json::array();
  for (auto& [unused, value] : found) list.push_back(std::move(value));
  return list;
}

Json evaluations_json(const std::vector<RankSpool>& segments, const std::vector<SegmentTimes>& times) {
  return latest(
      segments, EventKind::kEvaluation,
      [](const Json& event) { return std::pair(get(event, member::kStep), get(event, member::kSplit)); },
      [&](size_t i, const Json& event) {
        const double wall_s = times[i].wall_before_s + times[i].launch_s + seconds(get(event, member::kEndNs));
        return Json{{"step", field_of(event, member::kStep)},
                    {"epoch", field_of(event, member::kEpoch)},
                    {"samples", field_of(event, member::kSamples)},
                    {"split", field_of(event, member::kSplit)},
                    {"train_s", seconds(times[i].train_before_ns + train_ns_at(times[i], event))},
                    {"wall_s", wall_s},
                    {"metrics", get(event, member::kMetrics, Json::object())},
                    {"duration_s", seconds(get(event, member::kDurationNs))},
                    {"segment", i + 1}};
      });
}

Json epochs_json(const std::vector<RankSpool>& segments, const std::vector<SegmentTimes>& times) {
  return latest(
      segments, EventKind::kEpoch, [](const Json& event) { return get(event, member::kEpoch); },
      [&](size_t i, const Json& event) {
        return Json{{"epoch", field_of(event, member::kEpoch)},
                    {"train_loss", field_of(event, member::kTrainLoss)},
                    {"metrics", get(event, member::kMetrics, Json::object())},
                    {"train_s", seconds(times[i].train_before_ns + train_ns_at(times[i], event))},
                    {"step", field_of(event, member::kStep)},
                    {"segment", i + 1}};
      });
}

Json goal_json(const spec::RunSpec& spec, const std::vector<RankSpool>& segments,
               const std::vector<SegmentTimes>& times, const Json& evaluations, const Json& epochs) {
  if (spec.fixed_batch || spec::is_custom(spec)) return nullptr;
  const spec::GoalSpec& goal = spec.task.task.goal;
  Json json = {{"metric", goal.metric},
               {"split", goal.split},
               {"target", spec::goal_target(goal, spec.limits.light)},
               {"higher_is_better", goal.higher_is_better},
               {"reached", false},
               {"value", nullptr},
               {"epoch", nullptr},
               {"step", nullptr},
               {"train_s", nullptr}};
  if (goal.target_loss > 0 && !spec.limits.light) json["target_loss"] = goal.target_loss;
  for (size_t i = segments.size(); i-- > 0;) {
    for (const Json& event : events_of(segments[i], EventKind::kGoal)) {
      json["reached"] = true;
      json["value"] = field_of(event, member::kValue);
      json["epoch"] = field_of(event, member::kEpoch);
      json["step"] = field_of(event, member::kStep);
      json["train_s"] = seconds(times[i].train_before_ns + train_ns_at(times[i], event));
      return json;
    }
  }
  for (const Json& seen : goal.split == "train" ? epochs : evaluations) {
    if (goal.split != "train" && seen["split"] != goal.split) continue;
    const Json value = field_of(seen["metrics"], goal.metric);
    if (!value.is_number()) continue;
    const Json& best = json["value"];
    if (!spec::is_better(goal, value.get<double>(), best.is_null() ? std::nullopt : std::optional(best.get<double>())))
      continue;
    json["value"] = value;
    for (const char* name : {"epoch", "step", "train_s"}) json[name] = seen[name];
  }
  return json;
}

Json clocks_json(const RunProgress& progress, const std::vector<RankSpool>& segments, const Clocks& clocks) {
  Json prepare = nullptr;
  for (const RankSpool& spool : segments) {
    for (const Json& event : events_of(spool, EventKind::kPrepared)) {
      prepare = (prepare.is_null() ? 0.0 : prepare.get<double>()) + get(event, member::kPrepareS);
    }
  }
  return {{"wall_s", progress.wall_s},
          {"prepare_s", prepare},
          {"train_s", seconds(clocks.train_ns)},
          {"train_legacy_s", seconds(clocks.train_legacy_ns)}};
}

Json median_rate(const std::vector<RankSpool>& segments, int64_t workers) {
  std::vector<std::pair<double, uint64_t>> rates;  // samples per second, steps
  uint64_t steps = 0;
  for (const RankSpool& spool : segments) {
    for (const StepRecord& record : spool.steps) {
      if (record.total_ns() <= 0) continue;
      rates.emplace_back(
          static_cast<double>(record.samples) * static_cast<double>(workers) / seconds(record.total_ns()),
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
  const double train_s = seconds(clocks.train_ns);
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
  record["workers"] = spec.workers;
  record["threads_per_worker"] = spec.threads_per_worker;
  record["oversubscribed"] = spec.oversubscribed || progress.oversubscribed;
  record["seed"] = spec.seed;
  record["exit_codes"] = exit_codes;
  record["limits"] = {{"max_steps", positive_or_null(spec.limits.max_steps)},
                      {"max_epochs", positive_or_null(spec.limits.max_epochs)},
                      {"max_time_s", positive_or_null(spec.limits.max_time_s)},
                      {"light", spec.limits.light}};
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
  record["requested"] = choices_json({{"precision", spec.precision},
                                      {"device", spec.device},
                                      {"by_layer", task.optimizer.options.value("by_layer", Json(nullptr))},
                                      {"bucket_mb", task.optimizer.options.value("bucket_mb", Json(nullptr))}});
  record["effective"] = effective;
  record["failure"] = failure_json(progress.failure);
  record["segments"] = segments;
  record["environment"] = environment_json(progress, begin);
  record["hosts"] = progress.hosts;
  record["data"] = data_json(spec, last_event(rank0, EventKind::kPrepared));
  record["storage"] = {{"kind", "local"}, {"endpoint", nullptr}, {"objects", nullptr}, {"bytes", nullptr}};
  record["goal"] = goal_json(spec, rank0, times, evaluations, epochs);
  if (record["goal"].is_object() && record["data"]["official"] != true) record["goal"].erase("target_loss");
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
  record["custom"] = nullptr;
  if (spec::is_custom(spec)) add_tracker_figures(record, spec, progress);
  return record;
}

}  // namespace mlbench::record
