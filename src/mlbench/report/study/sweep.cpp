#include "mlbench/report/study/sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "mlbench/catalog/options/options.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/study/comparison.h"
#include "mlbench/report/study/scaling.h"
#include "mlbench/report/study/statistics.h"
#include "mlbench/spec/split.h"

namespace mlbench::report {

namespace {

// Adds a label where the run had fewer hosts than the nodes that were asked for.
void add_host_label(SweepPoint& point, const record::Record& record) {
  int64_t count = std::ssize(record.hosts);
  if (count == 0 && catalog::facts_of(record.executor).on_this_host) count = 1;
  if (count == 0 || count >= point.request.nodes) return;
  add_label(point.labels, count == 1 ? "ranks on one host" : fmt::format("ranks on {} hosts", count));
}

std::optional<double> last_accuracy(const record::Record& record, const std::string& metric, const std::string& split) {
  std::optional<double> last;
  const auto look_at = [&](const auto& row) {
    if (const auto value = spec::find_number(row.metrics, metric)) last = value;
  };
  if (split == spec::kTrainSplit) {
    std::ranges::for_each(record.epochs, look_at);
  } else {
    for (const record::Evaluation& evaluation : record.evaluations) {
      if (evaluation.split == split) look_at(evaluation);
    }
  }
  return last && std::isfinite(*last) ? last : std::nullopt;
}

SweepPoint sweep_point(const SweepAnswer& answer, const std::string& metric, const std::string& split) {
  SweepPoint point;
  point.request = answer.request;
  point.timeline = answer.timeline;
  auto [state, why] = state_of(answer.records, answer.refused);
  point.state = std::move(state);
  point.why = std::move(why);
  std::vector<double> rates, last, best;
  std::vector<const record::Record*> measured;
  for (const record::Record& record : answer.records) {
    point.runs.push_back(record.name);
    if (record.state != "finished") continue;
    for (const std::string& label : figures_of(record).labels) add_label(point.labels, label);
    add_host_label(point, record);
    if (const auto rate = record.throughput.samples_per_s; rate && *rate > 0) {
      rates.push_back(*rate);
      measured.push_back(&record);
    }
    if (const auto value = last_accuracy(record, metric, split)) last.push_back(*value);
    if (!record.goal) continue;
    const auto value = record.goal->best ? std::optional(record.goal->best->value) : record.goal->value;
    if (value) best.push_back(*value);
  }
  point.accuracy = median(last);
  point.best_accuracy = median(best);
  point.samples_per_s = median(rates);
  if (rates.empty()) return point;
  const auto [least, most] = std::ranges::minmax(rates);
  point.least = least;
  point.most = most;
  point.time = time_per_sample(*measured[median_index(rates)]);
  return point;
}

const record::Record* finished_record(const SweepAnswer& answer) {
  const auto found = std::ranges::find(answer.records, "finished", &record::Record::state);
  return found == answer.records.end() ? nullptr : &*found;
}

// The index of the point with the fewest nodes among those with a throughput and the same `lr_scaling`.
std::optional<size_t> baseline_of(const std::vector<SweepPoint>& points, bool lr_scaling) {
  std::optional<size_t> baseline;
  for (size_t i = 0; i < points.size(); ++i) {
    const SweepPoint& point = points[i];
    if (point.request.lr_scaling != lr_scaling || !point.samples_per_s) continue;
    if (!baseline || point.request.nodes < points[*baseline].request.nodes) baseline = i;
  }
  return baseline;
}

void scale_points(std::vector<SweepPoint>& points, const std::vector<SweepAnswer>& answers) {
  for (size_t i = 0; i < points.size(); ++i) {
    SweepPoint& point = points[i];
    const auto baseline = baseline_of(points, point.request.lr_scaling);
    if (!point.samples_per_s || !baseline) {
      point.no_efficiency = "nothing was measured";
      continue;
    }
    const SweepPoint& base = points[*baseline];
    const bool alone = *baseline == i || !base.time || !point.time;
    if (point.time) point.bottleneck = alone ? bottleneck_of(*point.time) : bottleneck_of(*base.time, *point.time);
    const record::Record *one = finished_record(answers[*baseline]), *other = finished_record(answers[i]);
    Keys keys = Conditions(*other).differences(Conditions(*one));
    point.crowded = std::erase_if(keys, [](const ComparisonKey* key) { return key->name == "oversubscribed"; }) > 0;
    point.no_efficiency = why_no_speed_up(keys);
    if (!point.no_efficiency.empty()) continue;
    const Scaling scaling =
        scaling_of_rate(*base.samples_per_s, base.request.workers(), *point.samples_per_s, point.request.workers());
    point.speed_up = scaling.speed_up;
    point.efficiency = scaling.efficiency;
  }
}

void note_labels(Sweep& sweep, const std::vector<const record::Record*>& compared) {
  const auto any = [&](const auto& predicate) { return std::ranges::any_of(sweep.nodes, predicate); };
  if (any([](const SweepPoint& point) { return point.crowded && point.efficiency; })) {
    sweep.notes.emplace_back(
        "efficiencies in brackets are between runs of which one had more threads than cores: they measure the "
        "scheduler, too");
  }
  if (any([](const SweepPoint& point) { return std::ranges::count(point.labels, "ranks on one host") > 0; })) {
    sweep.notes.emplace_back(
        "node counts above 1 stood on one host: they share its cores, its memory and no network, and say nothing of a "
        "cluster");
  }
  const bool several =
      std::ranges::any_of(sweep.settings, [](const auto& one) { return one.request.setting.inter_op > 1; });
  if (several && std::ranges::count(compared, "torch", &record::Record::framework) > 0) {
    sweep.notes.emplace_back(
        "inter-op: a training step of framework torch launches no operation on that pool, so what it seems to change "
        "there is noise");
  }
}

}  // namespace

PointState state_of(const std::vector<record::Record>& records, const std::string& refused) {
  std::vector<std::string> wrong;
  std::string state = records.empty() ? "not run" : "finished";
  for (const record::Record& record : records) {
    if (record.state == "finished") continue;
    if (state != "failed") state = record.state;
    const std::string message = record.failure ? record.failure->message : "";
    wrong.push_back(fmt::format("{} {}{}", record.name, record.state, message.empty() ? "" : ": " + message));
  }
  if (!refused.empty()) {
    state = "failed";
    wrong.push_back(refused);
  }
  return {std::move(state), fmt::format("{}", fmt::join(wrong, "; "))};
}

std::string short_name(const SweepSetting& setting) {
  return fmt::format("p{}t{}i{}", setting.procs_per_node, setting.intra_op, setting.inter_op);
}

std::vector<SweepSetting> settings_of(const std::vector<int64_t>& procs_per_node, const std::vector<int64_t>& intra_op,
                                      const std::vector<int64_t>& inter_op) {
  std::vector<SweepSetting> settings;
  for (const int64_t procs : procs_per_node) {
    for (const int64_t intra : intra_op) {
      for (const int64_t inter : inter_op) {
        const SweepSetting one{procs, intra, inter};
        if (std::ranges::find(settings, one) == settings.end()) settings.push_back(one);
      }
    }
  }
  return settings;
}

std::optional<WorkerTime> time_per_sample(const record::Record& record) {
  const double train_s = record.clocks.train_s.value_or(0), rate = record.throughput.samples_per_s.value_or(0);
  if (rate <= 0 || record.workers.value_or(0) <= 0) return std::nullopt;
  auto time = worker_time(sums_of(record), train_s, 1, 1);
  if (!time) return std::nullopt;
  for (double& part : time->seconds) part *= static_cast<double>(*record.workers) / rate / train_s;
  return time;
}

Bottleneck bottleneck_of(const WorkerTime& here) {
  const TimePart part = largest_of(here.seconds);
  const double share = part_of(here.seconds, part) / total_of(here.seconds);
  return {part, share, fmt::format("{}: {} of the time", name_of(part), format_percent(share))};
}

Bottleneck bottleneck_of(const WorkerTime& baseline, const WorkerTime& here) {
  const auto lost = lost_efficiency(baseline, here);
  if (!lost) return {std::nullopt, 0, "none: nearly no efficiency is lost"};
  const TimePart part = largest_of(lost->shares);
  return {part, part_of(lost->shares, part), largest_loss_words(*lost)};
}

std::optional<size_t> best_of(const std::vector<SweepPoint>& settings) {
  std::optional<size_t> best;
  for (size_t i = 0; i < settings.size(); ++i) {
    if (!settings[i].finished() || !settings[i].samples_per_s) continue;
    if (!best || *settings[i].samples_per_s > *settings[*best].samples_per_s) best = i;
  }
  return best;
}

Sweep analyse_sweep(const std::vector<SweepAnswer>& settings, const std::vector<SweepAnswer>& nodes) {
  Sweep sweep;
  std::vector<const record::Record*> compared;
  for (const auto* answers : {&settings, &nodes}) {
    for (const SweepAnswer& answer : *answers) {
      for (const record::Record& record : answer.records) {
        if (sweep.task.empty()) sweep.task = record.task;
        if (sweep.metric.empty() && record.goal) sweep.metric = record.goal->metric;
        if (sweep.split.empty() && record.goal) sweep.split = record.goal->split;
        if (record.state == "finished") compared.push_back(&record);
      }
    }
  }
  for (const SweepAnswer& answer : settings) sweep.settings.push_back(sweep_point(answer, sweep.metric, sweep.split));
  for (const SweepAnswer& answer : nodes) sweep.nodes.push_back(sweep_point(answer, sweep.metric, sweep.split));
  sweep.best = best_of(sweep.settings);
  scale_points(sweep.nodes, nodes);
  for (SweepPoint& point : sweep.settings) {
    if (point.time) point.bottleneck = bottleneck_of(*point.time);
  }
  note_labels(sweep, compared);
  add_comparison_notes(compared, sweep.notes);
  return sweep;
}

}  // namespace mlbench::report
