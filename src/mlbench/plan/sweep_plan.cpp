#include "mlbench/plan/sweep_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/sha256.h"
#include "mlbench/catalog/options/options.h"
#include "mlbench/home/runs.h"
#include "mlbench/plan/curve.h"
#include "mlbench/plan/plan.h"
#include "mlbench/report/records.h"
#include "mlbench/spec/batch_scaling.h"
#include "mlbench/spec/epoch.h"

namespace mlbench::plan {

namespace fs = std::filesystem;
using report::SweepRequest;
using report::SweepSetting;
using report::SweepSteps;

namespace {

constexpr const char* kScalingKey = "schedule.scaling";
constexpr int64_t kCurvePoints = 200;

spec::RunOptions common_options(const SweepOptions& options, const SweepRequest& request, const std::string& name,
                                int64_t repeat) {
  spec::RunOptions run = options.run;
  run.name = name;
  run.workers = {std::to_string(request.workers())};
  run.threads_per_worker = std::to_string(request.setting.intra_op);
  run.inter_op_threads = std::to_string(request.setting.inter_op);
  run.seed = std::to_string(spec::seed_of(options.run, spec::RunSpec().seed) + static_cast<uint64_t>(repeat));
  run.repeat.clear();
  run.next_repeat = true;  // a run after one that failed takes the next name
  if (catalog::takes(run.executor, "ranks_per_host")) {
    run.engine["ranks_per_host"] = std::to_string(request.setting.procs_per_node);
  }
  return run;
}

}  // namespace

std::vector<int64_t> parse_counts(const std::vector<std::string>& words, const std::string& what, const Range& range) {
  std::vector<int64_t> counts;
  for (const std::string& word : words) {
    const int64_t count = parse_count(word, what, range);
    if (std::ranges::find(counts, count) != counts.end()) throw UserError(fmt::format("{} has {} twice", what, count));
    counts.push_back(count);
  }
  if (counts.empty()) throw UserError(fmt::format("{} has no value: give a list, as in {} 1,2,4", what, what));
  return counts;
}

spec::RunOptions setting_options(const SweepOptions& options, const SweepSetting& setting, int64_t repeat) {
  const std::string name = fmt::format("{}.{}", options.run.name, report::short_name(setting));
  spec::RunOptions run = common_options(options, {.setting = setting}, name, repeat);
  run.max_steps = std::to_string(options.probe_steps);
  run.max_epochs.clear();
  run.max_time.clear();
  run.light = run.to_the_end = false;
  return run;
}

spec::RunOptions nodes_options(const SweepOptions& options, const SweepRequest& request, int64_t repeat) {
  const std::string name = fmt::format("{}.n{}.{}{}", options.run.name, request.nodes,
                                       report::short_name(request.setting), request.lr_scaling ? "" : ".lr1");
  spec::RunOptions run = common_options(options, request, name, repeat);
  run.to_the_end = !spec::measures_throughput(run);
  if (!request.lr_scaling) run.overrides.push_back(fmt::format("{}=none", kScalingKey));
  return run;
}

bool same_as_scaled(const SweepOptions& options, const SweepRequest& request) {
  return options.scaled && !request.lr_scaling && request.workers() == 1;
}

std::vector<SweepRequest> node_requests(const SweepOptions& options, const SweepSetting& setting) {
  std::vector<SweepRequest> requests;
  for (const int64_t nodes : options.nodes) {
    if (options.scaled) requests.push_back({setting, nodes, true});
    if (options.unscaled) requests.push_back({setting, nodes, false});
  }
  return requests;
}

void check_lr_scaling(SweepOptions& options, bool asked_for) {
  if (!options.unscaled) return;
  const spec::TaskSpec task = plan_frozen_task(options.run).task;
  if (task.schedule.scaling != "none" && !spec::measures_throughput(options.run)) return;
  if (asked_for) {
    throw UserError(fmt::format(
        "--lr-scaling off: {}; leave it out",
        spec::measures_throughput(options.run)
            ? fmt::format("{} measures throughput alone", options.run.fixed_batch ? "--fixed-batch" : "--compute")
            : fmt::format("task '{}' does not scale its learning rate", task.name)));
  }
  options.unscaled = false;
}

std::string specification_hash(const spec::RunSpec& run) {
  Json json = spec::to_json(run);
  for (const char* key : {"id", "identity", "name", "repeat", "created_at", "asked", "run_dir", "cache_dir",
                          "data_dirs", "oversubscribed"}) {
    json.erase(key);
  }
  return sha256_hex(json.dump());
}

std::vector<std::string> runs_like(const fs::path& home, const spec::RunSpec& planned) {
  const std::string base = home::without_repeat(planned.name), wanted = specification_hash(planned);
  std::vector<std::pair<int64_t, std::string>> found;
  for (const std::string& name : report::run_names(home)) {
    if (home::without_repeat(name) != base) continue;
    try {
      const spec::RunSpec run = home::read_spec(runs_dir(home) / name);
      if (specification_hash(run) == wanted) found.emplace_back(run.id, name);
    } catch (const std::exception&) {
      continue;  // a damaged run is made again, under another name
    }
  }
  std::ranges::sort(found);
  std::vector<std::string> names;
  for (auto& [id, name] : found) names.push_back(std::move(name));
  return names;
}

std::vector<SweepSteps> steps_of(const SweepOptions& options) {
  const spec::TaskSpec task = plan_frozen_task(options.run).task;
  const int64_t samples = train_split_samples(task);
  std::vector<SweepSteps> rows;
  for (const int64_t procs : options.procs_per_node) {
    for (const int64_t nodes : options.nodes) {
      SweepSteps row;
      row.nodes = nodes;
      row.workers = nodes * procs;
      const auto same = [&](const SweepSteps& one) { return one.nodes == row.nodes && one.workers == row.workers; };
      if (std::ranges::any_of(rows, same)) continue;
      const Curve curve = lr_curve(task, row.workers, samples, kCurvePoints);
      row.global_batch = spec::global_batch_of(task, row.workers);
      row.lr = *std::ranges::max_element(curve.lr);
      row.steps_per_epoch = curve.steps_per_epoch;
      row.steps = spec::steps_of_epochs(spec::epochs_of(task, row.workers), curve.steps_per_epoch);
      rows.push_back(row);
    }
  }
  return rows;
}

}  // namespace mlbench::plan
