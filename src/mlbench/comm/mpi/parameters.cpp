#include "mlbench/comm/mpi/parameters.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>

#include <cerrno>
#include <memory>
#include <string_view>
#include <utility>

#include "mlbench/base/errors.h"

namespace mlbench::comm::mpi_backend {

namespace {

constexpr std::pair<std::string_view, int> kTunedAlgorithms[] = {{"auto", 0}, {"ring", 4}, {"halving_doubling", 6}};

int number_of(std::string_view algorithm) {
  for (const auto& [name, number] : kTunedAlgorithms) {
    if (name == algorithm) return number;
  }
  MLBENCH_CHECK(false, fmt::format("an all_reduce '{}'", algorithm));
  return 0;
}

// The interface's name: given only the address ("10.0.0.1/32"), Open MPI 4.1 leaves three ranks waiting for ever.
std::string interface_of(const std::string& name_or_address) {
  in_addr address{};
  if (inet_pton(AF_INET, name_or_address.c_str(), &address) != 1) return name_or_address;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) throw IoError("cannot list the network interfaces: " + errno_text(errno));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    if (reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr.s_addr == address.s_addr)
      return entry->ifa_name;
  }
  throw UserError(
      fmt::format("no network interface of this host has the address {}: see 'ip address'", name_or_address));
}

bool over_tcp(const CommOptions& options) { return options.socket_buffer_bytes > 0 || !options.bind_address.empty(); }

}  // namespace

std::map<std::string, std::string> parameters_of(const CommOptions& options) {
  std::map<std::string, std::string> parameters;
  if (options.passive_wait) parameters["mpi_yield_when_idle"] = "1";
  if (const int number = number_of(options.algorithm); number != 0) {
    parameters["coll_tuned_use_dynamic_rules"] = "1";
    parameters["coll_tuned_allreduce_algorithm"] = std::to_string(number);
  }
  if (!over_tcp(options)) return parameters;
  parameters["btl"] = "self,tcp";
  parameters["btl_tcp_if_include"] = options.bind_address.empty() ? "lo" : interface_of(options.bind_address);
  if (options.socket_buffer_bytes > 0) {
    for (const char* name : {"btl_tcp_sndbuf", "btl_tcp_rcvbuf"}) {
      parameters[name] = std::to_string(options.socket_buffer_bytes);
    }
  }
  return parameters;
}

std::string tuning_of(const CommOptions& options) {
  std::string words;
  if (options.algorithm != "auto") words += "," + options.algorithm;
  if (over_tcp(options)) words += ",tcp";
  if (options.socket_buffer_bytes > 0) words += fmt::format(",socket_buffer={}", options.socket_buffer_bytes);
  if (!options.bind_address.empty()) words += ",interface=" + options.bind_address;
  return words;
}

}  // namespace mlbench::comm::mpi_backend
