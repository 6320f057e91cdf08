#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <numeric>
#include <semaphore>
#include <set>
#include <thread>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/shape.h"
#include "mlbench/base/sparse_rows.h"
#include "mlbench/data/eval_loader.h"
#include "mlbench/data/shard.h"
#include "mlbench/data/train_loader.h"
#include "mlbench/image/image.h"

namespace mlbench::data {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

// Samples of one value: their own number; label = number mod 7.
class Numbers {
 public:
  explicit Numbers(int64_t samples) : values_(static_cast<size_t>(samples)), labels_(static_cast<size_t>(samples)) {
    std::iota(values_.begin(), values_.end(), 0.0F);
    for (size_t i = 0; i < labels_.size(); ++i) labels_[i] = static_cast<int64_t>(i % 7);
    split_.name = "train";
    split_.samples = samples;
    split_.columns = {dataset::FixedColumn{"features", {1}, const_view_of(std::span<const float>(values_))},
                      dataset::FixedColumn{"labels", {}, const_view_of(std::span<const int64_t>(labels_))}};
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  const dataset::CachedSplit& split() const { return split_; }
  const float* values() const { return values_.data(); }

 private:
  std::vector<float> values_;
  std::vector<int64_t> labels_;
  dataset::CachedSplit split_;
};

std::unique_ptr<Transform> as_they_are() {
  spec::DataSpec spec;
  spec.sample_shape = {1};
  return make_transform({}, spec, 0);
}

// In both forms of a batch: rows of the split, or values (of which copies are aligned).
std::vector<int64_t> samples_of(const BatchView& view) {
  const BatchTensor &features = view.at("features"), &labels = view.at("labels");
  EXPECT_EQ(features.shape, (std::vector<int64_t>{view.samples, 1}));
  EXPECT_EQ(features.values.dtype, DType::kFloat32);
  EXPECT_EQ(labels.shape, std::vector<int64_t>{view.samples});
  EXPECT_EQ(labels.values.dtype, DType::kInt64);
  EXPECT_EQ(labels.values.count, view.samples);
  EXPECT_EQ(view.weight, view.samples);
  EXPECT_FALSE(view.continues);
  const auto* values = static_cast<const float*>(features.values.data);
  std::vector<int64_t> samples;
  if (features.dense()) {
    EXPECT_EQ(features.values.count, view.samples);
    samples.assign(values, values + view.samples);
  } else {
    EXPECT_EQ(static_cast<int64_t>(features.rows.size()), view.samples);
    for (const int64_t row : features.rows) samples.push_back(static_cast<int64_t>(values[row]));
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    EXPECT_EQ(static_cast<const int64_t*>(labels.values.data)[i], samples[i] % 7);
  }
  return samples;
}

// Samples are not cut into micro-batches.
std::vector<int64_t> samples_of(const Batch& batch) {
  EXPECT_EQ(batch.divisor, batch.global_samples);
  EXPECT_EQ(batch.global_weight, batch.global_samples);
  EXPECT_EQ(batch.relative_length, 1);
  EXPECT_LE(batch.micro.size(), 1U);
  if (batch.micro.empty()) return {};
  EXPECT_EQ(batch.samples, batch.micro.front().samples);
  EXPECT_EQ(batch.weight, batch.samples);
  return samples_of(batch.micro.front());
}

struct Loading : LoaderOptions {
  Shard shard;
};

Loading options_of(int64_t workers, int64_t rank, int64_t batch_size) {
  Loading options;
  options.rank = rank;
  options.shard = {workers, rank, batch_size};
  return options;
}

std::unique_ptr<TrainLoader> make_train_loader(const dataset::CachedSplit& split, std::unique_ptr<Transform> transform,
                                               const Loading& options) {
  return data::make_train_loader(
      make_sample_source(split, std::move(transform)),
      make_sample_plan(split.samples, {.workers = options.shard.workers, .batch_size = options.shard.batch_size}),
      options);
}

// A transform that yields the same values through a copy.
std::unique_ptr<Transform> copied() {
  spec::DataSpec spec;
  spec.sample_shape = {1};
  spec.mean = {0};
  spec.stddev = {1};
  return make_transform({"normalise"}, spec, 0);
}

// --- shards

TEST(Shard, StepsPerEpochRoundsUp) {
  EXPECT_EQ(steps_per_epoch(100, {1, 0, 10}), 10);
  EXPECT_EQ(steps_per_epoch(101, {1, 0, 10}), 11);
  EXPECT_EQ(steps_per_epoch(101, {5, 4, 10}), 3);
  EXPECT_EQ(steps_per_epoch(60000, {1, 0, 100}), 600);
  EXPECT_EQ(steps_per_epoch(3, {16, 0, 128}), 1);
}

TEST(Shard, RefusesWhatMakesNoSense) {
  for (const Shard& shard : {Shard{0, 0, 10}, Shard{2, 2, 10}, Shard{2, -1, 10}, Shard{2, 0, 0}}) {
    EXPECT_THROW(steps_per_epoch(100, shard), UserError);
  }
  EXPECT_THROW(steps_per_epoch(0, {1, 0, 10}), UserError);
  EXPECT_THROW(slice_of(100, {1, 0, 10}, 10), InternalError);
}

TEST(Shard, SlicesPartEveryEpochEvenly) {
  for (const int64_t samples : {1, 2, 4, 23, 101, 128, 1000}) {
    for (int64_t workers = 1; workers <= 5; ++workers) {
      for (const int64_t batch_size : {1, 3, 10}) {
        SCOPED_TRACE(::testing::Message() << samples << " samples, " << workers << " x " << batch_size);
        const int64_t steps = steps_per_epoch(samples, {workers, 0, batch_size});
        int64_t next = 0;  // slices in the order (step, rank) must be the range [0, samples)
        for (int64_t step = 0; step < steps; ++step) {
          std::vector<int64_t> counts;
          for (int64_t rank = 0; rank < workers; ++rank) {
            const StepSlice slice = slice_of(samples, {workers, rank, batch_size}, step);
            EXPECT_EQ(slice.first, next);
            EXPECT_LE(slice.count, batch_size);
            counts.push_back(slice.count);
            next += slice.count;
            EXPECT_EQ(slice.global_count, std::min(batch_size * workers, samples - step * batch_size * workers));
          }
          EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}),
                    slice_of(samples, {workers, 0, batch_size}, step).global_count);
          EXPECT_LE(counts.front() - counts.back(), 1);
          EXPECT_TRUE(std::is_sorted(counts.rbegin(), counts.rend()));
          if (step + 1 < steps) {
            EXPECT_THAT(counts, Each(batch_size));
          }
        }
        EXPECT_EQ(next, samples);
      }
    }
  }
}

