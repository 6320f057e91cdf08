#include "mlbench/report/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "mlbench/base/text.h"
#include "mlbench/record/clocks.h"
#include "mlbench/report/collectives/result.h"
#include "mlbench/report/draw/table.h"
#include "mlbench/spec/communication.h"

namespace mlbench::report {

namespace {

const Json* find(const Json& document, const char* pointer) {
  const Json::json_pointer path{std::string(pointer)};
  return document.contains(path) ? &document.at(path) : nullptr;
}

std::optional<double> wall_to_goal(const record::Record& record) {
  if (!reached_goal(record)) return std::nullopt;
  for (const record::Evaluation& evaluation : record.evaluations) {
    const bool meets = record.goal->step && evaluation.step == record.goal->step;
    if (meets && evaluation.split == record.goal->split && evaluation.wall_s) return evaluation.wall_s;
  }
  // A goal on training data is met by no evaluation.
  return ended_at_goal(record) ? record.clocks.wall_s : std::nullopt;
}

std::string last_evaluation(const record::Record& record) {
  const auto value = last_value(record);
  return value ? fmt::format("{} {}", record.goal->metric, format_metric(*value)) : "";
}

// "160 rows, 3.21 GB/s, 0 wrong": the rows so far, their mean bus bandwidth, and how many had wrong results.
std::string collectives_words(const std::vector<record::CollectiveRow>& rows, int64_t wrong) {
  if (rows.empty()) return "";
  double bandwidth = 0, forms = 0;
  for (const record::CollectiveRow& row : rows) {
    for (const auto* form : {&row.out_of_place, &row.in_place}) {
      const double bus = *form ? (*form)->bus_bw.value_or(0) : 0;
      if (bus <= 0) continue;
      bandwidth += bus;
      ++forms;
    }
  }
  std::string words = counted(std::ssize(rows), "row");
  if (forms > 0) words += fmt::format(", {:.3g} GB/s", bandwidth / forms);
  return words + fmt::format(", {} wrong", wrong);
}

std::vector<std::string> labels_of(const record::Record& record) {
  std::vector<std::string> labels;
  const auto add = [&](bool holds, std::string label) {
    if (holds) labels.push_back(std::move(label));
  };
  add(record.data.synthetic, "synthetic");
  add(!record.data.synthetic && record.data.official == false, "unofficial data");
  add(record.data.fixed_batch == true, "fixed batch");
  if (const int64_t bad = bad_images_of(record); bad > 0) labels.push_back(counted(bad, "bad image"));
  add(record.emulated_step_s.has_value(), "emulated");
  add(spec::on_made_network(record.comm_stack), "synthetic network");
  add(record.division == "open", "open");
  add(record.division == "own", "own task");
  add(record.division == "custom", "custom");
  add(record.division == "throughput", "throughput only");
  add(record.limits.light, "light");
  add(record.limits.to_the_end, "to the end");
  add(record.oversubscribed == true, "oversubscribed");
  add(record.shared_host == true, "shared host");
  add(record.segments.size() > 1, fmt::format("{} segments", record.segments.size()));
  return labels;
}

}  // namespace

std::optional<double> number(const Json& document, const char* pointer) {
  const Json* value = find(document, pointer);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->get<double>();
}

std::string text(const Json& document, const char* pointer) {
  const Json* value = find(document, pointer);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

std::optional<double> last_value(const record::Record& record) {
  if (!record.goal) return std::nullopt;
  for (auto evaluation = record.evaluations.rbegin(); evaluation != record.evaluations.rend(); ++evaluation) {
    if (!record.goal->split.empty() && evaluation->split != record.goal->split) continue;
    if (const auto value = spec::find_number(evaluation->metrics, record.goal->metric)) return value;
  }
  return std::nullopt;
}

int64_t bad_images_of(const record::Record& record) {
  return record.data.bad_images ? record.data.bad_images->count : 0;
}

std::optional<double> empty_share(const std::optional<record::Ring>& ring) {
  if (!ring || ring->takes <= 0) return std::nullopt;
  return static_cast<double>(ring->waits) / static_cast<double>(ring->takes);
}

bool reached_goal(const record::Record& record) { return record.goal && record.goal->reached; }

bool ended_at_goal(const record::Record& record) { return !record.limits.to_the_end && record.division != "custom"; }

bool ended_at_limit(const record::Record& record) {
  return !record.evaluations.empty() && record.evaluations.back().cadence == false;
}

TimeSums sums_of(const record::Record& record) { return {record.steps_s, record.exchange}; }

std::optional<TimeSums> sums_to_goal(const record::Record& record) {
  if (!reached_goal(record)) return std::nullopt;
  if (record.goal->steps_s) return TimeSums{*record.goal->steps_s, record.goal->exchange};
  return ended_at_goal(record) ? std::optional(sums_of(record)) : std::nullopt;
}

std::optional<double> compute_seconds(const record::NamedNumbers& steps_s) {
  std::optional<double> sum;
  for (const char* kind : {"init", "fwd_pass", "comp_loss", "backprop", "opt_step"}) {
    if (const auto seconds = spec::find_number(steps_s, kind)) sum = sum.value_or(0) + *seconds;
  }
  return sum;
}

std::optional<double> of_rank_0(const std::vector<double>& of_ranks) {
  return of_ranks.empty() ? std::nullopt : std::optional(of_ranks.front());
}

std::optional<double> cpus_of(const record::Record& record) { return number(record.engine, "/cpus"); }

RunFigures figures_of(const record::Record& record) {
  RunFigures figures;
  figures.name = record.name;
  figures.state = record.state;
  figures.workers = record.workers.value_or(0);
  figures.threads_per_worker = record.threads_per_worker.value_or(0);
  const bool trains = record.division != "custom" && !record.collectives;
  figures.has_goal = record.division != "throughput" && (trains || record.goal);
  if (reached_goal(record)) figures.time_to_goal_s = record.goal->train_s;
  figures.wall_to_goal_s = wall_to_goal(record);
  if (record.energy) figures.energy_joules = record.energy->joules;
  if (record.energy && reached_goal(record)) figures.energy_to_goal_joules = record.energy->to_goal_joules;
  figures.train_s = record.clocks.train_s;
  figures.train_legacy_s = record.clocks.train_legacy_s;
  figures.wall_s = record.clocks.wall_s;
  figures.samples_per_s = record.throughput.samples_per_s;
  if (record::host_sees_passes(record)) {
    figures.accelerator_utilisation = record::accelerator_utilisation(record.steps_s);
  }
  figures.ring_empty_share = empty_share(record.ring);
  if (const double train_s = figures.train_s.value_or(0); train_s > 0) {
    const auto share = [&](const std::optional<double>& seconds) {
      return seconds ? std::optional(*seconds / train_s) : std::nullopt;
    };
    figures.communication_share = share(spec::find_number(record.steps_s, "agg"));
    const record::Exchange exchange = record.exchange.value_or(record::Exchange{});
    if (!exchange.wait_s.empty() && !exchange.transfer_s.empty()) {
      figures.wait_share = share(exchange.wait_s.front());
      figures.transfer_share = share(exchange.transfer_s.front());
      figures.exchange_exact = exchange.exact;
    }
    figures.hidden_share = share(of_rank_0(exchange.hidden_s));
  }
  const int64_t wrong = wrong_rows(record);
  figures.evaluation =
      record.collectives ? collectives_words(record.collectives->rows, wrong) : last_evaluation(record);
  if (wrong > 0) figures.labels.emplace_back("wrong results");
  for (std::string& label : labels_of(record)) figures.labels.push_back(std::move(label));
  figures.shared_host = record.shared_host == true;
  return figures;
}

void add_label(std::vector<std::string>& labels, const std::string& label) {
  if (std::ranges::find(labels, label) == labels.end()) labels.push_back(label);
}

}  // namespace mlbench::report
