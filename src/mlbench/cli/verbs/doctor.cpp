#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>

#include "mlbench/base/energy_meter.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/or_null.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/process.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/text.h"
#include "mlbench/catalog/options/options.h"
#include "mlbench/catalog/programs/programs.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/terminal/interrupt.h"
#include "mlbench/cli/verbs/finding.h"
#include "mlbench/cli/verbs/option_flags.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/locate.h"
#include "mlbench/models/layer_kinds.h"
#include "mlbench/plan/choices.h"
#include "mlbench/plan/plan.h"
#include "mlbench/record/bfloat16_speed.h"
#include "mlbench/report/draw/table.h"
#include "mlbench/supervise/core_lock.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

Finding check_home(const Context& context) {
  try {
    const fs::path home = context.home();
    write_file_atomically(home / fmt::format(".doctor-{}", getpid()), "writable\n");
    fs::remove(home / fmt::format(".doctor-{}", getpid()));
    return {"home", Verdict::kOk, home.string() + " is writable", ""};
  } catch (const std::exception& error) {
    return {"home", Verdict::kFail, error.what(), fmt::format("give another with --home DIR or {}", variables::kHome)};
  }
}

// Where ranks write beside the home: temporary files, and shared memory.
std::vector<Finding> check_other_disks() {
  std::vector<Finding> findings;
  for (const char* folder : {"/tmp", "/dev/shm"}) {
    std::error_code error;
    const fs::space_info space = fs::space(folder, error);
    if (error) {
      findings.push_back({"disk", Verdict::kWarn, fmt::format("{}: {}", folder, error.message()), ""});
    } else {
      findings.push_back(
          {"disk", Verdict::kOk, fmt::format("{} free in {}", report::format_bytes(space.available), folder), ""});
    }
  }
  return findings;
}

Finding check_disk(const Context& context) {
  constexpr uint64_t kLittle = 500'000'000, kEnough = 2'000'000'000;
  try {
    const fs::path home = context.home();
    const uint64_t free_bytes = fs::space(home).available;
    const std::string message = fmt::format("{} free in {}", report::format_bytes(free_bytes), home.string());
    if (free_bytes < kLittle)
      return {"disk", Verdict::kFail, message, fmt::format("free some space, or move the home: {}", variables::kHome)};
    if (free_bytes < kEnough) return {"disk", Verdict::kWarn, message, "data caches and checkpoints may need more"};
    return {"disk", Verdict::kOk, message, ""};
  } catch (const std::exception& error) {
    return {"disk", Verdict::kFail, error.what(),
            fmt::format("give another home with --home DIR or {}", variables::kHome)};
  }
}

// Starts a worker program even when its catalog is cached, to see that its libraries load here and now.
Finding ask_worker(const catalog::ProgramRow& program, const fs::path& worker, supervise::WorkerCatalog& its) {
  const bool needed = program.framework.empty();
  const auto bad = [&](const std::string& why) -> Finding {
    its.reason = why;
    return {"worker", needed ? Verdict::kFail : Verdict::kWarn, why, catalog::advice_for(program)};
  };
  try {
    ProcessOptions options;
    options.arguments = {worker.string(), "--catalog"};
    const auto start = std::chrono::steady_clock::now();
    const ProcessOutput output = run_process(options, std::chrono::seconds(60));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (output.end.code != 0) {
      return bad(fmt::format("{} exits with {}: {}", worker.string(), output.end.code, output.standard_error));
    }
    its.catalog = parse_json(output.standard_output, inputs::kWorkerCatalog);
    return {"worker", Verdict::kOk, fmt::format("{} starts in {:.2f} s", worker.string(), seconds), ""};
  } catch (const std::exception& error) {
    return bad(error.what());
  }
}

// What there is of a table of the workers' catalog. Back ends whose ranks mpirun starts are available only where `mpi`
// says that it works.
Finding check_table(const Json& catalog, const char* table, const Finding& mpi) {
  std::vector<std::string> names = plan::available_names(catalog, table);
  std::vector<std::string> missing;
  if (mpi.verdict != Verdict::kOk) {
    std::erase_if(names, [&](const std::string& name) {
      const bool lacks = catalog::backend_facts(name).needs_mpirun;
      if (lacks) missing.push_back(fmt::format("{} ({})", name, mpi.message));
      return lacks;
    });
  }
  for (const Json& row : catalog.value(table, Json::array())) {
    if (row.is_object() && !row.value("available", true)) {
      missing.push_back(fmt::format("{} ({})", row.value("name", ""), row.value("reason", "")));
    }
  }
  std::string message = names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
  if (!missing.empty()) message += fmt::format("; not available: {}", fmt::join(missing, ", "));
  return {table, names.empty() ? Verdict::kFail : Verdict::kOk, message,
          names.empty() ? "mlbench list " + std::string(table) : ""};
}

