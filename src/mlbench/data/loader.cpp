#include "mlbench/data/loader.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "mlbench/base/errors.h"

namespace mlbench::data {

namespace {

constexpr std::align_val_t kAlignment{64};

struct AlignedDelete {
  void operator()(float* data) const { operator delete[](data, kAlignment); }
};
using AlignedFloats = std::unique_ptr<float[], AlignedDelete>;

AlignedFloats make_aligned(int64_t count) {
  const size_t bytes = static_cast<size_t>(std::max<int64_t>(count, 1)) * sizeof(float);
  return AlignedFloats(static_cast<float*>(operator new[](bytes, kAlignment)));
}

// Memory for one batch of up to `capacity` samples; none for features that are left where they are.
struct Slot {
  Slot(const dataset::CachedSplit& split, const Transform& transform, int64_t capacity)
      : features(transform.leaves_as_is(split) ? nullptr : make_aligned(capacity * split.sample_volume())),
        labels(static_cast<size_t>(capacity)) {
    batch.view.sample_shape = split.sample_shape;
  }

  // Points `batch.view` at these samples: at copies that `transform` writes, or, as long as `wanted` lives, at the
  // cache.
  void fill(const dataset::CachedSplit& split, const Transform& transform, std::span<const int64_t> wanted,
            int64_t epoch) {
    const auto count = static_cast<int64_t>(wanted.size());
    if (features) {
      const int64_t values = count * split.sample_volume();
      transform.apply(split, wanted, epoch, {features.get(), static_cast<size_t>(values)});
      batch.view.features = ConstBufferView(features.get(), values, DType::kFloat32);
    } else {
      batch.view.features = split.features;
      batch.view.rows = wanted;
    }
    for (size_t i = 0; i < wanted.size(); ++i) labels[i] = split.labels[static_cast<size_t>(wanted[i])];
    batch.view.samples = count;
    batch.view.labels = ConstBufferView(labels.data(), count, DType::kInt64);
  }

  AlignedFloats features;
  std::vector<int64_t> labels;
  Batch batch;
};

// Decodes any global step; remembers the permutation of the epoch it was asked for last.
class Decoder {
 public:
  Decoder(const dataset::CachedSplit& split, std::unique_ptr<Transform> transform, const LoaderOptions& options)
      : split_(split),
        transform_(std::move(transform)),
        shard_(options.shard),
        seed_(options.seed),
        steps_per_epoch_(steps_per_epoch(split.samples, options.shard)) {}

  void decode(int64_t step, Slot& slot) {
    place(step, slot.batch);
    if (epoch_ != slot.batch.epoch) {
      order_ = epoch_permutation(split_.samples, seed_, slot.batch.epoch);
      epoch_ = slot.batch.epoch;
    }
    const StepSlice slice = slice_of(split_.samples, shard_, slot.batch.step_in_epoch);
    slot.batch.global_samples = slice.global_count;
    slot.fill(split_, *transform_,
              std::span(order_).subspan(static_cast<size_t>(slice.first), static_cast<size_t>(slice.count)), epoch_);
  }

  void place(int64_t step, Batch& batch) const {
    batch.epoch = step / steps_per_epoch_;
    batch.step_in_epoch = step % steps_per_epoch_;
  }

  // Whether a batch is a list of rows: made sooner than handed over by another thread.
  bool points_into_cache() const { return transform_->leaves_as_is(split_); }

  Slot make_slot() const { return {split_, *transform_, shard_.batch_size}; }

 private:
  const dataset::CachedSplit& split_;
  std::unique_ptr<Transform> transform_;
  Shard shard_;
  uint64_t seed_;
  int64_t steps_per_epoch_;
  int64_t epoch_ = -1;
  std::vector<int64_t> order_;
};

class DirectLoader final : public TrainLoader {
 public:
  DirectLoader(Decoder decoder, int64_t first_step)
      : decoder_(std::move(decoder)), slot_(decoder_.make_slot()), step_(first_step) {}

  const Batch& next() override {
    decoder_.decode(step_, slot_);
    ++step_;
    return slot_.batch;
  }

 private:
  Decoder decoder_;
  Slot slot_;
  int64_t step_;
};

class FixedLoader final : public TrainLoader {
 public:
  FixedLoader(Decoder decoder, int64_t first_step)
      : decoder_(std::move(decoder)), slot_(decoder_.make_slot()), step_(first_step) {
    decoder_.decode(0, slot_);
  }

  const Batch& next() override {
    decoder_.place(step_++, slot_.batch);
    return slot_.batch;
  }

