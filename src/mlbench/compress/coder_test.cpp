#include "mlbench/compress/coder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "mlbench/base/errors.h"
#include "mlbench/base/test_layout.h"
#include "mlbench/compress/identity.h"
#include "mlbench/compress/test_gradients.h"
#include "mlbench/compress/toy_coders_test.h"

namespace mlbench::compress {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// ---- what holds for every row of the table: a coder that is added gets these tests by a case ------------------------

struct Case {
  std::string coder;
  Json options;
  MakeCoder toy = {};  // what is in no table
};

std::vector<Case> cases() {
  return {
      {"none", Json::object()},
      {"half", {{"type", "bfloat16"}}},
      {"half", {{"type", "float16"}, {"error_feedback", true}}},
      {"top_k", {{"share", 0.1}}},
      {"top_k", {{"share", 0.1}, {"error_decay", 0.5}}},
      {"top_k", {{"share", 0.5}, {"error_feedback", false}}},
      {"top_k", {{"share", 0.1}, {"chunk", 16}}},
      {"top_k", {{"share", 0.1}, {"chunk", 64}, {"bits", 2}, {"error_decay", 0.5}}},
      {"top_k", {{"share", 0.2}, {"bits", 2}}},
      {"top_k", {{"share", 0.5}, {"chunk", 1}, {"bits", 8}, {"error_feedback", false}}},
      {"threshold", {{"threshold", 1}}},
      {"threshold", {{"threshold", 1}, {"error_feedback", false}}},
      {"nonzero", Json::object()},
      {"ef21", {{"share", 0.1}}},
      {"deep_gradient", {{"share", 0.1}}},
      {"deep_gradient", {{"share", 0.05}, {"coder_nesterov", true}, {"coder_clip", 1}, {"coder_warmup_steps", 3}}},
      {"random_k", {{"share", 0.3}}},
      {"random_k", {{"share", 0.3}, {"error_feedback", false}}},
      {"random_block", {{"share", 0.3}}},
      {"sign_vote", Json::object()},
      {"ef_sign", Json::object()},
      {"one_bit", Json::object()},
      {"qsgd", Json::object()},
      {"qsgd", {{"bits", 7}, {"bucket", 100}, {"norm", "euclidean"}}},
      {"qsgd", {{"coding", "elias"}}},
      {"qsgd", {{"coding", "elias"}, {"bits", 8}, {"bucket", 100}, {"norm", "euclidean"}}},
      {"terngrad", Json::object()},
      {"terngrad", {{"clip_sigma", 0}}},
      {"natural", Json::object()},
      {"int8", Json::object()},
      {"int8", {{"error_feedback", false}}},
      {"fp8", Json::object()},
      {"fp8", {{"type", "e5m2"}}},
      {"fp4", Json::object()},
      {"fp4", {{"error_feedback", true}}},
      {"power_sgd", {{"min_compression", 1}}},
      {"power_sgd", {{"rank", 2}, {"min_compression", 1}, {"warm_start", false}, {"compression_start", 1}}},
      {"power_sgd", {{"batched", true}}},
      {"power_sgd", {{"batched", true}, {"rank", 3}, {"warm_start", false}, {"compression_start", 1}}},
      {"power_sgd", {{"batched", true}, {"rank", 2}, {"error_feedback", false}}},
      {"acp_sgd", {{"min_compression", 1}}},
      {"acp_sgd", {{"rank", 2}, {"min_compression", 1}, {"compression_start", 1}}},
      {"acp_sgd", {{"min_compression", 1}, {"error_feedback", false}}},
      {"error memory", {}, [](const CoderContext& context) { return std::make_unique<ErrorMemoryCoder>(context); }}};
}

std::unique_ptr<GradientCoder> make(const Case& test, const FlatLayout& layout, int rank = 0, int size = 1) {
  const CoderContext context{layout, 42, rank, size};
  if (test.toy) return test.toy(context);
  OptionReader options("coder '" + test.coder + "'", test.options);
  const MakeCoder make_coder = read_coder(test.coder, options);
  options.finish();
  return make_coder(context);
}

// A layer without parameters, and a tensor without elements, are nothing special.
const std::vector<std::vector<int64_t>> kLayouts = {{1}, {16, 32}, {3, 10}, {5, 1, 17, 1003}, {}, {0}, {3, 0, 10}};

// Vectors, and a matrix of 6 x 20, which some coders treat otherwise.
FlatLayout layout_with_matrix() {
  FlatLayout layout = layout_with_buffer({5, 120, 3});
  layout.ranges[1].shape = {6, 4, 5};
  return layout;
}

class EveryCoder : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Table, EveryCoder, testing::ValuesIn(cases()), [](const auto& info) {
  std::string name = info.param.coder + "_" + std::to_string(info.index);
  std::ranges::replace(name, ' ', '_');
  return name;
});