TEST(Shard, LastBatchByHand) {
  // 23 samples, 2 x 5: the third global batch has 3.
  EXPECT_EQ(slice_of(23, {2, 0, 5}, 2).first, 20);
  EXPECT_EQ(slice_of(23, {2, 0, 5}, 2).count, 2);
  EXPECT_EQ(slice_of(23, {2, 1, 5}, 2).first, 22);
  EXPECT_EQ(slice_of(23, {2, 1, 5}, 2).count, 1);
  // 2 samples for 4 ranks.
  EXPECT_EQ(slice_of(2, {4, 1, 5}, 0).count, 1);
  EXPECT_EQ(slice_of(2, {4, 2, 5}, 0).count, 0);
  EXPECT_EQ(slice_of(2, {4, 3, 5}, 0).global_count, 2);
}

TEST(Shard, PermutationDependsOnSeedAndEpoch) {
  const auto order = epoch_permutation(1000, 42, 3);
  EXPECT_EQ(order, epoch_permutation(1000, 42, 3));
  EXPECT_NE(order, epoch_permutation(1000, 42, 4));
  EXPECT_NE(order, epoch_permutation(1000, 43, 3));
  EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 1000U);
}

// --- training batches

TEST(TrainLoader, RanksSeeEverySampleOnceAnEpoch) {
  const Numbers numbers(101);
  for (int64_t workers = 1; workers <= 5; ++workers) {
    SCOPED_TRACE(workers);
    std::vector<std::unique_ptr<TrainLoader>> loaders;
    for (int64_t rank = 0; rank < workers; ++rank) {
      loaders.push_back(make_train_loader(numbers.split(), as_they_are(), options_of(workers, rank, 8)));
    }
    std::vector<std::vector<int64_t>> epochs;
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      std::vector<int64_t> seen;
      for (int64_t step = 0; step < steps_per_epoch(101, {workers, 0, 8}); ++step) {
        int64_t in_step = 0;
        for (auto& loader : loaders) {
          const Batch& batch = loader->next();
          EXPECT_EQ(batch.epoch, epoch);
          EXPECT_EQ(batch.step_in_epoch, step);
          for (const int64_t sample : samples_of(batch)) seen.push_back(sample);
          in_step += batch.samples;
          EXPECT_EQ(batch.global_samples, std::min<int64_t>(8 * workers, 101 - step * 8 * workers));
        }
        EXPECT_EQ(in_step, std::min<int64_t>(8 * workers, 101 - step * 8 * workers));
      }
      // In the order (step, rank) the ranks together walk through the one permutation.
      EXPECT_EQ(seen, epoch_permutation(101, 42, epoch));
      epochs.push_back(seen);
    }
    EXPECT_NE(epochs[0], epochs[1]);
  }
}

TEST(TrainLoader, RankWithoutSamplesGetsAnEmptyBatch) {
  const Numbers numbers(2);
  const auto loader = make_train_loader(numbers.split(), as_they_are(), options_of(3, 2, 4));
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const Batch& batch = loader->next();
    EXPECT_TRUE(batch.micro.empty());
    EXPECT_EQ(batch.samples, 0);
    EXPECT_EQ(batch.global_samples, 2);
    EXPECT_EQ(batch.epoch, epoch);
  }
}

TEST(TrainLoader, EveryWayOfPrefetchingGivesTheSameBatches) {
  const Numbers numbers(103);
  Loading direct = options_of(2, 1, 9);
  direct.prefetch = 0;
  const auto reference = make_train_loader(numbers.split(), as_they_are(), direct);
  std::vector<std::unique_ptr<TrainLoader>> loaders;
  for (const int prefetch : {1, 2, 3, 10}) {
    Loading options = direct;
    options.prefetch = prefetch;
    loaders.push_back(make_train_loader(numbers.split(), as_they_are(), options));
  }
  for (int step = 0; step < 40; ++step) {
    const auto expected = samples_of(reference->next());
    for (auto& loader : loaders) EXPECT_EQ(samples_of(loader->next()), expected) << step;
  }
}

TEST(TrainLoader, ResumeEqualsUninterrupted) {
  const Numbers numbers(103);
  Loading options = options_of(2, 0, 9);
  std::vector<std::vector<int64_t>> uninterrupted;
  {
    const auto loader = make_train_loader(numbers.split(), as_they_are(), options);
    for (int step = 0; step < 30; ++step) uninterrupted.push_back(samples_of(loader->next()));
  }
  for (const int64_t first : {1, 4, 6, 7, 17}) {  // 6 steps an epoch
    options.first_step = first;
    const auto loader = make_train_loader(numbers.split(), as_they_are(), options);
    for (size_t step = static_cast<size_t>(first); step < 30; ++step) {
      const Batch& batch = loader->next();
      EXPECT_EQ(samples_of(batch), uninterrupted[step]) << "step " << step << " after a start at " << first;
      EXPECT_EQ(batch.epoch, static_cast<int64_t>(step) / 6);
      EXPECT_EQ(batch.step_in_epoch, static_cast<int64_t>(step) % 6);
    }
  }
}

TEST(TrainLoader, BatchStaysValidUntilTheNextCall) {
  const Numbers numbers(1000);
  const auto loader = make_train_loader(numbers.split(), as_they_are(), options_of(1, 0, 10));
  for (int step = 0; step < 20; ++step) {
    const Batch& batch = loader->next();
    const auto before = samples_of(batch);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // time for the thread to fill every free slot
    EXPECT_EQ(samples_of(batch), before);
  }
}

