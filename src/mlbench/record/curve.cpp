#include "mlbench/record/curve.h"

#include <algorithm>
#include <map>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/record/clocks.h"
#include "mlbench/record/events.h"
#include "mlbench/record/record_parts.h"

namespace mlbench::record {

namespace {

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

// Of all values of the goal's split, those that a limit brought about included; null where there is none.
Json best_json(const spec::GoalSpec& goal, const Json& values) {
  Json best = nullptr;
  for (const Json& seen : values) {
    if (seen.contains("split") && seen["split"] != goal.split) continue;
    const Json value = field_of(seen["metrics"], goal.metric);
    if (!value.is_number()) continue;
    const auto so_far = best.is_null() ? std::nullopt : std::optional(best["value"].get<double>());
    if (!spec::is_better(goal, value.get<double>(), so_far)) continue;
    best = {{"value", value}};
    for (const char* name : {"epoch", "step", "train_s"}) best[name] = seen[name];
  }
  return best;
}

}  // namespace

std::optional<std::chrono::system_clock::time_point> parse_stamp(const std::string& text) {
  try {
    if (!text.empty()) return parse_utc(text);
  } catch (const UserError&) {
  }
  return std::nullopt;
}

std::vector<SegmentTimes> segment_times(const std::vector<RankSpool>& spools, const RunProgress& progress) {
  std::vector<SegmentTimes> all;
  for (size_t i = 0; i < spools.size(); ++i) {
    const RankSpool& spool = spools[i];
    SegmentTimes times;
    if (i > 0) {
      times.train_before_ns = all[i - 1].train_before_ns + derive_clocks({spools[i - 1]}).train_ns;
      times.evaluation_before_ns = all[i - 1].evaluation_before_ns + evaluation_ns(spools[i - 1]);
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
    times.wall_s = times.launch_s + to_seconds(end_ns);
    if (launched && ended) times.wall_s = std::max(times.wall_s, to_seconds(*ended - *launched));
    all.push_back(times);
  }
  return all;
}

Json evaluations_json(const std::vector<RankSpool>& segments, const std::vector<SegmentTimes>& times) {
  std::vector<int64_t> spent_ns;  // on evaluations so far, in each segment
  for (const SegmentTimes& segment : times) spent_ns.push_back(segment.evaluation_before_ns);
  return latest(
      segments, EventKind::kEvaluation,
      [](const Json& event) { return std::pair(get(event, member::kStep), get(event, member::kSplit)); },
      [&](size_t i, const Json& event) {
        const int64_t train_ns = times[i].train_before_ns + get(event, member::kTrainNs);
        spent_ns[i] += get(event, member::kDurationNs);
        const double wall_s = times[i].wall_before_s + times[i].launch_s + to_seconds(get(event, member::kEndNs));
        return Json{{"step", field_of(event, member::kStep)},
                    {"epoch", field_of(event, member::kEpoch)},
                    {"samples", field_of(event, member::kSamples)},
                    {"split", field_of(event, member::kSplit)},
                    {"cadence", get(event, member::kCadence)},
                    {"train_s", to_seconds(train_ns)},
                    {"elapsed_s", to_seconds(train_ns + spent_ns[i])},
                    {"wall_s", wall_s},
                    {"metrics", get(event, member::kMetrics, Json::object())},
                    {"duration_s", to_seconds(get(event, member::kDurationNs))},
                    {"segment", i + 1}};
      });
}

Json epochs_json(const std::vector<RankSpool>& segments, const std::vector<SegmentTimes>& times) {
  return latest(
      segments, EventKind::kEpoch, [](const Json& event) { return get(event, member::kEpoch); },
      [&](size_t i, const Json& event) {
        Json epoch = {{"epoch", field_of(event, member::kEpoch)},
                      {"train_loss", field_of(event, member::kTrainLoss)},
                      {"metrics", get(event, member::kMetrics, Json::object())},
                      {"train_s", to_seconds(times[i].train_before_ns + get(event, member::kTrainNs))},
                      {"step", field_of(event, member::kStep)},
                      {"segment", i + 1}};
        if (const auto norm = find(event, member::kGradientNorm)) {
          epoch["gradient_norm"] = *norm;
          epoch["clipped_steps"] = field_of(event, member::kClippedSteps);
        }
        return epoch;
      });
}

Json goal_json(const spec::RunSpec& spec, const std::vector<RankSpool>& segments,
               const std::vector<SegmentTimes>& times, const Json& evaluations, const Json& epochs) {
  if (spec.fixed_batch || !spec::trains(spec)) return nullptr;
  const spec::GoalSpec& goal = spec.task.task.goal;
  const Json best = best_json(goal, goal.split == "train" ? epochs : evaluations);
  Json json = {{"metric", goal.metric},
               {"split", goal.split},
               {"target", spec::goal_target(goal, spec.limits.light)},
               {"higher_is_better", goal.higher_is_better},
               {"reached", false}};
  for (const char* name : {"value", "epoch", "step", "train_s"}) json[name] = field_of(best, name);
  json["best"] = best;
  if (goal.target_loss > 0 && !spec.limits.light) json["target_loss"] = goal.target_loss;
  const auto moment = goal_moment(segments);
  if (!moment) return json;
  const auto segment = static_cast<size_t>(moment->segment - 1);
  const Json event = events_of(segments[segment], EventKind::kGoal).front();
  json["reached"] = true;
  json["value"] = field_of(event, member::kValue);
  json["epoch"] = field_of(event, member::kEpoch);
  json["step"] = field_of(event, member::kStep);
  json["train_s"] = to_seconds(times[segment].train_before_ns + get(event, member::kTrainNs));
  json["steps_s"] = steps_json(derive_clocks(segments, *moment));
  return json;
}

std::optional<Moment> goal_moment(const std::vector<RankSpool>& segments) {
  for (size_t i = segments.size(); i-- > 0;) {
    for (const Json& event : events_of(segments[i], EventKind::kGoal)) {
      return Moment{static_cast<int64_t>(i) + 1, static_cast<uint64_t>(get(event, member::kStep))};
    }
  }
  return std::nullopt;
}

}  // namespace mlbench::record
