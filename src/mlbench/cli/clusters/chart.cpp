#include "mlbench/cli/clusters/chart.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string_view>

#include "mlbench/base/errors.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/paths.h"

namespace mlbench::cli {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr const char* kHelmPatience = "10m";
constexpr auto kHelmLimit = 12min;
constexpr auto kKubectlLimit = 1min;

// The chart beside this program, as installed or in the source tree where it was built. Throws UserError without one.
fs::path own_chart() {
  fs::path folder = program_path().parent_path();
  for (int up = 0; up < 4; ++up, folder = folder.parent_path()) {
    for (const char* below : {"share/mlbench/helm/mlbench", "deploy/helm/mlbench"}) {
      if (fs::exists(folder / below / "Chart.yaml")) return folder / below;
    }
  }
  throw UserError(
      "there is no Helm chart beside this program: give its folder with --chart DIR (deploy/helm/mlbench of "
      "the sources)");
}

fs::path chart_folder(const std::string& given) {
  if (given.empty()) return own_chart();
  if (!fs::exists(fs::path(given) / "Chart.yaml")) {
    throw UserError(fmt::format("--chart '{}' is no chart: expected a folder with Chart.yaml", given));
  }
  return fs::absolute(given).lexically_normal();
}

constexpr const char* kImageAdvice =
    "deploy/docker/build.sh --repository REGISTRY/mlbench worker builds it, and a push brings it to a registry that "
    "the "
    "cluster's nodes reach";

// Throws UserError for an image that the nodes of a cloud could never pull.
void check_reachable(const std::string& image, const std::string& provider) {
  const std::string registry = image.substr(0, image.find_first_of("/:"));
  if (registry != "localhost" || (provider != "gcloud" && provider != "aws")) return;
  throw UserError(fmt::format("--image '{}': no node of {} finds it on its own localhost; {}", shortened(image),
                              provider, kImageAdvice));
}

std::vector<std::string> helm_words(const Cluster& cluster) {
  std::vector<std::string> words;
  if (!cluster.kubeconfig.empty()) words.insert(words.end(), {"--kubeconfig", cluster.kubeconfig});
  if (!cluster.context.empty()) words.insert(words.end(), {"--kube-context", cluster.context});
  words.insert(words.end(), {"--namespace", cluster.name_space});
  return words;
}

}  // namespace

void add_chart_options(CLI::App& verb, ChartOptions& options) {
  const char* group = "Chart";
  verb.add_option("-c,--num-cpus", options.cpus, "cores of a node; one is left to the system")
      ->capture_default_str()
      ->type_name("N")
      ->group(group);
  verb.add_option("-g,--num-gpus", options.gpus, "GPUs of a node")->capture_default_str()->type_name("N")->group(group);
  verb.add_option("--image", options.image,
                  fmt::format("of master and workers (default: what {} says)", variables::kWorkerImage))
      ->type_name("REF")
      ->group(group);
  verb.add_option("-v,--custom-value", options.values, "a value of the chart, as helm's --set; repeatable")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE")
      ->group(group);
  verb.add_option("--chart", options.chart, "folder of the chart (default: that of this installation)")
      ->type_name("DIR")
      ->group(group);
}

ImageName image_name(const std::string& image) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-/:@").find(c) != std::string_view::npos;
  };
  const size_t slash = image.rfind('/');
  const size_t colon = image.find_last_of(':');
  const bool tagged = colon != std::string::npos && (slash == std::string::npos || colon > slash);
  ImageName name{image.substr(0, tagged ? colon : image.size()), tagged ? image.substr(colon + 1) : "latest"};
  const auto edge = [](char c) { return std::string_view("._-/:@").find(c) != std::string_view::npos; };
  if (!std::ranges::all_of(image, fits) || name.repository.empty() || name.tag.empty() ||
      edge(name.repository.front()) || edge(name.repository.back()) || edge(name.tag.front())) {
    throw UserError(
        fmt::format("--image '{}': expected an image as in registry.example/mlbench-worker:1", shortened(image)));
  }
  return name;
}

