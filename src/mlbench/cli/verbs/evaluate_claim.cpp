#include "mlbench/cli/verbs/evaluate_claim.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "mlbench/base/or_null.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/verbs/evaluate_predictions.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/locate.h"
#include "mlbench/home/runs.h"
#include "mlbench/plan/plan.h"
#include "mlbench/record/record_fields.h"
#include "mlbench/report/draw/table.h"
#include "mlbench/spec/declaration.h"
#include "mlbench/spec/split.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

constexpr double kRelativeTolerance = 1e-4;  // of metrics that are no shares of samples

// One metric, as the script recorded it and as its predictions give it.
struct Claim {
  std::string metric;
  double claimed = 0, computed = 0;
  bool agrees = false;
};

// Throws UserError where the run has no claim that predictions could show.
void check_run(const spec::RunSpec& run, const record::Record& record, const fs::path& predictions) {
  const std::string& name = run.name;
  if (!spec::declares_task(run)) {
    throw UserError(
        fmt::format("run '{}' declares no task: evaluate a checkpoint, or predictions with --task TASK; a "
                    "command declares with 'mlbench run NAME K --task TASK -- COMMAND'",
                    name));
  }
  if (record::is_active(record)) {
    throw UserError(fmt::format("run '{}' is {}: evaluate it when it is over", name, record.state));
  }
  const spec::GoalSpec& goal = run.task.task.goal;
  if (goal.split != spec::kTestSplit) {
    throw UserError(fmt::format(
        "run '{}' has a goal on {} data, of which predictions of the evaluation set tell nothing", name, goal.split));
  }
  if (!fs::exists(predictions)) {
    throw UserError(
        fmt::format("there is no {}: the script leaves it there, by write_predictions() of the Python client",
                    predictions.string()));
  }
}

// The evaluation that reached the goal, else the last one with a value of the goal's metric.
const record::Evaluation& claimed_evaluation(const record::Record& record) {
  const record::Goal& goal = *record.goal;
  const record::Evaluation* claimed = nullptr;
  for (const record::Evaluation& one : record.evaluations) {
    if (one.split != goal.split || !spec::find_number(one.metrics, goal.metric)) continue;
    claimed = &one;
    if (goal.reached && one.step == goal.step && one.epoch == goal.epoch) break;
  }
  if (claimed == nullptr) {
    throw UserError(fmt::format("run '{}' recorded no {} on {} data: there is no claim to check", record.name,
                                goal.metric, goal.split));
  }
  return *claimed;
}

// Shares of samples agree where less than half a sample lies between them.
bool agree(const std::string& metric, double claimed, double computed, int64_t samples) {
  const double tolerance =
      metric.starts_with("Prec@") ? 50.0 / static_cast<double>(samples) : kRelativeTolerance * std::abs(computed);
  return std::abs(claimed - computed) < tolerance || claimed == computed;
}

// Throws UserError where the predictions do not tell the metric of the goal.
std::vector<Claim> compare_claims(const record::Evaluation& evaluation, const Json& found, const std::string& goal) {
  if (!found["metrics"].value(goal, Json()).is_number()) {
    throw UserError(fmt::format("the predictions do not tell {}, the goal's metric: {}", goal,
                                fmt::join(found["notes"].get<std::vector<std::string>>(), "; ")));
  }
  std::vector<Claim> claims;
  for (const auto& [metric, value] : found["metrics"].items()) {
    const auto claimed = spec::find_number(evaluation.metrics, metric);
    if (!claimed || !value.is_number()) continue;
    const auto computed = value.get<double>();
    claims.push_back({metric, *claimed, computed, agree(metric, *claimed, computed, found["samples"].get<int64_t>())});
  }
  return claims;
}

Json claims_json(const std::vector<Claim>& claims) {
  Json list = Json::array();
  for (const Claim& one : claims) {
    list.push_back(
        {{"metric", one.metric}, {"claimed", one.claimed}, {"computed", one.computed}, {"agrees", one.agrees}});
  }
  return list;
}

std::string claims_text(const record::Record& record, const Json& found, const std::vector<Claim>& claims) {
  std::string out =
      fmt::format("{}, predictions of {}: {} test samples of {}\n", record.name, record.task,
                  report::format_count(found["samples"].get<int64_t>()), found["data"]["name"].get<std::string>());
  for (const Claim& one : claims) {
    out += fmt::format("  {}: claimed {:.6g}, computed {:.6g}, {}\n", one.metric, one.claimed, one.computed,
                       one.agrees ? "equal" : "different");
  }
  out += fmt::format("  goal {}: {}\n", record.custom->declared->goal,
                     record.goal->reached ? "claimed to be reached" : "not reached");
  const bool holds = std::ranges::all_of(claims, &Claim::agrees);
  return out + (holds ? "the claim holds\n" : "the claim is wrong\n");
}

}  // namespace

ExitCode evaluate_claim(const Context& context, const fs::path& run_dir, const spec::RunOptions& given) {
  spec::RunSpec run = home::read_spec(run_dir);
  const record::Record record = home::current_record(run_dir);
  const fs::path file = predictions_path(run_dir);
  check_run(run, record, file);
  const record::Evaluation& evaluation = claimed_evaluation(record);
  run.data_dirs = plan::data_dirs(given.data_dir, context.home());
  run.cache_dir = cache_dir_of(context.home());
  dataset::locate(dataset::find_description(run.data_name), run.data_dirs);

  const Json found = evaluate_predictions(file, run);
  const std::vector<Claim> claims = compare_claims(evaluation, found, run.task.task.goal.metric);
  const bool holds = std::ranges::all_of(claims, &Claim::agrees);
  if (context.json) {
    print_json({{"kind", "claim"},
                {"name", record.name},
                {"path", file.string()},
                {"declared", record::written(*record.custom->declared)},
                {"data", found["data"]},
                {"split", spec::kTestSplit},
                {"samples", found["samples"]},
                {"claims", claims_json(claims)},
                {"holds", holds},
                {"goal", record::written(*record.goal)},
                {"step", or_null(evaluation.step)},
                {"notes", found["notes"]}});
  } else {
    print(claims_text(record, found, claims));
  }
  return holds ? ExitCode::kOk : ExitCode::kRunFailed;
}

}  // namespace mlbench::cli
