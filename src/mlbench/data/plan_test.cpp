// What every plan promises, and each one's own shape.

#include "mlbench/data/plan.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/data/sample_source.h"
#include "mlbench/data/shard.h"
#include "mlbench/data/test_text.h"

namespace mlbench::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<int64_t> random_lengths(size_t count, int64_t longest, uint64_t key) {
  RandomSequence random(key);
  std::vector<int64_t> lengths(count);
  for (int64_t& length : lengths) length = 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(longest)));
  return lengths;
}

// 503 pairs of up to 40 tokens; of these, those of up to 35 are kept.
const SentenceSource& corpus() {
  static const test::Pairs kPairs(random_lengths(503, 40, 1), random_lengths(503, 40, 2));
  static const SentenceSource kSource(kPairs.split(), {.max_length = 35});
  return kSource;
}

// A plan of each kind, and what it takes in an epoch: rows, and of a text positions of rows.
struct PlanCase {
  const char* name;
  std::function<std::unique_ptr<BatchPlan>(const PlanOptions& options)> make;
  // The size of a micro-batch, in the unit of PlanOptions.
  std::function<int64_t(const StepPlan& step, const Piece& piece)> size;
};

int64_t padded(int64_t length) { return (length + 7) / 8 * 8; }

const std::vector<PlanCase>& cases() {
  const auto count = [](const StepPlan&, const Piece& piece) { return piece.count; };
  static const std::vector<PlanCase> kCases = {
      {"samples", [](const PlanOptions& options) { return make_sample_plan(101, options); }, count},
      {"held_out", [](const PlanOptions& options) { return make_sample_plan(hold_out(101, 0.2).trained, options); },
       count},
      {"sentences", [](const PlanOptions& options) { return make_sentence_plan(corpus(), options); }, count},
      {"tokens",
       [](PlanOptions options) {
         options.batch_size *= 20;  // the longest pair is 40 tokens
         options.global_batch *= 20;
         return make_token_plan(corpus(), 8, options);
       },
       [](const StepPlan& step, const Piece& piece) {
         int64_t longest = 0;
         for (int64_t i = 0; i < piece.count; ++i) {
           longest = std::max(longest, padded(corpus().length(step.rows[static_cast<size_t>(piece.begin + i)])));
         }
         return (piece.count * longest + 19) / 20;
       }},
      {"columns",
       [](PlanOptions options) {
         options.global_batch = 0;
         return make_column_plan(5003, {.bptt = 12, .deviation = 3, .short_probability = 0.3}, options);
       },
       count},
  };
  return kCases;
}

using Element = std::pair<int64_t, int64_t>;  // row, position

std::vector<Element> elements_of(const StepPlan& step) {
  std::vector<Element> elements;
  for (const Piece& piece : step.pieces) {
    EXPECT_GT(piece.count, 0);
    for (int64_t i = piece.begin; i < piece.begin + piece.count; ++i) {
      for (int64_t position = 0; position < std::max<int64_t>(piece.positions, 1); ++position) {
        elements.emplace_back(step.rows.at(static_cast<size_t>(i)), piece.first + position);
      }
    }
  }
  return elements;
}

