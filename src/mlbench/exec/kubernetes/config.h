#pragma once

// Which Kubernetes, and as whom.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "mlbench/base/json.h"

namespace mlbench::exec::kubernetes {

struct Cluster {
  std::string server = {};                 // https://10.0.0.1:6443, without a slash at its end
  std::string name_space = {};             // that is used where none is given
  std::string authority = {};              // PEM that vouches for the server; "": the system's
  bool insecure = false;                   // nobody vouches for it, says the kubeconfig
  std::string certificate = {}, key = {};  // PEM, of this client; "": none
  std::string token = {};
  std::filesystem::path token_file = {};  // read anew for each request: tokens of service accounts are replaced
  std::string from = {};                  // for messages: the kubeconfig and its context, or the service account
  bool around_us = false;                 // this process is in one of its pods, of the namespace above
};

// Where this process finds the variables and files that say it.
struct Surroundings {
  std::function<std::optional<std::string>(const char*)> variable;
  std::filesystem::path account = "/var/run/secrets/kubernetes.io/serviceaccount";
};
Surroundings own_surroundings();

// The context (the current one where it is "") of the kubeconfig: the first file of KUBECONFIG, else ~/.kube/config; or
// within a pod and without KUBECONFIG and context, its service account. UserError where there is neither, for a context
// that is not there (with those that are), and for what is not supported: programs that give credentials ("exec",
// "auth-provider"), proxies.
Cluster find_cluster(const std::string& context, const Surroundings& here);

// `config`: the kubeconfig, whose relative paths are those of `file`'s folder.
Cluster cluster_of(const Json& config, const std::string& context, const std::filesystem::path& file);

}  // namespace mlbench::exec::kubernetes
