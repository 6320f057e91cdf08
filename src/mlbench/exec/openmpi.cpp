#include "mlbench/exec/openmpi.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "mlbench/base/own_variables.h"
#include "mlbench/guard/openmpi.h"

namespace mlbench::exec {
namespace {

// The seconds that mpirun waits between SIGCONT, SIGTERM and SIGKILL where it ends the guards: a guard needs up to 3 s.
constexpr const char* kKillSeconds = "2";

}  // namespace

bool is_numeric_address(const std::string& text) {
  const auto fits = [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; };
  return text.find(':') != std::string::npos || std::ranges::all_of(text, fits);
}

std::vector<std::string> mpirun_words(const MpirunOptions& options) {
  const std::vector<std::string>& hosts = options.hosts;
  const bool here = options.agent.empty();
  const bool shared = std::set<std::string>(hosts.begin(), hosts.end()).size() < hosts.size();
  std::vector<std::string> words = {"mpirun", "-n", std::to_string(hosts.size())};
  const auto parameter = [&](const char* name, const std::string& value) {
    words.insert(words.end(), {"--mca", name, value});
  };
  // One host per rank, in order. Mapped by slot, the ranks of mpirun's own host would be the first.
  words.insert(words.end(), {"--host", fmt::format("{}", fmt::join(hosts, ",")), "--map-by", "seq"});
  words.insert(words.end(), {"--bind-to", "none"});
  if (!options.working_directory.empty()) words.insert(words.end(), {"--wdir", options.working_directory.string()});

  // mpirun takes these hosts alone, by the names given, whatever batch system this command itself runs under.
  parameter("ras", "^slurm,gridengine,tm,lsf,alps");
  parameter("orte_keep_fqdn_hostnames", "1");
  if (here) {
    parameter("plm", "isolated");
    parameter("oob_tcp_if_include", "lo");
  } else {
    parameter("plm", "rsh");
    parameter("plm_rsh_agent", options.agent);
    if (!options.agent_arguments.empty()) parameter("plm_rsh_args", options.agent_arguments);
    // No host but this one has the keys, or links, for the others.
    parameter("plm_rsh_no_tree_spawn", "1");
    // A lost host is noticed after 11 s, not after minutes.
    parameter("oob_tcp_keepalive_time", "5");
    parameter("oob_tcp_keepalive_intvl", "2");
    parameter("oob_tcp_keepalive_probes", "3");
    if (!options.interface.empty()) parameter("oob_tcp_if_include", options.interface);
  }
  // The supervisor judges which rank failed, and ends the others.
  parameter("orte_abort_on_non_zero_status", "0");
  parameter("odls_base_sigkill_timeout", kKillSeconds);
  // These parameters are for ranks that use MPI.
  parameter("pml", "ob1");
  parameter("btl", here ? "self,vader" : shared ? "self,vader,tcp" : "self,tcp");
  if (!here && !options.interface.empty()) parameter("btl_tcp_if_include", options.interface);
  if (options.shares_cores) parameter("mpi_yield_when_idle", "1");
  return words;
}

std::vector<std::string> mpirun_over_links(const LaunchRequest& request) {
  const std::string program = guard::kGuardWord;
  MpirunOptions options;
  for (int rank = 0; rank < request.workers; ++rank) options.hosts.push_back(openmpi_host(rank));
  options.agent = program + " agent";
  // An address is one host's: Open MPI finds those of the other hosts.
  if (!is_numeric_address(request.network_interface)) options.interface = request.network_interface;
  options.shares_cores = request.environment.contains(variables::kOversubscribed);
  std::vector<std::string> words = mpirun_words(options);
  // The daemons are where mpirun is in the image, whatever prefix it was built with. They stay below their guards,
  // which say how they end. Open MPI has no say in whether ranks may be root's.
  words.insert(words.end(),
               {"--noprefix", "--mca", "orte_leave_session_attached", "1", "--allow-run-as-root", program, "stub"});
  return words;
}

std::string openmpi_host(int rank) { return fmt::format("rank-{}", rank); }

}  // namespace mlbench::exec
