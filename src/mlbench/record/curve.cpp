#include "mlbench/record/curve.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/record/clocks.h"
#include "mlbench/record/events.h"
#include "mlbench/record/measured_value.h"
#include "mlbench/record/record_parts.h"
#include "mlbench/spec/split.h"

namespace mlbench::record {

namespace {

constexpr size_t kNamedBadImages = 20;

// Makes the events of one kind in the order of keys; where `key` exists in two segments, the later segment counts.
template <typename Key, typename Make>
auto latest(const std::vector<RankSpool>& segments, EventKind kind, Key key, Make make) {
  std::map<decltype(key(Json())), decltype(make(0, Json()))> found;
  for (size_t i = 0; i < segments.size(); ++i) {
    for (const Json& event : events_of(segments[i], kind)) found.insert_or_assign(key(event), make(i, event));
  }
  std::vector<decltype(make(0, Json()))> list;
  for (auto& [unused, value] : found) list.push_back(std::move(value));
  return list;
}

// The metrics of an event; a value that is no number is left out.
NamedNumbers metrics_of(const Json& event) {
  NamedNumbers metrics;
  const Json given = get(event, member::kMetrics, Json::object());
  if (!given.is_object()) return metrics;
  for (const auto& [name, value] : given.items()) {
    if (const auto number = measured_value(value)) metrics.emplace_back(name, *number);
  }
  return metrics;
}

// Empty for NaN, and for a value that is no number.
std::optional<double> finite(const Json& value) {
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

// The best of all values of the goal's split, including evaluations at a limit; empty where there is none.
std::optional<BestValue> best_of(const spec::GoalSpec& goal, const std::vector<Evaluation>& evaluations,
                                 const std::vector<Epoch>& epochs) {
  std::optional<BestValue> best;
  const auto look_at = [&](const auto& seen) {
    const auto value = spec::find_number(seen.metrics, goal.metric);
    if (!value || !std::isfinite(*value)) return;
    const auto so_far = best ? std::optional(best->value) : std::nullopt;
    if (spec::is_better(goal, *value, so_far)) best = BestValue{*value, seen.epoch, seen.step, seen.train_s};
  };
  if (goal.split == spec::kTrainSplit) {
    for (const Epoch& epoch : epochs) look_at(epoch);
  } else {
    for (const Evaluation& evaluation : evaluations) {
      if (evaluation.split == goal.split) look_at(evaluation);
    }
  }
  return best;
}

// How an accelerator was used in the steps that the segment has of an epoch, behind which so many epochs were done.
std::optional<double> utilisation_in(const RankSpool& segment, double epochs_done) {
  const auto found = std::ranges::equal_range(
      segment.steps, epochs_done, {}, [](const StepRecord& record) { return static_cast<double>(record.epoch) + 1; });
  RankSpool steps;
  steps.steps.assign(found.begin(), found.end());
  return accelerator_utilisation(seconds_by_kind(derive_clocks({std::move(steps)})));
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
    const Segment info = i < progress.segments.size() ? progress.segments[i] : Segment{};
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

std::vector<Evaluation> evaluations_of(const std::vector<RankSpool>& segments, const std::vector<SegmentTimes>& times) {
  std::vector<int64_t> spent_ns;  // time on evaluations so far, in each segment
  for (const SegmentTimes& segment : times) spent_ns.push_back(segment.evaluation_before_ns);
  return latest(
      segments, EventKind::kEvaluation,
      [](const Json& event) { return std::pair(get(event, member::kStep), get(event, member::kSplit)); },
      [&](size_t i, const Json& event) {
        const int64_t train_ns = times[i].train_before_ns + get(event, member::kTrainNs);
        spent_ns[i] += get(event, member::kDurationNs);
        Evaluation evaluation;
        evaluation.step = find(event, member::kStep);
        evaluation.epoch = find(event, member::kEpoch);
        evaluation.samples = find(event, member::kSamples);
        evaluation.split = get(event, member::kSplit);
        evaluation.cadence = get(event, member::kCadence);
        evaluation.train_s = to_seconds(train_ns);
        evaluation.elapsed_s = to_seconds(train_ns + spent_ns[i]);
        evaluation.wall_s = times[i].wall_before_s + times[i].launch_s + to_seconds(get(event, member::kEndNs));
        evaluation.metrics = metrics_of(event);
        evaluation.duration_s = to_seconds(get(event, member::kDurationNs));
        evaluation.segment = static_cast<int64_t>(i) + 1;
        return evaluation;
      });
}

std::vector<Epoch> epochs_of(const std::vector<RankSpool>& segments, const std::vector<SegmentTimes>& times) {
  return latest(
      segments, EventKind::kEpoch, [](const Json& event) { return get(event, member::kEpoch); },
      [&](size_t i, const Json& event) {
        Epoch epoch;
        epoch.epoch = find(event, member::kEpoch);
        epoch.train_loss = finite(field_of(event, member::kTrainLoss));
        epoch.metrics = metrics_of(event);
        epoch.train_s = to_seconds(times[i].train_before_ns + get(event, member::kTrainNs));
        epoch.step = find(event, member::kStep);
        epoch.segment = static_cast<int64_t>(i) + 1;
        epoch.gradient_norm = find(event, member::kGradientNorm);
        if (epoch.gradient_norm) epoch.clipped_steps = find(event, member::kClippedSteps);
        if (epoch.epoch) epoch.accelerator_utilisation = utilisation_in(segments[i], *epoch.epoch);
        return epoch;
      });
}

BadImages bad_images_of(const std::vector<std::vector<RankSpool>>& ranks, int64_t allowed) {
  std::map<std::pair<std::string, int64_t>, BadImage> found;
  for (const auto& segments : ranks) {
    for (const RankSpool& spool : segments) {
      for (const Json& event : events_of(spool, EventKind::kBadImage)) {
        BadImage bad;
        bad.split = get(event, member::kSplit);
        bad.sample = get(event, member::kSample);
        bad.stand_in = get(event, member::kStandIn);
        bad.image = get(event, member::kImage);
        bad.message = get(event, member::kMessage);
        found.try_emplace({bad.split, bad.sample}, bad);
      }
    }
  }
  BadImages images;
  images.allowed = allowed;
  images.count = std::ssize(found);
  for (const auto& [unused, bad] : found) {
    if (images.first.size() < kNamedBadImages) images.first.push_back(bad);
  }
  return images;
}

std::optional<Goal> goal_of(const spec::RunSpec& spec, const std::vector<RankSpool>& segments,
                            const std::vector<SegmentTimes>& times, const std::vector<Evaluation>& evaluations,
                            const std::vector<Epoch>& epochs) {
  if (spec::measures_throughput(spec) || !spec::trains(spec)) return std::nullopt;
  const spec::GoalSpec& asked = spec.task.task.goal;
  Goal goal;
  goal.metric = asked.metric;
  goal.split = asked.split;
  goal.target = spec::goal_target(asked, spec.limits.light);
  goal.higher_is_better = asked.higher_is_better;
  goal.best = best_of(asked, evaluations, epochs);
  if (asked.target_loss > 0 && !spec.limits.light) goal.target_loss = asked.target_loss;
  if (goal.best) {
    goal.value = goal.best->value;
    goal.epoch = goal.best->epoch;
    goal.step = goal.best->step;
    goal.train_s = goal.best->train_s;
  }
  const auto moment = goal_moment(segments);
  if (!moment) return goal;
  const auto segment = static_cast<size_t>(moment->segment - 1);
  const Json event = events_of(segments[segment], EventKind::kGoal).front();
  goal.reached = true;
  goal.value = finite(field_of(event, member::kValue));
  goal.epoch = find(event, member::kEpoch);
  goal.step = find(event, member::kStep);
  goal.train_s = to_seconds(times[segment].train_before_ns + get(event, member::kTrainNs));
  goal.steps_s = seconds_by_kind(derive_clocks(segments, *moment));
  return goal;
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
