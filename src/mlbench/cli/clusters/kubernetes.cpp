// Clusters that exist already: contexts of the user's own kubeconfig.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "mlbench/base/errors.h"
#include "mlbench/base/process.h"
#include "mlbench/base/text.h"
#include "mlbench/cli/clusters/chart.h"

namespace mlbench::cli {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

class KubernetesProvider : public Provider {
 public:
  KubernetesProvider() { chart_.cpus = "4"; }

  void add_create_options(CLI::App& verb) override {
    verb.add_option("--context", cluster_.context, "of the kubeconfig (default: its current one)")->type_name("NAME");
    verb.add_option("--kubeconfig", cluster_.kubeconfig, "in place of kubectl's own")->type_name("FILE");
    verb.add_option("--namespace", cluster_.name_space, "made when absent (default: mlbench)")->type_name("NAME");
    add_chart_options(verb, chart_);
  }

  ClusterPlan plan(const ClusterRequest& request) override {
    ClusterPlan plan;
    plan.cluster = cluster_;
    Cluster& cluster = plan.cluster;
    cluster.provider = "kubernetes";
    cluster.nodes = request.nodes;
    if (cluster.name_space.empty()) cluster.name_space = "mlbench";
    check_cluster_label(cluster.name_space);
    if (!cluster.kubeconfig.empty()) {
      if (!fs::is_regular_file(cluster.kubeconfig)) {
        throw UserError(fmt::format("--kubeconfig '{}' is no file", cluster.kubeconfig));
      }
      cluster.kubeconfig = fs::absolute(cluster.kubeconfig).lexically_normal();
    }
    // The context is fixed now, since the current one may change.
    if (cluster.context.empty()) cluster.context = current_context(cluster.kubeconfig);
    if (cluster.context.starts_with('-')) {
      throw UserError(fmt::format("--context '{}': expected a name of 'kubectl config get-contexts'", cluster.context));
    }
    plan.steps = chart_steps(cluster, request, chart_);
    return plan;
  }

  std::vector<Step> plan_removal(const std::string&, const Cluster* known) override {
    if (known == nullptr) return {};
    return {chart_removal(*known, false)};
  }

  std::string what_goes() const override { return "the chart's release with all runs of its master"; }

 private:
  static std::string current_context(const std::string& kubeconfig) {
    const std::string advice = "name one with --context (see 'kubectl config get-contexts')";
    if (!program_exists("kubectl")) throw UserError("PATH lacks kubectl, which knows the current context: install it");
    ProcessOptions options;
    options.arguments = {"kubectl", "config", "current-context"};
    if (!kubeconfig.empty()) options.arguments.insert(options.arguments.end(), {"--kubeconfig", kubeconfig});
    const ProcessOutput output = run_process(options, 30s);
    std::string context = trimmed(output.standard_output);
    if (output.end.code != 0 || context.empty()) {
      throw UserError(fmt::format("kubectl has no current context ({}): {}", trimmed(output.standard_error), advice));
    }
    return context;
  }

  Cluster cluster_;
  ChartOptions chart_;
};

}  // namespace

std::unique_ptr<Provider> make_kubernetes() { return std::make_unique<KubernetesProvider>(); }

}  // namespace mlbench::cli
