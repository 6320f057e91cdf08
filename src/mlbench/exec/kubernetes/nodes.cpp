#include "mlbench/exec/kubernetes/nodes.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "mlbench/base/input.h"
#include "mlbench/exec/kubernetes/manifest.h"
#include "mlbench/exec/kubernetes/status.h"

namespace mlbench::exec::kubernetes {
namespace {

constexpr int kNodesAtOnce = 500;

std::optional<int64_t> whole_amount(const Json& resources, const char* name) {
  const auto amount = amount_of(text_member(resources, name));
  return amount && *amount <= 1e18 ? std::optional(std::llround(*amount)) : std::nullopt;
}

// The text escaped for a query. Letters, digits and "-_.~" stay as they are.
std::string for_query(std::string_view text) {
  std::string escaped;
  for (const unsigned char c : text) {
    const bool plain = std::isalnum(c) != 0 || std::string_view("-_.~").find(static_cast<char>(c)) != std::string::npos;
    escaped += plain ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02X}", c);
  }
  return escaped;
}

ClusterNodes nodes_with_ranks(Api& api, const std::string& name_space) {
  ClusterNodes found;
  const ApiAnswer pods = api.get(fmt::format("/api/v1/namespaces/{}/pods?limit={}&labelSelector={}%3Drank", name_space,
                                             kNodesAtOnce, for_query(kComponentLabel)));
  std::set<std::string> names;
  for (const Json& pod : member(pods.body, "items")) names.insert(text_member(member(pod, "spec"), "nodeName"));
  names.erase("");
  for (const std::string& name : names) found.nodes.push_back({.name = name, .state = "has ranks"});
  return found;
}

}  // namespace

std::optional<double> amount_of(const std::string& quantity) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},        {"n", 1e-9},    {"u", 1e-6},    {"m", 1e-3},   {"k", 1e3},     {"M", 1e6},
      {"G", 1e9},     {"T", 1e12},    {"P", 1e15},    {"E", 1e18},   {"Ki", 0x1p10}, {"Mi", 0x1p20},
      {"Gi", 0x1p30}, {"Ti", 0x1p40}, {"Pi", 0x1p50}, {"Ei", 0x1p60}};
  double number = 0;
  const char* const last = quantity.data() + quantity.size();
  const auto [end, error] = std::from_chars(quantity.data(), last, number);
  if (error != std::errc() || !(number >= 0) || !std::isfinite(number)) return std::nullopt;
  for (const auto& [unit, factor] : kUnits) {
    if (unit == std::string_view(end, static_cast<size_t>(last - end))) return number * factor;
  }
  return std::nullopt;
}

ClusterNode node_of(const Json& object) {
  const Json& resources = member(member(object, "status"), "allocatable");
  ClusterNode node{.name = text_member(member(object, "metadata"), "name"),
                   .cpus = amount_of(text_member(resources, "cpu")),
                   .memory_bytes = whole_amount(resources, "memory"),
                   .gpus = whole_amount(resources, kGpuResource).value_or(0)};
  std::string status, why;
  for (const Json& condition : member(member(object, "status"), "conditions")) {
    if (text_member(condition, "type") != "Ready") continue;
    status = text_member(condition, "status");
    why = text_member(condition, "message");
  }
  node.ready = status == "True";
  node.state = *node.ready ? "Ready" : why.empty() ? "not ready" : fmt::format("not ready ({})", why);
  if (member(member(object, "spec"), "unschedulable") == true) {
    node.ready = false;
    node.state += ", cordoned";
  }
  for (const Json& taint : member(member(object, "spec"), "taints")) {
    const std::string effect = text_member(taint, "effect");
    const std::string key = text_member(taint, "key");
    if (effect == "PreferNoSchedule" || key.starts_with("node.kubernetes.io/")) continue;  // the state says these
    node.state += fmt::format(", tainted {}:{}", key, effect);
  }
  return node;
}

ClusterNodes nodes_of(Api& api, const std::string& name_space) {
  ClusterNodes found;
  std::string more;
  do {
    const ApiAnswer answer = api.get(fmt::format("/api/v1/nodes?limit={}{}", kNodesAtOnce, more));
    if (answer.status == 403 && found.nodes.empty()) {
      found = nodes_with_ranks(api, name_space);
      found.problem =
          "Kubernetes lets this master list no nodes (the chart's rbac.nodes allows it): shown are those with "
          "ranks";
      return found;
    }
    if (!answer.good() || !answer.body.is_object()) {
      found.problem = fmt::format("Kubernetes does not say what nodes it has: {}",
                                  answer.words.empty() ? "its answer is none" : answer.words);
      return found;
    }
    for (const Json& object : member(answer.body, "items")) found.nodes.push_back(node_of(object));
    const std::string next = text_member(member(answer.body, "metadata"), "continue");
    more = next.empty() ? "" : "&continue=" + for_query(next);
  } while (!more.empty() && found.nodes.size() < kMostNodes);
  if (!more.empty()) found.problem = fmt::format("only the first {} nodes are shown", found.nodes.size());
  return found;
}

}  // namespace mlbench::exec::kubernetes