// How fast the framework computes in bfloat16, where it has that.
std::vector<Finding> check_bfloat16(const fs::path& worker, const fs::path& home, const Json& framework) {
  std::vector<Finding> findings;
  const Json precisions = framework.value("precisions", Json::array());
  const bool has = std::ranges::find(precisions, Json("bf16")) != precisions.end();
  if (!has || !framework.value("available", false) || !framework.value("computes", true)) return findings;
  const std::string name = framework.value("name", "");
  for (const std::string_view work : {models::kConvolutions, models::kProducts}) {
    const auto speed = supervise::bfloat16_speed(worker, home, name, work);
    const bool slower = speed.verdict == record::kSlower;
    findings.push_back({"precision", slower ? Verdict::kWarn : Verdict::kOk, record::describe_bfloat16(speed, name),
                        slower ? "train in float32: type --set precision=float32" : ""});
  }
  return findings;
}

std::vector<Finding> check_workers(const Context& context, const Finding& mpi) {
  std::vector<Finding> findings;
  Json catalog;
  for (const catalog::ProgramRow& program : catalog::programs()) {
    const fs::path worker = catalog::path_of(program, context.worker());
    const bool needed = program.framework.empty();
    supervise::WorkerCatalog its = {std::nullopt, "there is no worker program at " + worker.string()};
    if (fs::exists(worker)) {
      findings.push_back(ask_worker(program, worker, its));
    } else if (needed) {
      findings.push_back({"worker", Verdict::kFail, its.reason, catalog::advice_for(program)});
    }
    if (!needed) {
      supervise::add_framework(catalog, program, its);
    } else if (its.catalog) {
      catalog = std::move(*its.catalog);
    } else {
      return findings;
    }
  }
  for (const char* table : {"frameworks", "backends"}) findings.push_back(check_table(catalog, table, mpi));
  try {
    const fs::path home = context.home();
    for (const Json& framework : catalog.value("frameworks", Json::array())) {
      std::ranges::move(check_bfloat16(context.worker(), home, framework), std::back_inserter(findings));
    }
  } catch (const std::exception&) {
    // check_home() reports a home that cannot be used.
  }
  return findings;
}

Finding check_guard() {
  const fs::path guard = supervise::guard_path();
  if (access(guard.c_str(), X_OK) == 0) return {"guard", Verdict::kOk, guard.string(), ""};
  return {"guard", Verdict::kFail, "there is no program " + guard.string() + ": no rank can be started",
          "build it: cmake --build --preset release --target mlbench-guard; or install the package mlbench again"};
}

std::vector<Finding> check_data(const Context& context) {
  std::vector<Finding> findings;
  std::vector<std::string> dirs;
  if (const auto folder = environment_variable(variables::kDataDir)) dirs.push_back(*folder);
  try {
    dirs.push_back(data_dir_of(context.home()));
  } catch (const std::exception&) {
    // check_home() reports a home that cannot be used.
  }
  for (const std::string& name : dataset::dataset_names()) {
    const dataset::DatasetDescription& description = dataset::find_description(name);
    if (description.only_made()) continue;
    dataset::SearchResult search;
    try {
      search = dataset::search(description, dirs);
    } catch (const std::exception& error) {  // of an object store
      findings.push_back({"data", Verdict::kWarn, fmt::format("{}: {}", name, error.what()),
                          "check the credentials and " + std::string(variables::kDataDir)});
      continue;
    }
    if (!search.misfits.empty()) {
      findings.push_back({"data", Verdict::kWarn,
                          fmt::format("{}: what lies here does not fit:{}", name, search.misfits),
                          "complete or remove it: see mlbench data list"});
    } else if (search.found) {
      findings.push_back({"data", Verdict::kOk, fmt::format("{} in {}", name, search.found->folder.string()), ""});
    } else {
      std::string advice = dataset::way_to_get(description, dirs);
      if (!description.system_package.empty()) advice += ", or apt-get install " + description.system_package;
      findings.push_back({"data", Verdict::kWarn, name + " is not here", advice});
    }
  }
  return findings;
}