class EveryPlan : public ::testing::TestWithParam<PlanCase> {};
INSTANTIATE_TEST_SUITE_P(Kinds, EveryPlan, ::testing::ValuesIn(cases()),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(EveryPlan, TakesEachSampleOncePerEpoch) {
  for (int64_t workers = 1; workers <= 5; ++workers) {
    for (const int64_t global_batch : {0, 7, 20}) {
      for (const int64_t batch_size : {2, 5}) {
        SCOPED_TRACE(::testing::Message() << workers << " x " << batch_size << ", " << global_batch);
        const auto plan =
            GetParam().make({.workers = workers, .batch_size = batch_size, .global_batch = global_batch, .seed = 3});
        std::set<Element> first_epoch;
        for (int64_t epoch = 0; epoch < 2; ++epoch) {
          std::set<Element> seen;
          const auto order = plan->epoch(epoch);
          StepPlan part;
          for (int64_t step = 0; step < plan->steps_in(epoch); ++step) {
            int64_t samples = 0;
            for (int64_t rank = 0; rank < workers; ++rank) {
              order->fill(step, rank, part);
              EXPECT_EQ(part.epoch, epoch);
              EXPECT_EQ(part.step_in_epoch, step);
              for (const Element& element : elements_of(part)) EXPECT_TRUE(seen.insert(element).second);
              for (const Piece& piece : part.pieces) {
                EXPECT_LE(GetParam().size(part, piece), batch_size);
                samples += piece.count;
              }
              EXPECT_GT(part.divisor, 0);
            }
            EXPECT_EQ(samples, part.global_samples) << "what the ranks have is what all have";
            EXPECT_GT(samples, 0) << "every step has something";
          }
          if (epoch == 0) first_epoch = seen;
          EXPECT_EQ(seen, first_epoch) << "every epoch the same";
          EXPECT_EQ(std::ssize(seen), plan->samples_per_epoch());
        }
      }
    }
  }
}

TEST_P(EveryPlan, FollowsFromSeedEpochAndStep) {
  const PlanOptions options{.workers = 3, .batch_size = 4, .global_batch = 24, .seed = 5};
  const auto plan = GetParam().make(options), again = GetParam().make(options);
  const auto late = again->epoch(2);  // asked for first
  const auto elements = [](const BatchPlan& of, int64_t epoch, int64_t step, int64_t rank) {
    StepPlan part;
    of.epoch(epoch)->fill(step, rank, part);
    return elements_of(part);
  };
  StepPlan part;
  late->fill(3, 1, part);
  EXPECT_EQ(elements_of(part), elements(*plan, 2, 3, 1));
  EXPECT_NE(elements(*plan, 2, 3, 1), elements(*plan, 1, 3, 1));
  PlanOptions other = options;
  other.seed = 6;
  EXPECT_NE(elements(*plan, 2, 3, 1), elements(*GetParam().make(other), 2, 3, 1));
}

TEST_P(EveryPlan, CountsStepsAndSamplesAlike) {
  const auto plan = GetParam().make({.workers = 2, .batch_size = 4, .global_batch = 24, .seed = 5});
  int64_t steps = 0, samples = 0;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    EXPECT_EQ(plan->first_step(epoch), steps);
    const auto order = plan->epoch(epoch);
    for (int64_t step = 0; step < plan->steps_in(epoch); ++step, ++steps) {
      EXPECT_EQ(plan->epoch_of(steps), epoch);
      EXPECT_EQ(plan->samples_after(steps), samples);
      EXPECT_EQ(plan->ends_epoch(steps), step == 0);
      StepPlan part;
      order->fill(step, 0, part);
      const int64_t positions = part.pieces.empty() ? 0 : part.pieces.front().positions;
      samples += part.global_samples * std::max<int64_t>(positions, 1);
    }
    EXPECT_EQ(plan->steps_after(static_cast<double>(epoch + 1)), steps);
    EXPECT_EQ(plan->epochs_after(steps), static_cast<double>(epoch + 1));
    EXPECT_EQ(samples, (epoch + 1) * plan->samples_per_epoch());
  }
  EXPECT_EQ(plan->steps_after(0.5), (plan->steps_per_epoch() + 1) / 2);
}

// ---- samples --------------------------------------------------------------------------------------------------------

TEST(SamplePlan, IsTheOneOfShards) {
  for (int64_t workers = 1; workers <= 5; ++workers) {
    const auto plan = make_sample_plan(101, {.workers = workers, .batch_size = 8, .seed = 42});
    EXPECT_EQ(plan->steps_per_epoch(), steps_per_epoch(101, {workers, 0, 8}));
    const std::vector<int64_t> order = epoch_permutation(101, 42, 1);
    const auto epoch = plan->epoch(1);
    for (int64_t step = 0; step < plan->steps_per_epoch(); ++step) {
      for (int64_t rank = 0; rank < workers; ++rank) {
        const StepSlice slice = slice_of(101, {workers, rank, 8}, step);
        StepPlan part;
        epoch->fill(step, rank, part);
        EXPECT_EQ(part.rows,
                  std::vector<int64_t>(order.begin() + slice.first, order.begin() + slice.first + slice.count));
        EXPECT_EQ(part.divisor, static_cast<double>(slice.global_count));
      }
    }
  }
}

