#pragma once

#include <string>

#include "mlbench/base/json.h"

namespace mlbench::exec::kubernetes {

// The template of pods with what an overlay says, which has the form of a template itself: {"metadata", "spec"}. It
// is merged as RFC 7386 says (null removes); but lists of things with names (containers, initContainers, env, volumes,
// imagePullSecrets), and volumeMounts by their mountPath, are merged thing by thing, and tolerations, hostAliases and
// topologySpreadConstraints come behind those that are there. UserError for what is no such overlay, and for one that
// changes what a run relies on: restartPolicy, subdomain, the command of the ranks' container. `source`: where it is
// from, for messages ("--pod-overlay").
Json with_overlay(Json pod_template, const std::string& overlay, const std::string& source);

}  // namespace mlbench::exec::kubernetes
