#include "mlbench/plan/ddl_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "mlbench/base/errors.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/text.h"
#include "mlbench/catalog/options/options.h"
#include "mlbench/plan/plan.h"
#include "mlbench/spec/batch_scaling.h"
#include "mlbench/spec/run_option_members.h"

namespace mlbench::plan {

using report::DdlPoint;

namespace {

constexpr const char* kNoCompute = "emulated=0.01ms";

// A short name of what may have any characters.
std::string mark_of(const std::string& word, const std::string& text) { return word + sha256_hex(text).substr(0, 6); }

std::string input_name(const std::string& input) {
  return input == report::kSyntheticInput ? input : mark_of("data", absolute_data_dir(input));
}

std::string network_name(const std::string& network) {
  return network == report::kRealNetwork ? network : mark_of("net", network);
}

void set_input(spec::RunOptions& run, const std::string& input) {
  run.synthetic = run.fixed_batch = input == report::kSyntheticInput;
  if (!run.synthetic) run.data_dir = input;
}

void set_option(spec::RunOptions& run, const spec::RunOption& option, const std::string& value) {
  if (option.of_executor()) {
    run.engine[std::string(option.name)] = option.kind == spec::OptionKind::kFlag ? Json(true) : Json(value);
    return;
  }
  spec::visit_member(
      option, run, [&](std::string& text) { text = value; }, [&](std::vector<std::string>& list) { list = {value}; },
      [](bool& flag) { flag = true; }, [](Json&) {});
}

void leave_out_goal(spec::RunOptions& run) {
  run.light = run.to_the_end = false;
  run.goal.clear();
}

spec::RunOptions stage_options(const DdlOptions& options, const DdlPoint& point, const DdlShare& share,
                               const std::string& stage, int64_t workers) {
  spec::RunOptions run = options.run;
  run.name = fmt::format("{}.{}", options.run.name, stage);
  if (!point.variant.empty()) run.name += "." + point.variant;
  run.variant = point.variant;
  run.workers = {std::to_string(workers)};
  run.threads_per_worker = std::to_string(share.threads_per_worker);
  run.name += fmt::format(".t{}", share.threads_per_worker);
  run.repeat.clear();
  run.next_repeat = true;
  run.max_epochs.clear();
  run.max_time.clear();
  run.max_steps = std::to_string(kDdlStageSteps);
  leave_out_goal(run);
  if (workers > 1 || point.workers == 1) return run;
  if (share.global_batch > 0 || share.scaled_batch > 0) run.name += fmt::format(".of{}", point.workers);
  if (share.global_batch > 0) {
    run.overrides.push_back(fmt::format("global_batch={}", (share.global_batch + point.workers - 1) / point.workers));
  }
  if (share.scaled_batch > 0) run.overrides.push_back(fmt::format("batch_size={}", share.scaled_batch));
  return run;
}

}  // namespace

std::vector<DdlPoint> ddl_points(const DdlOptions& options) {
  std::vector<DdlPoint> points;
  for (const std::string& input : options.inputs) {
    for (const std::string& network : options.networks) {
      for (const std::string& variant : options.variants) {
        for (const int64_t workers : options.workers) points.push_back({input, network, variant, workers});
      }
    }
  }
  return points;
}

void set_network(spec::RunOptions& run, const std::string& network) {
  if (network == report::kRealNetwork) return;
  const size_t links = std::min(network.find(';'), network.size());  // those that differ have no settings
  std::vector<std::string> emulated;
  std::set<std::string_view> seen;
  for (const std::string& part : split_at(network.substr(0, links), ',')) {
    const size_t equals = std::min(part.find('='), part.size());
    const auto option = std::ranges::find_if(catalog::run_options(), [&](const spec::RunOption& one) {
      return one.of_network && one.name == std::string_view(part).substr(0, equals);
    });
    if (option == catalog::run_options().end()) {
      emulated.push_back(part);
      continue;
    }
    const auto refuse = [&](const std::string& reason) {
      throw UserError(fmt::format("--network '{}': {} {}", shortened(network), option->name, reason));
    };
    const bool takes_value = option->kind != spec::OptionKind::kFlag;
    const std::string value = equals < part.size() ? part.substr(equals + 1) : "";
    if (!seen.insert(option->name).second) refuse("comes twice");
    if (takes_value && value.empty()) refuse(fmt::format("has no value: expected {}={}", option->name, option->value));
    if (!takes_value && equals < part.size()) refuse("takes no value");
    set_option(run, *option, value);
  }
  run.netem = fmt::format("{}", fmt::join(emulated, ","));
  if (links < network.size()) run.netem += network.substr(run.netem.empty() ? links + 1 : links);
}

spec::RunOptions ddl_options(const DdlOptions& options, const DdlPoint& point, int64_t repeat) {
  spec::RunOptions run = options.run;
  run.name = fmt::format("{}.{}.{}", options.run.name, input_name(point.input), network_name(point.network));
  if (!point.variant.empty()) run.name += "." + point.variant;
  run.variant = point.variant;
  run.workers = {std::to_string(point.workers)};
  run.seed = std::to_string(spec::seed_of(options.run, spec::RunSpec().seed) + static_cast<uint64_t>(repeat));
  run.repeat.clear();
  run.next_repeat = true;  // a run after one that failed takes the next name
  set_input(run, point.input);
  set_network(run, point.network);
  if (spec::measures_throughput(run)) leave_out_goal(run);
  const bool limited = !run.max_steps.empty() || !run.max_epochs.empty() || !run.max_time.empty();
  if (!limited && !run.light && !run.to_the_end) run.max_steps = std::to_string(kDdlSteps);
  return run;
}

DdlShare ddl_share(const spec::RunSpec& run) {
  const spec::TaskSpec& task = run.task.task;
  const int64_t batch = spec::worker_batch_of(task, run.workers);
  return {.threads_per_worker = run.threads_per_worker,
          .decoding_threads = run.decoding_threads,
          .global_batch = task.global_batch,
          .scaled_batch = batch == task.batch_size ? 0 : batch};
}

spec::RunOptions ddl_compute_options(const DdlOptions& options, const DdlPoint& point, const DdlShare& share) {
  spec::RunOptions run = stage_options(options, point, share, "compute", 1);
  set_input(run, report::kSyntheticInput);
  return run;
}

spec::RunOptions ddl_exchange_options(const DdlOptions& options, const DdlPoint& point, const DdlShare& share) {
  spec::RunOptions run = stage_options(options, point, share, "exchange." + network_name(point.network), point.workers);
  set_input(run, report::kSyntheticInput);
  run.compute = kNoCompute;
  set_network(run, point.network);
  return run;
}

spec::RunOptions ddl_input_options(const DdlOptions& options, const DdlPoint& point, const DdlShare& share) {
  spec::RunOptions run = stage_options(options, point, share, "input." + input_name(point.input), 1);
  set_input(run, point.input);
  run.compute = kNoCompute;
  if (share.decoding_threads > 0) run.decoding_threads = std::to_string(share.decoding_threads);
  return run;
}

}  // namespace mlbench::plan
