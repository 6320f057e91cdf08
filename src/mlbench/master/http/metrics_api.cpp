// GET /metrics: figures of the master, its host and the running runs for Prometheus (docs/monitoring.md).

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/build_info.h"
#include "mlbench/base/log.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/master/http/exposition.h"
#include "mlbench/master/http/services.h"
#include "mlbench/record/series_key.h"
#include "mlbench/report/records.h"
#include "mlbench/spec/split.h"

namespace mlbench::master {

namespace {

constexpr double kMib = 1024.0 * 1024.0;
constexpr size_t kMostRuns = 200;     // the newest ones that run
constexpr size_t kMostEvaluated = 8;  // metrics of a run's last evaluation, in alphabetical order

using Type = Exposition::Type;

struct RunningRun {
  Exposition::Labels labels;
  StepFigures steps;
  bool has_steps = false;
  double restarts = 0;
  std::optional<double> energy_joules;
  std::map<std::string, double> evaluation;  // by metric
};

using Get = std::optional<double> (*)(const RunningRun& run);
struct RunMetric {
  const char *name, *help;
  Get get;
};

std::optional<double> counted_steps(const RunningRun& run, std::optional<int64_t> steps) {
  return run.has_steps && steps ? std::optional(static_cast<double>(*steps)) : std::nullopt;
}

constexpr std::array<RunMetric, 8> kRunMetrics = {{
    {"mlbench_run_samples_per_second", "Training samples per second of all ranks, over the last steps.",
     [](const RunningRun& run) { return run.steps.samples_per_s; }},
    {"mlbench_run_training_loss", "Mean training loss of all ranks, over the last steps.",
     [](const RunningRun& run) { return run.steps.loss; }},
    {"mlbench_run_communication_ratio", "Share of the last steps spent in communication that the step waits for.",
     [](const RunningRun& run) { return run.steps.communication_share; }},
    {"mlbench_run_wait_ratio", "Share of the last steps spent waiting for the slowest rank.",
     [](const RunningRun& run) { return run.steps.wait_share; }},
    {"mlbench_run_steps_done", "Training steps that are done. A resumed run counts from its checkpoint.",
     [](const RunningRun& run) { return counted_steps(run, run.steps.steps_done); }},
    {"mlbench_run_steps_expected", "Training steps after which the run ends at the latest.",
     [](const RunningRun& run) { return counted_steps(run, run.steps.steps_expected); }},
    {"mlbench_run_restarts", "How often the ranks were started again: resumed or requeued.",
     [](const RunningRun& run) { return std::optional(run.restarts); }},
    {"mlbench_run_energy_joules", "Energy that the hosts of the run used so far, by all their programs.",
     [](const RunningRun& run) { return run.energy_joules; }},
}};

// The last value of each series that the run's ranks or other programs recorded.
void add_recorded(Services& services, int64_t id, RunningRun& run) {
  double loss = 0, ranks = 0;
  for (store::SeriesStore* source : {&services.series, &services.journal.series()}) {
    for (const store::SeriesInfo& info : source->list(id)) {
      const store::SeriesKey& key = info.key;
      const bool evaluation = key.split == spec::kTestSplit && key.rank == record::kAllRanks;
      // A name that cannot be written as it is might become another's, and Prometheus refuses equal labels.
      if (evaluation && run.evaluation.size() < kMostEvaluated && printable(key.metric) == key.metric) {
        run.evaluation.emplace(key.metric, info.last.value);
      }
      if (key.split == spec::kTrainSplit && key.metric == "loss") {
        loss += info.last.value;
        ++ranks;
      }
    }
  }
  if (!run.has_steps && ranks > 0) run.steps.loss = loss / ranks;  // of a script
}

RunningRun running_run(Services& services, const std::filesystem::path& run_dir) {
  const record::Record record = report::read_record(run_dir);
  const int64_t workers = record.workers.value_or(1), id = record.id.value_or(0);
  RunningRun run;
  run.labels = {{"run", record.name},
                {"task", record.task},
                {"framework", record.framework},
                {"backend", record.backend},
                {"workers", std::to_string(workers)}};
  run.restarts = static_cast<double>(record::segment_count(record) - 1);
  if (record.energy) run.energy_joules = record.energy->joules;
  const auto steps = services.last_steps.of(id, run_dir, workers);
  run.has_steps = steps.has_value();
  run.steps = steps.value_or(StepFigures{});
  add_recorded(services, id, run);
  return run;
}

void write_runs(Services& services, Exposition& out) {
  std::vector<std::string> names = services.index.names_in_state("running");  // oldest first
  if (names.size() > kMostRuns) names.erase(names.begin(), names.end() - kMostRuns);
  std::vector<RunningRun> runs;
  for (const std::string& name : names) {
    try {
      runs.push_back(running_run(services, runs_dir(services.home) / name));
    } catch (const std::exception& error) {
      spdlog::debug("run {}: {}", name, error.what());  // the run was deleted
    }
  }
  for (const RunMetric& metric : kRunMetrics) {
    out.metric(metric.name, Type::kGauge, metric.help);
    for (const RunningRun& run : runs) {
      if (const auto value = metric.get(run)) out.sample(run.labels, *value);
    }
  }
  out.metric("mlbench_run_evaluation", Type::kGauge, "Value of a metric in the last evaluation on test data.");
  for (const RunningRun& run : runs) {
    for (const auto& [metric, value] : run.evaluation) {
      Exposition::Labels labels = run.labels;
      labels.emplace_back("metric", metric);
      out.sample(labels, value);
    }
  }
}

void write_host(const Services& services, Exposition& out) {
  const std::vector<HostSample> samples = services.hosts.samples(0);
  const auto host = [&](const char* name, Type type, const char* help, double HostSample::*member, double unit) {
    out.metric(name, type, help);
    if (!samples.empty()) out.sample({}, samples.back().*member * unit);
  };
  host("mlbench_host_cpu_cores", Type::kGauge, "Cores of the master's host in use.", &HostSample::cpu, 1);
  host("mlbench_host_memory_bytes", Type::kGauge, "Memory of the master's host in use.", &HostSample::memory, kMib);
  host("mlbench_host_network_receive_bytes_total", Type::kCounter, "Received since the master's host started.",
       &HostSample::network_in, kMib);
  host("mlbench_host_network_transmit_bytes_total", Type::kCounter, "Sent since the master's host started.",
       &HostSample::network_out, kMib);
}

Response metrics(Services& services) {
  Exposition out;
  out.metric("mlbench_build_info", Type::kGauge, "Version of the master, as a label; the value is 1.");
  out.sample({{"version", build_info().version}}, 1);
  const auto counts = services.index.count_by_state();
  out.metric("mlbench_runs", Type::kGauge, "Runs in this home, by state.");
  for (const char* state : {"queued", "running", "finished", "failed", "stopped"}) {
    const auto found = counts.find(state);
    out.sample({{"state", state}}, found == counts.end() ? 0 : static_cast<double>(found->second));
  }
  out.metric("mlbench_runs_waiting", Type::kGauge, "Runs that wait for this master to start them.");
  out.sample({}, static_cast<double>(services.scheduler.waiting().size()));
  out.metric("mlbench_viewers", Type::kGauge, "Open streams of events and logs.");
  out.sample({}, static_cast<double>(services.live.viewers()));
  write_host(services, out);
  write_runs(services, out);
  return {200, Exposition::kContentType, {}, out.text(), {}};
}

}  // namespace

std::vector<Route> metrics_routes(Services& services) {
  Services* s = &services;
  return {{"GET", "/metrics", Access::kToken, [s](const Call&) { return metrics(*s); }}};
}

}  // namespace mlbench::master