TEST(SamplePlan, AGlobalBatchIsOfOneSizeForAnyNumberOfWorkersAndIsCutIntoMicroBatches) {
  for (int64_t workers = 1; workers <= 5; ++workers) {
    const auto plan = make_sample_plan(101, {.workers = workers, .batch_size = 8, .global_batch = 20, .seed = 42});
    EXPECT_EQ(plan->steps_per_epoch(), 6);
    EXPECT_EQ(plan->samples_in(0, 5), 100);
    const std::vector<int64_t> order = epoch_permutation(101, 42, 0);
    const auto epoch = plan->epoch(0);
    std::vector<int64_t> rows, micro_batches;
    for (int64_t rank = 0; rank < workers; ++rank) {
      StepPlan part;
      epoch->fill(2, rank, part);
      EXPECT_EQ(part.global_samples, 20);
      rows.insert(rows.end(), part.rows.begin(), part.rows.end());
      for (const Piece& piece : part.pieces) micro_batches.push_back(piece.count);
    }
    EXPECT_EQ(rows, std::vector<int64_t>(order.begin() + 40, order.begin() + 60));
    const std::vector<int64_t> of_one = {8, 8, 4}, of_three = {7, 7, 6};
    if (workers == 1) {
      EXPECT_EQ(micro_batches, of_one);
    } else if (workers == 3) {
      EXPECT_EQ(micro_batches, of_three);
    }
  }
}

TEST(SamplePlan, WhatIsHeldOutIsNeverTrainedOn) {
  const Holdout parts = hold_out(101, 0.2);
  EXPECT_EQ(parts.held_out.size(), 20U);
  EXPECT_EQ(parts.trained.size(), 81U);
  std::set<int64_t> all(parts.trained.begin(), parts.trained.end());
  all.insert(parts.held_out.begin(), parts.held_out.end());
  EXPECT_EQ(all.size(), 101U);
  EXPECT_TRUE(std::ranges::is_sorted(parts.held_out));
  EXPECT_GT(parts.held_out.back() - parts.held_out.front(), 50)
      << "drawn from all records, which may be sorted by class";
  EXPECT_EQ(hold_out(101, 0.2).held_out, parts.held_out);

  const auto plan = make_sample_plan(parts.trained, {.workers = 2, .batch_size = 8, .seed = 7});
  EXPECT_EQ(plan->samples_per_epoch(), 81);
  const auto epoch = plan->epoch(0);
  for (int64_t step = 0; step < plan->steps_per_epoch(); ++step) {
    StepPlan part;
    epoch->fill(step, 1, part);
    for (const int64_t row : part.rows) EXPECT_TRUE(std::ranges::binary_search(parts.trained, row)) << row;
  }
  EXPECT_THAT([] { hold_out(4, 0.2); }, ThrowsMessage<UserError>(HasSubstr("holds out 0 of 4 records")));
}

TEST(BatchPlan, StepsOfPartsOfEpochsAreRoundedUp) {
  const auto plan = make_sample_plan(1000, {.batch_size = 300});  // 4 steps
  EXPECT_EQ(plan->steps_after(40), 160);
  EXPECT_EQ(plan->steps_after(1.5), 6);
  EXPECT_EQ(plan->steps_after(1.51), 7);
  EXPECT_EQ(plan->steps_after(0.1 + 0.2), 2);
  EXPECT_EQ(plan->steps_after(1.0 / 3 * 3), 4);
  EXPECT_EQ(plan->epochs_after(6), 1.5);
  EXPECT_EQ(plan->samples_after(5), 1300);
}

// ---- sentences ------------------------------------------------------------------------------------------------------

// The rows of a step of all ranks, sorted, and the sum of the weights of their targets.
std::pair<std::vector<int64_t>, int64_t> global_batch(const BatchPlan& plan, int64_t workers, int64_t step) {
  std::vector<int64_t> rows;
  StepPlan part;
  for (int64_t rank = 0; rank < workers; ++rank) {
    plan.epoch(1)->fill(step, rank, part);
    rows.insert(rows.end(), part.rows.begin(), part.rows.end());
  }
  std::ranges::sort(rows);
  int64_t weight = 0;
  for (const int64_t row : rows) weight += corpus().weight(row);
  EXPECT_EQ(part.global_weight, weight);
  return {rows, weight};
}

