#include "mlbench/report/study/ddl.h"

#include <algorithm>
#include <utility>

#include "mlbench/record/step_reader.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/study/comparison.h"
#include "mlbench/report/study/scaling.h"
#include "mlbench/report/study/statistics.h"
#include "mlbench/report/study/sweep.h"

namespace mlbench::report {

namespace {

constexpr double kWaitingShare = 0.05;

// `seconds` of a whole run, per step.
std::optional<double> per_step(const record::Record& record, const std::optional<double>& seconds) {
  const int64_t steps = record.throughput.steps.value_or(0);
  return seconds && steps > 0 ? std::optional(*seconds / static_cast<double>(steps)) : std::nullopt;
}

std::optional<double> per_step(const std::optional<record::Record>& record, const char* kind) {
  return record ? per_step(*record, spec::find_number(record->steps_s, kind)) : std::nullopt;
}

StageTimes stages_alone(const DdlAnswer& answer) {
  StageTimes alone = {};
  const auto at = [&](Stage stage) -> std::optional<double>& { return alone[static_cast<size_t>(stage)]; };
  if (answer.compute) at(Stage::kCompute) = per_step(*answer.compute, compute_seconds(answer.compute->steps_s));
  at(Stage::kExchange) = answer.point.workers == 1 ? std::optional(0.0) : per_step(answer.exchange, "agg");
  if (answer.point.input == kSyntheticInput) {
    at(Stage::kRead) = at(Stage::kDecode) = 0;
    return alone;
  }
  const auto bytes = answer.input ? bytes_per_step(*answer.input) : std::nullopt;
  if (!bytes) return alone;
  if (const double rate = answer.read_by_all_per_s.value_or(0); rate > 0) {
    at(Stage::kRead) = *bytes * static_cast<double>(answer.point.workers) / rate;
  }
  const auto step = per_step(*answer.input, answer.input->clocks.train_s);
  if (const double rate = answer.read_by_one_per_s.value_or(0); rate > 0 && step) {
    at(Stage::kDecode) = std::max(0.0, *step - *bytes / rate);
  }
  return alone;
}

// The time of the rank that waited most. Records of earlier programs have rank 0's waiting alone.
std::optional<double> waited_for_data(const record::Record& record) {
  const std::vector<double> ranks = record.waited_for_data_s.value_or(std::vector<double>());
  return ranks.empty() ? spec::find_number(record.steps_s, "batch_load") : std::optional(std::ranges::max(ranks));
}

std::optional<double> share_of_waiting_steps(const std::filesystem::path& run_dir, int64_t rank, int64_t segments) {
  uint64_t steps = 0, waiting = 0;
  for (int64_t segment = 1; segment <= segments; ++segment) {
    record::StepReader reader(run_dir, segment, rank);
    while (const auto record = reader.next()) {
      const auto waited = static_cast<double>(record->kinds_ns[static_cast<size_t>(record::StepKind::kBatchLoad)]);
      steps += record->count;
      if (waited >= kWaitingShare * static_cast<double>(record->total_ns())) waiting += record->count;
    }
  }
  return steps > 0 ? std::optional(static_cast<double>(waiting) / static_cast<double>(steps)) : std::nullopt;
}

record::NamedNumbers last_due_metrics(const record::Record& record) {
  for (auto one = record.evaluations.rbegin(); one != record.evaluations.rend(); ++one) {
    if (one->cadence == false) continue;
    if (!record.goal || record.goal->split.empty() || one->split == record.goal->split) return one->metrics;
  }
  return {};
}

DdlRow ddl_row(const DdlAnswer& answer) {
  DdlRow row;
  row.point = answer.point;
  auto [state, why] = state_of(answer.records, answer.refused);
  row.state = std::move(state);
  row.why = std::move(why);
  row.waiting_steps = answer.waiting_steps;
  row.alone = stages_alone(answer);
  std::vector<double> rates;
  for (const record::Record& record : answer.records) {
    row.runs.push_back(record.name);
    if (record.state != "finished") continue;
    const RunFigures figures = figures_of(record);
    for (const std::string& label : figures.labels) add_label(row.labels, label);
    if (figures.samples_per_s) rates.push_back(*figures.samples_per_s);
    row.utilisation = figures.accelerator_utilisation;
    row.step = {per_step(record, record.clocks.train_s), per_step(record, waited_for_data(record))};
    row.metrics = last_due_metrics(record);
  }
  row.samples_per_s = median(rates);
  row.verdict = stage_verdict(row.alone, row.step);
  return row;
}

bool same_line(const DdlPoint& one, const DdlPoint& other) {
  return one.input == other.input && one.network == other.network && one.variant == other.variant;
}

void add_efficiency(std::vector<DdlRow>& rows, const std::vector<DdlAnswer>& answers) {
  for (size_t i = 0; i < rows.size(); ++i) {
    DdlRow& row = rows[i];
    row.no_efficiency = "nothing was measured";
    if (row.samples_per_s.value_or(0) <= 0) continue;
    size_t base = i;
    for (size_t other = 0; other < rows.size(); ++other) {
      const bool fewer = rows[other].point.workers < rows[base].point.workers;
      if (fewer && rows[other].samples_per_s.value_or(0) > 0 && same_line(rows[other].point, row.point)) base = other;
    }
    Keys keys = Conditions(*finished_run(answers[i])).differences(Conditions(*finished_run(answers[base])));
    std::erase_if(keys, [](const ComparisonKey* key) { return key->name == "oversubscribed"; });
    row.no_efficiency = why_no_speed_up(keys);
    if (!row.no_efficiency.empty()) continue;
    row.efficiency =
        scaling_of_rate(*rows[base].samples_per_s, rows[base].point.workers, *row.samples_per_s, row.point.workers)
            .efficiency;
  }
}

}  // namespace

const record::Record* finished_run(const DdlAnswer& answer) {
  const auto found = std::ranges::find(answer.records, "finished", &record::Record::state);
  return found == answer.records.end() ? nullptr : &*found;
}

std::optional<double> bytes_per_step(const record::Record& input) {
  const auto& bytes = input.storage.objects ? input.storage.bytes : input.storage.call_read_bytes;
  return per_step(input, bytes ? std::optional(static_cast<double>(*bytes)) : std::nullopt);
}

std::optional<double> bytes_per_sample(const record::Record& input) {
  const auto bytes = bytes_per_step(input);
  const int64_t samples = input.throughput.samples.value_or(0), steps = input.throughput.steps.value_or(0);
  if (!bytes || samples <= 0) return std::nullopt;
  return *bytes * static_cast<double>(steps) / static_cast<double>(samples);
}

std::optional<WaitingSteps> waiting_steps_of(const std::filesystem::path& run_dir, int64_t workers, int64_t segments) {
  std::optional<WaitingSteps> most;
  for (int64_t rank = 0; rank < workers; ++rank) {
    const auto share = share_of_waiting_steps(run_dir, rank, segments);
    if (share && (!most || *share > most->share)) most = {*share, rank};
  }
  return most;
}

Ddl analyse_ddl(const std::vector<DdlAnswer>& answers) {
  Ddl ddl;
  for (const DdlAnswer& answer : answers) {
    ddl.rows.push_back(ddl_row(answer));
    if (ddl.task.empty() && !answer.records.empty()) ddl.task = answer.records.front().task;
  }
  add_efficiency(ddl.rows, answers);
  return ddl;
}

}  // namespace mlbench::report
