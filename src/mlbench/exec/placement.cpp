#include "mlbench/exec/placement.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <map>
#include <set>

#include "mlbench/base/environment.h"
#include "mlbench/base/or_null.h"

namespace mlbench::exec {

int64_t cores_together(std::span<const CoreShare> shares) {
  struct Host {
    std::set<int> numbers;
    int64_t at_a_time = 0;
  };
  std::map<std::string, Host> hosts;
  for (const CoreShare& share : shares) {
    Host& host = hosts[share.host];
    host.numbers.insert(share.numbers.begin(), share.numbers.end());
    host.at_a_time += share.at_a_time;
  }
  int64_t cores = 0;
  for (const auto& [name, host] : hosts) {
    cores += host.numbers.empty() ? host.at_a_time : std::min(host.at_a_time, std::ssize(host.numbers));
  }
  return cores;
}

bool is_loopback(const std::string& name) {
  in_addr number{};
  return name == "localhost" || name == "::1" ||
         (name.starts_with("127.") && inet_pton(AF_INET, name.c_str(), &number) == 1);
}

bool is_this_host(const std::string& name) { return is_loopback(name) || name == host_name(); }

std::string core_list(std::span<const int> cores) {
  std::string text;
  for (size_t first = 0; first < cores.size();) {
    size_t last = first;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    if (first > 0) text += ',';
    text += first == last ? std::to_string(cores[first]) : fmt::format("{}-{}", cores[first], cores[last]);
    first = last + 1;
  }
  return text;
}

Json to_json(std::span<const Placement> placement) {
  Json list = Json::array();
  for (const Placement& place : placement) {
    list.push_back({{"rank", place.rank},
                    {"host", place.host},
                    {"local_rank", place.local_rank},
                    {"cores", place.cores.empty() ? Json(nullptr) : Json(core_list(place.cores))},
                    {"gpu", or_null(place.gpu)}});
  }
  return list;
}

Json hosts_of(std::span<const Placement> placement, std::span<const HostCapture> captures, const HostCapture& own) {
  std::vector<std::string> names;
  for (const Placement& place : placement) {
    if (std::ranges::find(names, place.host) == names.end()) names.push_back(place.host);
  }
  const bool alone = names.size() == 1 && names.front() == own.name;
  Json hosts = Json::array();
  for (const std::string& name : names) {
    const auto found = std::ranges::find(captures, name, &HostCapture::name);
    const HostCapture* capture = name == own.name ? &own : found != captures.end() ? &*found : nullptr;
    Json host = capture != nullptr && capture->host.is_object() ? capture->host : Json::object();
    host["name"] = name;
    if (capture != nullptr && !alone) host["environment"] = capture->environment;
    hosts.push_back(std::move(host));
  }
  return hosts;
}

}  // namespace mlbench::exec
