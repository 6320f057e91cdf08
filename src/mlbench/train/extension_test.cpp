// Trains workloads of kinds that no task has, with the loop, plans, loaders, exchange and checkpoints as they are. The
// rows of this table are all the code that each kind needs:
//
// | proof                                             | new lines                            | existing lines edited |
// |---|---|---|
// | encoder-decoder with tied weights, on sentences   | TextFramework (text_train_test.cpp)  | 0 |
// | source of recordings of any length                | Recordings, MeanOfRecording          | 0 |
// | regression: labels that are numbers               | Measurements, LinearModel            | 0 |
// | sparse rows                                       | SparseRows, SparseLinearModel        | 0 |
//
// No line is edited because workload and framework are given to the loop (TrainContext), and because metrics see the
// framework's sums for a loss that no table knows (spec/loss.h). Such a kind needs three rows to become a task: its
// batching in kWorkloads (data/workload.cpp) and among the values of `data.batching`, and its loss in a framework's
// table.

#include <gmock/gmock.h>

#include <cmath>

#include "mlbench/data/workload.h"
#include "mlbench/train/toy_test.h"

namespace mlbench::train::test {
namespace {

constexpr int64_t kSamples = 23, kFeatures = 5;

// Splits that exist only because a data set has some: these sources hold their own data.
std::vector<dataset::CachedSplit> no_splits() {
  std::vector<dataset::CachedSplit> both(2);
  both[0].name = "train";
  both[1].name = "test";
  both[0].samples = both[1].samples = kSamples;
  return both;
}

double value_of(int64_t sample, int64_t feature) { return std::sin(static_cast<double>(1 + sample * 7 + feature * 3)); }
float label_of(int64_t sample) { return static_cast<float>(0.5 + 2 * value_of(sample, 1) - value_of(sample, 3)); }

// A loader of all the source's samples, in order, up to `batch_size` at once. Rank r takes those of its part.
std::unique_ptr<data::EvalLoader> evaluate_all(std::shared_ptr<const data::SampleSource> source,
                                               const data::EvalShard& shard) {
  constexpr int64_t kBatch = 4;
  const data::Part part = data::even_part(kSamples, shard.workers, shard.rank);
  std::vector<int64_t> rows;
  std::vector<data::Piece> pieces;
  for (int64_t i = 0; i < part.count; ++i) rows.push_back(part.first + i);
  for (int64_t i = 0; i < part.count; i += kBatch) {
    pieces.push_back({.begin = i, .count = std::min(kBatch, part.count - i)});
  }
  return data::make_piece_eval_loader(std::move(source), std::move(rows), std::move(pieces), shard);
}

BatchTensor floats_of(const char* name, std::vector<int64_t> shape, const float* values, int64_t count) {
  return {name, std::move(shape), ConstBufferView(values, count, DType::kFloat32), {}};
}
BatchTensor integers_of(const char* name, std::span<const int64_t> values) {
  return {name, {std::ssize(values)}, const_view_of(values), {}};
}

// ---- recordings of any length ---------------------------------------------------------------------------------------

// Samples with the tensors "frames" float32 [all frames], "lengths" int64 [samples] and "labels" float32 [samples]. A
// sample's weight is its number of frames, over which the loss is a mean.
class Recordings final : public data::SampleSource, public data::Sentences {
 public:
  Recordings() {
    for (int64_t i = 0; i < kSamples; ++i) kept_.push_back(i);
  }
  int64_t size() const override { return kSamples; }
  void fill(const data::SampleRequest& request, BatchView& view, data::BatchMemory& memory) const override {
    const std::span<const int64_t> rows = request.rows;
    const std::span<int64_t> lengths = memory.integers(0, std::ssize(rows));
    int64_t frames = 0;
    for (size_t i = 0; i < rows.size(); ++i) frames += lengths[i] = length(rows[i]);
    float* const values = memory.floats(frames + std::ssize(rows));
    float* next = values;
    for (const int64_t row : rows) {
      for (int64_t frame = 0; frame < length(row); ++frame) *next++ = static_cast<float>(value_of(row, frame));
    }
    for (size_t i = 0; i < rows.size(); ++i) next[i] = label_of(rows[i]);
    view.samples = std::ssize(rows);
    view.weight = frames;
    view.tensors = {floats_of("frames", {frames}, values, frames), integers_of("lengths", lengths),
                    floats_of("labels", {view.samples}, next, view.samples)};
  }
  const std::vector<int64_t>& kept() const override { return kept_; }
  int64_t length(int64_t sample) const override { return 1 + sample * 5 % 9; }
  int64_t weight(int64_t sample) const override { return length(sample); }

