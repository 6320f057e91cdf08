#include "mlbench/comm/mpi/parameters.h"

#include <arpa/inet.h>
#include <fmt/format.h>

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

// An address stands for itself; Open MPI takes names of interfaces, and networks.
std::string interface_of(const std::string& name_or_address) {
  in_addr address{};
  return inet_pton(AF_INET, name_or_address.c_str(), &address) == 1 ? name_or_address + "/32" : name_or_address;
}

bool over_tcp(const CommOptions& options) {
  return options.links > 1 || options.socket_buffer_bytes > 0 || !options.bind_address.empty();
}

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
  if (options.links > 1) parameters["btl_tcp_links"] = std::to_string(options.links);
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
  if (options.links > 1) words += fmt::format(",links={}", options.links);
  if (options.socket_buffer_bytes > 0) words += fmt::format(",socket_buffer={}", options.socket_buffer_bytes);
  if (!options.bind_address.empty()) words += ",interface=" + options.bind_address;
  return words;
}

}  // namespace mlbench::comm::mpi_backend
