#include "mlbench/report/study/submissions.h"

#include <fmt/format.h>

#define CSV_IO_NO_THREAD
#include <libfccp/csv.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/numbers.h"
#include "mlbench/report/study/comparison.h"
#include "mlbench/report/study/measured_run.h"

namespace mlbench::report {

namespace fs = std::filesystem;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr Range kAnyNumber{-1e300, 1e300};

// ---- AlgoPerf -------------------------------------------------------------------------------------------------------

struct Target {
  std::string metric;
  double value = 0;
  bool higher_is_better = true;
  bool held_out = false;
};

// The metrics of AlgoPerf's workloads of which lower values are better.
const std::set<std::string> kLowerIsBetter = {"loss", "wer", "ppl"};

struct Targets {
  std::map<std::string, Target> workloads;
  std::vector<std::string> bases;
};

Targets read_targets(const fs::path& path) {
  const Json file = read_json_file(path, inputs::kTargets);
  Targets targets;
  try {
    targets.bases = file.at("base_workloads").get<std::vector<std::string>>();
    for (const auto& [name, row] : file.at("workloads").items()) {
      Target target;
      target.metric = row.at("target_metric_name").get<std::string>();
      target.value = row.at("validation_target_value").get<double>();
      target.higher_is_better = !kLowerIsBetter.contains(target.metric);
      target.held_out = std::ranges::count(targets.bases, name) == 0;
      targets.workloads[name] = target;
    }
  } catch (const Json::exception& error) {
    throw UserError(fmt::format("{}: not a file of AlgoPerf's targets: {}", path.string(), error.what()));
  }
  return targets;
}

// The base of a variant: the longest of the bases with which its name begins. "" where there is none.
std::string base_of(const std::string& variant, const std::vector<std::string>& bases) {
  std::string longest;
  for (const std::string& base : bases) {
    if (variant.starts_with(base + "_") && base.size() > longest.size()) longest = base;
  }
  return longest;
}

struct Trial {
  std::optional<int64_t> evaluation;  // at which the target was reached; empty: never
  double target_s = kNever;
  double step_s = 0;  // seconds per step up to the last evaluation; 0: not known
};

double number_of(const std::string& text, const fs::path& path, const char* column) {
  if (text.empty() || text == "nan" || text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  return parse_real(text, fmt::format("{}: column {}", path.string(), column), kAnyNumber);
}

Trial read_trial(const fs::path& path, const Target& target) {
  const std::string text = read_file(path, inputs::kMeasurements);
  const std::string metric = "validation/" + target.metric;
  Trial trial;
  try {
    io::CSVReader<4, io::trim_chars<' ', '\t'>, io::double_quote_escape<',', '"'>> rows(path.c_str(), text.data(),
                                                                                        text.data() + text.size());
    rows.read_header(io::ignore_extra_column, "score", "accumulated_submission_time", "global_step", metric);
    std::string score, time, step, value;
    for (int64_t evaluation = 0; rows.read_row(score, time, step, value); ++evaluation) {
      const double reached = number_of(value, path, metric.c_str()), steps = number_of(step, path, "global_step");
      if (steps > 0) trial.step_s = number_of(time, path, "accumulated_submission_time") / steps;
      const bool met = target.higher_is_better ? reached >= target.value : reached <= target.value;
      if (!met || trial.evaluation) continue;
      trial.evaluation = evaluation;
      trial.target_s = number_of(score, path, "score");
    }
  } catch (const io::error::base& error) {
    throw UserError(fmt::format("{}: {}", path.string(), error.what()));
  }
  return trial;
}

std::vector<fs::path> folders_in(const fs::path& folder, std::string_view begin) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory() && entry.path().filename().string().starts_with(begin)) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

std::string workload_of(std::string name) {
  for (const std::string_view framework : {"_jax", "_pytorch"}) {
    if (name.ends_with(framework)) name.resize(name.size() - framework.size());
  }
  return name;
}

void read_study(const fs::path& study, const Targets& targets, Submission& submission) {
  for (const fs::path& folder : folders_in(study, "")) {
    const std::string workload = workload_of(folder.filename());
    const auto target = targets.workloads.find(workload);
    if (target == targets.workloads.end()) {
      throw UserError(fmt::format("{}: no target is known of the workload '{}'", folder.string(), workload));
    }
    Trial best;
    for (const fs::path& one : folders_in(folder, "trial_")) {
      const Trial trial = read_trial(one / "eval_measurements.csv", target->second);
      const auto order = [](const Trial& of) {
        return std::pair(of.evaluation.value_or(std::numeric_limits<int64_t>::max()), of.target_s);
      };
      if (best.step_s == 0 || order(trial) < order(best)) best = trial;
    }
    WorkloadTimes& times = submission.workloads[workload];
    times.target_s.push_back(best.target_s);
    if (best.evaluation && best.step_s > 0) times.step_s.push_back(best.step_s);
  }
}

bool is_of_algoperf(const fs::path& folder) {
  return fs::is_directory(folder) && !folders_in(folder, "study_").empty();
}

fs::path targets_beside(const fs::path& folder) {
  constexpr const char* kName = "workload_targets.json";
  for (const fs::path& place : {folder / kName, folder.parent_path() / kName}) {
    if (fs::exists(place)) return place;
  }
  throw UserError(
      fmt::format("{} has no targets: expected {} in it or beside it, or --targets FILE", folder.string(), kName));
}

// ---- mlbench --------------------------------------------------------------------------------------------------------

// A goal other than the task's makes another workload.
std::string workload_of(const record::Record& record) {
  const record::Goal& goal = *record.goal;
  const auto overrides = record.overrides.value_or(std::vector<spec::Override>{});
  std::string name = record.task;
  if (!record.rules.empty()) name += " " + record.rules;
  if (record.limits.light) name += " light";
  if (std::ranges::any_of(overrides, [](const auto& one) { return one.key == "goal.target"; }) && goal.target) {
    name += fmt::format(" {}{}{}", goal.metric, goal.higher_is_better.value_or(true) ? ">=" : "<=", *goal.target);
  }
  return fmt::format("{} k={}", name, record.workers.value_or(1));
}

Submission submission_of(const std::vector<MeasuredRun>& runs) {
  Submission submission;
  for (const MeasuredRun& run : runs) {
    const record::Record& record = run.record;
    if (!record.goal || record.task.empty()) continue;
    WorkloadTimes& times = submission.workloads[workload_of(record)];
    const bool reached = record.goal->reached && record.goal->train_s;
    times.target_s.push_back(reached ? *record.goal->train_s : kNever);
    const double steps = static_cast<double>(record.throughput.steps.value_or(0));
    if (reached && steps > 0 && record.clocks.train_s) times.step_s.push_back(*record.clocks.train_s / steps);
  }
  return submission;
}

// What differs between the runs of a workload, beside algorithm and seed.
void note_differences(const std::vector<MeasuredRun>& runs, std::vector<std::string>& notes) {
  std::map<std::string, const record::Record*> first;
  std::set<std::string> known;
  for (const MeasuredRun& run : runs) {
    if (!run.record.goal) continue;
    const std::string workload = workload_of(run.record);
    const auto [other, is_first] = first.emplace(workload, &run.record);
    if (is_first) continue;
    Keys keys = Conditions(run.record).differences(Conditions(*other->second));
    std::erase_if(keys, [](const ComparisonKey* key) { return key->name == "algorithm"; });
    if (keys.empty()) continue;
    std::string note = fmt::format("runs of {} differ in {}, too", workload, in_words(keys));
    if (known.insert(note).second) notes.push_back(std::move(note));
  }
}

}  // namespace

