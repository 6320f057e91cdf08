#pragma once

// The Helm chart of a master, and kubectl's way to it: what clusters in Kubernetes have in common.

#include <string>
#include <vector>

#include "mlbench/cli/clusters/provider.h"

namespace mlbench::cli {

// Where the image of master and workers is known by, when nothing on the command line names it.

// Options of create-cluster, as MLBench's command line has them.
struct ChartOptions {
  std::string chart;  // --chart DIR; "": that of this installation
  std::string image;  // --image REF, of master and workers; "": variables::kWorkerImage, or `values` name both
  std::vector<std::string> values;  // -v KEY=VALUE: --set of helm
  std::string cpus, gpus = "0";     // of a node; `cpus` is set to the provider's default before
};
void add_chart_options(CLI::App& verb, ChartOptions& options);

// An image as the chart's values have it: repository:tag, "latest" where none is named; of REPO@sha256:DIGITS it is
// REPO@sha256 and DIGITS. UserError for what is no image.
struct ImageName {
  std::string repository, tag;
};
ImageName image_name(const std::string& image);

// The image that the cluster is to have: of the option, else of the variable; "": neither names one.
std::string chosen_image(const ChartOptions& options);
// Whether `values` name the images of master and workers.
bool values_name_images(const ChartOptions& options);

// "--kubeconfig FILE --context NAME --namespace NAME", as far as they are set.
std::vector<std::string> kubectl_words(const Cluster& cluster);
std::string service_of(const Cluster& cluster);  // "service/my-cluster-3-master"

// Installs the chart, waits until its master answers, and fetches its token to FOLDER/token, the cluster's token_file
// from then on. Workers: one less than nodes, as the master has one for itself; cores: one less than a node's, at least
// one. UserError for a value that is no KEY=VALUE, where there is no chart, and where no image is named that nodes of
// the provider can have.
std::vector<Step> chart_steps(Cluster& cluster, const ClusterRequest& request, const ChartOptions& options);
// Its volumes go, too. `may_fail`: the cluster itself goes next.
Step chart_removal(const Cluster& cluster, bool may_fail);

}  // namespace mlbench::cli
