#pragma once

// Which Kubernetes cluster is used, and with whose credentials.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "mlbench/base/json.h"

namespace mlbench::exec::kubernetes {

struct Cluster {
  std::string server = {};                 // https://10.0.0.1:6443, without a slash at its end
  std::string name_space = {};             // used where none is given
  std::string authority = {};              // PEM of the authority that vouches for the server; "": the system's
  bool insecure = false;                   // the kubeconfig says that the server's certificate is not checked
  std::string certificate = {}, key = {};  // PEM, this client's; "": none
  std::string token = {};
  std::filesystem::path token_file = {};  // read for each request, as tokens of service accounts are replaced
  std::string from = {};                  // for messages: the kubeconfig and its context, or the service account
  bool around_us = false;                 // whether this process is in one of its pods, in `name_space`
};

// The variables and files of this process that name a cluster.
struct Surroundings {
  std::function<std::optional<std::string>(const char*)> variable;
  std::filesystem::path account = "/var/run/secrets/kubernetes.io/serviceaccount";
};
Surroundings own_surroundings();

// Finds the cluster of `context` ("": the current one) in the kubeconfig, which is the first file of KUBECONFIG, else
// ~/.kube/config. In a pod, without KUBECONFIG and `context`, takes the service account instead. Throws UserError where
// there is neither, and for a context that is not there, naming those that are. Throws it also for what is not
// supported: programs that give credentials ("exec", "auth-provider"), and proxies.
Cluster find_cluster(const std::string& context, const Surroundings& here);

// The cluster of `context` in the kubeconfig `config`, whose relative paths begin in the folder of `file`. Throws
// UserError as find_cluster().
Cluster cluster_of(const Json& config, const std::string& context, const std::filesystem::path& file);

}  // namespace mlbench::exec::kubernetes
