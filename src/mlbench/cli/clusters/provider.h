#pragma once

// Providers make and remove clusters. Each has a file of its own and a row in provider.cpp.

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/cli/clusters/config.h"
#include "mlbench/cli/clusters/step.h"

namespace CLI {
class App;
}

namespace mlbench::cli {

struct ClusterRequest {
  std::string name;              // NAME-NUM, or NAME where no NUM was given
  int64_t nodes = 0;             // NUM; 0: not given
  std::filesystem::path folder;  // cluster_folder()
};

struct ClusterPlan {
  Cluster cluster;
  std::vector<Step> steps;
  std::vector<std::string> notes = {};  // for the user, before anything is made
};

// A provider as one verb uses it: the verb's options are bound to the object.
class Provider {
 public:
  virtual ~Provider() = default;

  virtual void add_create_options(CLI::App&) {}
  // Plans a cluster; makes and changes nothing. Throws UserError for a request or options that cannot be met.
  virtual ClusterPlan plan(const ClusterRequest& request) = 0;
  // Carries out the plan's steps; then the cluster exists and was found good. Must print nothing on standard output.
  virtual void create(ClusterPlan& plan, StepRunner& runner) { runner.run(plan.steps); }

  virtual void add_delete_options(CLI::App&) {}
  // The steps that remove the cluster `name`. `known` is null where this home does not know it. Each step must be
  // harmless where the thing that it removes is gone already.
  virtual std::vector<Step> plan_removal(const std::string& name, const Cluster* known) = 0;
  virtual void remove(const std::vector<Step>& steps, StepRunner& runner) { runner.run(steps); }
  // What is removed, for the question to the user: "the cluster with all runs of its master".
  virtual std::string what_goes() const = 0;

  // Called when the cluster becomes the chosen one. Starts what has to run for that.
  virtual void choose(const Cluster&) {}
};

struct ProviderRow {
  std::string_view name;
  std::string_view help;
  bool makes_nodes;  // NUM must be given, at least 2 (one node more than workers), and names must be DNS labels
  std::unique_ptr<Provider> (*make)();
};

std::span<const ProviderRow> providers();
// The row of the provider `name`. Throws UserError "unknown provider ..." with the valid names.
const ProviderRow& provider(const std::string& name);

// Throws UserError unless `name` is a DNS label of at most 40 characters (GKE's limit) that begins with a letter.
void check_cluster_label(const std::string& name);

std::unique_ptr<Provider> make_local();
std::unique_ptr<Provider> make_hosts();
std::unique_ptr<Provider> make_slurm();
std::unique_ptr<Provider> make_kubernetes();
std::unique_ptr<Provider> make_kind();
std::unique_ptr<Provider> make_gcloud();
std::unique_ptr<Provider> make_aws();

}  // namespace mlbench::cli
