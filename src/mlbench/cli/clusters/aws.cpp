// Clusters of EKS, by eksctl, which makes the network, the nodes and the credentials.

#include <CLI/CLI.hpp>

#include "mlbench/base/paths.h"
#include "mlbench/cli/clusters/chart.h"

namespace mlbench::cli {

namespace {

class AwsProvider : public Provider {
 public:
  AwsProvider() { chart_.cpus = "1"; }

  void add_create_options(CLI::App& verb) override {
    add_region_option(verb);
    const char* group = "Nodes";
    verb.add_option("-k,--kubernetes-version", version_, "(default: eksctl's own)")->type_name("VERSION")->group(group);
    verb.add_option("-t,--machine-type", machine_, "")->capture_default_str()->type_name("NAME")->group(group);
    add_chart_options(verb, chart_);
  }

  ClusterPlan plan(const ClusterRequest& request) override {
    check_words();
    check_name(machine_, "--machine-type");
    if (!version_.empty()) check_name(version_, "--kubernetes-version");
    ClusterPlan plan;
    Cluster& cluster = plan.cluster;
    cluster.provider = "aws";
    cluster.nodes = request.nodes;
    cluster.kubeconfig = request.folder / "kubeconfig";
    cluster.name_space = "mlbench";
    cluster.zone = region_;

    // The chart needs a volume of EBS, whose driver is an add-on.
    std::vector<std::string> create = {"eksctl",
                                       "create",
                                       "cluster",
                                       "--name",
                                       request.name,
                                       "--nodes",
                                       std::to_string(request.nodes),
                                       "--node-type",
                                       machine_,
                                       "--kubeconfig",
                                       cluster.kubeconfig};
    add_region(create, region_);
    if (!version_.empty()) create.insert(create.end(), {"--version", version_});
    plan.steps.push_back(
        {.what = "the cluster", .arguments = create, .makes = true, .limit = std::chrono::minutes(60)});
    std::vector<std::string> driver = {"eksctl",    "create",    "addon", "--name", "aws-ebs-csi-driver",
                                       "--cluster", request.name};
    add_region(driver, region_);
    plan.steps.push_back({.what = "the driver of its volumes", .arguments = driver});
    for (Step& step : chart_steps(cluster, request, chart_)) plan.steps.push_back(std::move(step));
    plan.notes.emplace_back("this costs money until 'mlbench delete-cluster aws " + request.name + "'");
    return plan;
  }

  void add_delete_options(CLI::App& verb) override { add_region_option(verb); }

  std::vector<Step> plan_removal(const std::string& name, const Cluster* known) override {
    check_words();
    const std::string region = !region_.empty() ? region_ : known != nullptr ? known->zone : "";
    std::vector<Step> steps;
    // The chart is removed first: the disk of its volume belongs to no node, and would stay.
    if (known != nullptr && !known->release.empty()) steps.push_back(chart_removal(*known, true));
    std::vector<std::string> list = {"aws", "eks", "list-clusters", "--query", "clusters[]", "--output", "text"};
    add_region(list, region);
    std::vector<std::string> remove = {"eksctl", "delete", "cluster", "--name", name, "--wait"};
    add_region(remove, region);
    steps.push_back({.what = "the cluster",
                     .arguments = remove,
                     .if_lists = list,
                     .listed = name,
                     .limit = std::chrono::minutes(60)});
    return steps;
  }

  std::string what_goes() const override { return "the machines, the disks and all runs of the cluster's master"; }

 private:
  void add_region_option(CLI::App& verb) {
    verb.add_option("-z,--region", region_, "(default: that of the AWS CLI)")->type_name("REGION")->group("Place");
  }

  void check_words() const {
    if (!region_.empty()) check_name(region_, "--region");
  }

  static void add_region(std::vector<std::string>& words, const std::string& region) {
    if (!region.empty()) words.insert(words.end(), {"--region", region});
  }

  std::string region_, version_, machine_ = "t2.medium";
  ChartOptions chart_;
};

}  // namespace

std::unique_ptr<Provider> make_aws() { return std::make_unique<AwsProvider>(); }

}  // namespace mlbench::cli
