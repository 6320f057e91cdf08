#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <type_traits>
#include <variant>

#include "mlbench/base/files.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/follow.h"
#include "mlbench/cli/interrupt.h"
#include "mlbench/cli/option_flags.h"
#include "mlbench/cli/plan.h"
#include "mlbench/cli/runs.h"
#include "mlbench/cli/verbs.h"
#include "mlbench/report/collectives_comparison.h"
#include "mlbench/report/collectives_result.h"
#include "mlbench/report/collectives_table.h"
#include "mlbench/report/records.h"
#include "mlbench/spec/collectives_options.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

struct BenchOptions {
  spec::RunOptions run;
  spec::CollectivesOptions measured;
  std::string compare;  // a result or record to compare with
  bool dry_run = false, csv = false, percentiles = false;
};

// NAME-K or the first of NAME-K.2, NAME-K.3, ... that is free: a benchmark is measured again and again.
std::string free_name(const fs::path& home, const std::string& name) {
  std::string free = name;
  for (int64_t number = 2; fs::exists(report::runs_dir(home) / free); ++number) {
    free = fmt::format("{}.{}", name, number);
  }
  return free;
}

void show(const BenchOptions& options, const report::CollectivesResult& result) {
  if (options.csv) {
    print(report::collectives_csv(result.rows));
    return;
  }
  print(report::collectives_table(result));
  if (options.percentiles) print("\n" + report::percentiles_table(result.rows));
}

ExitCode measure(const Context& context, const BenchOptions& options) {
  const InterruptGuard guard;
  const spec::CollectivesSpec wanted = spec::collectives_spec(options.measured);
  std::optional<report::CollectivesResult> other;
  if (!options.compare.empty()) other = report::read_collectives_result(options.compare);
  const PlanFacts facts = gather_facts(context.worker(), context.home());
  std::vector<spec::RunSpec> runs = plan_collectives(options.run, wanted, facts);
  for (spec::RunSpec& run : runs) {
    run.name = free_name(facts.home, run.name);
    run.run_dir = report::runs_dir(facts.home) / run.name;
  }
  for (const std::string& warning : plan_warnings(runs, facts.cores)) say("note: " + warning);
  if (options.dry_run) {
    Json plans = Json::array();
    for (const spec::RunSpec& run : runs) plans.push_back({{"name", run.name}, {"spec", spec::to_json(run)}});
    print_json(plans);
    return ExitCode::kOk;
  }
  std::vector<Json> records;
  Json documents = Json::array();
  for (const spec::RunSpec& planned : runs) {
    const spec::RunSpec made = create_run(facts.home, planned);
    supervise::SupervisorOptions supervisor = supervisor_options(context.worker(), made);
    supervisor.no_wait = options.run.no_wait;
    const Followed followed = run_attached(
        made, supervisor, fmt::format("{}: collectives, {} ranks, {}", made.name, made.workers, made.backend));
    records.push_back(followed.record);
    if (const auto result = report::collectives_of(followed.record)) {
      documents.push_back(report::to_json(*result));
      if (!context.json) show(options, *result);
      if (other) {
        const report::CollectivesComparison comparison = report::compare_collectives(*result, *other);
        documents.back()["comparison"] = report::to_json(comparison);
        if (!context.json) print("\n" + report::comparison_text(comparison));
      }
    }
    if (followed.interrupted) break;
  }
  if (!options.measured.output_file.empty()) {
    write_json_file(options.measured.output_file, documents.size() == 1 ? documents.front() : documents);
  }
  if (context.json) print_json(documents);
  const ExitCode code = exit_code_of_runs(records);
  if (code != ExitCode::kOk && !context.json) print(results_text(facts.home, records, context.command));
  return code;
}

void add_collectives_options(CLI::App& verb, spec::CollectivesOptions& options) {
  for (const spec::CollectivesOption& row : spec::collectives_options()) {
    std::string help(row.help);
    if (!row.usual.empty()) help += fmt::format(" (default: {})", row.usual);
    CLI::Option* added = std::visit(
        [&](auto member) -> CLI::Option* {
          if constexpr (std::is_same_v<decltype(member), bool spec::CollectivesOptions::*>) {
            return verb.add_flag(std::string(row.flags), options.*member, help);
          } else {
            return verb.add_option(std::string(row.flags), options.*member, help);
          }
        },
        row.member);
    if (!row.value.empty()) added->type_name(std::string(row.value));
    if (!row.group.empty()) added->group(std::string(row.group));
    if (!row.flags.starts_with('-')) added->required();
  }
}

}  // namespace

void add_bench(CLI::App& app, Program& program) {
  CLI::App* group = app.add_subcommand("bench", "Measure the machine: collectives");
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
  using Options = spec::RunOptions;
  for (const auto member : {&Options::algorithm, &Options::links, &Options::socket_buffer, &Options::network_interface,
                            &Options::wire_dtype, &Options::netem}) {
    add_run_option(*verb, options->run, member);
  }
  add_run_option(*verb, options->run, &Options::check_collectives);
  verb->add_option("--name", options->run.name, "of the run that keeps it: NAME-K (default: collectives)")
      ->type_name("NAME")
      ->group(how);
  verb->add_flag("--dry-run", options->dry_run, "print what would run, and start nothing")->group(how);
  const char* outcome = "Outcome";
  verb->add_option("--compare", options->compare, "say what is faster or slower than this result or record")
      ->type_name("FILE")
      ->group(outcome);
  verb->add_flag("--csv", options->csv, "the table as comma-separated values")->group(outcome);
  verb->add_flag("--percentiles", options->percentiles, "a second table with the percentiles of the iterations")
      ->group(outcome);
  verb->footer(
      "Example:  mlbench bench collectives all_reduce -k 2 --backend gloo -b 8 -e 4M\n"
      "What the columns mean: docs/communicators/collectives.md");
  verb->callback([&program, options] {
    program.reads_signals = true;
    program.action = [&program, options] { return measure(program.context, *options); };
  });
}

}  // namespace mlbench::cli