TEST(TrainLoader, FixedBatchIsTheFirstOne) {
  const Numbers numbers(100);
  Loading options = options_of(2, 1, 10);
  const auto first = samples_of(make_train_loader(numbers.split(), as_they_are(), options)->next());
  options.fixed_batch = true;
  options.first_step = 3;
  const auto loader = make_train_loader(numbers.split(), as_they_are(), options);
  const auto features_of = [](const Batch& batch) { return batch.micro.front().at("features").values.data; };
  const void* features = features_of(loader->next());
  for (int64_t step = 4; step < 12; ++step) {
    const Batch& batch = loader->next();
    EXPECT_EQ(features_of(batch), features);
    EXPECT_EQ(samples_of(batch), first);
    EXPECT_EQ(batch.global_samples, 20);
    EXPECT_EQ(batch.epoch, step / 5);
    EXPECT_EQ(batch.step_in_epoch, step % 5);
  }
}

TEST(TrainLoader, CopiesNothingWhereSamplesStayAsTheyAre) {
  const Numbers numbers(103);
  for (const int prefetch : {0, 3}) {
    Loading options = options_of(2, 1, 10);
    options.prefetch = prefetch;
    const auto rows = make_train_loader(numbers.split(), as_they_are(), options);
    const auto copies = make_train_loader(numbers.split(), copied(), options);
    for (int step = 0; step < 15; ++step) {  // beyond an epoch
      const BatchView& view = rows->next().micro.front();
      EXPECT_EQ(view.at("features").values.data, numbers.values());
      EXPECT_FALSE(view.at("features").dense());
      const BatchView& copy = copies->next().micro.front();
      EXPECT_TRUE(copy.at("features").dense());
      EXPECT_EQ(reinterpret_cast<uintptr_t>(copy.at("features").values.data) % 64, 0U);
      EXPECT_EQ(samples_of(view), samples_of(copy));
    }
  }
}

TEST(EvalLoader, GivesPiecesOfTheCacheWhereSamplesStayAsTheyAre) {
  const Numbers numbers(103);
  const auto pieces = make_sample_eval_loader(numbers.split(), as_they_are(), {3, 1}, 10);
  const auto copies = make_sample_eval_loader(numbers.split(), copied(), {3, 1}, 10);
  const float* cache = numbers.values();
  int64_t row = 103 / 3;
  for (int pass = 0; pass < 2; ++pass) {
    for (const BatchView* copy = copies->next(); copy != nullptr; copy = copies->next()) {
      const BatchView* piece = pieces->next();
      ASSERT_NE(piece, nullptr);
      EXPECT_TRUE(piece->at("features").dense());
      EXPECT_EQ(piece->at("features").values.data, cache + row);
      EXPECT_EQ(samples_of(*piece), samples_of(*copy));
      row += piece->samples;
    }
    EXPECT_EQ(pieces->next(), nullptr);
    pieces->restart();
    copies->restart();
    row = 103 / 3;
  }
}

TEST(Loaders, RefuseSamplesOfAnotherShapeAtOnce) {
  const Numbers numbers(10);
  spec::DataSpec spec;
  spec.sample_shape = {2};
  EXPECT_THAT([&] { make_train_loader(numbers.split(), make_transform({}, spec, 0), options_of(1, 0, 5)); },
              ThrowsMessage<UserError>(HasSubstr("samples of [1], the task expects [2]")));
}

const std::vector<int64_t> kOneValue = {1};

// A transform that counts, dawdles, and fails when it meets certain samples.
class Moody final : public Transform {
 public:
  Moody(std::atomic<int>& calls, std::set<int64_t> bad_samples, std::chrono::microseconds delay)
      : calls_(calls), bad_samples_(std::move(bad_samples)), delay_(delay) {}
  const std::vector<int64_t>& output_shape() const override { return kOneValue; }
  void apply(const Sample& sample, int64_t, std::span<float> out) const override {
    ++calls_;
    std::this_thread::sleep_for(delay_);
    if (bad_samples_.contains(sample.number)) throw UserError("no JPEG");
    out[0] = *static_cast<const float*>(sample.values.data);
  }

 private:
  std::atomic<int>& calls_;
  std::set<int64_t> bad_samples_;
  std::chrono::microseconds delay_;
};

// How many calls there are once they seem to be over, `expected` ones awaited.
int settled(const std::atomic<int>& calls, int expected) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (calls < expected && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return calls.load();
}

constexpr int kThreadCounts[] = {1, 2, 5};

TEST(TrainLoader, DecodesNoMoreThanTheRingHolds) {
  const Numbers numbers(1000);
  for (const int threads : kThreadCounts) {
    SCOPED_TRACE(threads);
    std::atomic<int> calls = 0;
    Loading options = options_of(1, 0, 10);
    options.threads = threads;
    const auto loader = make_train_loader(
        numbers.split(), std::make_unique<Moody>(calls, std::set<int64_t>(), std::chrono::microseconds(0)), options);
    EXPECT_EQ(settled(calls, 0), 0) << "nobody has asked for a batch yet";
    std::set<const void*> buffers = {loader->next().micro.front().at("features").values.data};
    EXPECT_EQ(settled(calls, 40), 40) << "the batch in use still holds its buffer";
    for (int batch = 2; batch <= 30; ++batch) {
      buffers.insert(loader->next().micro.front().at("features").values.data);
      if (batch % 10 == 2) {
        EXPECT_EQ(settled(calls, 10 * (batch + 3)), 10 * (batch + 3));
      }
    }
    EXPECT_EQ(buffers.size(), 4U) << "memory is used again";
  }
}

