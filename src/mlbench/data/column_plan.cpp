#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <numeric>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/data/plan.h"

namespace mlbench::data {

namespace {

constexpr int64_t kShortest = 5;  // positions of a drawn step

// What all epochs share.
struct Columns {
  int64_t count = 0, per_rank = 0;
  int64_t positions = 0;  // tokens of each column that predict another one
  ColumnOptions drawing;
  uint64_t seed = 42;
};

// Where the steps of an epoch begin, followed by the end of the last one.
std::vector<int64_t> draw_starts(const Columns& columns, int64_t epoch) {
  RandomSequence random(derive_key(columns.seed, {kLengthStream, static_cast<uint64_t>(epoch)}));
  std::vector<int64_t> starts = {0};
  while (starts.back() < columns.positions) {
    double mean = static_cast<double>(columns.drawing.bptt);
    if (random.uniform() < columns.drawing.short_probability) mean /= 2;
    const double drawn = mean + columns.drawing.deviation * random.normal();
    const int64_t length = std::max(kShortest, static_cast<int64_t>(drawn));
    starts.push_back(std::min(starts.back() + length, columns.positions));
  }
  return starts;
}

class ColumnEpoch final : public EpochPlan {
 public:
  ColumnEpoch(const Columns& columns, int64_t number)
      : columns_(columns), number_(number), starts_(draw_starts(columns, number)) {}

  void fill(int64_t step_in_epoch, int64_t rank, StepPlan& plan) const override {
    const auto step = static_cast<size_t>(step_in_epoch);
    MLBENCH_CHECK(step + 1 < starts_.size(), fmt::format("step {} of an epoch that has fewer", step_in_epoch));
    const int64_t length = starts_[step + 1] - starts_[step];
    plan.epoch = number_;
    plan.step_in_epoch = step_in_epoch;
    plan.rows.resize(static_cast<size_t>(columns_.per_rank));
    std::iota(plan.rows.begin(), plan.rows.end(), rank * columns_.per_rank);
    plan.pieces.assign(1, {0, columns_.per_rank, starts_[step], length, step > 0});
    plan.global_samples = columns_.count;
    plan.global_weight = columns_.count * length;
    plan.divisor = static_cast<double>(plan.global_weight);
    plan.relative_length = static_cast<double>(length) / static_cast<double>(columns_.drawing.bptt);
  }

 private:
  const Columns& columns_;
  int64_t number_;
  std::vector<int64_t> starts_;
};

class ColumnPlan final : public BatchPlan {
 public:
  explicit ColumnPlan(const Columns& columns) : columns_(columns) {}

  std::unique_ptr<const EpochPlan> epoch(int64_t number) const override {
    return std::make_unique<ColumnEpoch>(columns_, number);
  }
  int64_t first_step(int64_t epoch) const override {
    const std::lock_guard lock(mutex_);
    while (std::ssize(first_steps_) <= epoch) draw_another();
    return first_steps_[static_cast<size_t>(epoch)];
  }
  int64_t epoch_of(int64_t step) const override {
    const std::lock_guard lock(mutex_);
    while (first_steps_.back() <= step) draw_another();
    return std::upper_bound(first_steps_.begin(), first_steps_.end(), step) - first_steps_.begin() - 1;
  }
  int64_t samples_in(int64_t epoch, int64_t steps) const override {
    return columns_.count * draw_starts(columns_, epoch)[static_cast<size_t>(steps)];
  }
  int64_t samples_per_epoch() const override { return columns_.count * columns_.positions; }

 private:
  void draw_another() const {
    const auto steps = std::ssize(draw_starts(columns_, std::ssize(first_steps_) - 1)) - 1;
    first_steps_.push_back(first_steps_.back() + steps);
  }

  Columns columns_;
  // The epochs that were asked for: the loop and a loader's thread ask.
  mutable std::mutex mutex_;
  mutable std::vector<int64_t> first_steps_{0};
};

}  // namespace

int64_t column_height(int64_t tokens, int64_t columns) {
  if (columns <= 0 || tokens / columns < 2) {
    throw UserError(fmt::format("a text of {} tokens in {} columns: each must have at least 2", tokens, columns));
  }
  return tokens / columns;
}

std::unique_ptr<BatchPlan> make_column_plan(int64_t tokens, const ColumnOptions& columns, const PlanOptions& options) {
  const int64_t count = options.batch_size * options.workers;
  return std::make_unique<ColumnPlan>(
      Columns{count, options.batch_size, column_height(tokens, count) - 1, columns, options.seed});
}

}  // namespace mlbench::data