TEST(Coders, EveryRowHasACase) {
  std::set<std::string> tested;
  for (const Case& test : cases()) tested.insert(test.coder);
  for (const Json& row : list_coders()) EXPECT_TRUE(tested.contains(row["name"].get<std::string>())) << row;
}

using Ranks = std::vector<std::unique_ptr<GradientCoder>>;

Ranks make_ranks(const Case& test, const FlatLayout& layout, int size) {
  Ranks ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(make(test, layout, rank, size));
  return ranks;
}

// What a transport hands to each rank; the payloads are those of all.
std::vector<at::Tensor> combined(const std::vector<Payload>& payloads) {
  std::vector<at::Tensor> all;
  for (const Payload& payload : payloads) all.push_back(payload.data.clone());
  if (payloads.front().kind == PayloadKind::kGather) return all;
  for (size_t rank = 1; rank < all.size(); ++rank) all[0] += all[rank];
  return {all[0]};
}

// One step of all ranks as a transport drives it: what each has afterwards.
std::vector<at::Tensor> aggregate(Ranks& ranks, const FlatLayout& layout, int step) {
  std::vector<at::Tensor> gradients;
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
    gradients.push_back(drawn_for(layout, rank, step));
  }
  for (const auto& rank : ranks) rank->begin({.step = step, .lr = 0.1, .share = 1 / static_cast<double>(ranks.size())});
  std::vector<uint64_t> bytes(ranks.size());
  for (int round = 0; round < ranks.front()->rounds(); ++round) {
    std::vector<Payload> payloads;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      payloads.push_back(ranks[rank]->encode(round, gradients[rank]));
      const Payload& payload = payloads.back();
      bytes[rank] += payload.bytes;
      EXPECT_TRUE(payload.data.is_contiguous());
      EXPECT_EQ(payload.kind, payloads.front().kind);
      EXPECT_EQ(payload.uneven, payloads.front().uneven);
      EXPECT_EQ(payload.data.scalar_type(), payloads.front().data.scalar_type());
      EXPECT_LE(payload.bytes, payload.data.nbytes());
      EXPECT_FALSE(payload.uneven && ranks[rank]->one_collective()) << "lengths are exchanged first";
      if (!payload.uneven) {
        EXPECT_EQ(payload.data.sizes(), payloads.front().data.sizes());
      }
    }
    const std::vector<at::Tensor> results = combined(payloads);
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      std::vector<at::Tensor> own = results;
      if (payloads[rank].kind == PayloadKind::kSum) own = {payloads[rank].data.copy_(results[0])};  // in place
      ranks[rank]->absorb(round, own, gradients[rank]);
    }
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    EXPECT_EQ(bytes[rank], ranks[rank]->bytes_per_step().value_or(bytes[rank]));
  }
  return gradients;
}