TEST(TrainLoader, NoBitDependsOnTheNumberOfThreads) {
  constexpr int64_t kImages = 103, kVolume = 3 * 6 * 5;
  std::vector<uint8_t> pixels(kImages * kVolume);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 31 % 251);
  const std::vector<int64_t> labels(kImages);
  dataset::CachedSplit split{"train", kImages, {}};
  split.columns = {dataset::FixedColumn{"features", {3, 6, 5}, const_view_of(std::span<const uint8_t>(pixels))},
                   dataset::FixedColumn{"labels", {}, const_view_of(std::span<const int64_t>(labels))}};
  spec::DataSpec spec;
  spec.sample_shape = {3, 6, 5};
  const auto loader_of = [&](int threads, int prefetch) {
    Loading options = options_of(2, 1, 9);
    options.threads = threads;
    options.prefetch = prefetch;
    return make_train_loader(split, make_transform({"pad_crop_flip", "scale_255"}, spec, 42), options);
  };
  const auto values_of = [](const Batch& batch) {
    const ConstBufferView& values = batch.micro.front().at("features").values;
    const auto* const first = static_cast<const float*>(values.data);
    return std::vector<float>(first, first + values.count);
  };
  const auto reference = loader_of(1, 0);
  std::vector<std::unique_ptr<TrainLoader>> loaders;
  for (const int threads : kThreadCounts) {
    for (const int prefetch : {0, 1, 3}) loaders.push_back(loader_of(threads, prefetch));
  }
  for (int step = 0; step < 20; ++step) {  // beyond three epochs
    const std::vector<float> expected = values_of(reference->next());
    for (size_t i = 0; i < loaders.size(); ++i) EXPECT_EQ(values_of(loaders[i]->next()), expected) << step << " " << i;
  }
}

// A transform that goes on when so many threads have called it.
class Meeting final : public Transform {
 public:
  explicit Meeting(int threads) : missing_(threads) {}
  const std::vector<int64_t>& output_shape() const override { return kOneValue; }
  void apply(const Sample&, int64_t, std::span<float>) const override {
    std::unique_lock lock(mutex_);
    if (met_.insert(std::this_thread::get_id()).second) --missing_;
    all_.notify_all();
    if (!all_.wait_for(lock, std::chrono::seconds(60), [this] { return missing_ <= 0; })) throw UserError("alone");
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable all_;
  mutable std::set<std::thread::id> met_;
  mutable int missing_;
};

TEST(TrainLoader, ItsThreadsShareABatch) {
  const Numbers numbers(1000);
  for (const int prefetch : {0, 3}) {
    Loading options = options_of(1, 0, 10);
    options.threads = 5;
    options.prefetch = prefetch;
    const auto loader = make_train_loader(numbers.split(), std::make_unique<Meeting>(5), options);
    EXPECT_EQ(loader->next().samples, 10);
  }
}

// Says where it is called.
class Where final : public Transform {
 public:
  explicit Where(std::vector<int>& cores) : cores_(cores) {}
  const std::vector<int64_t>& output_shape() const override { return kOneValue; }
  void apply(const Sample&, int64_t, std::span<float>) const override { cores_ = allowed_cores(); }

 private:
  std::vector<int>& cores_;
};

TEST(TrainLoader, ItsThreadNeedNotShareTheCoreOfABoundMaker) {
  const std::vector<int> before = allowed_cores();
  if (before.size() < 2) GTEST_SKIP() << "missing capability: two cores";
  const Numbers numbers(1000);
  const auto cores_of_thread = [&](const std::vector<int>& cores) {
    std::vector<int> found;
    std::thread([&] {
      bind_thread(before[0]);
      Loading options = options_of(1, 0, 10);
      options.cores = cores;
      make_train_loader(numbers.split(), std::make_unique<Where>(found), options)->next();
    }).join();
    return found;
  };
  EXPECT_EQ(cores_of_thread({}), std::vector{before[0]});
  EXPECT_EQ(cores_of_thread({before[0], before[1]}), (std::vector{before[0], before[1]}));
}

// A transform that waits until it may go on.
class Gated final : public Transform {
 public:
  Gated(std::atomic<int>& calls, std::counting_semaphore<>& gate) : calls_(calls), gate_(gate) {}
  const std::vector<int64_t>& output_shape() const override { return kOneValue; }
  void apply(const Sample&, int64_t, std::span<float>) const override {
    ++calls_;
    gate_.acquire();
  }

 private:
  std::atomic<int>& calls_;
  std::counting_semaphore<>& gate_;
};

TEST(TrainLoader, BeginsNoBatchWhilePaused) {
  const Numbers numbers(1000);
  std::atomic<int> calls = 0;
  std::counting_semaphore<> gate(10);
  const auto loader = make_train_loader(numbers.split(), std::make_unique<Gated>(calls, gate), options_of(1, 0, 10));
  loader->next();
  EXPECT_EQ(settled(calls, 11), 11) << "the second batch is at the gate";
  loader->pause();
  gate.release(100);
  EXPECT_EQ(settled(calls, 20), 20);
  loader->next();
  EXPECT_EQ(settled(calls, 50), 50);
}

int64_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

// A thread that was joined is listed until the kernel has removed it.
bool has_threads(int64_t count) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (threads_of_this_process() != count) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

TEST(RingGauge, CountsWhatStepsFound) {
  const Numbers numbers(1000);
  std::atomic<int> calls = 0;
  std::counting_semaphore<> gate(10);
  Loading options = options_of(1, 0, 10);
  options.ring = std::make_shared<RingGauge>();
  const auto loader = make_train_loader(numbers.split(), std::make_unique<Gated>(calls, gate), options);
  EXPECT_EQ(options.ring->so_far().takes, 0);
  loader->next();  // found nothing
  gate.release(30);
  EXPECT_EQ(settled(calls, 40), 40) << "three batches are ready, and a fourth has no place";
  for (int step = 0; step < 3; ++step) loader->next();  // found 3, 2 and 1
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gate.release(10);
  });
  loader->next();  // found nothing again
  later.join();
  const auto expect_counts = [](const RingCounts& counts, int64_t takes, int64_t waits, int64_t fills) {
    EXPECT_EQ(counts.capacity, 3);
    EXPECT_EQ(counts.takes, takes);
    EXPECT_EQ(counts.waits, waits);
    EXPECT_EQ(counts.fills, fills);
    EXPECT_EQ(counts.min_fill, 0);
  };
  expect_counts(options.ring->so_far(), 5, 2, 6);
  expect_counts(options.ring->since_last(), 5, 2, 6);
  expect_counts(options.ring->since_last(), 0, 0, 0);
  expect_counts(options.ring->so_far(), 5, 2, 6);
  gate.release(1000);
}

