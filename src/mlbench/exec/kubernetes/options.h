#pragma once

// The options of the executor kubernetes.

#include <cstdint>
#include <string>

#include "mlbench/base/input.h"
#include "mlbench/exec/facts.h"
#include "mlbench/exec/options.h"

namespace mlbench::exec::kubernetes {

inline constexpr ExecutorFacts kFacts = {.shares_hosts = true, .in_images = true};

// clang-format off
inline constexpr spec::RunOption kOptions[] = {
    kRanksPerHostOption,
    kImageOption,
    {.name = "kube_context", .flags = "--kube-context", .kind = OptionKind::kText, .value = "NAME",
     .help = "of the kubeconfig (default: its current one)", .compared = "kube_context",
     .names_cluster = true},
    {.name = "namespace", .flags = "--namespace", .kind = OptionKind::kText, .value = "NAME",
     .help = "of Kubernetes (default: that of the context)",
     .not_compared = "where pods are listed; its limits are in memory and hardware", .names_cluster = true},
    {.name = "memory", .flags = "--memory", .kind = OptionKind::kText, .value = "QUANTITY",
     .help = "of each rank on Kubernetes, request and limit: 4Gi", .compared = "memory"},
    {.name = "data_volume", .flags = "--data-volume", .kind = OptionKind::kText, .value = "CLAIM|/PATH",
     .help = "claim, or folder of the nodes, with data sets; ranks on Kubernetes read it at /datasets",
     .compared = "data_volume"},
    {.name = "queue", .flags = "--queue", .kind = OptionKind::kText, .value = "NAME",
     .help = "queue of Kueue that is to admit the job",
     .not_compared = "waiting in it is in no clock but queue_s"},
    {.name = "host_network", .flags = "--host-network", .kind = OptionKind::kFlag,
     .help = "ranks on Kubernetes use the network of their nodes", .compared = "host_network", .of_network = true},
    {.name = "pod_overlay", .flags = "--pod-overlay", .kind = OptionKind::kText, .value = "FILE",
     .help = "JSON or YAML that is merged into the pods' template",
     .compared = "pod_overlay", .form = text_of_64k, .content = &inputs::kPodOverlay},
    kRequeueOption,
};
// clang-format on

struct Options {
  int64_t ranks_per_host = 0;    // 0: as Kubernetes schedules them
  std::string image = {};        // "": the one of Defaults
  std::string context = {};      // a context of the kubeconfig; "": the current one, or in a pod the service account
  std::string name_space = {};   // "": the one of the context or service account
  std::string memory = {};       // each rank's request and limit, as "4Gi"; "": none
  std::string data_volume = {};  // mounted at /datasets, to read; "": none
  std::string queue = {};        // Kueue's; "": the job waits for no admission
  bool host_network = false;
  std::string pod_overlay = {};
};
// Throws UserError for options that the executor does not take.
Options read_options(const Json& engine);

}  // namespace mlbench::exec::kubernetes
