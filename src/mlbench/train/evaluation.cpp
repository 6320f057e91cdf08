#include "mlbench/train/evaluation.h"

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/framework/host_values.h"
#include "mlbench/spec/loss.h"
#include "mlbench/train/bad_images.h"
#include "mlbench/train/snapshot.h"
#include "mlbench/train/split_translator.h"

namespace mlbench::train {

MetricSet::MetricSet(std::vector<std::string> names) {
  if (std::find(names.begin(), names.end(), "loss") == names.end()) names.emplace_back("loss");
  for (const std::string& name : names) metrics_.push_back(metrics::make_metric(name));
}

void MetricSet::add(const metrics::Outputs& outputs) {
  for (auto& metric : metrics_) metric->add(outputs);
}

void MetricSet::reset() {
  for (auto& metric : metrics_) metric->reset();
}

void MetricSet::merge(comm::Communicator& comm) {
  if (comm.size() == 1) return;
  std::vector<double> sums = gather_sums();
  comm.all_reduce(view_of(std::span(sums)), comm::ReduceOp::kSum);
  scatter_sums(sums);
}

double MetricSet::value(const std::string& name) const {
  for (const auto& metric : metrics_) {
    if (metric->name() == name) return metric->value();
  }
  throw UserError("the task's goal watches '" + name + "', which is not among its evaluation metrics");
}

Json MetricSet::values() const {
  Json json = Json::object();
  for (const auto& metric : metrics_) json[metric->name()] = metric->value();
  return json;
}

std::vector<double> MetricSet::gather_sums() {
  std::vector<double> sums;
  for (auto& metric : metrics_) sums.insert(sums.end(), metric->sums().begin(), metric->sums().end());
  return sums;
}

void MetricSet::scatter_sums(std::span<const double> sums) {
  size_t position = 0;
  for (auto& metric : metrics_) {
    for (double& sum : metric->sums()) sum = sums[position++];
  }
  MLBENCH_CHECK(position == sums.size(), "metric state has another length");
}

MetricSource metric_source(const spec::TaskSpec& task) {
  const spec::LossKind loss = spec::loss_kind(task.loss);
  return loss.classifies || loss.one_output ? MetricSource::kOutputs : MetricSource::kSums;
}

metrics::Outputs outputs_of(framework::Framework& framework, const BatchView& batch, double loss, MetricSource source) {
  metrics::Outputs outputs;
  if (source == MetricSource::kSums) {
    const framework::MetricSums sums = framework.metric_sums();
    outputs.loss_sum = sums.loss;
    outputs.nll_sum = sums.nll;
    outputs.weight = sums.weight;
    return outputs;
  }
  outputs.scores = framework.outputs();
  outputs.labels = {static_cast<const int64_t*>(batch.at("labels").values.data), static_cast<size_t>(batch.samples)};
  outputs.classes = static_cast<int64_t>(outputs.scores.size()) / std::max<int64_t>(batch.samples, 1);
  outputs.loss_sum = loss * static_cast<double>(batch.samples);
  return outputs;
}

std::unique_ptr<data::Workload> make_workload(const spec::RunSpec& run, const dataset::PreparedDataset& data) {
  return data::make_workload(run.task.task, data, run.workers, run.seed);
}

void add_shard(framework::Framework& framework, data::EvalLoader& loader, MetricSource source, MetricSet& metrics) {
  loader.restart();
  while (const BatchView* batch = loader.next()) {
    framework.forward(*batch, framework::Mode::kEvaluate);
    metrics.add(outputs_of(framework, *batch, framework.loss(), source));
  }
}

void evaluate_averaged(framework::Framework& framework, comm::Communicator& comm, bool replicated, const AddShard& add,
                       MetricSet& metrics) {
  const AveragedModel averaged = average_model(framework, comm, replicated);
  const auto values_of = [&](const BufferView& flat) {
    const framework::HostValues own(framework, flat);
    return std::vector<float>(own.values().begin(), own.values().end());
  };
  const auto write = [&](const std::vector<float>& values, const BufferView& flat) {
    if (values.empty()) return;
    framework::HostValues written(framework, flat);
    std::ranges::copy(values, written.values().begin());
    written.store();
  };
  const AveragedModel own{replicated ? std::vector<float>() : values_of(framework.parameters()),
                          values_of(framework.buffers())};
  const auto set = [&](const AveragedModel& model) {
    write(model.parameters, framework.parameters());
    write(model.buffers, framework.buffers());
  };
  set(averaged);
  metrics.reset();
  add(metrics);
  metrics.merge(comm);
  set(own);
}

Json evaluate_whole(framework::Framework& framework, const spec::RunSpec& run, const dataset::PreparedDataset& data) {
  MetricSet metrics(run.task.task.evaluation.metrics);
  const auto workload = make_workload(run, data);
  const SystemClock clock;
  const auto translator = SplitTranslator::make(run.task.task, data, clock);
  BadImages bad_images(data, run.max_bad);
  const data::BadSampleRule bad{bad_images.most(), [&](const data::BadSample& one) {
                                  bad_images.add(one);
                                  bad_images.check_limit();
                                }};
  std::vector<std::vector<double>> sums;  // one vector per rank
  for (int rank = 0; rank < run.workers; ++rank) {
    metrics.reset();
    const auto loader =
        workload->make_eval_loader({run.workers, rank, std::max(static_cast<int>(run.decoding_threads), 1), {}, bad});
    add_shard(framework, *loader, metric_source(run.task.task), metrics);
    if (translator) translator->add_shard(framework, *loader, metrics);
    sums.push_back(metrics.gather_sums());
  }
  for (size_t distance = 1; distance < sums.size(); distance *= 2) {
    for (size_t rank = 0; rank + distance < sums.size(); rank += 2 * distance) {
      std::transform(sums[rank].begin(), sums[rank].end(), sums[rank + distance].begin(), sums[rank].begin(),
                     std::plus<>());
    }
  }
  metrics.scatter_sums(sums.front());
  return metrics.values();
}

}  // namespace mlbench::train