// One thread decodes a batch in 80 ms, four do so in 20 ms, and a step takes 50 ms.
TEST(RingGauge, StepsWaitOnlyWhereThreadsDecodeLessThanTheyNeed) {
  constexpr int kSteps = 12;
  const Numbers numbers(1000);
  const auto counts_with = [&](int threads) {
    std::atomic<int> calls = 0;
    Loading options = options_of(1, 0, 8);
    options.threads = threads;
    options.ring = std::make_shared<RingGauge>();
    const auto loader = make_train_loader(
        numbers.split(), std::make_unique<Moody>(calls, std::set<int64_t>(), std::chrono::milliseconds(10)), options);
    loader->next();
    const RingCounts first = options.ring->since_last();
    EXPECT_EQ(first.waits, 1) << "nothing is decoded before the first request";
    for (int step = 0; step < kSteps; ++step) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      loader->next();
    }
    return options.ring->since_last();
  };
  const RingCounts enough = counts_with(4), too_few = counts_with(1);
  EXPECT_EQ(enough.takes, kSteps);
  EXPECT_EQ(enough.waits, 0);
  EXPECT_GE(enough.min_fill, 1);
  EXPECT_GT(enough.fills, kSteps * 3 / 2) << "most of the three places are full";
  EXPECT_EQ(too_few.takes, kSteps);
  EXPECT_GE(too_few.waits, kSteps / 2);
  EXPECT_EQ(too_few.min_fill, 0);
}

TEST(RingGauge, StaysEmptyWithoutARing) {
  const Numbers numbers(100);
  Loading options = options_of(1, 0, 10);
  options.prefetch = 0;
  options.ring = std::make_shared<RingGauge>();
  make_train_loader(numbers.split(), copied(), options)->next();
  EXPECT_EQ(options.ring->so_far().capacity, 0);
  EXPECT_EQ(options.ring->so_far().takes, 0);
}

TEST(TrainLoader, DestroyedAtAnyMomentItEndsItsThreads) {
  const Numbers numbers(1000);
  std::atomic<int> calls = 0;
  const int64_t before = threads_of_this_process();
  for (int i = 0; i < 90; ++i) {
    Loading options = options_of(1, 0, 10);
    options.threads = kThreadCounts[i / 3 % 3];
    {
      const auto loader = make_train_loader(
          numbers.split(), std::make_unique<Moody>(calls, std::set<int64_t>(), std::chrono::microseconds(i % 3 * 100)),
          options);
      for (int step = 0; step < i % 7; ++step) loader->next();
    }
    EXPECT_TRUE(has_threads(before));
  }
}

TEST(TrainLoader, ErrorComesAfterTheGoodBatchesNamesTheSampleAndStays) {
  const Numbers numbers(100);
  const auto order = epoch_permutation(100, 42, 0);
  const std::string expected = "sample " + std::to_string(order[53]) + " of split 'train': no JPEG";
  std::atomic<int> calls = 0;
  for (const int threads : kThreadCounts) {
    for (const int prefetch : {0, 3}) {
      Loading options = options_of(1, 0, 10);
      options.threads = threads;
      options.prefetch = prefetch;
      const auto loader = make_train_loader(
          numbers.split(),
          std::make_unique<Moody>(calls, std::set{order[57], order[53], order[54]}, std::chrono::microseconds(20)),
          options);
      for (int step = 0; step < 5; ++step) EXPECT_EQ(samples_of(loader->next()).size(), 10U);
      for (int again = 0; again < 3; ++again) {
        EXPECT_THAT([&] { loader->next(); }, ThrowsMessage<UserError>(expected)) << threads << " " << prefetch;
      }
    }
  }
}

// Images of other sizes each, back to back in a file: their number of rows, their number of columns, and their pixels.
// The label of an image is its number. Damaged images have lost their last pixel.
class Encoded {
 public:
  explicit Encoded(int64_t samples, const std::set<int64_t>& damaged = {})
      : zeros_(static_cast<size_t>(samples)),
        labels_(static_cast<size_t>(samples)),
        keys_("k"),
        key_offsets_(static_cast<size_t>(samples) + 1, 1) {
    std::iota(labels_.begin(), labels_.end(), 0);
    std::string file;
    for (int64_t i = 0; i < samples; ++i) {
      const auto height = static_cast<char>(4 + i % 5), width = static_cast<char>(6 + i % 3);
      offsets_.push_back(std::ssize(file));
      file += {height, width};
      const int pixels = height * width - (damaged.contains(i) ? 1 : 0);
      for (int at = 0; at < pixels; ++at) file += static_cast<char>(i * 13 + at);
      lengths_.push_back(std::ssize(file) - offsets_.back());
      digests_ += sha256_hex(std::string_view(file).substr(static_cast<size_t>(offsets_.back())));
    }
    key_offsets_[0] = 0;  // the first has the key "k", all others an empty one
    write_file_atomically(folder_ / "images.bin", file);
    const auto column = [](const char* name, const std::vector<int64_t>& values) {
      return dataset::FixedColumn{name, {}, const_view_of(std::span<const int64_t>(values))};
    };
    split_ = {"train", samples, {}, {folder_ / "images.bin"}};
    split_.columns = {column("shard", zeros_),
                      column("offset", offsets_),
                      column("length", lengths_),
                      column("labels", labels_),
                      dataset::BytesColumn{"key", std::as_bytes(std::span(keys_)), key_offsets_},
                      dataset::FixedColumn{"sha256", {64}, {digests_.data(), std::ssize(digests_), DType::kUInt8}}};
  }
  // From now on, the index says other bytes of that image.
  void change_digest(int64_t number) { digests_[static_cast<size_t>(number) * 64] = 'x'; }
  Encoded(const Encoded&) = delete;
  Encoded& operator=(const Encoded&) = delete;
  const dataset::CachedSplit& split() const { return split_; }

 private:
  TemporaryFolder folder_;
  std::vector<int64_t> zeros_, labels_, offsets_, lengths_;
  std::string keys_, digests_;
  std::vector<int64_t> key_offsets_;
  dataset::CachedSplit split_;
};

