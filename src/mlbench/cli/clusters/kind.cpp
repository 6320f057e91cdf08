// Clusters of Kubernetes in containers of this machine. Nodes and this machine call their registry localhost:PORT.

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "mlbench/base/json.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/paths.h"
#include "mlbench/cli/clusters/chart.h"

namespace mlbench::cli {

namespace {

constexpr const char* kRegistryImage = "registry:2";
// The name that deploy/docker/build.sh --engine docker gives to the image.
constexpr const char* kBuiltImage = "localhost/mlbench-worker:latest";
constexpr const char* kCertificates = "/etc/containerd/certs.d";  // where containerd looks for hosts of registries

class KindProvider : public Provider {
 public:
  KindProvider() { chart_.cpus = "1"; }

  void add_create_options(CLI::App& verb) override {
    verb.add_option("-k,--kubernetes-version", version_, "tag of kind's node image, as 1.34.0 (default: kind's own)")
        ->type_name("VERSION");
    const char* group = "Registry";
    verb.add_option("-r,--registry-name", registry_, "its container; one is shared by all clusters")
        ->capture_default_str()
        ->type_name("NAME")
        ->group(group);
    verb.add_option("-p,--registry-port", port_, "on the loopback of this machine, and for the nodes")
        ->capture_default_str()
        ->type_name("PORT")
        ->group(group);
    add_chart_options(verb, chart_);
  }

  ClusterPlan plan(const ClusterRequest& request) override {
    const int64_t port = parse_count(port_, "--registry-port", {1, 65535});
    check_name(registry_, "--registry-name");
    if (!version_.empty()) check_name(version_, "--kubernetes-version");
    ClusterPlan plan;
    Cluster& cluster = plan.cluster;
    cluster.provider = "kind";
    cluster.nodes = request.nodes;
    cluster.kubeconfig = request.folder / "kubeconfig";
    cluster.name_space = "mlbench";
    cluster.registry = registry_;

    // The image must be here before anything is made.
    ChartOptions chart = chart_;
    std::string image = chosen_image(chart);
    if (image.empty() && !values_name_images(chart)) image = kBuiltImage;
    if (!image.empty()) {
      chart.image = in_registry(image, port);
      plan.steps.push_back({.what = "the image (deploy/docker/build.sh --engine docker worker builds one)",
                            .arguments = {"docker", "pull", image},
                            .unless = {"docker", "image", "inspect", image}});
    }
    const auto certificates = request.folder / "certs.d";
    plan.steps.push_back({.what = "how nodes find the registry",
                          .arguments = {},
                          .output = certificates / fmt::format("localhost:{}", port) / "hosts.toml",
                          .content = fmt::format("[host.\"http://{}:{}\"]", registry_, port)});
    const auto config = request.folder / "kind.json";
    plan.steps.push_back({.what = "kind's configuration",
                          .arguments = {},
                          .output = config,
                          .content = configuration(cluster.nodes, certificates).dump()});
    std::vector<std::string> create = {"kind", "create",       "cluster",          "--name", request.name, "--config",
                                       config, "--kubeconfig", cluster.kubeconfig, "--wait", "5m"};
    if (!version_.empty()) create.insert(create.end(), {"--image", "kindest/node:v" + version_});
    plan.steps.push_back({.what = "the cluster", .arguments = create, .makes = true});
    // The registry comes behind the cluster: the first cluster makes the network that the registry joins.
    plan.steps.push_back(
        {.what = "the registry",
         .arguments = {"docker", "run", "--detach", "--restart", "always", "--network", "kind", "--publish",
                       fmt::format("127.0.0.1:{}:{}", port, port), "--env", fmt::format("REGISTRY_HTTP_ADDR=:{}", port),
                       "--name", registry_, kRegistryImage},
         .unless = {"docker", "start", registry_},
         .makes = true});
    if (!image.empty()) {
      plan.steps.push_back({.what = "the image's name", .arguments = {"docker", "tag", image, chart.image}});
      plan.steps.push_back({.what = "the image in the registry", .arguments = {"docker", "push", chart.image}});
    }
    for (Step& step : chart_steps(cluster, request, chart)) plan.steps.push_back(std::move(step));
    plan.notes.push_back(
        fmt::format("other images of this machine reach the cluster by 'docker tag IMAGE localhost:{}/IMAGE' "
                    "and 'docker push localhost:{}/IMAGE'",
                    port, port));
    return plan;
  }

  std::vector<Step> plan_removal(const std::string& name, const Cluster* known) override {
    Step step{.what = "the cluster", .arguments = {"kind", "delete", "cluster", "--name", name}};
    if (known != nullptr && !known->kubeconfig.empty()) {
      step.arguments.insert(step.arguments.end(), {"--kubeconfig", known->kubeconfig});
    }
    return {step};
  }

  std::string what_goes() const override {
    return "the cluster with all runs of its master; its registry stays for others (docker rm -f NAME removes it)";
  }

 private:
  // The name by which this machine and the nodes know `image` in the registry.
  static std::string in_registry(const std::string& image, int64_t port) {
    const ImageName name = image_name(image);
    std::string last = name.repository.substr(name.repository.rfind('/') + 1);
    last = last.substr(0, last.find('@'));
    return fmt::format("localhost:{}/{}:{}", port, last, name.tag);
  }

  // kind's configuration. It is YAML, of which JSON is a part.
  static Json configuration(int64_t nodes, const std::filesystem::path& certificates) {
    const Json mounts = {{{"hostPath", certificates.string()}, {"containerPath", kCertificates}, {"readOnly", true}}};
    Json list = Json::array();
    for (int64_t i = 0; i < nodes; ++i) {
      list.push_back({{"role", i == 0 ? "control-plane" : "worker"}, {"extraMounts", mounts}});
    }
    return {{"kind", "Cluster"},
            {"apiVersion", "kind.x-k8s.io/v1alpha4"},
            {"containerdConfigPatches",
             {fmt::format("[plugins.\"io.containerd.grpc.v1.cri\".registry]\n  config_path = \"{}\"", kCertificates)}},
            {"nodes", list}};
  }

  std::string version_, registry_ = "kind-registry", port_ = "5000";
  ChartOptions chart_;
};

}  // namespace

std::unique_ptr<Provider> make_kind() { return std::make_unique<KindProvider>(); }

}  // namespace mlbench::cli