TEST_P(EveryCoder, GivesEveryRankTheSameBitsAndTheSumWhereItIsExact) {
  for (const auto& counts : kLayouts) {
    const FlatLayout layout = layout_with_buffer(counts);
    for (const int size : {1, 2, 3, 5}) {
      SCOPED_TRACE(fmt::format("tensors of [{}], {} ranks", fmt::join(counts, ", "), size));
      Ranks ranks = make_ranks(GetParam(), layout, size);
      for (int step = 0; step < 3; ++step) {
        at::Tensor sum = drawn_for(layout, 0, step);
        for (int rank = 1; rank < size; ++rank) sum += drawn_for(layout, rank, step);
        const auto results = aggregate(ranks, layout, step);
        for (const at::Tensor& result : results) {
          EXPECT_TRUE(same_bits(result, results.front())) << "ranks would part";
          if (ranks.front()->exact()) {
            EXPECT_TRUE(same_bits(result, sum));
          }
        }
      }
    }
  }
}

// From what each rank's coder holds for itself, put into another of the same rank.
TEST_P(EveryCoder, ResumesIdentically) {
  for (const std::vector<int64_t>& counts : {std::vector<int64_t>{5, 1, 17, 1003}, {}, {3, 0, 10}}) {
    SCOPED_TRACE(fmt::format("tensors of [{}]", fmt::join(counts, ", ")));
    const FlatLayout layout = layout_with_buffer(counts);
    Ranks whole = make_ranks(GetParam(), layout, 2);
    Ranks parts = make_ranks(GetParam(), layout, 2);
    for (int step = 0; step < 6; ++step) {
      if (step == 0 || step == 3) {  // before the first step, too
        for (int rank = 0; rank < 2; ++rank) {
          NamedState state;
          parts[static_cast<size_t>(rank)]->export_state(state);
          for (const auto& [name, tensor] : state.tensors) EXPECT_TRUE(name.starts_with("coder/")) << name;
          for (const auto& [name, scalar] : state.scalars) EXPECT_TRUE(name.starts_with("coder/")) << name;
          parts[static_cast<size_t>(rank)] = make(GetParam(), layout, rank, 2);
          parts[static_cast<size_t>(rank)]->import_state(state);
        }
      }
      const auto expected = aggregate(whole, layout, step);
      const auto resumed = aggregate(parts, layout, step);
      for (size_t rank = 0; rank < 2; ++rank) EXPECT_TRUE(same_bits(resumed[rank], expected[rank])) << "step " << step;
    }
  }
}

// What a coder kept, where the gradient has it; undefined where it keeps nothing. A coder that has tensors back to back
// keeps them so.
at::Tensor error_of(const GradientCoder& coder, const FlatLayout& layout, bool back_to_back) {
  NamedState state;
  coder.export_state(state);
  const auto found = state.tensors.find("coder/error");
  if (found == state.tensors.end()) return {};
  at::Tensor stored = at::empty(found->second.shape), error = at::zeros({layout.parameter_elements});
  std::memcpy(stored.data_ptr<float>(), found->second.bytes.data(), found->second.bytes.size());
  if (!back_to_back) return stored;
  int64_t done = 0;
  for (const FlatRange& range : layout.ranges) {
    if (!range.trainable) continue;
    error.narrow(0, range.offset, range.count).copy_(stored.narrow(0, done, range.count));
    done += range.count;
  }
  return error;
}

// What came out so far, what is kept, and what of it has faded, are together the gradients so far; of one rank, and of
// the sum of three.
TEST_P(EveryCoder, LosesNothingWhereItKeepsAnError) {
  const FlatLayout layout = layout_with_matrix();
  const Json& options = GetParam().options;
  const double faded_share = options.contains("error_decay") ? 1 - options["error_decay"].get<double>() : 0;
  const bool batched = options.contains("batched");
  for (const int size : {1, 3}) {
    if (size > 1 && GetParam().coder == "half") return;  // its sums are rounded, too
    Ranks ranks = make_ranks(GetParam(), layout, size);
    if (!error_of(*ranks.front(), layout, batched).defined()) return;
    at::Tensor given = at::zeros({layout.parameter_elements}), received = given.clone();
    at::Tensor kept = given.clone(), faded = given.clone();
    for (int step = 0; step < 8; ++step) {
      for (int rank = 0; rank < size; ++rank) given += drawn_for(layout, rank, step);
      faded += kept * faded_share;
      received += aggregate(ranks, layout, step).front();
      kept.zero_();
      for (const auto& rank : ranks) kept += error_of(*rank, layout, batched);
      EXPECT_LT((given - received - kept - faded).abs().max().item<float>(),
                1e-5 * (1 + given.abs().max().item<float>()))
          << size << " ranks, step " << step;
    }
  }
}