// Decodes such an image, and cuts 4 x 5 pixels out of it.
class DecodedCrop final : public Transform {
 public:
  const std::vector<int64_t>& output_shape() const override { return shape_; }
  void apply(const Sample& sample, int64_t epoch, std::span<float> out) const override {
    EXPECT_EQ(sample.values.dtype, DType::kUInt8);
    EXPECT_EQ(sample.values.count, volume_of(sample.shape));
    EXPECT_THAT(std::string(sample.file), HasSubstr("images.bin"));
    const auto* const record = static_cast<const uint8_t*>(sample.values.data);
    const int64_t height = record[0], width = record[1];
    if (sample.values.count != 2 + height * width) throw image::BadImage({{}, sample.file}, "a pixel is missing");
    const CropFlip move = crop_flip_of(42, epoch, sample.number, height - 4, width - 5);
    for (int64_t at = 0; at < 20; ++at) {
      const int64_t x = move.dx + (move.flip ? 4 - at % 5 : at % 5), y = move.dy + at / 5;
      out[static_cast<size_t>(at)] = record[2 + y * width + x];
    }
  }

 private:
  std::vector<int64_t> shape_ = {1, 4, 5};
};

std::unique_ptr<TrainLoader> load_crops(const Encoded& images, int threads, const BadSampleRule& bad = {},
                                        int prefetch = 3) {
  return data::make_train_loader(make_sample_source(images.split(), std::make_unique<DecodedCrop>()),
                                 make_sample_plan(images.split().samples, {.workers = 1, .batch_size = 8}),
                                 {.prefetch = prefetch, .threads = threads, .bad = bad});
}

void expect_crop(const float* values, int64_t number, int64_t epoch) {
  const int64_t height = 4 + number % 5, width = 6 + number % 3;
  const CropFlip move = crop_flip_of(42, epoch, number, height - 4, width - 5);
  for (int64_t at = 0; at < 20; ++at) {
    const int64_t x = move.dx + (move.flip ? 4 - at % 5 : at % 5), y = move.dy + at / 5;
    ASSERT_EQ(values[at], static_cast<float>((number * 13 + y * width + x) % 256));
  }
}

TEST(TrainLoader, CropsOfDecodedImagesAreTheSameForAnyNumberOfThreads) {
  const Encoded images(50);
  std::vector<std::unique_ptr<TrainLoader>> loaders;
  for (const int threads : kThreadCounts) loaders.push_back(load_crops(images, threads));
  for (int64_t step = 0; step < 14; ++step) {  // two epochs
    const auto order = epoch_permutation(50, 42, step / 7);
    for (const auto& loader : loaders) {
      const Batch& batch = loader->next();
      const BatchTensor& features = batch.micro.front().at("features");
      ASSERT_EQ(features.shape, (std::vector<int64_t>{batch.samples, 1, 4, 5}));
      for (int64_t i = 0; i < batch.samples; ++i) {
        const int64_t number = order[static_cast<size_t>(step % 7 * 8 + i)];
        expect_crop(static_cast<const float*>(features.values.data) + i * 20, number, step / 7);
      }
    }
  }
}

TEST(TrainLoader, ARecordThatCannotBeDecodedIsNamed) {
  const Encoded images(50, {17});
  for (const int threads : kThreadCounts) {
    const auto loader = load_crops(images, threads);
    const auto all = [&] {
      for (int step = 0; step < 7; ++step) loader->next();
    };
    EXPECT_THAT(all, ThrowsMessage<UserError>(AllOf(
                         StartsWith("sample 17 of split 'train': "),
                         EndsWith("images.bin/: a pixel is missing: mend or remove what cannot be decoded, or allow "
                                  "it by --max-bad 1"))));
  }
}

// --- samples that cannot be decoded

using Told = std::vector<std::pair<int64_t, int64_t>>;  // numbers, and those of their stand-ins

// Remembers what it is told.
BadSampleRule told_to(Told& told, int64_t most) {
  return {most, [&told](const BadSample& bad) {
            EXPECT_EQ(bad.split, "train");
            EXPECT_EQ(bad.reason, "a pixel is missing");
            told.emplace_back(bad.number, bad.stand_in);
          }};
}

// Image 19 of the images 0 to 49 stands in for 17 and 18, and 0 for 49, with their own labels and crops.
TEST(BadSamples, TheNextGoodOneStandsInWhateverTheNumberOfThreads) {
  const Encoded images(50, {17, 18, 49});
  const std::map<int64_t, int64_t> stand_ins = {{17, 19}, {18, 19}, {49, 0}};
  for (const int threads : kThreadCounts) {
    for (const int prefetch : {0, 3}) {
      Told told;
      const auto loader = load_crops(images, threads, told_to(told, 3), prefetch);
      for (int64_t step = 0; step < 14; ++step) {  // two epochs
        told.clear();
        const Batch& batch = loader->next();
        const BatchTensor &features = batch.micro.front().at("features"), &labels = batch.micro.front().at("labels");
        const auto order = epoch_permutation(50, 42, step / 7);
        std::set<std::pair<int64_t, int64_t>> expected;
        for (int64_t i = 0; i < batch.samples; ++i) {
          const int64_t number = order[static_cast<size_t>(step % 7 * 8 + i)];
          const auto bad = stand_ins.find(number);
          const int64_t decoded = bad == stand_ins.end() ? number : bad->second;
          expect_crop(static_cast<const float*>(features.values.data) + i * 20, decoded, step / 7);
          EXPECT_EQ(static_cast<const int64_t*>(labels.values.data)[i], decoded);
          if (bad != stand_ins.end()) expected.insert(*bad);
          if (number == 17) expected.insert({18, 19});  // which was looked at, too
        }
        EXPECT_EQ((std::set<std::pair<int64_t, int64_t>>(told.begin(), told.end())), expected)
            << "of this batch alone, step " << step << ", " << threads << " threads";
        EXPECT_TRUE(std::ranges::is_sorted(told));
      }
    }
  }
}

