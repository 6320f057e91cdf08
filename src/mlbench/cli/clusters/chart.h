#pragma once

// What clusters in Kubernetes have in common: the Helm chart of a master, and how kubectl reaches it.

#include <string>
#include <vector>

#include "mlbench/cli/clusters/provider.h"

namespace mlbench::cli {

// Options of create-cluster, as MLBench's command line has them.
struct ChartOptions {
  std::string chart;  // --chart DIR; "": the chart of this installation
  std::string image;  // --image REF, of master and workers; "": variables::kWorkerImage, or `values` name both
  std::vector<std::string> values;  // -v KEY=VALUE: given to helm as --set
  std::string cpus, gpus = "0";     // of a node; the provider sets `cpus` to its default
};
void add_chart_options(CLI::App& verb, ChartOptions& options);

// An image as the chart's values name it.
struct ImageName {
  std::string repository, tag;
};
// Splits REPOSITORY:TAG; the tag is "latest" where `image` has none. REPO@sha256:DIGITS gives REPO@sha256 and DIGITS.
// Throws UserError for a text that is no image.
ImageName image_name(const std::string& image);

// The image for the cluster: that of the option, else of variables::kWorkerImage; "": neither names one.
std::string chosen_image(const ChartOptions& options);
// Whether ChartOptions::values name the images of master and workers.
bool values_name_images(const ChartOptions& options);

// Options for kubectl: "--kubeconfig FILE --context NAME --namespace NAME", as far as the cluster sets them.
std::vector<std::string> kubectl_words(const Cluster& cluster);
std::string service_of(const Cluster& cluster);  // "service/my-cluster-3-master"

// The steps that install the chart, wait until its master answers, and fetch the master's token to FOLDER/token. Sets
// the release and the token_file of `cluster`. There is one worker less than nodes, since the master has a node for
// itself, and a worker has one core less than a node, but at least one. Throws UserError for a value that is no
// KEY=VALUE, where there is no chart, and where no image is named that nodes of the provider can reach.
std::vector<Step> chart_steps(Cluster& cluster, const ClusterRequest& request, const ChartOptions& options);
// The step that removes the chart and its volumes. `may_fail` says that the cluster itself is removed next.
Step chart_removal(const Cluster& cluster, bool may_fail);

}  // namespace mlbench::cli
