#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <memory>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/catalog/options/options.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/follow.h"
#include "mlbench/cli/remote.h"
#include "mlbench/cli/terminal/interrupt.h"
#include "mlbench/cli/verbs/bench_decode.h"
#include "mlbench/cli/verbs/option_flags.h"
#include "mlbench/cli/verbs/start_runs.h"
#include "mlbench/cli/verbs/timeline_file.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/report/collectives/comparison.h"
#include "mlbench/report/collectives/result.h"
#include "mlbench/report/collectives/table.h"
#include "mlbench/spec/collectives_options.h"

namespace mlbench::cli {

namespace {

struct BenchOptions {
  spec::RunOptions run;
  spec::CollectivesOptions measured;
  StartOptions start;
  std::vector<std::string> compare;  // files of results to compare with
  bool csv = false, percentiles = false;
};

using Results = std::vector<report::CollectivesResult>;

// The results with `workers` ranks, which are starts of one benchmark.
Results of_workers(const Results& results, int64_t workers) {
  Results starts;
  std::ranges::copy_if(results, std::back_inserter(starts),
                       [&](const report::CollectivesResult& one) { return one.workers == workers; });
  return starts;
}

// Compares `starts` with the results of `others` that have as many ranks. Where there are none, compares them with the
// first others, and the comparison says what differs.
report::CollectivesComparison compared(const Results& starts, const Results& others) {
  Results counterparts = of_workers(others, starts.front().workers);
  if (counterparts.empty()) counterparts = of_workers(others, others.front().workers);
  return report::compare_collectives(starts, counterparts);
}

ExitCode measure(const Context& context, BenchOptions options) {
  const InterruptGuard guard;
  outlive_readers();
  if (context.json && options.csv) {
    throw UserError("--json and --csv are both what standard output is to be: leave out one (-J FILE writes JSON)");
  }
  options.run.collectives = spec::to_json(spec::collectives_spec(options.measured));
  options.run.next_repeat = true;  // a benchmark is measured again and again under one name
  Results others;
  for (const std::string& file : options.compare) {
    std::ranges::move(report::read_collectives_results(file), std::back_inserter(others));
  }
  const RowFormat rows = context.json ? RowFormat::kNone : options.csv ? RowFormat::kCsv : RowFormat::kTable;
  const StartedRuns started = start_runs(context, options.run, options.start, rows);
  if (started.ends_with) return *started.ends_with;

  Json documents = Json::array();
  Results results;
  const bool texts = rows == RowFormat::kTable;
  for (const record::Record& record : started.records) {
    auto result = report::collectives_of(record);
    if (!result) continue;
    result->args = context.arguments;
    documents.push_back(report::to_json(*result));
    if (options.percentiles && texts) print("\n" + report::percentiles_table(result->rows));
    results.push_back(std::move(*result));
  }
  // A comparison stands in the document of the first start with that number of ranks.
  for (size_t i = 0; i < results.size() && !others.empty(); ++i) {
    const Results starts = of_workers(results, results[i].workers);
    if (starts.front().name != results[i].name) continue;
    const report::CollectivesComparison comparison = compared(starts, others);
    documents[i]["comparison"] = report::to_json(comparison);
    if (texts) print("\n" + report::comparison_text(comparison));
  }
  if (const std::string& file = options.measured.given.at("output-file"); !file.empty()) {
    const UserUmask named;
    write_json_file(file, documents.size() == 1 ? documents.front() : documents);
  }
  if (context.json) print_json(documents);
  const ExitCode code = started.interrupted ? ExitCode::kStopped : exit_code_of_runs(started.records);
  if (code != ExitCode::kOk && texts) print(results_text(context, started.records));
  return code;
}

void add_collectives_options(CLI::App& verb, spec::CollectivesOptions& options) {
  for (const spec::CollectivesOption& row : spec::collectives_options()) {
    std::string help(row.help);
    if (!row.usual.empty()) help += fmt::format(" (default: {})", row.usual);
    const std::string flags(row.flags);
    CLI::Option* added = nullptr;
    if (!row.flags.starts_with('-')) {
      added = verb.add_option(flags, options.operations, help)->required();
    } else if (std::string& given = options.given[row.name()]; row.value.empty()) {
      added = verb.add_flag_callback(
          flags, [&given] { given = "true"; }, help);
    } else {
      added = verb.add_option(flags, given, help);
    }
    if (!row.value.empty()) added->type_name(std::string(row.value));
    if (!row.group.empty()) added->group(std::string(row.group));
  }
}

}  // namespace

void add_bench(CLI::App& app, Program& program) {
  CLI::App* group = app.add_subcommand("bench", "Measure the machine: collectives, decoding of images, storage");
  group->require_subcommand(1);
  CLI::App* verb = add_verb(*group, program, "collectives", "Time and verify collective communication, size by size");
  auto options = std::make_shared<BenchOptions>();
  options->run.name = "collectives";
  add_collectives_options(*verb, options->measured);
  const char* how = "How to run";
  verb->add_option("-k,--ranks", options->run.workers, "number of ranks; several: one benchmark after the other")
      ->required()
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("K[,K]")
      ->group(how);
  add_run_option(*verb, options->run, &spec::RunOptions::backend);
  add_run_option(*verb, options->run, &spec::RunOptions::executor);
  add_run_option(*verb, options->run, &spec::RunOptions::comm_timeout);
  add_run_option(*verb, options->run, &spec::RunOptions::no_wait);
  add_run_option(
      *verb, options->run, &spec::RunOptions::repeat,
      "starts of each benchmark, in processes of their own; --compare has verdicts from 2, better 4, of both");
  add_timeline_option(*verb, options->start.timeline);
  using Options = spec::RunOptions;
  for (const spec::RunOption& option : catalog::run_options()) {
    if (option.of_executor() && option.applies == spec::AppliesTo::kAll) add_run_option(*verb, options->run, option);
  }
  for (const auto member : {&Options::algorithm, &Options::links, &Options::socket_buffer, &Options::network_interface,
                            &Options::wire_dtype, &Options::netem}) {
    add_run_option(*verb, options->run, member);
  }
  add_run_option(*verb, options->run, &Options::check_collectives);
  add_run_option(*verb, options->run, &Options::gpu, "buffers on the hosts' NVIDIA GPUs, one per rank (nccl)");
  verb->add_option("--name", options->run.name, "of the run that keeps it: NAME-K (default: collectives)")
      ->type_name("NAME")
      ->group(how);
  verb->add_flag("--local", options->start.local, "measure from here even when a master serves this home")->group(how);
  verb->add_flag("--dry-run", options->start.dry_run,
                 "print what would run, once all that is given is checked; nothing is started or written")
      ->group(how);
  const char* outcome = "Outcome";
  verb->add_option("--compare", options->compare,
                   "say what is faster or slower than this result or record, by the starts of as many ranks in it "
                   "(repeatable)")
      ->allow_extra_args(false)
      ->type_name("FILE")
      ->group(outcome);
  verb->add_flag("--csv", options->csv, "the table as comma-separated values")->group(outcome);
  verb->add_flag("--percentiles", options->percentiles,
                 "a second table with the percentiles of the iterations, which JSON and CSV have in any case")
      ->group(outcome);
  add_wide_option(*verb, program);
  add_master_options(*verb, program);
  verb->footer(
      "Example:  mlbench bench collectives all_reduce -k 2 --backend gloo -b 8 -e 4M\n"
      "What the columns mean: docs/communicators/collectives.md\n"
      "Exit code: 5 when a benchmark failed or a result was wrong.");
  const auto action = [options, verb](const Context& context) {
    options->start.executor_given = verb->count("--executor") > 0;
    return measure(context, *options);
  };
  act(*verb, program, action, Signals::kRead);
  add_bench_decode(*group, program);
  add_bench_storage(*group, program);
}

}  // namespace mlbench::cli