TEST(BadSamples, MoreInARowThanAreAllowedAreRefused) {
  const Encoded images(50, {17, 18});
  Told told;
  for (const int threads : kThreadCounts) {
    const auto loader = load_crops(images, threads, told_to(told, 1));
    const auto all = [&] {
      for (int step = 0; step < 7; ++step) loader->next();
    };
    EXPECT_THAT(all,
                ThrowsMessage<UserError>(AllOf(StartsWith("sample 18 of split 'train': "),
                                               HasSubstr("a pixel is missing (nor can the 1 before it be decoded)"),
                                               EndsWith("--max-bad 2"))));
  }
}

TEST(BadSamples, AStandInIsOfThePartOfItsSample) {
  const Encoded images(50, {17, 40});
  Told told;
  const std::vector<int64_t> part = {3, 17, 30, 40};
  const auto loader = make_sample_eval_loader(make_sample_source(images.split(), std::make_unique<DecodedCrop>(), part),
                                              part, {.bad = told_to(told, 2)}, 4);
  for (int pass = 0; pass < 2; ++pass) {
    told.clear();
    loader->restart();
    const BatchView& batch = *loader->next();
    const auto* const labels = static_cast<const int64_t*>(batch.at("labels").values.data);
    EXPECT_THAT(std::vector<int64_t>(labels, labels + 4), ElementsAre(3, 30, 30, 3));
    EXPECT_EQ(told, (Told{{17, 30}, {40, 3}}));
  }
}

TEST(BadSamples, WhereNoneCanBeDecodedTheRunEnds) {
  const Encoded images(3, {0, 1, 2});
  Told told;
  const auto loader = load_crops(images, 1, told_to(told, 5));
  EXPECT_THAT([&] { loader->next(); }, ThrowsMessage<UserError>(EndsWith("nor can any other sample be decoded")));
}

TEST(BadSamples, OtherBytesThanThoseOfTheIndexAreNoBadSample) {
  Encoded images(50, {17});
  images.change_digest(17);
  images.change_digest(20);  // which can be decoded, and nobody asks
  Told told;
  const auto loader = load_crops(images, 2, told_to(told, 5));
  const auto all = [&] {
    for (int step = 0; step < 7; ++step) loader->next();
  };
  EXPECT_THAT(all, ThrowsMessage<IoError>(AllOf(StartsWith("sample 17 of split 'train': "),
                                                HasSubstr("its bytes have the SHA-256 "), HasSubstr(" expected x"))));
}

TEST(BadSamples, OfAFixedBatchAreToldOnce) {
  const Encoded images(8, {2});
  Told told;
  const auto loader = data::make_train_loader(make_sample_source(images.split(), std::make_unique<DecodedCrop>()),
                                              make_sample_plan(8, {.workers = 1, .batch_size = 8}),
                                              {.fixed_batch = true, .bad = told_to(told, 1)});
  EXPECT_TRUE(told.empty()) << "nobody has asked for the batch";
  for (int step = 0; step < 3; ++step) loader->next();
  EXPECT_EQ(told, (Told{{2, 3}}));
}

// A transform whose disk fails.
class Unreadable final : public Transform {
 public:
  const std::vector<int64_t>& output_shape() const override { return kOneValue; }
  void apply(const Sample&, int64_t, std::span<float>) const override { throw IoError("the disk fails"); }
};

TEST(TrainLoader, AnErrorOfTheDiskStaysOne) {
  const Numbers numbers(1);
  const auto loader = make_train_loader(numbers.split(), std::make_unique<Unreadable>(), options_of(1, 0, 1));
  EXPECT_THAT([&] { loader->next(); }, ThrowsMessage<IoError>("sample 0 of split 'train': the disk fails"));
}

TEST(DecodingThreads, CallEachNumberOnceRoundForRound) {
  for (const int count : kThreadCounts) {
    DecodingThreads threads(count);
    for (int64_t calls = 0; calls < 200; ++calls) {
      std::vector<std::atomic<int>> called(static_cast<size_t>(calls));
      threads.each(calls, [&](int64_t i) { ++called[static_cast<size_t>(i)]; });
      for (const auto& times : called) EXPECT_EQ(times, 1);
    }
  }
}

TEST(DecodingThreads, ThrowWhatTheLowestNumberThrewAndGoOn) {
  for (const int count : kThreadCounts) {
    DecodingThreads threads(count);
    for (int round = 0; round < 100; ++round) {
      const auto fail = [&](int64_t i) {
        if (i % 50 >= 3 + round % 20) throw UserError(std::to_string(i));
      };
      EXPECT_THAT([&] { threads.each(60, fail); }, ThrowsMessage<UserError>(std::to_string(3 + round % 20)));
      std::atomic<int> calls = 0;
      threads.each(20, [&](int64_t) { ++calls; });
      EXPECT_EQ(calls, 20);
    }
  }
}

TEST(TrainLoader, OptionsWithoutSenseAreRefused) {
  const Numbers numbers(10);
  Loading options = options_of(1, 0, 5);
  options.first_step = -1;
  EXPECT_THROW(make_train_loader(numbers.split(), as_they_are(), options), UserError);
  options.first_step = 0;
  options.prefetch = -1;
  EXPECT_THROW(make_train_loader(numbers.split(), as_they_are(), options), UserError);
  options.prefetch = 0;
  options.threads = 0;
  EXPECT_THROW(make_train_loader(numbers.split(), as_they_are(), options), UserError);
}

// --- evaluation batches

TEST(EvalLoader, RanksSeeEverySampleOnceInOrder) {
  for (const int64_t samples : {1, 3, 100, 101}) {
    const Numbers numbers(samples);
    for (int64_t workers = 1; workers <= 5; ++workers) {
      std::vector<int64_t> seen;
      for (int64_t rank = 0; rank < workers; ++rank) {
        const auto loader = make_sample_eval_loader(numbers.split(), as_they_are(), {workers, rank}, 8);
        std::vector<int64_t> own;
        for (int pass = 0; pass < 2; ++pass) {
          own.clear();
          loader->restart();
          while (const BatchView* batch = loader->next()) {
            EXPECT_GT(batch->samples, 0);
            EXPECT_LE(batch->samples, 8);
            for (const int64_t sample : samples_of(*batch)) own.push_back(sample);
          }
          EXPECT_EQ(loader->next(), nullptr);
          EXPECT_EQ(static_cast<int64_t>(own.size()), (rank + 1) * samples / workers - rank * samples / workers);
        }
        seen.insert(seen.end(), own.begin(), own.end());
      }
      std::vector<int64_t> all(static_cast<size_t>(samples));
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(seen, all);
    }
  }
}

