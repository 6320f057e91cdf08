#include "mlbench/data/train_loader.h"

#include <pthread.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"

namespace mlbench::data {

namespace {

// Decodes any global step; remembers the permutation of the epoch it was asked for last.
class Decoder {
 public:
  Decoder(const dataset::CachedSplit& split, std::unique_ptr<Transform> transform, const LoaderOptions& options)
      : split_(split),
        transform_(std::move(transform)),
        shard_(options.shard),
        seed_(options.seed),
        steps_per_epoch_(steps_per_epoch(split.samples, options.shard)) {}

  void decode(int64_t step, BatchBuffer& buffer) {
    place(step, buffer.batch);
    if (epoch_ != buffer.batch.epoch) {
      order_ = epoch_permutation(split_.samples, seed_, buffer.batch.epoch);
      epoch_ = buffer.batch.epoch;
    }
    const StepSlice slice = slice_of(split_.samples, shard_, buffer.batch.step_in_epoch);
    buffer.batch.global_samples = slice.global_count;
    buffer.fill(split_, *transform_,
                std::span(order_).subspan(static_cast<size_t>(slice.first), static_cast<size_t>(slice.count)), epoch_);
  }

  void place(int64_t step, Batch& batch) const {
    batch.epoch = step / steps_per_epoch_;
    batch.step_in_epoch = step % steps_per_epoch_;
  }

  // Whether a batch is a list of rows: made sooner than handed over by another thread.
  bool points_into_cache() const { return transform_->leaves_as_is(split_); }

  BatchBuffer make_buffer() const { return {split_, *transform_, shard_.batch_size}; }

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
      : decoder_(std::move(decoder)), buffer_(decoder_.make_buffer()), step_(first_step) {}

  const Batch& next() override {
    decoder_.decode(step_, buffer_);
    ++step_;
    return buffer_.batch;
  }

 private:
  Decoder decoder_;
  BatchBuffer buffer_;
  int64_t step_;
};

class FixedLoader final : public TrainLoader {
 public:
  FixedLoader(Decoder decoder, int64_t first_step)
      : decoder_(std::move(decoder)), buffer_(decoder_.make_buffer()), step_(first_step) {
    decoder_.decode(0, buffer_);
  }

  const Batch& next() override {
    decoder_.place(step_++, buffer_.batch);
    return buffer_.batch;
  }

 private:
  Decoder decoder_;
  BatchBuffer buffer_;
  int64_t step_;
};

// From the first request on the thread fills slot (i mod size) for batch i; the consumer holds one slot, so the thread
// may be size - 1 ahead.
class PrefetchLoader final : public TrainLoader {
 public:
  PrefetchLoader(Decoder decoder, const LoaderOptions& options)
      : decoder_(std::move(decoder)), first_step_(options.first_step) {
    for (int i = 0; i <= options.prefetch; ++i) ring_.push_back(decoder_.make_buffer());
    thread_ = std::thread([this, cores = options.cores] {
      if (!cores.empty()) bind_thread(cores);
      run();
    });
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
    if (taken_ > released_) ++released_;  // the batch of the call before
    requested_ = true;
    changed_.notify_one();
    changed_.wait(lock, [&] { return decoded_ > taken_ || error_; });
    if (decoded_ == taken_) std::rethrow_exception(error_);
    return slot(taken_++).batch;
  }

  void pause() override {
    const std::lock_guard lock(mutex_);
    requested_ = false;
  }

 private:
  BatchBuffer& slot(int64_t index) { return ring_[static_cast<size_t>(index) % ring_.size()]; }

  void run() {
    pthread_setname_np(pthread_self(), "mlbench-data");
    const auto size = static_cast<int64_t>(ring_.size());
    for (int64_t index = 0;; ++index) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || (requested_ && index < released_ + size); });
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
  std::vector<BatchBuffer> ring_;

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t decoded_ = 0;   // batches that are ready or were
  int64_t taken_ = 0;     // handed out by next()
  int64_t released_ = 0;  // handed out and done with
  bool requested_ = false;
  bool stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;
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
  return std::make_unique<PrefetchLoader>(std::move(decoder), options);
}

}  // namespace mlbench::data