TEST(SentencePlan, AGlobalBatchIsTheSameForAnyNumberOfWorkersAndMicroBatches) {
  const auto reference = make_sentence_plan(corpus(), {.workers = 1, .batch_size = 64, .global_batch = 64});
  for (const int64_t workers : {2, 3, 4, 8}) {
    for (const int64_t batch_size : {1, 5, 64}) {
      const auto plan =
          make_sentence_plan(corpus(), {.workers = workers, .batch_size = batch_size, .global_batch = 64});
      ASSERT_EQ(plan->steps_per_epoch(), reference->steps_per_epoch());
      for (int64_t step = 0; step < plan->steps_per_epoch(); ++step) {
        EXPECT_EQ(global_batch(*plan, workers, step), global_batch(*reference, 1, step));
      }
    }
  }
}

// 4a: 2048 sentences on 4 ranks with at most 128 at once are 4 micro-batches of 128.
TEST(SentencePlan, CutsARanksPartIntoEvenMicroBatches) {
  const auto plan = make_sentence_plan(
      corpus(), {.workers = 2, .batch_size = 20, .global_batch = 100, .divisor = Divisor::kLocalSamples});
  StepPlan part;
  plan->epoch(0)->fill(0, 1, part);
  std::vector<int64_t> counts;
  for (const Piece& piece : part.pieces) counts.push_back(piece.count);
  EXPECT_THAT(counts, ElementsAre(17, 17, 16));
  EXPECT_EQ(part.divisor, 50);
  EXPECT_TRUE(std::ranges::is_sorted(part.rows, std::greater<>(), [](int64_t row) { return corpus().length(row); }));
}

// The product over micro-batches of what divides a token's loss is the same; what stands before the sum differs.
TEST(BatchPlan, DividesBeforeOrBehindTheSumOfTheRanks) {
  for (const bool tokens : {false, true}) {
    const auto make = [tokens](Divisor divisor) {
      const PlanOptions options{.workers = 3, .batch_size = tokens ? 200 : 20, .global_batch = 800, .divisor = divisor};
      return tokens ? make_token_plan(corpus(), 8, options) : make_sentence_plan(corpus(), options);
    };
    StepPlan before, behind, own;
    for (const int64_t rank : {0, 1, 2}) {
      make(Divisor::kWeight)->epoch(0)->fill(0, rank, before);
      make(Divisor::kWeightAfterSum)->epoch(0)->fill(0, rank, behind);
      make(Divisor::kLocalSamples)->epoch(0)->fill(0, rank, own);
      const auto weight = static_cast<double>(before.global_weight);
      EXPECT_EQ(std::pair(before.divisor, before.sum_divisor), std::pair(weight, 1.0));
      EXPECT_EQ(std::pair(behind.divisor, behind.sum_divisor), std::pair(1.0, weight));
      EXPECT_EQ(std::pair(own.divisor, own.sum_divisor), std::pair(static_cast<double>(own.rows.size()), 1.0));
    }
  }
}

TEST(SentencePlan, NothingLeftIsAnError) {
  const test::Pairs pairs({5, 6}, {7, 8});
  const SentenceSource source(pairs.split(), {.max_length = 3});
  EXPECT_THAT([&] { make_sentence_plan(source, {}); }, ThrowsMessage<UserError>(HasSubstr("data.max_length")));
  EXPECT_THAT([&] { make_token_plan(source, 1, {}); }, ThrowsMessage<UserError>(HasSubstr("data.max_length")));
}

// ---- tokens ---------------------------------------------------------------------------------------------------------

TEST(TokenPlan, AGlobalBatchIsTheSameForAnyNumberOfWorkers) {
  const auto reference = make_token_plan(corpus(), 8, {.workers = 1, .batch_size = 200, .global_batch = 800});
  EXPECT_GT(reference->steps_per_epoch(), 10);
  for (const int64_t workers : {2, 3, 4, 5, 8}) {
    const auto plan = make_token_plan(corpus(), 8, {.workers = workers, .batch_size = 200, .global_batch = 800});
    ASSERT_EQ(plan->steps_per_epoch(), reference->steps_per_epoch());
    for (int64_t step = 0; step < plan->steps_per_epoch(); ++step) {
      EXPECT_EQ(global_batch(*plan, workers, step), global_batch(*reference, 1, step)) << workers;
    }
  }
}

TEST(TokenPlan, WhereTheyDivideTheUnitsRanksHaveWholeOnes) {
  for (const int64_t workers : {1, 2, 4}) {
    const auto plan = make_token_plan(corpus(), 8, {.workers = workers, .batch_size = 200, .global_batch = 800});
    StepPlan part;
    for (int64_t rank = 0; rank < workers; ++rank) {
      plan->epoch(0)->fill(0, rank, part);
      EXPECT_EQ(std::ssize(part.pieces), 4 / workers);
    }
  }
}

