#include "mlbench/report/figures.h"

#include <fmt/format.h>

#include "mlbench/base/text.h"
#include "mlbench/record/measured_value.h"
#include "mlbench/report/collectives_result.h"
#include "mlbench/report/table.h"
#include "mlbench/spec/communication.h"

namespace mlbench::report {

namespace {
const Json* find(const Json& record, const char* pointer) {
  const Json::json_pointer path{std::string(pointer)};
  return record.contains(path) ? &record.at(path) : nullptr;
}

bool truth(const Json& record, const char* pointer) {
  const Json* value = find(record, pointer);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

std::optional<double> time_to_goal(const Json& record) {
  return truth(record, "/goal/reached") ? number(record, "/goal/train_s") : std::nullopt;
}

std::optional<double> wall_to_goal(const Json& record) {
  if (!truth(record, "/goal/reached")) return std::nullopt;
  const Json* evaluations = find(record, "/evaluations");
  const auto step = number(record, "/goal/step");
  if (evaluations != nullptr && evaluations->is_array() && step) {
    for (const Json& evaluation : *evaluations) {
      if (text(evaluation, "/split") != text(record, "/goal/split") || number(evaluation, "/step") != step) continue;
      if (const auto wall_s = number(evaluation, "/wall_s")) return wall_s;
    }
  }
  // A goal on training data is met by no evaluation.
  return ended_at_goal(record) ? number(record, "/clocks/wall_s") : std::nullopt;
}

std::string last_evaluation(const Json& record) {
  const Json* evaluations = find(record, "/evaluations");
  const std::string metric = text(record, "/goal/metric");
  const std::string split = text(record, "/goal/split");
  if (evaluations == nullptr || !evaluations->is_array()) return "";
  for (auto evaluation = evaluations->rbegin(); evaluation != evaluations->rend(); ++evaluation) {
    if (!split.empty() && text(*evaluation, "/split") != split) continue;
    const Json* metrics = find(*evaluation, "/metrics");
    if (metrics == nullptr || !metrics->contains(metric)) continue;
    if (const auto value = record::measured_value(metrics->at(metric))) {
      return fmt::format("{} {}", metric, format_metric(*value));
    }
  }
  return "";
}

// "160 rows, 3.21 GB/s, 0 wrong": so far, the mean bus bandwidth, results that were not what they had to be.
std::string collectives_words(const Json& collectives, int64_t wrong) {
  const Json* rows = find(collectives, "/results");
  if (rows == nullptr || !rows->is_array() || rows->empty()) return "";
  double bandwidth = 0, forms = 0;
  for (const Json& row : *rows) {
    for (const char* form : {"/out_of_place/bus_bw", "/in_place/bus_bw"}) {
      const auto bus = number(row, form);
      if (!bus || *bus <= 0) continue;
      bandwidth += *bus;
      ++forms;
    }
  }
  std::string words = counted(std::ssize(*rows), "row");
  if (forms > 0) words += fmt::format(", {:.3g} GB/s", bandwidth / forms);
  return words + fmt::format(", {} wrong", wrong);
}
}  // namespace

std::optional<double> number(const Json& record, const char* pointer) {
  const Json* value = find(record, pointer);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->get<double>();
}

std::string text(const Json& record, const char* pointer) {
  const Json* value = find(record, pointer);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

std::optional<bool> goal_higher_is_better(const Json& record) {
  const Json* given = find(record, "/goal/higher_is_better");
  return given != nullptr && given->is_boolean() ? std::optional(given->get<bool>()) : std::nullopt;
}

bool ended_at_goal(const Json& record) {
  return !truth(record, "/limits/to_the_end") && text(record, "/division") != "custom";
}

const Json* sums_to_goal(const Json& record) {
  if (!truth(record, "/goal/reached")) return nullptr;
  const Json* goal = find(record, "/goal");
  if (goal->contains("steps_s")) return goal;
  return ended_at_goal(record) ? &record : nullptr;
}

RunFigures figures_of(const Json& record) {
  RunFigures figures;
  figures.name = text(record, "/name");
  figures.state = text(record, "/state");
  figures.workers = static_cast<int64_t>(number(record, "/workers").value_or(0));
  figures.threads_per_worker = static_cast<int64_t>(number(record, "/threads_per_worker").value_or(0));
  const std::string division = text(record, "/division");
  const Json* goal = find(record, "/goal");
  const Json* collectives = find(record, "/collectives");
  const bool measures = collectives != nullptr && collectives->is_object();
  const bool trains = division != "custom" && !measures;
  figures.has_goal = division != "throughput" && (trains || (goal != nullptr && goal->is_object()));
  figures.time_to_goal_s = time_to_goal(record);
  figures.wall_to_goal_s = wall_to_goal(record);
  figures.train_s = number(record, "/clocks/train_s");
  figures.train_legacy_s = number(record, "/clocks/train_legacy_s");
  figures.wall_s = number(record, "/clocks/wall_s");
  figures.samples_per_s = number(record, "/throughput/samples_per_s");
  const auto aggregation = number(record, "/steps_s/agg");
  if (aggregation && figures.train_s && *figures.train_s > 0) {
    figures.communication_share = *aggregation / *figures.train_s;
  }
  const auto wait = number(record, "/exchange/wait_s/0"), transfer = number(record, "/exchange/transfer_s/0");
  if (wait && transfer && figures.train_s && *figures.train_s > 0) {
    figures.wait_share = *wait / *figures.train_s;
    figures.transfer_share = *transfer / *figures.train_s;
    figures.exchange_exact = truth(record, "/exchange/exact");
  }
  const auto hidden = number(record, "/exchange/hidden_s/0");
  if (hidden && figures.train_s && *figures.train_s > 0) figures.hidden_share = *hidden / *figures.train_s;
  const int64_t wrong = measures ? wrong_rows(record) : 0;
  figures.evaluation = measures ? collectives_words(*collectives, wrong) : last_evaluation(record);
  if (wrong > 0) figures.labels.emplace_back("wrong results");

  if (truth(record, "/data/synthetic")) {
    figures.labels.push_back("synthetic");
  } else if (const Json* official = find(record, "/data/official"); official != nullptr && *official == false) {
    figures.labels.push_back("unofficial data");
  }
  if (spec::on_made_network(text(record, "/comm_stack"))) figures.labels.push_back("synthetic network");
  if (division == "open") figures.labels.push_back("open");
  if (division == "own") figures.labels.push_back("own task");
  if (division == "custom") figures.labels.push_back("custom");
  if (division == "throughput") figures.labels.push_back("throughput only");
  if (truth(record, "/limits/light")) figures.labels.push_back("light");
  if (truth(record, "/limits/to_the_end")) figures.labels.push_back("to the end");
  if (truth(record, "/oversubscribed")) figures.labels.push_back("oversubscribed");
  figures.shared_host = truth(record, "/shared_host");
  if (figures.shared_host) figures.labels.push_back("shared host");
  if (const Json* segments = find(record, "/segments"); segments != nullptr && segments->size() > 1) {
    figures.labels.push_back(fmt::format("{} segments", segments->size()));
  }
  return figures;
}

void add_label(std::vector<std::string>& labels, const std::string& label) {
  if (std::ranges::find(labels, label) == labels.end()) labels.push_back(label);
}

}  // namespace mlbench::report