TEST(EvalLoader, OfChosenRecordsRanksSeeEachOnceInOrder) {
  const Numbers numbers(40);
  const std::vector<int64_t> chosen = {1, 4, 9, 16, 25, 36, 39};
  std::vector<int64_t> seen;
  for (int64_t rank = 0; rank < 3; ++rank) {
    const auto loader =
        make_sample_eval_loader(make_sample_source(numbers.split(), as_they_are()), chosen, {3, rank}, 2);
    while (const BatchView* batch = loader->next()) {
      for (const int64_t sample : samples_of(*batch)) seen.push_back(sample);
    }
  }
  EXPECT_EQ(seen, chosen);
}

TEST(EvalLoader, RestartsInTheMiddle) {
  const Numbers numbers(20);
  const auto loader = make_sample_eval_loader(numbers.split(), as_they_are(), {1, 0}, 6);
  loader->next();
  EXPECT_THAT(samples_of(*loader->next()), ElementsAre(6, 7, 8, 9, 10, 11));
  loader->restart();
  EXPECT_THAT(samples_of(*loader->next()), ElementsAre(0, 1, 2, 3, 4, 5));
}

// Rows of 40 columns: row i has i mod 4 entries; label = i mod 2.
class SparseNumbers {
 public:
  explicit SparseNumbers(int64_t samples) {
    for (int64_t i = 0; i < samples; ++i) {
      offsets_.push_back(std::ssize(entries_));
      for (int64_t j = 0; j < i % 4; ++j) {
        entries_.push_back({static_cast<int32_t>(7 * j + i % 7), static_cast<float>(10 * i + j + 1)});
      }
      labels_.push_back(i % 2);
    }
    offsets_.push_back(std::ssize(entries_));
    split_.name = "train";
    split_.samples = samples;
    split_.columns = {dataset::SparseColumn{{"features", entries_, offsets_}, 40},
                      dataset::FixedColumn{"labels", {}, const_view_of(std::span<const int64_t>(labels_))}};
  }
  SparseNumbers(const SparseNumbers&) = delete;
  SparseNumbers& operator=(const SparseNumbers&) = delete;
  const dataset::CachedSplit& split() const { return split_; }
  SparseRow row(int64_t number) const { return SparseMatrix{entries_, offsets_}.row(number); }

 private:
  std::vector<SparseEntry> entries_;
  std::vector<int64_t> offsets_, labels_;
  dataset::CachedSplit split_;
};

std::unique_ptr<Transform> of_40_columns(const std::vector<std::string>& names = {}, int64_t columns = 40) {
  spec::DataSpec spec;
  spec.sample_shape = {columns};
  return make_transform(names, spec, 0);
}

// Whether the batch has these rows and their labels, the rows where the split has them.
void expect_sparse(const BatchView& view, const SparseNumbers& numbers, const std::vector<int64_t>& rows) {
  ASSERT_EQ(view.samples, std::ssize(rows));
  EXPECT_EQ(view.weight, view.samples);
  EXPECT_EQ(view.find("features"), nullptr);
  const auto* labels = static_cast<const int64_t*>(view.at("labels").values.data);
  for (int64_t i = 0; i < view.samples; ++i) {
    const int64_t number = rows[static_cast<size_t>(i)];
    EXPECT_EQ(labels[i], number % 2);
    EXPECT_EQ(sparse_row(view, i).data(), numbers.row(number).data());
    EXPECT_EQ(sparse_row(view, i).size(), static_cast<size_t>(number % 4));
  }
}

TEST(SparseSource, BatchesPointIntoTheCacheInTheOrderOfDenseOnes) {
  const SparseNumbers numbers(23);
  const Numbers dense(23);
  const auto source = make_sample_source(numbers.split(), of_40_columns());
  EXPECT_TRUE(source->points_into_cache());
  const PlanOptions plan{.workers = 2, .batch_size = 4, .seed = 5};
  const auto loader = make_train_loader(source, make_sample_plan(23, plan), {.rank = 1});
  const auto expected =
      make_train_loader(make_sample_source(dense.split(), as_they_are()), make_sample_plan(23, plan), {.rank = 1});
  for (int step = 0; step < 7; ++step) {
    const Batch &batch = loader->next(), &same = expected->next();
    ASSERT_EQ(batch.micro.size(), same.micro.size());
    EXPECT_EQ(batch.global_weight, same.global_weight);
    for (size_t i = 0; i < batch.micro.size(); ++i) expect_sparse(batch.micro[i], numbers, samples_of(same.micro[i]));
  }
}

TEST(SparseSource, EvaluationsGoThroughTheRanksPart) {
  const SparseNumbers numbers(23);
  for (const int64_t rank : {0, 1}) {
    const auto loader = make_sample_eval_loader(numbers.split(), of_40_columns(), {.workers = 2, .rank = rank}, 5);
    int64_t next = rank * 23 / 2;
    while (const BatchView* view = loader->next()) {
      std::vector<int64_t> rows(static_cast<size_t>(view->samples));
      std::iota(rows.begin(), rows.end(), next);
      expect_sparse(*view, numbers, rows);
      next += view->samples;
    }
    EXPECT_EQ(next, (rank + 1) * 23 / 2);
  }
}

TEST(SparseSource, TransformsAndOtherDimensionsAreRefused) {
  const SparseNumbers numbers(5);
  EXPECT_THAT([&] { make_sample_source(numbers.split(), of_40_columns({"scale_255"})); },
              ThrowsMessage<UserError>(HasSubstr("split 'train' has sparse rows, which are not transformed: expected "
                                                 "empty lists data.train_transform and data.eval_transform")));
  EXPECT_THAT([&] { make_sample_source(numbers.split(), of_40_columns({}, 41)); },
              ThrowsMessage<UserError>(HasSubstr("data set has samples of [40], the task expects [41]")));
}

}  // namespace
}  // namespace mlbench::data
