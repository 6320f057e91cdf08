#include "mlbench/data/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/data/shard.h"
#include "mlbench/spec/epoch.h"

namespace mlbench::data {

double BatchPlan::epochs_after(int64_t steps) const {
  const int64_t epoch = epoch_of(steps), first = first_step(epoch);
  // One division, so that for epochs of equal size the result is exactly steps / steps_per_epoch.
  const int64_t in_epoch = steps_in(epoch);
  return static_cast<double>(epoch * in_epoch + steps - first) / static_cast<double>(in_epoch);
}

int64_t BatchPlan::steps_after(double epochs) const {
  const auto whole = static_cast<int64_t>(std::floor(epochs));
  const auto steps = static_cast<double>(steps_in(whole));
  // Again one division; a rounding error must not add a step.
  const double in_even_epochs = std::ceil(epochs * steps - 1e-9);
  return first_step(whole) + static_cast<int64_t>(in_even_epochs) - whole * steps_in(whole);
}

int64_t BatchPlan::samples_after(int64_t steps) const {
  const int64_t epoch = epoch_of(steps);
  return epoch * samples_per_epoch() + samples_in(epoch, steps - first_step(epoch));
}

void set_divisors(StepPlan& plan, Divisor divisor) {
  const auto weight = static_cast<double>(plan.global_weight);
  const auto sentences = static_cast<double>(std::max<int64_t>(std::ssize(plan.rows), 1));
  plan.divisor = divisor == Divisor::kWeight ? weight : divisor == Divisor::kLocalSamples ? sentences : 1;
  plan.sum_divisor = divisor == Divisor::kWeightAfterSum ? weight : 1;
}

Part even_part(int64_t count, int64_t parts, int64_t index) {
  const int64_t even = count / parts, larger = count % parts;
  return {index * even + std::min(index, larger), even + (index < larger ? 1 : 0)};
}

namespace {

Shard shard_in(const PlanOptions& options, int64_t rank) {
  return {options.workers, rank, options.batch_size, options.global_batch};
}

class SampleEpoch final : public EpochPlan {
 public:
  SampleEpoch(int64_t samples, const std::vector<int64_t>& records, const PlanOptions& options, int64_t number)
      : samples_(samples),
        options_(options),
        number_(number),
        order_(epoch_permutation(samples, options.seed, number)) {
    if (records.empty()) return;
    for (int64_t& position : order_) position = records[static_cast<size_t>(position)];
  }

  void fill(int64_t step_in_epoch, int64_t rank, StepPlan& plan) const override {
    const StepSlice slice = slice_of(samples_, shard_in(options_, rank), step_in_epoch);
    plan.epoch = number_;
    plan.step_in_epoch = step_in_epoch;
    plan.rows.assign(order_.begin() + slice.first, order_.begin() + slice.first + slice.count);
    plan.pieces.clear();
    for (int64_t begin = 0; begin < slice.count; begin += options_.batch_size) {
      plan.pieces.push_back({.begin = begin, .count = std::min(options_.batch_size, slice.count - begin)});
    }
    plan.global_samples = plan.global_weight = slice.global_count;
    plan.divisor = static_cast<double>(slice.global_count);
    plan.relative_length = 1;
  }

 private:
  int64_t samples_;
  PlanOptions options_;
  int64_t number_;
  std::vector<int64_t> order_;
};

class SamplePlan final : public EvenPlan {
 public:
  // `records` empty: all.
  SamplePlan(int64_t samples, std::vector<int64_t> records, const PlanOptions& options)
      : samples_(samples), records_(std::move(records)), options_(options) {
    set_steps(data::steps_per_epoch(samples, shard_in(options, 0)));
  }

  std::unique_ptr<const EpochPlan> epoch(int64_t number) const override {
    return std::make_unique<SampleEpoch>(samples_, records_, options_, number);
  }
  int64_t samples_in(int64_t, int64_t steps) const override {
    return std::min(steps * shard_in(options_, 0).global_batch(), samples_);
  }
  int64_t samples_per_epoch() const override { return samples_; }

 private:
  int64_t samples_;
  std::vector<int64_t> records_;
  PlanOptions options_;
};

}  // namespace

std::unique_ptr<BatchPlan> make_sample_plan(int64_t samples, const PlanOptions& options) {
  return std::make_unique<SamplePlan>(samples, std::vector<int64_t>(), options);
}

std::unique_ptr<BatchPlan> make_sample_plan(std::vector<int64_t> records, const PlanOptions& options) {
  const auto samples = std::ssize(records);
  return std::make_unique<SamplePlan>(samples, std::move(records), options);
}

int64_t held_out_count(int64_t samples, double share) {
  const int64_t held_out = spec::held_out_samples(samples, share);
  if (held_out == 0 || held_out == samples) {
    throw UserError(fmt::format("data.holdout {} holds out {} of {} records; expected some, and not all", share,
                                held_out, samples));
  }
  return held_out;
}

Holdout hold_out(int64_t samples, double share) {
  constexpr uint64_t kAnySeed = 0;
  const int64_t held_out = held_out_count(samples, share);
  const std::vector<int64_t> drawn = permutation(samples, derive_key(kAnySeed, {kHoldoutStream}));
  Holdout parts{.trained = {drawn.begin() + held_out, drawn.end()},
                .held_out = {drawn.begin(), drawn.begin() + held_out}};
  std::ranges::sort(parts.trained);
  std::ranges::sort(parts.held_out);
  return parts;
}

}  // namespace mlbench::data
