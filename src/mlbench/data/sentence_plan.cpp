#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/data/plan.h"
#include "mlbench/data/shard.h"
#include "mlbench/spec/epoch.h"

namespace mlbench::data {

namespace {

class SentenceEpoch final : public EpochPlan {
 public:
  // Each step has `global_batch` sentences.
  SentenceEpoch(const Sentences& sentences, const PlanOptions& options, int64_t global_batch, int64_t number)
      : sentences_(sentences), options_(options), global_batch_(global_batch), number_(number) {
    const std::vector<int64_t>& kept = sentences.kept();
    order_ = epoch_permutation(std::ssize(kept), options.seed, number);
    for (int64_t& sentence : order_) sentence = kept[static_cast<size_t>(sentence)];
  }

  void fill(int64_t step_in_epoch, int64_t rank, StepPlan& plan) const override {
    const int64_t begin = step_in_epoch * global_batch_;
    const int64_t end = std::min(begin + global_batch_, static_cast<int64_t>(order_.size()));
    MLBENCH_CHECK(begin >= 0 && begin < end, fmt::format("step {} of an epoch that has fewer", step_in_epoch));
    const Part part = even_part(end - begin, options_.workers, rank);
    plan.epoch = number_;
    plan.step_in_epoch = step_in_epoch;
    const auto own = order_.begin() + begin + part.first;
    plan.rows.assign(own, own + part.count);
    // Sentences of similar length meet in a micro-batch, which so has little padding. The longest come first, so that
    // the first micro-batch already allocates enough memory.
    std::ranges::stable_sort(plan.rows, std::greater<>(), [&](int64_t one) { return sentences_.length(one); });
    plan.pieces.clear();
    const int64_t pieces = (part.count + options_.batch_size - 1) / options_.batch_size;
    for (int64_t i = 0; i < pieces; ++i) {
      const Part piece = even_part(part.count, pieces, i);
      plan.pieces.push_back({.begin = piece.first, .count = piece.count});
    }
    plan.global_samples = end - begin;
    plan.global_weight = 0;
    for (int64_t i = begin; i < end; ++i) plan.global_weight += sentences_.weight(order_[static_cast<size_t>(i)]);
    set_divisors(plan, options_.divisor);
    plan.relative_length = 1;
  }

 private:
  const Sentences& sentences_;
  PlanOptions options_;
  int64_t global_batch_, number_;
  std::vector<int64_t> order_;
};

class SentencePlan final : public EvenPlan {
 public:
  SentencePlan(const Sentences& sentences, const PlanOptions& options)
      : sentences_(sentences),
        options_(options),
        global_batch_(options.global_batch > 0 ? options.global_batch : options.batch_size * options.workers) {
    set_steps(spec::steps_per_epoch(samples_per_epoch(), global_batch_));
  }

  std::unique_ptr<const EpochPlan> epoch(int64_t number) const override {
    return std::make_unique<SentenceEpoch>(sentences_, options_, global_batch_, number);
  }
  int64_t samples_in(int64_t, int64_t steps) const override {
    return std::min(steps * global_batch_, samples_per_epoch());
  }
  int64_t samples_per_epoch() const override { return std::ssize(sentences_.kept()); }

 private:
  const Sentences& sentences_;
  PlanOptions options_;
  int64_t global_batch_;
};

}  // namespace

std::unique_ptr<BatchPlan> make_sentence_plan(const Sentences& sentences, const PlanOptions& options) {
  if (sentences.kept().empty())
    throw UserError("no pair of sentences is left to train on: see data.max_length and data.holdout");
  return std::make_unique<SentencePlan>(sentences, options);
}

}  // namespace mlbench::data
