#include "mlbench/cli/verbs/finding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <utility>

#include "mlbench/base/files.h"
#include "mlbench/base/process.h"
#include "mlbench/base/text.h"
#include "mlbench/catalog/control/catalog.h"
#include "mlbench/catalog/options/options.h"
#include "mlbench/cli/verbs/start_runs.h"
#include "mlbench/exec/openmpi.h"
#include "mlbench/plan/choices.h"
#include "mlbench/record/record.h"
#include "mlbench/report/draw/table.h"
#include "mlbench/spec/hosts.h"

namespace mlbench::cli {

namespace {

constexpr const char* kNotKnown = "not known";

std::string names_in(const Json& rows) {
  std::vector<std::string> names;
  for (const Json& row : rows) {
    const Json name = row.value("name", Json());
    names.push_back(name.is_string() ? name.get<std::string>() : kNotKnown);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

Finding memory_of(const Json& host) {
  const Json cores = host.value("cores", Json()), bytes = host.value("ram_bytes", Json());
  return {"memory", Verdict::kOk,
          fmt::format("{} for {}", bytes.is_number() ? report::format_bytes(bytes.get<uint64_t>()) : kNotKnown,
                      cores.is_number() ? counted(cores.get<int64_t>(), "core") : "cores that are not known")};
}

Finding network_of(const Json& host) {
  std::vector<std::string> cards;
  for (const Json& card : host.value("nics", Json::array())) {
    const Json speed = card.value("speed_mbit", Json());
    cards.push_back(fmt::format(
        "{}, {}", card.value("name", ""),
        speed.is_number() ? fmt::format("{} Mbit/s", speed.get<int64_t>()) : std::string("speed not known")));
  }
  if (!host.contains("nics")) return {"network", Verdict::kOk, kNotKnown};
  if (cards.empty()) return {"network", Verdict::kOk, "no network card beside the loopback"};
  return {"network", Verdict::kOk, fmt::format("{}", fmt::join(cards, "; "))};
}

Finding clock_of(const Json& host) {
  const Json clock = host.value("clock", Json());
  if (!clock.is_object()) return {"clock", Verdict::kOk, "whether a time service keeps it is not known"};
  if (clock.value("synchronised", false)) {
    return {"clock", Verdict::kOk,
            fmt::format("kept by a time service, wrong by at most {:.1f} ms", clock.value("error_ms", 0.0))};
  }
  return {"clock", Verdict::kWarn, "no time service keeps it: the times of several hosts cannot be compared",
          "apt-get install chrony, on each host"};
}

std::string amount(const std::optional<double>& value, const char* unit) {
  return value ? fmt::format("{:g} {}", *value, unit) : fmt::format("{} {}", unit, kNotKnown);
}

// What an engine says of a node.
Finding finding_of(const exec::ClusterNode& node) {
  const auto gpus = node.gpus ? std::optional(static_cast<double>(*node.gpus)) : std::nullopt;
  std::string message = amount(node.cpus, "CPUs") + ", " + amount(gpus, "GPUs");
  message += ", memory " + (node.memory_bytes ? report::format_bytes(static_cast<uint64_t>(*node.memory_bytes))
                                              : std::string(kNotKnown));
  if (!node.state.empty()) message += ", " + node.state;
  return {"node", node.ready == false ? Verdict::kWarn : Verdict::kOk, std::move(message), "", node.name};
}

std::vector<Finding> nodes_of_engine(const spec::RunOptions& options) {
  const exec::ClusterNodes known =
      catalog::make_executor(options.executor, spec::engine_of(options, catalog::run_options()))->nodes();
  std::vector<Finding> findings;
  for (const exec::ClusterNode& node : known.nodes) findings.push_back(finding_of(node));
  if (!known.problem.empty()) findings.push_back({"nodes", Verdict::kWarn, known.problem});
  return findings;
}

}  // namespace

std::vector<Finding> findings_of(const Json& host, const std::string& name) {
  const Json nodes = host.value("numa_nodes", Json()), gpus = host.value("gpus", Json());
  std::vector<Finding> findings = {
      memory_of(host),
      network_of(host),
      {"NUMA", Verdict::kOk, nodes.is_number() ? counted(nodes.get<int64_t>(), "node") : kNotKnown},
      {"GPUs", Verdict::kOk,
       !gpus.is_array() ? kNotKnown
       : gpus.empty()   ? "none"
                        : names_in(gpus)},
      clock_of(host)};
  for (Finding& finding : findings) finding.host = name;
  return findings;
}

Finding check_mpi() {
  const std::string advice = "apt-get install openmpi-bin; only --backend mpi and --executor mpirun need it";
  if (!program_exists("mpirun")) return {"mpi", Verdict::kWarn, "there is no mpirun in PATH", advice};
  ProcessOptions options;
  options.arguments = exec::mpirun_words({.hosts = {"localhost", "localhost"}});
  options.arguments.emplace_back("true");
  options.environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  try {
    const ProcessOutput said = run_process(options, std::chrono::seconds(30));
    if (said.end.code == 0) return {"mpi", Verdict::kOk, "mpirun starts processes here"};
    return {"mpi", Verdict::kWarn,
            fmt::format("mpirun ends with code {}: {}", said.end.code, exec::last_words(said.standard_error)), advice};
  } catch (const std::exception& error) {
    return {"mpi", Verdict::kWarn, error.what(), advice};
  }
}

Finding check_executors() {
  std::vector<std::string> here, missing;
  for (const Json& row : plan::list_executors()) {
    const std::string name = row.at("name");
    if (row.at("available").get<bool>()) {
      here.push_back(name);
    } else {
      missing.push_back(fmt::format("{} ({})", name, row.value("reason", "")));
    }
  }
  std::string message = fmt::format("{}", fmt::join(here, ", "));
  if (!missing.empty()) message += fmt::format("; not available: {}", fmt::join(missing, ", "));
  return {"executors", Verdict::kOk, message};
}

std::vector<Finding> ask_hosts(const Context& context, spec::RunOptions options) try {
  const std::string hosts = spec::engine_text(options.engine, "hosts");
  if (hosts.empty()) return nodes_of_engine(options);
  const TemporaryFolder home;
  Context there = context;
  there.home_option = home.path().string();
  options.name = "doctor";
  options.workers = {std::to_string(spec::parse_hosts(hosts).size())};
  options.engine["ranks_per_host"] = "1";
  options.command = {"true"};
  options.work_dir = "/";
  options.no_wait = true;
  StartOptions start;
  start.local = start.executor_given = true;
  const StartedRuns started = start_runs(there, options, start, RowFormat::kNone);
  std::vector<Finding> findings;
  for (const record::Record& record : started.records) {
    if (record.failure) findings.push_back({"hosts", Verdict::kFail, record.failure->message, "mlbench run --help"});
    const Json hosts_of_run = record::to_json(record).at("hosts");
    for (const Json& host : hosts_of_run) {
      std::ranges::move(findings_of(host, host.at("name")), std::back_inserter(findings));
    }
  }
  return findings;
} catch (const UserError& error) {
  return {{"hosts", Verdict::kFail, error.what(), "see docs/executors/ for what the hosts need"}};
}

}  // namespace mlbench::cli