TEST_P(EveryCoder, KeepsMatricesWithinTheContract) {
  const FlatLayout layout = layout_with_matrix();
  Ranks ranks = make_ranks(GetParam(), layout, 2);
  for (int step = 0; step < 3; ++step) {
    const auto results = aggregate(ranks, layout, step);
    EXPECT_TRUE(same_bits(results[0], results[1])) << "step " << step;
    for (const auto& [offset, count] : {std::pair{5, 11}, {136, 8}, {147, 13}}) {
      EXPECT_TRUE(at::equal(results[0].narrow(0, offset, count), at::zeros({count}))) << "padding";
    }
  }
}

// The mean over many draws is that: within 4 standard errors of each element.
void expect_mean_of_draws(GradientCoder& coder, const at::Tensor& gradient, const at::Tensor& expected) {
  constexpr int kDraws = 10000;
  at::Tensor sum = at::zeros(gradient.sizes(), at::kDouble), squares = sum.clone();
  for (int draw = 0; draw < kDraws; ++draw) {
    coder.begin({.step = draw});
    at::Tensor out = gradient.clone();
    const Payload payload = coder.encode(0, out);
    coder.absorb(0, std::span(&payload.data, 1), out);
    sum += out;
    squares += out.to(at::kDouble).square();
  }
  const at::Tensor mean = sum / kDraws;
  const at::Tensor deviation = (squares / kDraws - mean.square()).clamp_min(0).sqrt();
  const at::Tensor allowed = deviation * 4 / std::sqrt(static_cast<double>(kDraws)) + 1e-6;
  EXPECT_TRUE(((mean - expected).abs() <= allowed).all().item<bool>()) << (mean - expected).abs() / allowed;
}

TEST(Coders, ThoseThatDrawHaveNoBias) {
  const FlatLayout layout = layout_with_buffer({20});
  const at::Tensor gradient = drawn_for(layout, 0, 0);
  const Case unbiased[] = {{"qsgd", {{"bits", 3}, {"bucket", 7}}},
                           {"qsgd", {{"bits", 2}, {"norm", "euclidean"}}},
                           {"qsgd", {{"bits", 3}, {"bucket", 7}, {"coding", "elias"}}},
                           {"terngrad", {{"clip_sigma", 0}}},
                           {"natural", Json::object()},
                           {"random_k", {{"share", 0.2}, {"error_feedback", false}}},
                           {"random_block", {{"share", 0.2}, {"error_feedback", false}}}};
  for (const Case& test : unbiased) {
    SCOPED_TRACE(test.coder + " " + test.options.dump());
    expect_mean_of_draws(*make(test, layout), gradient, gradient);
  }
}

// Two tensors have deviations of their own.
TEST(Coders, TernGradHasNoBiasBesideItsClipping) {
  const FlatLayout layout = layout_with_buffer({20, 9});
  at::Tensor gradient = drawn_for(layout, 0, 0);
  at::Tensor expected = gradient.clone();
  gradient.narrow(0, 32, 9).mul_(100).add_(20);
  for (const auto& [first, count] : {std::pair{0, 20}, {32, 9}}) {
    const double bound = at::std(gradient.narrow(0, first, count).to(at::kDouble), false).item<double>();
    expected.narrow(0, first, count).copy_(gradient.narrow(0, first, count).clamp(-bound, bound));
  }
  EXPECT_GT((gradient != expected).sum().item<int64_t>(), 5) << "some are clipped";
  expect_mean_of_draws(*make({"terngrad", {{"clip_sigma", 1}}}, layout), gradient, expected);
}