 private:
  Decoder decoder_;
  Slot slot_;
  int64_t step_;
};

// The thread fills slot (i mod size) for batch i; the consumer holds one slot, so the thread may be size - 1 ahead.
class PrefetchLoader final : public TrainLoader {
 public:
  PrefetchLoader(Decoder decoder, int64_t first_step, int prefetch)
      : decoder_(std::move(decoder)), first_step_(first_step) {
    for (int i = 0; i <= prefetch; ++i) ring_.push_back(decoder_.make_slot());
    thread_ = std::thread([this] { run(); });
  }

  ~PrefetchLoader() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  const Batch& next() override {
    std::unique_lock lock(mutex_);
    if (taken_ > released_) {  // the batch of the call before
      ++released_;
      changed_.notify_one();
    }
    changed_.wait(lock, [&] { return decoded_ > taken_ || error_; });
    if (decoded_ == taken_) std::rethrow_exception(error_);
    return slot(taken_++).batch;
  }

 private:
  Slot& slot(int64_t index) { return ring_[static_cast<size_t>(index) % ring_.size()]; }

  void run() {
    pthread_setname_np(pthread_self(), "mlbench-data");
    const auto size = static_cast<int64_t>(ring_.size());
    for (int64_t index = 0;; ++index) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || index < released_ + size; });
        if (stop_) return;
      }
      std::exception_ptr error;
      try {
        decoder_.decode(first_step_ + index, slot(index));
      } catch (...) {
        error = std::current_exception();
      }
      {
        const std::lock_guard lock(mutex_);
        error_ = error;
        if (!error) decoded_ = index + 1;
      }
      changed_.notify_one();
      if (error) return;
    }
  }

  Decoder decoder_;
  int64_t first_step_;
  std::vector<Slot> ring_;

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t decoded_ = 0;   // batches that are ready or were
  int64_t taken_ = 0;     // handed out by next()
  int64_t released_ = 0;  // handed out and done with
  bool stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

class ShardEvalLoader final : public EvalLoader {
 public:
  ShardEvalLoader(const dataset::CachedSplit& split, std::unique_ptr<Transform> transform, const Shard& shard,
                  int64_t batch_size)
      : split_(split),
        transform_(std::move(transform)),
        begin_(shard.rank * split.samples / shard.workers),
        end_((shard.rank + 1) * split.samples / shard.workers),
        row_(begin_),
        slot_(split, *transform_, std::min(batch_size, end_ - begin_)),
        batch_size_(batch_size) {}

  void restart() override { row_ = begin_; }

  const BatchView* next() override {
    if (row_ == end_) return nullptr;
    if (!slot_.features) return piece_of_cache();
    rows_.clear();
    for (; row_ < end_ && static_cast<int64_t>(rows_.size()) < batch_size_; ++row_) rows_.push_back(row_);
    slot_.fill(split_, *transform_, rows_, 0);
    return &slot_.batch.view;
  }

 private:
  const BatchView* piece_of_cache() {
    BatchView& view = slot_.batch.view;
    const int64_t volume = split_.sample_volume();
    view.samples = std::min(batch_size_, end_ - row_);
    view.features = ConstBufferView(static_cast<const float*>(split_.features.data) + row_ * volume,
                                    view.samples * volume, DType::kFloat32);
    view.labels = ConstBufferView(split_.labels.data() + row_, view.samples, DType::kInt64);
    row_ += view.samples;
    return &view;
  }

  const dataset::CachedSplit& split_;
  std::unique_ptr<Transform> transform_;
  int64_t begin_, end_, row_;
  Slot slot_;
  int64_t batch_size_;
  std::vector<int64_t> rows_;
};

}  // namespace

std::unique_ptr<TrainLoader> make_train_loader(const dataset::CachedSplit& split, std::unique_ptr<Transform> transform,
                                               const LoaderOptions& options) {
  if (options.first_step < 0 || options.prefetch < 0) {
    throw UserError("first step " + std::to_string(options.first_step) + " and prefetch " +
                    std::to_string(options.prefetch) + " must not be negative");
  }
  Decoder decoder(split, std::move(transform), options);
  if (options.fixed_batch) return std::make_unique<FixedLoader>(std::move(decoder), options.first_step);
  if (options.prefetch == 0 || decoder.points_into_cache()) {
    return std::make_unique<DirectLoader>(std::move(decoder), options.first_step);
  }
  return std::make_unique<PrefetchLoader>(std::move(decoder), options.first_step, options.prefetch);
}

std::unique_ptr<EvalLoader> make_eval_loader(const dataset::CachedSplit& split, std::unique_ptr<Transform> transform,
                                             const Shard& shard, int64_t batch_size) {
  steps_per_epoch(split.samples, {shard.workers, shard.rank, batch_size});  // refuses what makes no sense
  return std::make_unique<ShardEvalLoader>(split, std::move(transform), shard, batch_size);
}

}  // namespace mlbench::data
