// Clusters of Slurm: a name for options of its jobs. Slurm itself must exist already.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "mlbench/base/errors.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/paths.h"
#include "mlbench/cli/clusters/provider.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

class SlurmProvider : public Provider {
 public:
  void add_create_options(CLI::App& verb) override {
    const char* group = "Jobs";
    verb.add_option("-p,--partition", partition_, "(default: Slurm's own)")->type_name("NAME")->group(group);
    verb.add_option("--slurm-option", cluster_.slurm, "an option of sbatch for every run; repeatable")
        ->allow_extra_args(false)
        ->type_name("KEY[=VALUE]")
        ->group(group);
    verb.add_option("--setup", cluster_.setup, "lines of shell before the ranks; read when a run starts")
        ->type_name("FILE")
        ->group(group);
    verb.add_option("--scratch", cluster_.scratch, "folder on the nodes for what ranks write")
        ->type_name("DIR")
        ->group(group);
  }

  ClusterPlan plan(const ClusterRequest& request) override {
    ClusterPlan plan{.cluster = cluster_, .steps = {}};
    Cluster& cluster = plan.cluster;
    cluster.provider = "slurm";
    cluster.nodes = request.nodes;
    if (!cluster.setup.empty()) {
      if (!fs::is_regular_file(cluster.setup)) {
        throw UserError(fmt::format("--setup '{}' is no file", cluster.setup));
      }
      cluster.setup = fs::absolute(cluster.setup).lexically_normal();
    }
    if (!cluster.scratch.empty() && !fs::path(cluster.scratch).is_absolute()) {
      throw UserError(fmt::format("--scratch '{}' is no absolute path", shortened(cluster.scratch)));
    }
    if (partition_.empty()) {
      plan.steps.push_back({.what = "what Slurm has", .arguments = {"sinfo"}, .limit = std::chrono::minutes(1)});
    } else {
      check_name(partition_, "--partition");
      cluster.slurm.insert(cluster.slurm.begin(), "partition=" + partition_);
      plan.steps.push_back({.what = "the partition",
                            .arguments = {"scontrol", "show", "partition", partition_},
                            .limit = std::chrono::minutes(1)});
    }
    return plan;
  }

  std::vector<Step> plan_removal(const std::string&, const Cluster*) override { return {}; }
  std::string what_goes() const override { return "the name; Slurm and all runs stay"; }

 private:
  std::string partition_;
  Cluster cluster_;
};

}  // namespace

std::unique_ptr<Provider> make_slurm() { return std::make_unique<SlurmProvider>(); }

}  // namespace mlbench::cli