 private:
  std::vector<int64_t> kept_;
};

// The loss of each frame x is (w0 + w1 x - label)^2 / 2.
class MeanOfRecording final : public ToyFramework {
 public:
  MeanOfRecording() : ToyFramework(2) {}

 private:
  void compute(const BatchView& batch, framework::Mode) override {
    const auto frames = tensor_of<float>(batch, "frames"), labels = tensor_of<float>(batch, "labels");
    const auto lengths = tensor_of<int64_t>(batch, "lengths");
    size_t at = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      for (int64_t frame = 0; frame < lengths[i]; ++frame, ++at) {
        const double slope = add_square(w(0) + w(1) * frames[at] - labels[i]);
        add_slope(0, slope);
        add_slope(1, slope * frames[at]);
      }
    }
  }
};

// ---- labels that are numbers ----------------------------------------------------------------------------------------

// Samples with the tensors "features" float32 [samples, kFeatures] and "labels" float32 [samples].
class Measurements final : public data::SampleSource {
 public:
  int64_t size() const override { return kSamples; }
  void fill(const data::SampleRequest& request, BatchView& view, data::BatchMemory& memory) const override {
    const std::span<const int64_t> rows = request.rows;
    const auto samples = std::ssize(rows);
    float* const values = memory.floats(samples * (kFeatures + 1));
    float* const labels = values + samples * kFeatures;
    for (int64_t i = 0; i < samples; ++i) {
      const int64_t row = rows[static_cast<size_t>(i)];
      for (int64_t j = 0; j < kFeatures; ++j) values[i * kFeatures + j] = static_cast<float>(value_of(row, j));
      labels[i] = label_of(row);
    }
    view.samples = view.weight = samples;
    view.tensors = {floats_of("features", {samples, kFeatures}, values, samples * kFeatures),
                    floats_of("labels", {samples}, labels, samples)};
  }
};

// The loss is (w x + w[kFeatures] - label)^2 / 2.
class LinearModel final : public ToyFramework {
 public:
  LinearModel() : ToyFramework(kFeatures + 1) {}

 private:
  void compute(const BatchView& batch, framework::Mode) override {
    const auto features = tensor_of<float>(batch, "features"), labels = tensor_of<float>(batch, "labels");
    for (size_t i = 0; i < labels.size(); ++i) {
      const auto row = features.subspan(i * kFeatures, kFeatures);
      double sum = w(kFeatures);
      for (int64_t j = 0; j < kFeatures; ++j) sum += w(j) * row[static_cast<size_t>(j)];
      const double slope = add_square(sum - labels[i]);
      for (int64_t j = 0; j < kFeatures; ++j) add_slope(j, slope * row[static_cast<size_t>(j)]);
      add_slope(kFeatures, slope);
    }
  }
};

// ---- sparse rows ----------------------------------------------------------------------------------------------------

constexpr int64_t kColumns = 40;

// Compressed sparse rows: "offsets" int64 [samples + 1], "columns" int64 and "values" float32 of the entries that are
// not 0; "labels" float32 [samples]. Row i has i mod 4 entries that are not 0.
class SparseRows final : public data::SampleSource {
 public:
  int64_t size() const override { return kSamples; }
  void fill(const data::SampleRequest& request, BatchView& view, data::BatchMemory& memory) const override {
    const std::span<const int64_t> rows = request.rows;
    const std::span<int64_t> offsets = memory.integers(0, std::ssize(rows) + 1);
    offsets[0] = 0;
    for (size_t i = 0; i < rows.size(); ++i) offsets[i + 1] = offsets[i] + rows[i] % 4;
    const int64_t filled = offsets.back(), samples = std::ssize(rows);
    const std::span<int64_t> columns = memory.integers(1, filled);
    float* const values = memory.floats(filled + samples);
    for (size_t i = 0; i < rows.size(); ++i) {
      for (int64_t at = offsets[i]; at < offsets[i + 1]; ++at) {
        columns[static_cast<size_t>(at)] = (rows[i] * 11 + (at - offsets[i]) * 7) % kColumns;
        values[at] = static_cast<float>(value_of(rows[i], at - offsets[i]));
      }
      values[filled + static_cast<int64_t>(i)] = label_of(rows[i]);
    }
    view.samples = view.weight = samples;
    view.tensors = {integers_of("offsets", offsets), integers_of("columns", columns),
                    floats_of("values", {filled}, values, filled),
                    floats_of("labels", {samples}, values + filled, samples)};
  }
};

// The linear model without the offset.
class SparseLinearModel final : public ToyFramework {
 public:
  SparseLinearModel() : ToyFramework(kColumns) {}