std::vector<Finding> check_cores() {
  std::vector<Finding> findings;
  const int cores = available_cores();
  const Json host = capture_host(100);
  const Json load = host.value("load_1m", Json());
  std::string message = counted(cores, "core") + " for this process";
  Verdict verdict = Verdict::kOk;
  std::string advice;
  if (load.is_number()) {
    message += fmt::format(", load {:.1f}", load.get<double>());
    if (load.get<double>() > 0.5 * cores) {
      verdict = Verdict::kWarn;
      advice = "other programs use the cores: times will be longer and vary";
    }
  }
  findings.push_back({"cores", verdict, message, advice});
  const fs::path lock = supervise::default_core_lock();
  try {
    if (supervise::take_core_lock(lock, std::chrono::milliseconds(0))) {
      findings.push_back({"core lock", Verdict::kOk, lock.string() + " is free", ""});
    } else {
      findings.push_back({"core lock", Verdict::kWarn, lock.string() + " is held by a run",
                          "a new run waits for it; see mlbench status, or start with --no-wait"});
    }
  } catch (const std::exception& error) {
    findings.push_back({"core lock", Verdict::kFail, error.what(),
                        fmt::format("set {} to a path you may write", variables::kCoreLock)});
  }
  return findings;
}

// What `energy` of a record comes from.
Finding check_energy() {
  const EnergyMeter meter;
  if (meter.problem().empty()) return {"energy", Verdict::kOk, meter.name(), ""};
  return {"energy", Verdict::kOk, "no meter: " + meter.problem() + "; the energy of runs here is not known", ""};
}

Finding check_gnuplot() {
  try {
    ProcessOptions options;
    options.arguments = {"gnuplot", "--version"};
    const ProcessOutput output = run_process(options, std::chrono::seconds(10));
    std::string version = output.standard_output;
    while (!version.empty() && version.back() == '\n') version.pop_back();
    if (output.end.code == 0) return {"gnuplot", Verdict::kOk, version, ""};
  } catch (const std::exception&) {
    // An exception means the same as an exit code other than 0.
  }
  return {"gnuplot", Verdict::kWarn, "not found: only plots need it", "apt-get install gnuplot-nox"};
}

ExitCode doctor(const Context& context, const spec::RunOptions& options) {
  const InterruptGuard guard;
  std::vector<Finding> findings = {check_home(context), check_disk(context)};
  const auto add = [&](std::vector<Finding> more) {
    findings.insert(findings.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  add(check_other_disks());
  const Finding mpi = check_mpi();
  add(check_workers(context, mpi));
  add({mpi, check_executors()});
  findings.push_back(check_guard());
  add(check_data(context));
  add(check_cores());
  add(findings_of(capture_host(0), ""));
  findings.push_back(check_energy());
  findings.push_back(check_gnuplot());
  const bool others = options.executor != spec::RunOptions().executor || !options.engine.empty();
  if (others) add(ask_hosts(context, options));

  static constexpr std::array<const char*, 3> kWords = {"ok", "warn", "fail"};
  static constexpr std::array<const char*, 3> kColours = {"\x1b[32m", "\x1b[33m", "\x1b[31m"};
  const bool colour = colours(STDOUT_FILENO);
  bool failed = false;
  Json answer = Json::array();
  for (const Finding& finding : findings) {
    const auto verdict = static_cast<size_t>(finding.verdict);
    failed = failed || finding.verdict == Verdict::kFail;
    answer.push_back({{"host", text_or_null(finding.host)},
                      {"check", finding.check},
                      {"verdict", kWords[verdict]},
                      {"message", finding.message},
                      {"advice", finding.advice}});
    if (context.json) continue;
    const std::string message = (finding.host.empty() ? "" : finding.host + ": ") + finding.message;
    print_as_it_is(fmt::format("{}{:<4}{}  {:<10}  {}\n", colour ? kColours[verdict] : "", kWords[verdict],
                               colour ? "\x1b[0m" : "", finding.check, printable_lines(message)));
    if (!finding.advice.empty()) print(fmt::format("      {:<10}  {}\n", "", finding.advice));
  }
  if (context.json) print_json(answer);
  return failed ? ExitCode::kUserError : ExitCode::kOk;
}

}  // namespace

void add_doctor(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "doctor", "Check that runs can work here, and say what to do if not");
  auto options = std::make_shared<spec::RunOptions>();
  add_run_option(*verb, *options, &spec::RunOptions::executor,
                 "ask the hosts of this executor, too: those of -H, or the nodes of its cluster");
  for (const spec::RunOption& option : catalog::run_options()) {
    const bool of_runs = option.name == "requeue" || option.name == "ranks_per_host";
    if (option.of_executor() && !of_runs) add_run_option(*verb, *options, option);
  }
  const auto action = [options](const Context& context) { return doctor(context, *options); };
  act(*verb, program, action, Signals::kRead);
}

}  // namespace mlbench::cli
