#pragma once

// Metrics of a model over a whole evaluation split. A run's evaluations and the evaluation of a stored model share this
// arithmetic.

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

// The metrics of one pass, which merge exactly over ranks. `loss` is always among them, whatever a task lists, since
// plateau decay and every curve need it.
class MetricSet {
 public:
  explicit MetricSet(std::vector<std::string> names);

  void add(const metrics::Outputs& outputs);
  void reset();
  void merge(comm::Communicator& comm);
  double value(const std::string& name) const;  // throws UserError where there is no such metric
  Json values() const;
  // gather_sums() has the sums of all metrics, one after the other. scatter_sums() sets them again; precondition: there
  // are as many.
  std::vector<double> gather_sums();
  void scatter_sums(std::span<const double> sums);

 private:
  std::vector<std::unique_ptr<metrics::Metric>> metrics_;
};

// The values from which metrics are computed.
enum class MetricSource {
  kOutputs,  // scores of each sample's classes, which come to the host, and the sample's label
  kSums,     // sums over the batch, which the framework computes
};
MetricSource metric_source(const spec::TaskSpec& task);  // kOutputs where the loss is of outputs (spec/loss.h)

// The values of `batch` from which metrics are computed. `batch` must be that of the last forward pass, and `loss` its
// mean loss.
metrics::Outputs outputs_of(framework::Framework& framework, const BatchView& batch, double loss, MetricSource source);

// The task's data as batches for the run's ranks.
std::unique_ptr<data::Workload> make_workload(const spec::RunSpec& run, const dataset::PreparedDataset& data);

// Evaluates the framework's current model on all of the loader's batches, and adds the results to `metrics`.
void add_shard(framework::Framework& framework, data::EvalLoader& loader, MetricSource source, MetricSet& metrics);

// Adds the results of a rank's part of the evaluation split to the metrics.
using AddShard = std::function<void(MetricSet& metrics)>;

// Computes `metrics` of the whole split with the averaged model (snapshot.h). All ranks take part, each of which calls
// `add` for its part of the split. Afterwards each rank has its own model again, with which training goes on.
// `replicated` means that all ranks hold the same parameters. Collective.
void evaluate_averaged(framework::Framework& framework, comm::Communicator& comm, bool replicated, const AddShard& add,
                       MetricSet& metrics);

// Computes the metrics of the whole split in one process, with the shards and the order of a run of run.workers ranks,
// so that the values are those of the run. Counted metrics equal the run's bit for bit. The loss does, too, where the
// run added the ranks' sums in a balanced tree: always with one and two ranks, and with powers of two with Gloo.
Json evaluate_whole(framework::Framework& framework, const spec::RunSpec& run, const dataset::PreparedDataset& data);

}  // namespace mlbench::train
