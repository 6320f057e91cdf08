#include "mlbench/exec/mpirun/command.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>
#include <map>
#include <optional>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/exec/container.h"
#include "mlbench/exec/openmpi.h"
#include "mlbench/guard/launcher_words.h"

namespace mlbench::exec::mpirun {
namespace {

constexpr int kConnectSeconds = 10;

std::optional<in_addr> ipv4(const std::string& text) {
  in_addr address{};
  return inet_pton(AF_INET, text.c_str(), &address) == 1 ? std::optional(address) : std::nullopt;
}

struct OwnAddress {
  std::string interface;
  uint32_t address = 0, mask = 0;  // host byte order
};

std::string text_of(uint32_t address) {
  const in_addr number{htonl(address)};
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &number, text, sizeof text);
  return text;
}

std::vector<OwnAddress> own_addresses() {
  std::vector<OwnAddress> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_netmask == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    const auto number = [](const sockaddr* address) {
      return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
    };
    found.push_back({each->ifa_name, number(each->ifa_addr), number(each->ifa_netmask)});
  }
  freeifaddrs(list);
  return found;
}

// Whether a remote shell, and Open MPI's splitting at blanks, leave `text` as it is.
bool is_plain(const std::string& text) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || std::strchr("._-/+@=:,", c) != nullptr; };
  return !text.empty() && std::ranges::all_of(text, fits);
}

// The command that starts a rank's container. The words are the same on all hosts: each has the engine, and the
// folders.
std::vector<std::string> in_image(const Options& engine, const LaunchRequest& moved) {
  ContainerOptions container{.engine = container_engine(), .image = engine.image, .cpus = moved.cpus};
  if (moved.gpu) container.gpus = {kAllGpus};  // those of whatever host the rank is on
  container.folders = {{engine.scratch.empty() ? "/tmp" : engine.scratch, true}};
  container.folders.insert(container.folders.end(), moved.folders.begin(), moved.folders.end());
  for (const auto& [name, value] : guard::shielded(moved.environment)) container.variables.push_back(name);
  const auto mpirun_tells = openmpi_variables();
  container.variables.insert(container.variables.end(), mpirun_tells.begin(), mpirun_tells.end());
  return container_command(container, moved, "openmpi", guard::shielded(moved.command));
}

}  // namespace

bool all_here(const std::vector<std::string>& hosts) { return std::ranges::all_of(hosts, is_this_host); }

std::vector<std::string> hosts_of_ranks(const Options& engine, int ranks) {
  if (engine.hosts.empty()) {
    throw UserError("executor mpirun needs hosts: name them as -H h1:2,h2:2 (two ranks each) or --hostfile FILE");
  }
  std::vector<std::string> hosts = spec::place_ranks(spec::parse_hosts(engine.hosts), engine.ranks_per_host, ranks);
  for (const std::string& host : hosts) {
    if (host.find(':') != std::string::npos) {
      throw UserError(fmt::format("host {}: mpirun takes no number of IPv6: give the host by a name", host));
    }
    if (is_loopback(host) && !all_here(hosts)) {
      throw UserError(fmt::format(
          "{} beside other hosts, which cannot reach it by that: name this host as they do ({})", host, host_name()));
    }
  }
  return hosts;
}

std::vector<Placement> placement_on(const std::vector<std::string>& hosts) {
  std::vector<Placement> places;
  std::map<std::string, int> ranks_of;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    places.push_back({.host = hosts[rank], .rank = static_cast<int>(rank), .local_rank = ranks_of[hosts[rank]]++});
  }
  return places;
}

std::string network_of(const std::string& interface) {
  const auto refuse = [&](const std::string& why) {
    throw UserError(fmt::format("interface '{}': {}", shortened(interface), why));
  };
  if (!is_plain(interface)) refuse("expected a name (eth0), an address of this host, or a network (10.77.0.0/24)");
  const auto address = ipv4(interface);
  if (!address) return interface;
  const uint32_t number = ntohl(address->s_addr);
  for (const OwnAddress& own : own_addresses()) {
    if (own.address != number) continue;
    return fmt::format("{}/{}", text_of(own.address & own.mask), std::popcount(own.mask));
  }
  refuse(
      "this host has no such address; each host has its own: give the interface's name, or the network in CIDR "
      "notation");
  return {};
}

std::optional<std::string> own_address_on(const std::string& interface) {
  for (const OwnAddress& own : own_addresses()) {
    const std::string network = fmt::format("{}/{}", text_of(own.address & own.mask), std::popcount(own.mask));
    if (interface == own.interface || interface == text_of(own.address) || interface == network) {
      return text_of(own.address);
    }
  }
  return std::nullopt;
}

std::vector<std::string> ssh_options(const std::string& ssh_config) {
  std::vector<std::string> words;
  if (!ssh_config.empty()) words = {"-F", ssh_config};
  // Nobody is there whom ssh could ask. Where a host does not answer, ssh ends before mpirun's own patience does.
  words.insert(words.end(), {"-o", "BatchMode=yes", "-o", fmt::format("ConnectTimeout={}", kConnectSeconds), "-o",
                             "ServerAliveInterval=5", "-o", "ServerAliveCountMax=2"});
  return words;
}

std::string ssh_arguments(const std::string& ssh_config) {
  if (!ssh_config.empty() && !is_plain(ssh_config)) {
    throw UserError(
        fmt::format("--ssh-config {}: mpirun takes ssh's words apart at blanks, and a shell sees them: give "
                    "a path of letters, digits and ._-/+@=:, alone",
                    ssh_config));
  }
  return fmt::format("{}", fmt::join(ssh_options(ssh_config), " "));
}

ProcessOptions command(const Options& engine, const LaunchRequest& moved, const std::vector<std::string>& hosts) {
  MpirunOptions launch;
  launch.hosts = hosts;
  if (engine.image.empty()) launch.working_directory = moved.working_directory;
  if (!all_here(hosts)) {
    launch.agent = "ssh";
    launch.agent_arguments = ssh_arguments(engine.ssh_config);
    if (!moved.network_interface.empty()) launch.interface = network_of(moved.network_interface);
  }
  launch.shares_cores = moved.environment.contains(variables::kOversubscribed);
  std::vector<std::string> words = mpirun_words(launch);

  const std::map<std::string, std::string> variables = guard::shielded(moved.environment);
  for (const auto& [name, value] : variables) words.insert(words.end(), {"-x", name});
  if (engine.image.empty()) {
    words.insert(words.end(), {moved.guard.string(), "openmpi"});
    for (std::string& word : guard::shielded(moved.command)) words.push_back(std::move(word));
  } else {
    for (std::string& word : in_image(engine, moved)) words.push_back(std::move(word));
  }

  ProcessOptions options;
  options.arguments = std::move(words);
  options.environment = variables;
  options.environment["OMPI_ALLOW_RUN_AS_ROOT"] = options.environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  options.output = launcher_log_path(moved.log_dir, "mpirun", moved.segment);
  return options;
}

}  // namespace mlbench::exec::mpirun
