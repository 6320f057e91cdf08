#include "mlbench/data/train_loader.h"

#include <fmt/format.h>
#include <pthread.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"

namespace mlbench::data {

namespace {

// The memory of one step's batch.
struct StepBuffer {
  StepPlan plan;
  std::vector<BatchView> views;
  std::vector<BatchMemory> memory;
  Batch batch;
  std::vector<BadSample> bad;  // of the batch
};

// Decodes any global step. It remembers the order of the epoch that it was last asked for.
class StepDecoder {
 public:
  StepDecoder(std::shared_ptr<const SampleSource> source, std::shared_ptr<const BatchPlan> plan,
              const LoaderOptions& options)
      : source_(std::move(source)),
        plan_(std::move(plan)),
        rank_(options.rank),
        bad_(options.bad),
        threads_(std::make_unique<DecodingThreads>(options.threads, options.cores)) {}

  void decode(int64_t step, StepBuffer& buffer) {
    Batch& batch = buffer.batch;
    place(step, batch);
    if (epoch_number_ != batch.epoch) {
      epoch_ = plan_->epoch(batch.epoch);
      epoch_number_ = batch.epoch;
    }
    StepPlan& plan = buffer.plan;
    epoch_->fill(batch.step_in_epoch, rank_, plan);
    if (buffer.views.size() < plan.pieces.size()) {
      buffer.views.resize(plan.pieces.size());
      buffer.memory.resize(plan.pieces.size());
    }
    batch.samples = batch.weight = 0;
    buffer.bad.clear();
    const BadSampleRule keep{bad_.most, [&buffer](const BadSample& one) { buffer.bad.push_back(one); }};
    for (size_t i = 0; i < plan.pieces.size(); ++i) {
      const Piece& piece = plan.pieces[i];
      const auto rows =
          std::span(plan.rows).subspan(static_cast<size_t>(piece.begin), static_cast<size_t>(piece.count));
      source_->fill({rows, piece, batch.epoch, *threads_, keep}, buffer.views[i], buffer.memory[i]);
      batch.samples += buffer.views[i].samples;
      batch.weight += buffer.views[i].weight;
    }
    batch.micro = std::span(buffer.views).first(plan.pieces.size());
    batch.global_samples = plan.global_samples;
    batch.global_weight = plan.global_weight;
    batch.divisor = plan.divisor;
    batch.sum_divisor = plan.sum_divisor;
    batch.relative_length = plan.relative_length;
  }

  void place(int64_t step, Batch& batch) const {
    batch.epoch = plan_->epoch_of(step);
    batch.step_in_epoch = step - plan_->first_step(batch.epoch);
  }

  // Tells the bad samples of a batch, once, and returns the batch.
  const Batch& hand_out(StepBuffer& buffer) const {
    for (const BadSample& one : std::exchange(buffer.bad, {})) bad_.tell(one);
    return buffer.batch;
  }

  bool points_into_cache() const { return source_->points_into_cache(); }

 private:
  std::shared_ptr<const SampleSource> source_;
  std::shared_ptr<const BatchPlan> plan_;
  int64_t rank_;
  BadSampleRule bad_;
  std::unique_ptr<DecodingThreads> threads_;
  int64_t epoch_number_ = -1;
  std::unique_ptr<const EpochPlan> epoch_;  // after the plan, into which it may point
};

class DirectLoader final : public TrainLoader {
 public:
  DirectLoader(StepDecoder decoder, int64_t first_step) : decoder_(std::move(decoder)), step_(first_step) {}

  const Batch& next() override {
    decoder_.decode(step_, buffer_);
    ++step_;
    return decoder_.hand_out(buffer_);
  }

 private:
  StepDecoder decoder_;
  StepBuffer buffer_;
  int64_t step_;
};

class FixedLoader final : public TrainLoader {
 public:
  FixedLoader(StepDecoder decoder, int64_t first_step) : decoder_(std::move(decoder)), step_(first_step) {
    decoder_.decode(0, buffer_);
  }

  const Batch& next() override {
    decoder_.place(step_++, buffer_.batch);
    return decoder_.hand_out(buffer_);
  }

 private:
  StepDecoder decoder_;
  StepBuffer buffer_;
  int64_t step_;
};

// From the first request on, the thread fills slot (i mod size) for batch i. The consumer holds one slot, so the thread
// may be size - 1 batches ahead.
class PrefetchLoader final : public TrainLoader {
 public:
  PrefetchLoader(StepDecoder decoder, const LoaderOptions& options)
      : decoder_(std::move(decoder)),
        first_step_(options.first_step),
        ring_(static_cast<size_t>(options.prefetch) + 1),
        gauge_(options.ring) {
    if (gauge_ != nullptr) gauge_->begin(options.prefetch);
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
    if (gauge_ != nullptr) gauge_->take(decoded_ - taken_);
    changed_.notify_one();
    changed_.wait(lock, [&] { return decoded_ > taken_ || error_; });
    if (decoded_ == taken_) std::rethrow_exception(error_);
    StepBuffer& buffer = slot(taken_++);
    lock.unlock();
    return decoder_.hand_out(buffer);
  }

  void pause() override {
    const std::lock_guard lock(mutex_);
    requested_ = false;
  }

 private:
  StepBuffer& slot(int64_t index) { return ring_[static_cast<size_t>(index) % ring_.size()]; }

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

  StepDecoder decoder_;
  int64_t first_step_;
  std::vector<StepBuffer> ring_;
  const std::shared_ptr<RingGauge> gauge_;

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t decoded_ = 0;   // batches that are or were ready
  int64_t taken_ = 0;     // handed out by next()
  int64_t released_ = 0;  // handed out, and no longer used
  bool requested_ = false;
  bool stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<TrainLoader> make_train_loader(std::shared_ptr<const SampleSource> source,
                                               std::shared_ptr<const BatchPlan> plan, const LoaderOptions& options) {
  if (options.rank < 0 || options.first_step < 0 || options.prefetch < 0 || options.threads < 1) {
    throw UserError(
        fmt::format("rank {}, first step {} and prefetch {} must not be negative, and {} threads are at least 1",
                    options.rank, options.first_step, options.prefetch, options.threads));
  }
  StepDecoder decoder(std::move(source), std::move(plan), options);
  if (options.fixed_batch) return std::make_unique<FixedLoader>(std::move(decoder), options.first_step);
  if (options.prefetch == 0 || decoder.points_into_cache()) {
    return std::make_unique<DirectLoader>(std::move(decoder), options.first_step);
  }
  return std::make_unique<PrefetchLoader>(std::move(decoder), options);
}

}  // namespace mlbench::data
