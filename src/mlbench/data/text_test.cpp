// Sentences and columns on their way from the cache to batches.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/data/eval_loader.h"
#include "mlbench/data/sample_source.h"
#include "mlbench/data/test_text.h"
#include "mlbench/data/train_loader.h"
#include "mlbench/data/workload.h"
#include "mlbench/dataset/synthetic.h"
#include "mlbench/spec/task.h"

namespace mlbench::data {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<int64_t> values_of(const BatchView& view, const char* name) {
  const BatchTensor& tensor = view.at(name);
  EXPECT_EQ(tensor.values.dtype, DType::kInt64) << name;
  EXPECT_EQ(tensor.values.count, volume_of(tensor.shape)) << name;
  EXPECT_TRUE(tensor.dense()) << name;
  const auto* first = static_cast<const int64_t*>(tensor.values.data);
  return {first, first + tensor.values.count};
}

// ---- sentences ------------------------------------------------------------------------------------------------------

TEST(SentenceSource, PadsAtTheEndAndFramesTheTarget) {
  const test::Pairs pairs({1, 3, 2}, {2, 1, 4});
  const SentenceSource source(pairs.split(), {});
  BatchView view;
  BatchMemory memory;
  DecodingThreads caller;
  const std::vector<int64_t> rows = {2, 0};
  source.fill({rows, {.count = 2}, 0, caller}, view, memory);
  EXPECT_EQ(view.samples, 2);
  EXPECT_EQ(view.weight, 5 + 3);
  EXPECT_EQ(view.at("source").shape, (std::vector<int64_t>{2, 3}));
  EXPECT_THAT(values_of(view, "source"), ElementsAre(24, 25, 3, /**/ 4, 3, 0));
  EXPECT_EQ(view.at("target_in").shape, (std::vector<int64_t>{2, 5}));
  EXPECT_THAT(values_of(view, "target_in"), ElementsAre(2, 24, 25, 26, 27, /**/ 2, 4, 5, 0, 0));
  EXPECT_THAT(values_of(view, "target_out"), ElementsAre(24, 25, 26, 27, 3, /**/ 4, 5, 3, 0, 0));
  EXPECT_THAT(values_of(view, "source_lengths"), ElementsAre(3, 2));
  EXPECT_THAT(values_of(view, "target_lengths"), ElementsAre(5, 3));

  // The same memory then has the next micro-batch, with another shape.
  source.fill({std::span(rows).last(1), {.count = 1}, 0, caller}, view, memory);
  EXPECT_THAT(values_of(view, "source"), ElementsAre(4, 3));
  EXPECT_THAT(values_of(view, "target_out"), ElementsAre(4, 5, 3));
}

TEST(SentenceSource, PositionsAreAMultiple) {
  const test::Pairs pairs({8, 3}, {2, 7});
  const SentenceSource source(pairs.split(), {.multiple = 8});
  BatchView view;
  BatchMemory memory;
  DecodingThreads caller;
  source.fill({std::vector<int64_t>{0, 1}, {.count = 2}, 0, caller}, view, memory);
  EXPECT_EQ(view.at("source").shape, (std::vector<int64_t>{2, 16}));
  EXPECT_EQ(view.at("target_in").shape, (std::vector<int64_t>{2, 8}));
  EXPECT_THAT(values_of(view, "source_lengths"), ElementsAre(9, 4));
}

TEST(SentenceSource, LeavesOutOrCutsWhatIsTooLong) {
  const test::Pairs pairs({3, 5, 4, 1}, {4, 1, 5, 1});
  const SentenceSource shorter(pairs.split(), {.max_length = 4});
  EXPECT_THAT(shorter.kept(), ElementsAre(0, 3));
  EXPECT_EQ(shorter.length(0), 5);
  EXPECT_EQ(shorter.weight(0), 5);

  const SentenceSource cut(pairs.split(), {.cut_length = 2});
  EXPECT_THAT(cut.kept(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(cut.length(2), 3);
  BatchView view;
  BatchMemory memory;
  DecodingThreads caller;
  cut.fill({std::vector<int64_t>{2}, {.count = 1}, 0, caller}, view, memory);
  EXPECT_THAT(values_of(view, "source"), ElementsAre(24, 25, 3));
  EXPECT_THAT(values_of(view, "target_in"), ElementsAre(2, 24, 25));
}

TEST(SentenceSource, ASplitOfImagesIsAnError) {
  dataset::CachedSplit images;
  images.name = "train";
  const std::vector<uint8_t> pixels(6);
  images.columns = {dataset::FixedColumn{"features", {1, 2, 3}, const_view_of(std::span(pixels))}};
  EXPECT_THAT(
      [&] { SentenceSource(images, {}); },
      ThrowsMessage<UserError>(HasSubstr("split 'train' has no tokens 'source'; it has features (uint8 [1, 2, 3])")));
}

TEST(SentenceEvalLoader, GivesEachPairOnceWithItsNumberWhateverTheNumberOfWorkers) {
  std::vector<int64_t> lengths(53);
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = 1 + static_cast<int64_t>(i * 7 % 11);
  const test::Pairs pairs(lengths, lengths);
  const auto source = std::make_shared<const SentenceSource>(pairs.split(), SentenceOptions{});
  for (int64_t workers = 1; workers <= 5; ++workers) {
    std::vector<int64_t> seen;
    for (int64_t rank = 0; rank < workers; ++rank) {
      const auto loader = make_sentence_eval_loader(source, {workers, rank}, 8);
      for (int pass = 0; pass < 2; ++pass) {
        loader->restart();
        while (const BatchView* view = loader->next()) {
          const std::vector<int64_t> source_lengths = values_of(*view, "source_lengths");
          ASSERT_EQ(loader->records().size(), source_lengths.size());
          for (size_t i = 0; i < source_lengths.size(); ++i) {
            EXPECT_EQ(source_lengths[i], lengths[static_cast<size_t>(loader->records()[i])] + 1);
          }
          EXPECT_LE(*std::ranges::max_element(source_lengths) - *std::ranges::min_element(source_lengths), 2);
          if (pass == 1) seen.insert(seen.end(), loader->records().begin(), loader->records().end());
        }
      }
    }
    std::ranges::sort(seen);
    std::vector<int64_t> all(lengths.size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(seen, all) << workers;
  }
}

// ---- columns --------------------------------------------------------------------------------------------------------

TEST(ColumnSource, GivesPositionsOfColumnsAndTheirSuccessors) {
  const test::Text text(23);  // 4 columns of 5; 3 tokens are left
  const auto source = make_column_source(text.tokens(), 4);
  BatchView view;
  BatchMemory memory;
  DecodingThreads caller;
  source->fill({std::vector<int64_t>{1, 3}, {0, 2, 1, 3, true}, 0, caller}, view, memory);
  EXPECT_EQ(view.samples, 2);
  EXPECT_EQ(view.weight, 6);
  EXPECT_TRUE(view.continues);
  EXPECT_EQ(view.at("tokens").shape, (std::vector<int64_t>{3, 2}));
  EXPECT_THAT(values_of(view, "tokens"), ElementsAre(6, 16, 7, 17, 8, 18));
  EXPECT_THAT(values_of(view, "targets"), ElementsAre(7, 17, 8, 18, 9, 19));
}

TEST(ColumnEvalLoader, PartsTheColumnsAndCarriesTheirState) {
  const test::Text text(103);  // 10 columns of 10: 9 predictions each
  for (int64_t workers = 1; workers <= 12; ++workers) {
    std::vector<int64_t> predicted;
    for (int64_t rank = 0; rank < workers; ++rank) {
      const auto loader = make_column_eval_loader(text.tokens(), 10, 4, {workers, rank});
      for (int pass = 0; pass < 2; ++pass) {
        loader->restart();
        bool first = true;
        while (const BatchView* view = loader->next()) {
          EXPECT_EQ(view->continues, !first);
          first = false;
          const std::vector<int64_t> tokens = values_of(*view, "tokens"), targets = values_of(*view, "targets");
          for (size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(targets[i], tokens[i] + 1);
          if (pass == 1) predicted.insert(predicted.end(), targets.begin(), targets.end());
        }
      }
    }
    std::ranges::sort(predicted);
    std::vector<int64_t> expected;
    for (int64_t i = 0; i < 100; ++i) {
      if (i % 10 != 0) expected.push_back(i);
    }
    EXPECT_EQ(predicted, expected) << workers;
  }
}

// ---- from the task --------------------------------------------------------------------------------------------------

// A data set whose splits "train" and "test" are both `split`.
dataset::PreparedDataset data_set_of(const dataset::CachedSplit& split) {
  std::vector<dataset::CachedSplit> splits(2, split);
  splits[1].name = "test";
  dataset::DatasetDescription description;
  description.fingerprint = "known";
  return {description, nullptr, splits, "made", ""};
}

struct TextCase {
  const char* batching;
  const char* first_tensor;
};

class TextWorkload : public ::testing::TestWithParam<TextCase> {
 protected:
  TextWorkload() {
    std::vector<int64_t> source_lengths(97), target_lengths(97);
    for (size_t i = 0; i < 97; ++i) {
      source_lengths[i] = 1 + static_cast<int64_t>(i * 5 % 13);
      target_lengths[i] = 1 + static_cast<int64_t>(i * 3 % 11);
    }
    const bool columns = std::string(GetParam().batching) == "columns";
    if (columns) {
      text_ = std::make_unique<test::Text>(1003);
    } else {
      pairs_ = std::make_unique<test::Pairs>(source_lengths, target_lengths);
    }
    data_ = std::make_unique<dataset::PreparedDataset>(data_set_of(columns ? text_->split() : pairs_->split()));
    task_.data.batching = GetParam().batching;
    task_.data.bptt = 12;
    task_.data.bptt_deviation = 3;
    task_.data.short_probability = 0.2;
    task_.data.max_length = 12;
    task_.data.length_multiple = 2;
    task_.batch_size = std::string(GetParam().batching) == "tokens" ? 32 : 6;
    task_.global_batch = columns ? 0 : 128;
  }

  std::unique_ptr<test::Text> text_;
  std::unique_ptr<test::Pairs> pairs_;
  std::unique_ptr<dataset::PreparedDataset> data_;
  spec::TaskSpec task_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, TextWorkload,
                         ::testing::Values(TextCase{"columns", "tokens"}, TextCase{"sentences", "source"},
                                           TextCase{"tokens", "source"}),
                         [](const auto& one) { return std::string(one.param.batching); });

// All that a step's batch holds, as numbers.
std::vector<int64_t> content_of(const Batch& batch) {
  std::vector<int64_t> content = {batch.epoch, batch.step_in_epoch, batch.global_samples, batch.global_weight};
  for (const BatchView& part : batch.micro) {
    content.insert(content.end(), {part.samples, part.weight, part.continues ? 1 : 0});
    for (const BatchTensor& tensor : part.tensors) {
      const std::vector<int64_t> values = values_of(part, tensor.name.c_str());
      content.insert(content.end(), values.begin(), values.end());
    }
  }
  return content;
}

TEST_P(TextWorkload, PrefetchesResumesAndWeighsAlike) {
  for (const int64_t workers : {1, 3}) {
    const auto workload = make_workload(task_, *data_, workers, 7);
    const int64_t steps = 2 * workload->plan().steps_per_epoch() + 3;
    std::vector<int64_t> weights(static_cast<size_t>(steps));  // of all ranks
    std::vector<int64_t> global_weights(weights.size());
    for (int64_t rank = 0; rank < workers; ++rank) {
      std::vector<std::vector<int64_t>> contents;
      const auto direct = workload->make_train_loader({.rank = rank, .prefetch = 0});
      for (size_t step = 0; step < weights.size(); ++step) {
        const Batch& batch = direct->next();
        contents.push_back(content_of(batch));
        int64_t weight = 0;
        for (const BatchView& part : batch.micro) {
          EXPECT_EQ(part.tensors.front().name, GetParam().first_tensor);
          weight += part.weight;
        }
        EXPECT_EQ(weight, batch.weight);
        weights[step] += weight;
        global_weights[step] = batch.global_weight;
      }
      for (const int64_t first : {int64_t{0}, int64_t{1}, steps / 2}) {
        const auto ahead = workload->make_train_loader({.rank = rank, .first_step = first, .prefetch = 2});
        for (int64_t step = first; step < steps; ++step) {
          EXPECT_EQ(content_of(ahead->next()), contents[static_cast<size_t>(step)]) << step << " from " << first;
        }
      }
    }
    EXPECT_EQ(weights, global_weights) << workers;
  }
}

TEST_P(TextWorkload, SharesOfTheRanksSumToOneWhateverDividesTheLoss) {
  const bool columns = std::string(GetParam().batching) == "columns";
  for (const std::string_view divisor : spec::kLossDivisors) {
    task_.loss_divisor = columns ? "weight" : divisor;
    const auto workload = make_workload(task_, *data_, 3, 7);
    std::vector<double> shares(static_cast<size_t>(workload->plan().steps_per_epoch()));
    for (int64_t rank = 0; rank < 3; ++rank) {
      const auto loader = workload->make_train_loader({.rank = rank, .prefetch = 0});
      for (double& share : shares) share += loader->next().share();
    }
    EXPECT_THAT(shares, Each(DoubleNear(1, 1e-12))) << divisor;
  }
}

TEST_P(TextWorkload, EvaluatesEverythingOnAnyNumberOfRanks) {
  std::vector<int64_t> weights;
  for (const int64_t workers : {1, 2, 5}) {
    const auto workload = make_workload(task_, *data_, workers, 7);
    int64_t weight = 0;
    for (int64_t rank = 0; rank < workers; ++rank) {
      const auto loader = workload->make_eval_loader({workers, rank});
      while (const BatchView* view = loader->next()) weight += view->weight;
    }
    weights.push_back(weight);
  }
  EXPECT_GT(weights.front(), 500);
  EXPECT_THAT(weights, Each(weights.front()));
}

// All tokens of the tensors called `name` that the ranks' training batches of an epoch hold.
std::set<int64_t> trained_on(const Workload& workload, int64_t workers, const char* name) {
  std::set<int64_t> all;
  for (int64_t rank = 0; rank < workers; ++rank) {
    const auto loader = workload.make_train_loader({.rank = rank, .prefetch = 0});
    for (int64_t step = 0; step < workload.plan().steps_per_epoch(); ++step) {
      for (const BatchView& part : loader->next().micro) {
        const std::vector<int64_t> values = values_of(part, name);
        all.insert(values.begin(), values.end());
      }
    }
  }
  return all;
}

// The numbers of the pairs that the ranks evaluate, and those that they train on in an epoch.
struct UsedPairs {
  std::vector<int64_t> evaluated, trained;
};
UsedPairs pairs_used(const Workload& workload, int64_t workers) {
  UsedPairs used;
  StepPlan plan;
  const auto epoch = workload.plan().epoch(0);
  for (int64_t rank = 0; rank < workers; ++rank) {
    const auto loader = workload.make_eval_loader({workers, rank});
    while (loader->next() != nullptr) {
      used.evaluated.insert(used.evaluated.end(), loader->records().begin(), loader->records().end());
    }
    for (int64_t step = 0; step < workload.plan().steps_per_epoch(); ++step) {
      epoch->fill(step, rank, plan);
      used.trained.insert(used.trained.end(), plan.rows.begin(), plan.rows.end());
    }
  }
  std::ranges::sort(used.evaluated);
  std::ranges::sort(used.trained);
  used.trained.erase(std::unique(used.trained.begin(), used.trained.end()), used.trained.end());
  return used;
}

TEST(TextHoldout, OfATextIsItsEndWhateverTheNumberOfWorkersAndTheSeed) {
  const test::Text text(1003);
  const dataset::PreparedDataset data = data_set_of(text.split());
  spec::TaskSpec task;
  task.data.batching = "columns";
  task.data.bptt = 12;
  task.data.holdout = 0.2;
  task.batch_size = 6;
  constexpr int64_t kTrained = 803;  // the last 200 of 1003 tokens are held out; each token is its own position
  for (const int64_t workers : {1, 2, 3, 5}) {
    for (const uint64_t seed : {1, 2}) {
      const auto workload = make_workload(task, data, workers, seed);
      const int64_t height = kTrained / (6 * workers);
      EXPECT_EQ(workload->plan().samples_per_epoch(), (height - 1) * 6 * workers);
      for (const char* name : {"tokens", "targets"}) {
        const std::set<int64_t> tokens = trained_on(*workload, workers, name);
        EXPECT_EQ(std::ssize(tokens), workload->plan().samples_per_epoch());
        EXPECT_LT(*tokens.rbegin(), kTrained);
      }
      std::set<int64_t> evaluated;
      for (int64_t rank = 0; rank < workers; ++rank) {
        const auto loader = workload->make_eval_loader({workers, rank});
        while (const BatchView* view = loader->next()) {
          const std::vector<int64_t> tokens = values_of(*view, "tokens"), targets = values_of(*view, "targets");
          evaluated.insert(tokens.begin(), tokens.end());
          evaluated.insert(targets.begin(), targets.end());
        }
      }
      EXPECT_EQ(std::ssize(evaluated), 200) << "10 columns of 20";
      EXPECT_EQ(*evaluated.begin(), kTrained);
    }
  }
  EXPECT_THAT([&] { hold_out_end(std::span(text.tokens()).first(4), 0.2); },
              ThrowsMessage<UserError>(HasSubstr("holds out 0 of 4")));
}

// Many of these pairs have the source or the target of another one: sources repeat every 150, targets every 350 pairs.
TEST(TextHoldout, OfPairsIsDrawnAndNoSentenceOfItIsTrainedOn) {
  std::vector<int64_t> source_lengths(400), target_lengths(400);
  for (size_t i = 0; i < 400; ++i) {
    source_lengths[i] = 1 + static_cast<int64_t>(i % 3);
    target_lengths[i] = 1 + static_cast<int64_t>(i % 7);
  }
  const test::Pairs pairs(source_lengths, target_lengths, 504);
  const auto& source = pairs.split().column<dataset::TokenColumn>("source");
  const auto& target = pairs.split().column<dataset::TokenColumn>("target");
  const dataset::PreparedDataset data = data_set_of(pairs.split());
  spec::TaskSpec task;
  task.data.holdout = 0.2;
  task.data.max_length = 4;
  const std::vector<int64_t> drawn = hold_out(400, 0.2).held_out;
  std::vector<int64_t> others;
  int64_t left_out = 0;
  for (int64_t i = 0; i < 400; ++i) {
    const bool repeats = std::ranges::any_of(drawn, [&](int64_t held) {
      return std::ranges::equal(source.record(i), source.record(held)) ||
             std::ranges::equal(target.record(i), target.record(held));
    });
    left_out += repeats && !std::ranges::binary_search(drawn, i) ? 1 : 0;
    if (!repeats && target.length(i) <= 4) others.push_back(i);
  }
  EXPECT_GT(left_out, 20);
  EXPECT_GT(others.size(), 50U);
  for (const char* batching : {"sentences", "tokens"}) {
    task.data.batching = batching;
    task.batch_size = batching == std::string("tokens") ? 32 : 6;
    task.global_batch = 128;
    for (const int64_t workers : {1, 2, 3, 5}) {
      for (const uint64_t seed : {1, 2}) {
        SCOPED_TRACE(fmt::format("{} on {} workers with seed {}", batching, workers, seed));
        const auto workload = make_workload(task, data, workers, seed);
        const UsedPairs used = pairs_used(*workload, workers);
        EXPECT_EQ(used.evaluated, drawn);
        EXPECT_EQ(used.trained, others);
        EXPECT_EQ(workload->plan().samples_per_epoch(), std::ssize(others));
      }
    }
  }
}

TEST(TextHoldout, ThatLeavesNothingToTrainOnIsAnError) {
  const std::vector<int64_t> lengths(20, 3);
  const test::Pairs pairs(lengths, lengths, 14);  // all alike
  const dataset::PreparedDataset data = data_set_of(pairs.split());
  spec::TaskSpec task;
  task.data.batching = "sentences";
  task.data.holdout = 0.2;
  task.batch_size = 4;
  EXPECT_THAT([&] { make_workload(task, data, 1, 0); }, ThrowsMessage<UserError>(HasSubstr("data.holdout")));
}

// Rows of one global step, in the order of their numbers.
std::vector<int64_t> rows_of_step(const Workload& workload, int64_t workers, int64_t step) {
  std::vector<int64_t> rows;
  StepPlan plan;
  const auto epoch = workload.plan().epoch(0);
  for (int64_t rank = 0; rank < workers; ++rank) {
    epoch->fill(step, rank, plan);
    rows.insert(rows.end(), plan.rows.begin(), plan.rows.end());
  }
  std::ranges::sort(rows);
  return rows;
}

TEST(Workload, MadePairsMakeTheSameStepsOnAnyNumberOfRanks) {
  for (const auto& [name, batch, global_batch] : {std::tuple{"4a", 16, 64}, {"4b", 1024, 4096}}) {
    spec::TaskSpec task = spec::find_task(name, "", "", {}).task;
    task.batch_size = batch;
    task.global_batch = global_batch;
    dataset::DatasetDescription description = dataset::find_description(task.data.name);
    for (dataset::SplitSpec& split : description.splits) split.samples = 2000;
    const TemporaryFolder cache;
    const dataset::PreparedDataset data = dataset::make_synthetic(description, cache.path());
    const auto one = make_workload(task, data, 1, 42), two = make_workload(task, data, 2, 42);
    ASSERT_EQ(one->plan().steps_per_epoch(), two->plan().steps_per_epoch()) << name;
    EXPECT_GT(one->plan().steps_per_epoch(), 5) << name;
    for (int64_t step = 0; step < one->plan().steps_per_epoch(); ++step) {
      const std::vector<int64_t> rows = rows_of_step(*one, 1, step);
      EXPECT_FALSE(rows.empty()) << name << " step " << step;
      EXPECT_EQ(rows_of_step(*two, 2, step), rows) << name << " step " << step;
    }
  }
}

TEST(Workload, OfADataSetThatDoesNotFitIsAnError) {
  const test::Text text(100);
  const dataset::PreparedDataset data = data_set_of(text.split());
  spec::TaskSpec task;
  task.data.batching = "sentences";
  EXPECT_THAT([&] { make_workload(task, data, 1, 0); },
              ThrowsMessage<UserError>(HasSubstr("split 'train' has no tokens 'source'; it has tokens")));
}

}  // namespace
}  // namespace mlbench::data