TEST(TokenPlan, UnitsHoldSentencesOfSimilarLength) {
  const auto plan = make_token_plan(corpus(), 8, {.batch_size = 200, .global_batch = 200});
  const auto epoch = plan->epoch(0);
  int64_t tokens = 0, with_padding = 0;
  for (int64_t step = 0; step < plan->steps_per_epoch(); ++step) {
    StepPlan part;
    epoch->fill(step, 0, part);
    int64_t longest = 0;
    for (const int64_t row : part.rows) {
      tokens += padded(corpus().length(row));
      longest = std::max(longest, padded(corpus().length(row)));
    }
    with_padding += longest * std::ssize(part.rows);
  }
  EXPECT_LT(static_cast<double>(with_padding), 1.1 * static_cast<double>(tokens));
  EXPECT_LT(plan->steps_per_epoch() * 200, 1.3 * static_cast<double>(tokens)) << "micro-batches are nearly full";
}

TEST(TokenPlan, ASentenceBeyondAMicroBatchIsAnError) {
  EXPECT_THAT([&] { make_token_plan(corpus(), 8, {.batch_size = 30}); },
              ThrowsMessage<UserError>(HasSubstr("a micro-batch at most batch_size, 30")));
}

// ---- columns --------------------------------------------------------------------------------------------------------

// The numbers are those of the task's text: mean 70 with probability 0.95, else 35; deviation 5.
TEST(ColumnPlan, DrawsLengthsTheSameForAllRanks) {
  const auto plan = make_column_plan(2'088'628, {.bptt = 70, .deviation = 5, .short_probability = 0.05},
                                     {.workers = 4, .batch_size = 20, .seed = 1});
  std::vector<int64_t> lengths;
  for (int64_t number = 0; number < 10; ++number) {
    const auto epoch = plan->epoch(number);
    int64_t next = 0;
    for (int64_t step = 0; step < plan->steps_in(number); ++step) {
      StepPlan first, last;
      epoch->fill(step, 0, first);
      epoch->fill(step, 3, last);
      ASSERT_EQ(first.pieces.size(), 1U);
      const Piece& piece = first.pieces.front();
      EXPECT_EQ(piece.first, next);
      EXPECT_EQ(piece.continues, step > 0);
      EXPECT_EQ(last.pieces.front().positions, piece.positions);
      EXPECT_EQ(first.rows.front(), 0);
      EXPECT_EQ(last.rows.front(), 60);
      EXPECT_EQ(first.global_weight, 80 * piece.positions);
      EXPECT_EQ(first.divisor, static_cast<double>(80 * piece.positions));
      EXPECT_EQ(first.relative_length, static_cast<double>(piece.positions) / 70);
      next += piece.positions;
      if (step + 1 < plan->steps_in(number)) lengths.push_back(piece.positions);
    }
    EXPECT_EQ(next, 2'088'628 / 80 - 1);
  }
  const auto mean = static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), int64_t{0})) /
                    static_cast<double>(lengths.size());
  EXPECT_NEAR(mean, 0.95 * 70 + 0.05 * 35 - 0.5, 0.7);  // truncated
  const auto shorter = std::ranges::count_if(lengths, [](int64_t length) { return length < 52; });
  EXPECT_NEAR(static_cast<double>(shorter) / static_cast<double>(lengths.size()), 0.05, 0.015);
  EXPECT_GE(*std::ranges::min_element(lengths), 5);
}

TEST(ColumnPlan, WithoutChanceAllAreAlike) {
  const auto plan = make_column_plan(103, {.bptt = 10}, {.batch_size = 2});  // 51 tokens, 50 predictions
  EXPECT_EQ(plan->steps_per_epoch(), 5);
  EXPECT_EQ(plan->samples_per_epoch(), 100);
}

TEST(ColumnPlan, ATextTooShortIsAnError) {
  EXPECT_THAT([&] { make_column_plan(15, {}, {.workers = 2, .batch_size = 4}); },
              ThrowsMessage<UserError>(HasSubstr("15 tokens in 8 columns")));
}

}  // namespace
}  // namespace mlbench::data