 private:
  void compute(const BatchView& batch, framework::Mode) override {
    const auto offsets = tensor_of<int64_t>(batch, "offsets"), columns = tensor_of<int64_t>(batch, "columns");
    const auto values = tensor_of<float>(batch, "values"), labels = tensor_of<float>(batch, "labels");
    for (size_t i = 0; i < labels.size(); ++i) {
      double sum = 0;
      for (auto at = static_cast<size_t>(offsets[i]); at < static_cast<size_t>(offsets[i + 1]); ++at) {
        sum += w(columns[at]) * values[at];
      }
      const double slope = add_square(sum - labels[i]);
      for (auto at = static_cast<size_t>(offsets[i]); at < static_cast<size_t>(offsets[i + 1]); ++at) {
        add_slope(columns[at], slope * values[at]);
      }
    }
  }
};

// ---- all of them ----------------------------------------------------------------------------------------------------

template <typename Source>
std::unique_ptr<data::Workload> workload_of(std::shared_ptr<const Source> source,
                                            std::shared_ptr<const data::BatchPlan> plan) {
  return data::make_planned_workload(source, std::move(plan),
                                     [source](const data::EvalShard& shard) { return evaluate_all(source, shard); });
}

data::PlanOptions plan_of(int64_t workers) {
  return {.workers = workers, .batch_size = 8 / workers, .global_batch = 0, .seed = 42};
}

struct Kind {
  const char* name;
  std::unique_ptr<framework::Framework> (*make_framework)();
  std::unique_ptr<data::Workload> (*make_workload)(int64_t workers);
  int64_t weight;  // per epoch
};

template <typename Model>
std::unique_ptr<framework::Framework> made() {
  return std::make_unique<Model>();
}
template <typename Source>
std::unique_ptr<data::Workload> of_samples(int64_t workers) {
  return workload_of(std::make_shared<const Source>(), data::make_sample_plan(kSamples, plan_of(workers)));
}
std::unique_ptr<data::Workload> of_recordings(int64_t workers) {
  auto source = std::make_shared<const Recordings>();
  data::PlanOptions options = plan_of(workers);
  options.batch_size = 3;  // samples of a micro-batch
  options.global_batch = 8;
  return workload_of(source, data::make_sentence_plan(*source, options));
}
int64_t frames() {
  int64_t sum = 0;
  for (int64_t i = 0; i < kSamples; ++i) sum += Recordings().length(i);
  return sum;
}

const Kind kKinds[] = {
    {"recordings", made<MeanOfRecording>, of_recordings, frames()},
    {"regression", made<LinearModel>, of_samples<Measurements>, kSamples},
    {"sparse_rows", made<SparseLinearModel>, of_samples<SparseRows>, kSamples},
};

class Extension : public testing::TestWithParam<Kind> {
 protected:
  Extension() : test_([](int) { return GetParam().make_framework(); }, no_splits()) {
    test_.make_workload = GetParam().make_workload;
    test_.run.task.task.loss = "squared_error";
    test_.run.task.task.optimizer.lr = 0.1;
  }
  ToyOutcome train_with(int64_t workers) {
    test_.run.workers = workers;
    return test_.start();
  }
  ToyRun test_;
};
INSTANTIATE_TEST_SUITE_P(Kinds, Extension, testing::ValuesIn(kKinds),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(Extension, ranks_give_what_one_batch_gives) {
  const ToyOutcome one = train_with(1);
  EXPECT_EQ(one.steps, 3 * 3);
  EXPECT_EQ(one.weight, 3 * GetParam().weight);
  ASSERT_EQ(one.evaluations.size(), 3U);
  EXPECT_LT(one.evaluations.back().first, one.evaluations.front().first) << "it learns";
  EXPECT_GT(one.evaluations.back().first, 0);
  for (const int64_t workers : {2, 4}) {
    SCOPED_TRACE(workers);
    expect_near(train_with(workers), one);
  }
}

TEST_P(Extension, goes_on_from_any_step_with_the_same_bits) {
  test_.run.checkpoint.every_steps = 1;
  const ToyOutcome whole = train_with(2);
  for (const int64_t step : {1, 4, 6}) EXPECT_EQ(test_.start(step).parameters, whole.parameters) << step;
}

}  // namespace
}  // namespace mlbench::train::test