std::string chosen_image(const ChartOptions& options) {
  return options.image.empty() ? environment_variable(variables::kWorkerImage).value_or("") : options.image;
}

bool values_name_images(const ChartOptions& options) {
  return std::ranges::all_of(std::array{"master.image.repository=", "worker.image.repository="}, [&](const char* key) {
    return std::ranges::any_of(options.values, [&](const std::string& value) { return value.starts_with(key); });
  });
}

std::vector<std::string> kubectl_words(const Cluster& cluster) {
  std::vector<std::string> words;
  if (!cluster.kubeconfig.empty()) words.insert(words.end(), {"--kubeconfig", cluster.kubeconfig});
  if (!cluster.context.empty()) words.insert(words.end(), {"--context", cluster.context});
  words.insert(words.end(), {"--namespace", cluster.name_space});
  return words;
}

std::string service_of(const Cluster& cluster) { return fmt::format("service/{}-master", cluster.release); }

std::vector<Step> chart_steps(Cluster& cluster, const ClusterRequest& request, const ChartOptions& options) {
  const int64_t cpus = parse_count(options.cpus, "--num-cpus", {1, 1024});
  const int64_t gpus = parse_count(options.gpus, "--num-gpus", {0, 64});
  for (const std::string& value : options.values) {
    if (value.find('=') != std::string::npos && !value.starts_with('=')) continue;
    throw UserError(fmt::format("-v '{}': expected KEY=VALUE, as in limits.workers=4", shortened(value)));
  }
  const std::string image = chosen_image(options);
  if (image.empty() && !values_name_images(options)) {
    throw UserError(fmt::format("which image do master and workers have? Give --image REF or set {}: {}",
                                variables::kWorkerImage, kImageAdvice));
  }
  cluster.release = request.name;
  cluster.token_file = (request.folder / "token").string();

  std::vector<std::string> helm = {"helm", "upgrade", "--install", cluster.release, chart_folder(options.chart)};
  const std::vector<std::string> where = helm_words(cluster);
  helm.insert(helm.end(), where.begin(), where.end());
  helm.emplace_back("--create-namespace");
  const auto set = [&](const std::string& value) { helm.insert(helm.end(), {"--set", value}); };
  set(fmt::format("limits.workers={}", cluster.nodes - 1));
  set(fmt::format("limits.cpu={}", std::max<int64_t>(1, cpus - 1)));
  set(fmt::format("limits.gpu={}", gpus));
  if (!image.empty()) {
    const ImageName name = image_name(image);
    check_reachable(image, cluster.provider);
    for (const char* whose : {"master", "worker"}) {
      set(fmt::format("{}.image.repository={}", whose, name.repository));
      // --set would make a number of a tag of digits.
      helm.insert(helm.end(), {"--set-string", fmt::format("{}.image.tag={}", whose, name.tag)});
    }
  }
  for (const std::string& value : options.values) set(value);
  helm.insert(helm.end(), {"--wait", "--timeout", kHelmPatience});

  std::vector<std::string> token = {"kubectl"};
  const std::vector<std::string> to = kubectl_words(cluster);
  token.insert(token.end(), to.begin(), to.end());
  token.insert(token.end(),
               {"get", "secret", cluster.release + "-token", "-o", "go-template={{.data.token|base64decode}}"});
  return {{.what = "the chart", .arguments = helm, .makes = true, .limit = kHelmLimit},
          {.what = "the master's token", .arguments = token, .output = cluster.token_file, .limit = kKubectlLimit}};
}

Step chart_removal(const Cluster& cluster, bool may_fail) {
  std::vector<std::string> helm = {"helm", "uninstall", cluster.release};
  const std::vector<std::string> where = helm_words(cluster);
  helm.insert(helm.end(), where.begin(), where.end());
  helm.insert(helm.end(), {"--ignore-not-found", "--wait", "--timeout", "5m"});
  return {.what = "the chart", .arguments = helm, .may_fail = may_fail, .limit = 6min};
}

}  // namespace mlbench::cli
