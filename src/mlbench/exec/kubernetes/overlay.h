#pragma once

#include <string>

#include "mlbench/base/json.h"

namespace mlbench::exec::kubernetes {

// The template of pods with `overlay` merged into it. An overlay is JSON or YAML in the form of a template itself:
// {"metadata", "spec"}. It is merged as RFC 7386 says (null removes), except for some lists. In lists of things with
// names (containers, initContainers, env, volumes, imagePullSecrets), things of the same name are merged; in
// volumeMounts, those of the same mountPath. Elements of tolerations, hostAliases and topologySpreadConstraints come
// behind those that are there.
// `source` says in messages where the overlay is from ("--pod-overlay"). Throws UserError for what is no such overlay.
// Throws it also for an overlay that changes what a run relies on: restartPolicy, subdomain, the label mlbench/start,
// or the command and arguments of the ranks' container.
Json with_overlay(Json pod_template, const std::string& overlay, const std::string& source);

}  // namespace mlbench::exec::kubernetes
