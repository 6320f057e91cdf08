#include "mlbench/cli/verbs/kept_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/cli/remote.h"
#include "mlbench/home/runs.h"
#include "mlbench/plan/sweep_plan.h"

namespace mlbench::cli {

void refuse_master_elsewhere(const Context& context, const StartOptions& start, std::string_view study) {
  if (start.local) return;
  if (const auto master = given_master(context)) {
    throw UserError(
        fmt::format("{} reads the folders of its runs, and the chosen master {} is elsewhere: add "
                    "--local, or 'mlbench set-cluster local'",
                    study, master->url()));
  }
}

KeptRuns::KeptRuns(const Context& context, const StartOptions& start)
    : context_(context),
      start_(start),
      timelines_(start.timeline, false),
      facts_(plan::gather_facts(context.worker(), context.home())) {}

spec::RunSpec KeptRuns::plan(spec::RunOptions options) const {
  options.timeline = timelines_.wanted();
  return plan::plan_runs(options, facts_).front();
}

std::optional<record::Record> KeptRuns::finished_like(const spec::RunSpec& planned) const {
  std::optional<record::Record> finished;
  for (const std::string& name : plan::runs_like(facts_.home, planned)) {
    record::Record record = home::current_record(runs_dir(facts_.home) / name);
    if (record::is_active(record)) {
      throw UserError(
          fmt::format("run '{}' of this study is {}: wait for it, or stop it with 'mlbench stop {}', and "
                      "type the same again",
                      name, record.state, name));
    }
    if (record.state == "finished") finished = std::move(record);
  }
  return finished;
}

KeptRuns::Made KeptRuns::make(const spec::RunOptions& options) {
  Made made;
  const spec::RunSpec planned = plan(options);
  if (auto kept = finished_like(planned)) {
    say(fmt::format("{} is kept", kept->name));
    made.records.push_back(std::move(*kept));
    return made;
  }
  StartOptions start = start_;
  if (timelines_.wanted()) start.timeline = timelines_.of(planned.name, 2);
  try {
    StartedRuns started = start_runs(context_, options, start, RowFormat::kNone);
    interrupted_ = started.interrupted || started.ends_with.has_value();
    for (record::Record& record : started.records) {
      interrupted_ = interrupted_ || record.state == "stopped";
      made.records.push_back(std::move(record));
    }
  } catch (const std::exception& error) {
    made.refused = error.what();
    say(fmt::format("{}: {}", planned.name, error.what()));
  }
  return made;
}

KeptRuns::Made KeptRuns::make_repeats(int64_t repeats,
                                      const std::function<spec::RunOptions(int64_t repeat)>& options_of) {
  Made all;
  for (int64_t repeat = 0; repeat < repeats && !interrupted_; ++repeat) {
    Made made = make(options_of(repeat));
    std::ranges::move(made.records, std::back_inserter(all.records));
    if (!made.refused.empty()) all.refused = std::move(made.refused);
  }
  return all;
}

std::vector<record::Record> KeptRuns::look_at(const std::vector<spec::RunOptions>& wanted,
                                              std::vector<spec::RunSpec>& missing) const {
  std::vector<record::Record> finished;
  for (const spec::RunOptions& options : wanted) {
    spec::RunSpec run = plan(options);
    if (auto record = finished_like(run)) {
      finished.push_back(std::move(*record));
      continue;
    }
    const std::string hash = plan::specification_hash(run);
    const bool again = std::ranges::any_of(missing, [&](const spec::RunSpec& one) {
      return one.name == run.name && plan::specification_hash(one) == hash;
    });
    if (again) continue;
    run.run_dir = runs_dir(facts_.home) / run.name;
    missing.push_back(std::move(run));
  }
  return finished;
}

}  // namespace mlbench::cli