TEST_P(EveryCoder, SaysItsName) {
  const auto coder = make(GetParam(), layout_with_buffer({3}));
  EXPECT_EQ(coder->name(), GetParam().coder);
  EXPECT_GE(coder->rounds(), 1);
}

// ---- each by itself ------------------------------------------------------------------------------------------------

TEST(IdentityCoder, SharesTheGradientsMemory) {
  const FlatLayout layout = layout_with_buffer({3, 10});
  IdentityCoder coder(layout);
  EXPECT_EQ(coder.bytes_per_step(), 13 * sizeof(float));
  at::Tensor gradient = at::ones({32});
  const Payload payload = coder.encode(0, gradient);
  EXPECT_EQ(payload.kind, PayloadKind::kSum);
  EXPECT_EQ(payload.data.data_ptr(), gradient.data_ptr());
  payload.data.mul_(3);
  coder.absorb(0, std::span(&payload.data, 1), gradient);
  EXPECT_TRUE(at::equal(gradient, at::full({32}, 3.0F)));
  const at::Tensor elsewhere = at::full({32}, 5.0F);
  coder.absorb(0, std::span(&elsewhere, 1), gradient);
  EXPECT_TRUE(at::equal(gradient, elsewhere));
}

// One parameter, two ranks. Rank 0 has a quarter each time and sends every other time; rank 1 has 1.1 and sends 4, 5, 4
// quarters, as its memory has 0.1, -0.05 and 0.05 then.
TEST(ErrorMemoryCoder, ThreeStepsComputedByHand) {
  const FlatLayout layout = layout_with_buffer({1});
  std::vector<std::unique_ptr<ErrorMemoryCoder>> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.push_back(std::make_unique<ErrorMemoryCoder>(CoderContext{layout, 1, rank}));
  const float sent[3][2] = {{0, 1}, {0.5, 1.25}, {0, 1}};
  const float left[3][2] = {{0.25, 0.1F}, {0, -0.05F}, {0.25, 0.05F}};
  for (int step = 0; step < 3; ++step) {
    std::vector<at::Tensor> payloads;
    for (size_t rank = 0; rank < 2; ++rank) {
      at::Tensor gradient = at::zeros({16});
      gradient[0] = rank == 0 ? 0.25 : 1.1;
      payloads.push_back(ranks[rank]->encode(0, gradient).data);
      EXPECT_EQ(payloads.back().numel(), sent[step][rank] == 0 ? 0 : 2);
      EXPECT_NEAR(ranks[rank]->error()[0].item<float>(), left[step][rank], 1e-6);
    }
    at::Tensor gradient = at::ones({16});
    ranks[0]->absorb(0, payloads, gradient);
    EXPECT_EQ(gradient[0].item<float>(), sent[step][0] + sent[step][1]);
    EXPECT_EQ(gradient.sum().item<float>(), sent[step][0] + sent[step][1]);
  }
}

TEST(Coders, PowerSgdBatchedIsAlwaysCompressed) {
  const Case given{"power_sgd", {{"batched", true}, {"min_compression", 1}}};
  EXPECT_THAT([&] { make(given, layout_with_buffer({3})); }, ThrowsMessage<UserError>(HasSubstr("always compresses")));
}

TEST(Coders, UnknownNameListsTheValidOnes) {
  const Json none = Json::object();
  OptionReader options("optimizer 'o'", none);
  EXPECT_THAT([&] { read_coder("topk", options); },
              ThrowsMessage<UserError>(HasSubstr("unknown compression 'topk': did you mean 'top_k'? valid: none, ")));
}

}  // namespace
}  // namespace mlbench::compress
