#include "mlbench/data/plan.h"

#include <algorithm>
#include <cmath>

#include "mlbench/data/shard.h"

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

class SampleEpoch final : public EpochPlan {
 public:
  SampleEpoch(int64_t samples, const PlanOptions& options, int64_t number)
      : samples_(samples),
        options_(options),
        number_(number),
        order_(epoch_permutation(samples, options.seed, number)) {}

  void fill(int64_t step_in_epoch, int64_t rank, StepPlan& plan) const override {
    const StepSlice slice = slice_of(samples_, {options_.workers, rank, options_.batch_size}, step_in_epoch);
    plan.epoch = number_;
    plan.step_in_epoch = step_in_epoch;
    plan.rows.assign(order_.begin() + slice.first, order_.begin() + slice.first + slice.count);
    plan.pieces.clear();
    if (slice.count > 0) plan.pieces.push_back({.begin = 0, .count = slice.count});
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
  SamplePlan(int64_t samples, const PlanOptions& options) : samples_(samples), options_(options) {
    set_steps(data::steps_per_epoch(samples, {options.workers, 0, options.batch_size}));
  }

  std::unique_ptr<const EpochPlan> epoch(int64_t number) const override {
    return std::make_unique<SampleEpoch>(samples_, options_, number);
  }
  int64_t samples_in(int64_t, int64_t steps) const override {
    return std::min(steps * options_.batch_size * options_.workers, samples_);
  }
  int64_t samples_per_epoch() const override { return samples_; }

 private:
  int64_t samples_;
  PlanOptions options_;
};

}  // namespace

std::unique_ptr<BatchPlan> make_sample_plan(int64_t samples, const PlanOptions& options) {
  return std::make_unique<SamplePlan>(samples, options);
}

}  // namespace mlbench::data
