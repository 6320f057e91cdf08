#include "mlbench/exec/kubernetes/overlay.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/numbers.h"
#include "mlbench/exec/kubernetes/manifest.h"
#include "mlbench/exec/kubernetes/yaml.h"

namespace mlbench::exec::kubernetes {
namespace {

// A list whose things are merged: those with the same member `key` are the same; "": all are new.
struct ListOfThings {
  std::string_view list, key;
};
constexpr ListOfThings kLists[] = {
    {"containers", "name"}, {"initContainers", "name"},   {"env", "name"},
    {"volumes", "name"},    {"imagePullSecrets", "name"}, {"volumeMounts", "mountPath"},
    {"tolerations", ""},    {"hostAliases", ""},          {"topologySpreadConstraints", ""},
};

void merge(Json& target, const Json& patch, const std::string& source);

void merge_list(Json& target, const Json& patch, const ListOfThings& kind, const std::string& source) {
  if (!target.is_array()) target = Json::array();
  for (const Json& thing : patch) {
    const std::string key(kind.key);
    if (!thing.is_object() || (!key.empty() && !thing.contains(key))) {
      throw UserError(fmt::format("{}: {} has {}; expected objects{}", source, kind.list, shortened(thing.dump()),
                                  key.empty() ? "" : fmt::format(" with '{}'", key)));
    }
    const auto known = key.empty() ? target.end() : std::ranges::find_if(target, [&](const Json& one) {
      return one.is_object() && one.contains(key) && one[key] == thing[key];
    });
    if (known != target.end()) {
      merge(*known, thing, source);
    } else {
      Json made = Json::object();
      merge(made, thing, source);
      target.push_back(std::move(made));
    }
  }
}

void merge(Json& target, const Json& patch, const std::string& source) {
  if (!target.is_object()) target = Json::object();
  for (const auto& [key, value] : patch.items()) {
    const auto list = std::ranges::find(kLists, std::string_view(key), &ListOfThings::list);
    if (value.is_null()) {
      target.erase(key);
    } else if (value.is_object()) {
      merge(target[key], value, source);
    } else if (value.is_array() && list != std::end(kLists)) {
      merge_list(target[key], value, *list, source);
    } else {
      target[key] = value;
    }
  }
}

// The parts of a template that a run relies on.
Json own_part(const Json& pod_template) {
  const Json& spec = pod_template.at("spec");
  Json own = {{"restartPolicy", spec.value("restartPolicy", Json())}, {"subdomain", spec.value("subdomain", Json())}};
  for (const Json& container : spec.value("containers", Json::array())) {
    if (container.value("name", "") != kRankContainer) continue;
    own["command of the container 'rank'"] = container.value("command", Json());
    own["arguments of the container 'rank'"] = container.value("args", Json());
  }
  own[kStartLabel] = pod_template.at("metadata").at("labels").value(kStartLabel, Json());
  return own;
}

}  // namespace

Json with_overlay(Json pod_template, const std::string& overlay, const std::string& source) {
  if (overlay.empty()) return pod_template;
  const Json patch = parse_yaml(overlay, inputs::kPodOverlay, source);
  if (!patch.is_object()) {
    throw UserError(fmt::format("{}: expected the form of a pod's template: metadata and spec", source));
  }
  for (const auto& [key, value] : patch.items()) {
    if (key != "metadata" && key != "spec") {
      throw UserError(
          fmt::format("{}: '{}' is not expected there: a pod's template has metadata and spec, so it is "
                      "spec.{} perhaps",
                      source, shortened(key), shortened(key)));
    }
    if (!value.is_object()) throw UserError(fmt::format("{}: {} is no object", source, key));
  }
  const Json before = own_part(pod_template);
  merge(pod_template, patch, source);
  Json after;
  try {
    after = own_part(pod_template);
  } catch (const Json::exception&) {
    throw UserError(fmt::format("{}: what it leaves is no template of a pod", source));
  }
  for (const auto& [what, value] : before.items()) {
    if (after.value(what, Json()) == value) continue;
    throw UserError(fmt::format("{}: it changes {}, by which mlbench finds its ranks: leave that out", source, what));
  }
  return pod_template;
}

}  // namespace mlbench::exec::kubernetes