Submissions read_submissions(const std::vector<fs::path>& folders, const fs::path& targets) {
  Submissions found;
  std::vector<MeasuredRun> runs;
  std::set<std::string> missing;
  size_t of_algoperf = 0;
  for (const fs::path& given : folders) {
    const fs::path folder = fs::absolute(given / "").lexically_normal().parent_path();
    Submission submission;
    if (is_of_algoperf(folder)) {
      ++of_algoperf;
      const Targets of_all = read_targets(targets.empty() ? targets_beside(folder) : targets);
      for (const fs::path& study : folders_in(folder, "study_")) read_study(study, of_all, submission);
      for (const std::string& base : of_all.bases) missing.insert(base);
      for (const auto& [workload, times] : submission.workloads) {
        const std::string base = base_of(workload, of_all.bases);
        if (of_all.workloads.at(workload).held_out && !base.empty()) found.held_out[workload] = base;
      }
    } else {
      std::vector<MeasuredRun> own = read_runs(folder, found.notes);
      submission = submission_of(own);
      if (submission.workloads.empty()) throw UserError(folder.string() + ": no run in it has a goal");
      std::ranges::move(own, std::back_inserter(runs));
    }
    submission.name = folder.filename();
    for (const Submission& other : found.list) {
      if (other.name == submission.name) {
        throw UserError(fmt::format("two folders are called {}: a submission has the name of its folder", other.name));
      }
    }
    found.list.push_back(std::move(submission));
  }
  if (of_algoperf > 0 && of_algoperf < folders.size()) {
    throw UserError("folders of AlgoPerf and runs of mlbench were given: score each kind by itself");
  }
  for (const Submission& one : found.list) {
    for (const auto& [workload, times] : one.workloads) missing.erase(workload);
  }
  for (const std::string& base : missing) {
    found.notes.push_back(fmt::format("no submission was measured on {}: it does not count", base));
  }
  note_differences(runs, found.notes);
  std::vector<const record::Record*> records;
  for (const MeasuredRun& run : runs) records.push_back(&run.record);
  add_comparison_notes(records, found.notes);
  return found;
}

}  // namespace mlbench::report
