#pragma once

// Metrics of a model over a whole evaluation split: one arithmetic for a run's evaluations and for a stored model.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mlbench/comm/communicator.h"
#include "mlbench/data/workload.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/framework/framework.h"
#include "mlbench/metrics/metric.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::train {

// The metrics of one pass, merged exactly over ranks. `loss` is always among them: it drives plateau decay and every
// curve, whatever a task lists.
class MetricSet {
 public:
  explicit MetricSet(std::vector<std::string> names);

  void add(const metrics::Outputs& outputs);
  void reset();
  void merge(comm::Communicator& comm);
  double value(const std::string& name) const;  // UserError: not among the metrics
  Json values() const;
  // The sums of all metrics, one after the other; scatter() takes as many back.
  std::vector<double> gather_sums();
  void scatter_sums(std::span<const double> sums);

 private:
  std::vector<std::unique_ptr<metrics::Metric>> metrics_;
};

// What metrics look at.
enum class MetricSource {
  kOutputs,  // scores of each sample's classes, which come to the host, and its label
  kSums,     // sums over the batch, which the framework makes
};
MetricSource metric_source(const spec::TaskSpec& task);  // whether its loss classifies (spec/loss.h)

// What metrics see of a batch: that of the last forward, and its mean loss.
metrics::Outputs outputs_of(framework::Framework& framework, const BatchView& batch, double loss, MetricSource source);

// The task's data, for the run's ranks.
std::unique_ptr<data::Workload> make_workload(const spec::RunSpec& run, const dataset::PreparedDataset& data);

// The framework's model, as it stands, over all of the loader's batches.
void add_shard(framework::Framework& framework, data::EvalLoader& loader, MetricSource source, MetricSet& metrics);

// What a rank adds of its part of the evaluation split to metrics.
using AddShard = std::function<void(MetricSet& metrics)>;

// The metrics of the whole split, made by all ranks, each with its part of it (`add`) and with the averaged
// model (snapshot.h); behind it each has its own again, to train on with. `replicated`: all ranks hold the same
// parameters. Collective.
void evaluate_averaged(framework::Framework& framework, comm::Communicator& comm, bool replicated, const AddShard& add,
                       MetricSet& metrics);

// The whole split in one process, in the shards and the order of a run of run.workers ranks, so that the values are
// those of the run: bit for bit those of counted metrics; the loss, too, where the ranks' sums were added in a balanced
// tree (one and two ranks always; powers of two with Gloo).
Json evaluate_whole(framework::Framework& framework, const spec::RunSpec& run, const dataset::PreparedDataset& data);

}  // namespace mlbench::train
