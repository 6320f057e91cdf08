#include "mlbench/data/workload.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/data/transform.h"
#include "mlbench/spec/batch_scaling.h"
#include "mlbench/spec/evaluation_columns.h"
#include "mlbench/spec/split.h"

namespace mlbench::data {

namespace {

// The size of an evaluation batch where the task names none.
constexpr int64_t kEvaluationSamples = 250, kEvaluationSentences = 64;

int64_t evaluation_samples(const spec::DataSpec& data) {
  return data.evaluation_batch > 0 ? data.evaluation_batch : kEvaluationSamples;
}

class PlannedWorkload final : public Workload {
 public:
  PlannedWorkload(std::shared_ptr<const SampleSource> source, std::shared_ptr<const BatchPlan> plan,
                  MakeEvalLoader make_eval_loader)
      : source_(std::move(source)), plan_(std::move(plan)), make_eval_loader_(std::move(make_eval_loader)) {}

  const BatchPlan& plan() const override { return *plan_; }
  std::unique_ptr<TrainLoader> make_train_loader(const LoaderOptions& options) const override {
    return data::make_train_loader(source_, plan_, options);
  }
  std::unique_ptr<EvalLoader> make_eval_loader(const EvalShard& shard) const override {
    return make_eval_loader_(shard);
  }

 private:
  std::shared_ptr<const SampleSource> source_;  // before the plan, which may ask it for lengths
  std::shared_ptr<const BatchPlan> plan_;
  MakeEvalLoader make_eval_loader_;
};

struct Ingredients {
  const spec::TaskSpec& task;
  const dataset::CachedSplit &train, &test;
  PlanOptions plan;
};

// Trains on a part of the split "train", and evaluates the rest of it.
std::unique_ptr<Workload> held_out_workload(const Ingredients& from) {
  const spec::DataSpec& data = from.task.data;
  Holdout parts = hold_out(from.train.samples, data.holdout);
  auto source =
      make_sample_source(from.train, make_transform(data.train_transform, data, from.plan.seed), parts.trained);
  const auto make_eval = [&train = from.train, data, seed = from.plan.seed,
                          records = std::move(parts.held_out)](const EvalShard& shard) {
    return make_sample_eval_loader(make_sample_source(train, make_transform(data.eval_transform, data, seed), records),
                                   records, shard, evaluation_samples(data));
  };
  return make_planned_workload(std::move(source), make_sample_plan(std::move(parts.trained), from.plan), make_eval);
}

std::unique_ptr<Workload> image_workload(const Ingredients& from) {
  const spec::DataSpec& data = from.task.data;
  if (data.holdout > 0) return held_out_workload(from);
  const auto make_eval = [&test = from.test, data, seed = from.plan.seed](const EvalShard& shard) {
    return make_sample_eval_loader(test, make_transform(data.eval_transform, data, seed), shard,
                                   evaluation_samples(data));
  };
  auto source = make_sample_source(from.train, make_transform(data.train_transform, data, from.plan.seed));
  auto plan = make_sample_plan(source->size(), from.plan);
  return make_planned_workload(std::move(source), std::move(plan), make_eval);
}

std::span<const int32_t> text_of(const dataset::CachedSplit& split) {
  return split.column<dataset::TokenColumn>("tokens").elements;
}

std::unique_ptr<Workload> language_model_workload(const Ingredients& from) {
  const spec::DataSpec& data = from.task.data;
  const std::span<const int32_t> text = text_of(from.train);
  const TextHoldout parts = data.holdout > 0 ? hold_out_end(text, data.holdout) : TextHoldout{text, text_of(from.test)};
  const auto make_eval = [evaluated = parts.held_out, columns = spec::evaluation_columns(data),
                          bptt = data.bptt](const EvalShard& shard) {
    return make_column_eval_loader(evaluated, columns, bptt, shard);
  };
  auto source = make_column_source(parts.trained, from.plan.batch_size * from.plan.workers);
  auto plan =
      make_column_plan(std::ssize(parts.trained), {data.bptt, data.bptt_deviation, data.short_probability}, from.plan);
  return make_planned_workload(std::move(source), std::move(plan), make_eval);
}

std::unique_ptr<Workload> translation_workload(const Ingredients& from) {
  const spec::DataSpec& data = from.task.data;
  const SentenceOptions training{data.max_length, 0, data.length_multiple};
  const SentenceOptions evaluation{0, data.evaluation_max_length, data.length_multiple};
  std::shared_ptr<const SentenceSource> source, evaluated;
  if (data.holdout > 0) {
    Holdout parts = hold_out_pairs(from.train, data.holdout);
    source = std::make_shared<const SentenceSource>(from.train, training, std::move(parts.trained));
    evaluated = std::make_shared<const SentenceSource>(from.train, evaluation, std::move(parts.held_out));
  } else {
    source = std::make_shared<const SentenceSource>(from.train, training);
    evaluated = std::make_shared<const SentenceSource>(from.test, evaluation);
  }
  std::shared_ptr<const BatchPlan> plan = data.batching == "tokens"
                                              ? make_token_plan(*source, data.length_multiple, from.plan)
                                              : make_sentence_plan(*source, from.plan);
  const int64_t batch = data.evaluation_batch > 0 ? data.evaluation_batch : kEvaluationSentences;
  const auto make_eval = [evaluated, batch](const EvalShard& shard) {
    return make_sentence_eval_loader(evaluated, shard, batch);
  };
  return make_planned_workload(std::move(source), std::move(plan), make_eval);
}

struct DivisorRow {
  std::string_view name;
  Divisor divisor;
};
constexpr DivisorRow kDivisors[] = {
    {"weight", Divisor::kWeight},
    {"weight_after_sum", Divisor::kWeightAfterSum},
    {"local_samples", Divisor::kLocalSamples},
};

Divisor divisor_of(const std::string& name) {
  const auto* const row = std::ranges::find(kDivisors, name, &DivisorRow::name);
  MLBENCH_CHECK(row != std::end(kDivisors), name);
  return row->divisor;
}

struct WorkloadRow {
  std::string_view batching;
  std::unique_ptr<Workload> (*make)(const Ingredients& from);
};
constexpr WorkloadRow kWorkloads[] = {
    {"samples", image_workload},
    {"columns", language_model_workload},
    {"sentences", translation_workload},
    {"tokens", translation_workload},
};

}  // namespace

std::unique_ptr<Workload> make_planned_workload(std::shared_ptr<const SampleSource> source,
                                                std::shared_ptr<const BatchPlan> plan,
                                                MakeEvalLoader make_eval_loader) {
  return std::make_unique<PlannedWorkload>(std::move(source), std::move(plan), std::move(make_eval_loader));
}

std::unique_ptr<Workload> make_workload(const spec::TaskSpec& task, const dataset::PreparedDataset& data,
                                        int64_t workers, uint64_t seed) {
  Ingredients from{task, data.split(spec::kTrainSplit), data.split(spec::kTestSplit), {}};
  from.plan.workers = workers;
  from.plan.batch_size = spec::worker_batch_of(task, workers);
  from.plan.global_batch = task.global_batch;
  from.plan.divisor = divisor_of(task.loss_divisor);
  from.plan.seed = seed;
  for (const WorkloadRow& row : kWorkloads) {
    if (row.batching == task.data.batching) return row.make(from);
  }
  throw InternalError("the specification has not checked '" + task.data.batching + "'");
}

}  // namespace mlbench::data
