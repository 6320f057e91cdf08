#pragma once

// Who makes clusters: one file per provider, one row each in provider.cpp.

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
  std::string name;              // NAME-NUM; NAME where no NUM was given
  int64_t nodes = 0;             // NUM; 0: not given
  std::filesystem::path folder;  // cluster_folder()
};

struct ClusterPlan {
  Cluster cluster;
  std::vector<Step> steps;
  std::vector<std::string> notes = {};  // said beforehand
};

// One verb's use of a provider: options are bound to the object.
class Provider {
 public:
  virtual ~Provider() = default;

  virtual void add_create_options(CLI::App&) {}
  // UserError for what cannot be. Nothing is made or changed.
  virtual ClusterPlan plan(const ClusterRequest& request) = 0;
  // The plan's steps, by which the cluster is there and was seen to be good. Lines on standard output: none.
  virtual void create(ClusterPlan& plan, StepRunner& runner) { runner.run(plan.steps); }

  virtual void add_delete_options(CLI::App&) {}
  // `known`: null where this home does not know it. Each step is harmless when what it takes away is gone.
  virtual std::vector<Step> plan_removal(const std::string& name, const Cluster* known) = 0;
  virtual void remove(const std::vector<Step>& steps, StepRunner& runner) { runner.run(steps); }
  // What goes, for the question: "the cluster with all runs of its master".
  virtual std::string what_goes() const = 0;

  // It becomes the chosen one: what has to run for that, starts.
  virtual void choose(const Cluster&) {}
};

struct ProviderRow {
  std::string_view name;
  std::string_view help;
  bool makes_nodes;  // NUM has to be given, from 2 on: one node more than workers; names become DNS labels
  std::unique_ptr<Provider> (*make)();
};

std::span<const ProviderRow> providers();
// UserError "unknown provider ..." with those that there are.
const ProviderRow& provider(const std::string& name);

// DNS label of at most 40 characters (GKE's limit), begun with a letter. UserError.
void check_cluster_label(const std::string& name);

std::unique_ptr<Provider> make_local();
std::unique_ptr<Provider> make_hosts();
std::unique_ptr<Provider> make_slurm();
std::unique_ptr<Provider> make_kubernetes();
std::unique_ptr<Provider> make_kind();
std::unique_ptr<Provider> make_gcloud();
std::unique_ptr<Provider> make_aws();

}  // namespace mlbench::cli
