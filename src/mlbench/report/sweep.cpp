#include "mlbench/report/sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "mlbench/record/measured_value.h"
#include "mlbench/report/comparison.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/scaling.h"
#include "mlbench/report/statistics.h"

namespace mlbench::report {

namespace {

// Less than this part of the baseline's time is no loss to speak of.
constexpr double kNoLoss = 0.05;

double& part_in(TimeParts& parts, TimePart part) { return parts[static_cast<size_t>(part)]; }

std::string_view meaning_of(TimePart part) {
  switch (part) {
    case TimePart::kCompute:
      return "the same work takes longer: cores or memory bandwidth are shared";
    case TimePart::kWaiting:
      return "ranks wait for the slowest one";
    case TimePart::kCommunication:
      return "exchange of the gradient that no computation hides";
    case TimePart::kInput:
      return "workers wait for their batches";
    case TimePart::kOther:
      return "metrics and checkpoints";
  }
  return "";
}

// Nodes that were asked for and hosts that there were are not the same.
void add_host_label(SweepPoint& point, const Json& record) {
  const Json hosts = record.value("hosts", Json::array());
  int64_t count = hosts.is_array() ? static_cast<int64_t>(hosts.size()) : 0;
  if (count == 0 && text(record, "/executor") == "local") count = 1;
  if (count == 0 || count >= point.request.nodes) return;
  add_label(point.labels, count == 1 ? "ranks on one host" : fmt::format("ranks on {} hosts", count));
}

std::optional<double> last_accuracy(const Json& record, const std::string& metric, const std::string& split) {
  const Json rows = record.value(split == "train" ? "epochs" : "evaluations", Json::array());
  if (!rows.is_array()) return std::nullopt;
  std::optional<double> last;
  for (const Json& row : rows) {
    if (split != "train" && text(row, "/split") != split) continue;
    const Json metrics = row.value("metrics", Json::object());
    if (!metrics.is_object() || !metrics.contains(metric)) continue;
    if (const auto value = record::measured_value(metrics.at(metric))) last = value;
  }
  return last && std::isfinite(*last) ? last : std::nullopt;
}

void set_state(SweepPoint& point, const SweepAnswer& answer) {
  std::vector<std::string> wrong;
  point.state = answer.records.empty() ? "not run" : "finished";
  for (const Json& record : answer.records) {
    const std::string state = text(record, "/state");
    if (state == "finished") continue;
    if (point.state != "failed") point.state = state;
    const std::string message = text(record, "/failure/message");
    wrong.push_back(fmt::format("{} {}{}", text(record, "/name"), state, message.empty() ? "" : ": " + message));
  }
  if (!answer.refused.empty()) {
    point.state = "failed";
    wrong.push_back(answer.refused);
  }
  point.why = fmt::format("{}", fmt::join(wrong, "; "));
}

SweepPoint sweep_point(const SweepAnswer& answer, const std::string& metric, const std::string& split) {
  SweepPoint point;
  point.request = answer.request;
  point.timeline = answer.timeline;
  set_state(point, answer);
  std::vector<double> rates, last, best;
  std::vector<const Json*> measured;
  for (const Json& record : answer.records) {
    point.runs.push_back(text(record, "/name"));
    if (text(record, "/state") != "finished") continue;
    for (const std::string& label : figures_of(record).labels) add_label(point.labels, label);
    add_host_label(point, record);
    if (const auto rate = number(record, "/throughput/samples_per_s"); rate && *rate > 0) {
      rates.push_back(*rate);
      measured.push_back(&record);
    }
    if (const auto value = last_accuracy(record, metric, split)) last.push_back(*value);
    const auto known = number(record, "/goal/best/value");
    if (const auto value = known ? known : number(record, "/goal/value")) best.push_back(*value);
  }
  point.accuracy = median(last);
  point.best_accuracy = median(best);
  point.samples_per_s = median(rates);
  if (rates.empty()) return point;
  const auto [least, most] = std::ranges::minmax(rates);
  point.least = least;
  point.most = most;
  point.parts = time_parts(*measured[median_index(rates)]);
  return point;
}

const Json* finished_record(const SweepAnswer& answer) {
  const auto found =
      std::ranges::find_if(answer.records, [](const Json& record) { return text(record, "/state") == "finished"; });
  return found == answer.records.end() ? nullptr : &*found;
}

// The point of the fewest nodes that has a throughput, of the same learning rates.
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
    const bool alone = *baseline == i || !base.parts || !point.parts;
    if (point.parts) point.bottleneck = alone ? bottleneck_of(*point.parts) : bottleneck_of(*base.parts, *point.parts);
    const Json *one = finished_record(answers[*baseline]), *other = finished_record(answers[i]);
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

void note_labels(Sweep& sweep) {
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
  if (several) {
    sweep.notes.emplace_back(
        "inter-op: a training step of these tasks launches no operation on that pool, so what it seems to change is "
        "noise");
  }
}

}  // namespace

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

std::string_view name_of(TimePart part) {
  static constexpr std::array<std::string_view, kTimeParts> kNames = {"compute", "waiting", "communication", "input",
                                                                      "other"};
  return kNames[static_cast<size_t>(part)];
}

double total_of(const TimeParts& parts) { return std::accumulate(parts.begin(), parts.end(), 0.0); }

std::optional<TimeParts> time_parts(const Json& record) {
  const auto train = number(record, "/clocks/train_s"), rate = number(record, "/throughput/samples_per_s");
  const auto workers = number(record, "/workers");
  if (!train || !rate || !workers || *train <= 0 || *rate <= 0 || !number(record, "/steps_s/backprop")) {
    return std::nullopt;
  }
  const auto seconds = [&](const char* kind) {
    return number(record, fmt::format("/steps_s/{}", kind).c_str()).value_or(0);
  };
  TimeParts parts{};
  for (const char* kind : {"init", "fwd_pass", "comp_loss", "backprop", "opt_step"}) {
    part_in(parts, TimePart::kCompute) += seconds(kind);
  }
  const double exchange = seconds("agg");
  const bool hides = number(record, "/exchange/hidden_s/0").value_or(0) > 0;
  const double waited = hides ? 0 : number(record, "/exchange/wait_s/0").value_or(0);
  part_in(parts, TimePart::kWaiting) = std::min(waited, exchange);
  part_in(parts, TimePart::kCommunication) = exchange - part_in(parts, TimePart::kWaiting);
  part_in(parts, TimePart::kInput) = seconds("batch_load");
  part_in(parts, TimePart::kOther) = std::max(0.0, *train - total_of(parts));
  for (double& part : parts) part *= *workers / *rate / *train;
  return parts;
}

Bottleneck bottleneck_of(const TimeParts& here) {
  Bottleneck found;
  const auto most = std::ranges::max_element(here);
  const auto part = static_cast<TimePart>(most - here.begin());
  found.part = part;
  found.share = *most / total_of(here);
  found.text = fmt::format("{}: {} of the time", name_of(part), format_percent(found.share));
  return found;
}

Bottleneck bottleneck_of(const TimeParts& baseline, const TimeParts& here) {
  Bottleneck found;
  const double lost = total_of(here) - total_of(baseline);
  if (lost <= kNoLoss * total_of(baseline)) {
    found.text = "none: nearly nothing is lost";
    return found;
  }
  TimeParts growth{};
  for (size_t i = 0; i < kTimeParts; ++i) growth[i] = here[i] - baseline[i];
  const auto most = std::ranges::max_element(growth);
  const auto part = static_cast<TimePart>(most - growth.begin());
  found.part = part;
  found.share = std::min(1.0, *most / lost);
  found.text = fmt::format("{}: {} of the loss ({})", name_of(part), format_percent(found.share), meaning_of(part));
  return found;
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
  std::vector<const Json*> compared;
  for (const auto* answers : {&settings, &nodes}) {
    for (const SweepAnswer& answer : *answers) {
      for (const Json& record : answer.records) {
        if (sweep.task.empty()) sweep.task = text(record, "/task");
        if (sweep.metric.empty()) sweep.metric = text(record, "/goal/metric");
        if (sweep.split.empty()) sweep.split = text(record, "/goal/split");
        if (text(record, "/state") == "finished") compared.push_back(&record);
      }
    }
  }
  for (const SweepAnswer& answer : settings) sweep.settings.push_back(sweep_point(answer, sweep.metric, sweep.split));
  for (const SweepAnswer& answer : nodes) sweep.nodes.push_back(sweep_point(answer, sweep.metric, sweep.split));
  sweep.best = best_of(sweep.settings);
  scale_points(sweep.nodes, nodes);
  for (SweepPoint& point : sweep.settings) {
    if (point.parts) point.bottleneck = bottleneck_of(*point.parts);
  }
  note_labels(sweep);
  if (std::string note = version_note(compared); !note.empty()) sweep.notes.push_back(std::move(note));
  return sweep;
}

}  // namespace mlbench::report
