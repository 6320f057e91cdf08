// Clusters of GKE, with the defaults of MLBench's command line where these still exist. No port is opened to the
// internet: kubectl port-forward leads to the master.

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "mlbench/base/errors.h"
#include "mlbench/base/numbers.h"
#include "mlbench/cli/clusters/chart.h"

namespace mlbench::cli {

namespace {

constexpr const char* kZone = "europe-west1-b";

class GcloudProvider : public Provider {
 public:
  GcloudProvider() { chart_.cpus = "4"; }

  void add_create_options(CLI::App& verb) override {
    add_place_options(verb);
    const char* group = "Nodes";
    verb.add_option("-k,--kubernetes-version", version_, "(default: what the zone gives)")
        ->type_name("VERSION")
        ->group(group);
    verb.add_option("-t,--machine-type", machine_, "")->capture_default_str()->type_name("NAME")->group(group);
    verb.add_option("-d,--disk-size", disk_gb_, "GB of a node's disk")
        ->capture_default_str()
        ->type_name("GB")
        ->group(group);
    verb.add_option("--gpu-type", gpu_type_, "with -g")->capture_default_str()->type_name("NAME")->group(group);
    verb.add_flag("-e,--preemptible", preemptible_, "spot machines: cheaper, and taken away at any time")->group(group);
    add_chart_options(verb, chart_);
  }

  ClusterPlan plan(const ClusterRequest& request) override {
    check_words();
    const int64_t disk_gb = parse_count(disk_gb_, "--disk-size", {10, 65536});
    const int64_t gpus = parse_count(chart_.gpus, "--num-gpus", {0, 64});
    ClusterPlan plan;
    Cluster& cluster = plan.cluster;
    cluster.provider = "gcloud";
    cluster.nodes = request.nodes;
    cluster.kubeconfig = request.folder / "kubeconfig";
    cluster.name_space = "mlbench";
    cluster.zone = zone_.empty() ? kZone : zone_;
    cluster.project = project_;

    std::vector<std::string> create = verb_of("create", request.name, cluster);
    const auto add = [&](std::initializer_list<std::string> words) { create.insert(create.end(), words); };
    add({"--num-nodes", std::to_string(request.nodes), "--machine-type", machine_, "--disk-size",
         std::to_string(disk_gb)});
    if (!version_.empty()) add({"--cluster-version", version_});
    if (gpus > 0) {
      add({"--accelerator", fmt::format("type={},count={},gpu-driver-version=default", gpu_type_, gpus)});
    }
    if (preemptible_) add({"--spot"});
    const std::map<std::string, std::string> environment = {{"KUBECONFIG", cluster.kubeconfig}};
    plan.steps.push_back({.what = "the cluster", .arguments = create, .environment = environment, .makes = true});
    plan.steps.push_back({.what = "its credentials",
                          .arguments = verb_of("get-credentials", request.name, cluster),
                          .environment = environment});
    for (Step& step : chart_steps(cluster, request, chart_)) plan.steps.push_back(std::move(step));
    plan.notes.emplace_back("this costs money until 'mlbench delete-cluster gcloud " + request.name + "'");
    return plan;
  }

  void add_delete_options(CLI::App& verb) override { add_place_options(verb); }

  std::vector<Step> plan_removal(const std::string& name, const Cluster* known) override {
    check_words();
    Cluster cluster = known != nullptr ? *known : Cluster{.provider = "gcloud"};
    if (!zone_.empty()) cluster.zone = zone_;
    if (!project_.empty()) cluster.project = project_;
    if (cluster.zone.empty()) cluster.zone = kZone;
    std::vector<Step> steps;
    // The chart is removed first: the disk of its volume belongs to no node, and would stay.
    if (!cluster.release.empty()) steps.push_back(chart_removal(cluster, true));
    std::vector<std::string> list = {"gcloud",     "container", "clusters",     "list",     "--zone",
                                     cluster.zone, "--filter",  "name=" + name, "--format", "value(name)"};
    if (!cluster.project.empty()) list.insert(list.end(), {"--project", cluster.project});
    steps.push_back(
        {.what = "the cluster", .arguments = verb_of("delete", name, cluster), .if_lists = list, .listed = name});
    return steps;
  }

  std::string what_goes() const override { return "the machines, the disks and all runs of the cluster's master"; }

 private:
  void add_place_options(CLI::App& verb) {
    const char* group = "Place";
    verb.add_option("-z,--zone", zone_, fmt::format("(default: that of the cluster, or {})", kZone))
        ->type_name("ZONE")
        ->group(group);
    verb.add_option("-p,--project", project_, "(default: gcloud's own)")->type_name("NAME")->group(group);
  }

  void check_words() const {
    for (const auto& [word, what] :
         {std::pair(&zone_, "--zone"), std::pair(&project_, "--project"), std::pair(&machine_, "--machine-type"),
          std::pair(&gpu_type_, "--gpu-type"), std::pair(&version_, "--kubernetes-version")}) {
      // A project of a domain is called "example.com:name".
      const bool given = !word->empty();
      if (given && word->find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:_-") !=
                       std::string::npos) {
        throw UserError(fmt::format("{} '{}': expected letters, digits and .:_-", what, shortened(*word)));
      }
      if (given && word->front() == '-') throw UserError(fmt::format("{} '{}' begins with -", what, shortened(*word)));
    }
  }

  static std::vector<std::string> verb_of(const char* verb, const std::string& name, const Cluster& cluster) {
    std::vector<std::string> words = {"gcloud", "container", "clusters", verb, name, "--zone", cluster.zone};
    if (!cluster.project.empty()) words.insert(words.end(), {"--project", cluster.project});
    words.emplace_back("--quiet");  // gcloud then asks nothing
    return words;
  }

  std::string zone_, project_, version_, machine_ = "n1-standard-4", disk_gb_ = "50", gpu_type_ = "nvidia-tesla-t4";
  bool preemptible_ = false;
  ChartOptions chart_;
};

}  // namespace

std::unique_ptr<Provider> make_gcloud() { return std::make_unique<GcloudProvider>(); }

}  // namespace mlbench::cli
