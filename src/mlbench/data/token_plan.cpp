#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/data/plan.h"
#include "mlbench/data/shard.h"

namespace mlbench::data {

namespace {

// What follows from the lengths alone, and is therefore the same in every epoch.
struct TokenUnits {
  // The k-th kept sentence has the padded length lengths[k]; starts[l] sentences are shorter than l.
  std::vector<int32_t> lengths;
  std::vector<int64_t> starts;
  // Unit u has the places [bounds[u], bounds[u + 1]) among the kept sentences in the order of their lengths.
  std::vector<int64_t> bounds;
  int64_t per_step = 1;

  int64_t count() const { return std::ssize(bounds) - 1; }
  int64_t size(int64_t unit) const { return bounds[static_cast<size_t>(unit) + 1] - bounds[static_cast<size_t>(unit)]; }
};

TokenUnits make_units(const Sentences& sentences, int64_t multiple, const PlanOptions& options) {
  TokenUnits units;
  int64_t longest = 0;
  for (const int64_t sentence : sentences.kept()) {
    const int64_t length = (sentences.length(sentence) + multiple - 1) / multiple * multiple;
    if (length > options.batch_size) {
      throw UserError(
          fmt::format("pair {} of the training set has {} tokens with padding, a micro-batch at most "
                      "batch_size, {}: raise that, or lower data.max_length",
                      sentence, length, options.batch_size));
    }
    units.lengths.push_back(static_cast<int32_t>(length));
    longest = std::max(longest, length);
  }
  units.starts.assign(static_cast<size_t>(longest) + 2, 0);
  for (const int32_t length : units.lengths) ++units.starts[static_cast<size_t>(length) + 1];
  for (size_t i = 1; i < units.starts.size(); ++i) units.starts[i] += units.starts[i - 1];

  units.bounds.push_back(0);
  for (int64_t length = 0; length <= longest; ++length) {
    const int64_t end = units.starts[static_cast<size_t>(length) + 1];
    // The unit takes as many sentences of this length as fit into a micro-batch when all are padded to the longest.
    for (int64_t next = units.starts[static_cast<size_t>(length)]; next < end;) {
      const int64_t room = options.batch_size / length - (next - units.bounds.back());
      if (room <= 0) {
        units.bounds.push_back(next);
      } else {
        next += std::min(room, end - next);
      }
    }
  }
  units.bounds.push_back(std::ssize(units.lengths));
  units.per_step =
      options.global_batch > 0 ? std::max<int64_t>(options.global_batch / options.batch_size, 1) : options.workers;
  return units;
}

// The units in the order of the steps that take them.
std::vector<int64_t> unit_order(const TokenUnits& units, uint64_t seed, int64_t epoch) {
  return permutation(units.count(), derive_key(seed, {kShuffleStream, static_cast<uint64_t>(epoch), 1}));
}

class TokenEpoch final : public EpochPlan {
 public:
  TokenEpoch(const Sentences& sentences, const TokenUnits& units, const PlanOptions& options, int64_t number)
      : sentences_(sentences), units_(units), options_(options), number_(number) {
    const std::vector<int64_t>& kept = sentences.kept();
    // The sentences are sorted by length; equal lengths are in the epoch's own order.
    std::vector<int64_t> next = units.starts;
    by_length_.resize(kept.size());
    for (const int64_t k : epoch_permutation(std::ssize(kept), options.seed, number)) {
      const auto length = static_cast<size_t>(units.lengths[static_cast<size_t>(k)]);
      by_length_[static_cast<size_t>(next[length]++)] = kept[static_cast<size_t>(k)];
    }
    order_ = unit_order(units, options.seed, number);
  }

  void fill(int64_t step_in_epoch, int64_t rank, StepPlan& plan) const override {
    const int64_t begin = step_in_epoch * units_.per_step;
    const int64_t end = std::min(begin + units_.per_step, units_.count());
    MLBENCH_CHECK(begin >= 0 && begin < end, fmt::format("step {} of an epoch that has fewer", step_in_epoch));
    plan.epoch = number_;
    plan.step_in_epoch = step_in_epoch;
    plan.rows.clear();
    plan.pieces.clear();
    plan.global_samples = plan.global_weight = 0;
    const int64_t count = end - begin, workers = options_.workers;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t unit = order_[static_cast<size_t>(begin + i)], size = units_.size(unit);
      const auto first = by_length_.begin() + units_.bounds[static_cast<size_t>(unit)];
      plan.global_samples += size;
      for (int64_t j = 0; j < size; ++j) plan.global_weight += sentences_.weight(first[j]);
      // The row of units has `count * workers` places; this rank's part is [rank * count, (rank + 1) * count).
      const int64_t from = size * std::clamp<int64_t>(rank * count - i * workers, 0, workers) / workers;
      const int64_t to = size * std::clamp<int64_t>((rank + 1) * count - i * workers, 0, workers) / workers;
      if (from == to) continue;
      plan.pieces.push_back({.begin = std::ssize(plan.rows), .count = to - from});
      plan.rows.insert(plan.rows.end(), first + from, first + to);
    }
    set_divisors(plan, options_.divisor);
    plan.relative_length = 1;
  }

 private:
  const Sentences& sentences_;
  const TokenUnits& units_;
  PlanOptions options_;
  int64_t number_;
  std::vector<int64_t> by_length_, order_;
};

class TokenPlan final : public EvenPlan {
 public:
  TokenPlan(const Sentences& sentences, int64_t multiple, const PlanOptions& options)
      : sentences_(sentences), options_(options), units_(make_units(sentences, multiple, options)) {
    set_steps((units_.count() + units_.per_step - 1) / units_.per_step);
  }

  std::unique_ptr<const EpochPlan> epoch(int64_t number) const override {
    return std::make_unique<TokenEpoch>(sentences_, units_, options_, number);
  }
  int64_t samples_in(int64_t epoch, int64_t steps) const override {
    if (steps == steps_in(epoch)) return samples_per_epoch();
    const std::vector<int64_t> order = unit_order(units_, options_.seed, epoch);
    int64_t samples = 0;
    for (int64_t i = 0; i < std::min(steps * units_.per_step, units_.count()); ++i) {
      samples += units_.size(order[static_cast<size_t>(i)]);
    }
    return samples;
  }
  int64_t samples_per_epoch() const override { return std::ssize(sentences_.kept()); }

 private:
  const Sentences& sentences_;
  PlanOptions options_;
  TokenUnits units_;
};

}  // namespace

std::unique_ptr<BatchPlan> make_token_plan(const Sentences& sentences, int64_t multiple, const PlanOptions& options) {
  if (sentences.kept().empty())
    throw UserError("no pair of sentences is left to train on: see data.max_length and data.holdout");
  return std::make_unique<TokenPlan>(sentences, multiple, options);
}

}  // namespace mlbench::data
