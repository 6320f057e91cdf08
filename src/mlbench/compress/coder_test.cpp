#include "mlbench/compress/coder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"

namespace mlbench::compress {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Tensors of so many elements, each at a multiple of 64 bytes, and a buffer that is none of the gradient's business.
FlatLayout layout_of(const std::vector<int64_t>& counts) {
  FlatLayout layout;
  for (const int64_t count : counts) {
    layout.ranges.push_back(
        {fmt::format("t{}", layout.ranges.size()), {count}, layout.parameter_elements, count, true});
    layout.parameter_elements += (count + 15) / 16 * 16;
  }
  layout.ranges.push_back({"mean", {7}, 0, 7, false});
  layout.buffer_elements = 16;
  return layout;
}

// ---- what holds for every row of the table: a coder that is added gets these tests by a case ------------------------

struct Case {
  std::string coder;
  bool exact;                             // the sum to the bit
  uint64_t (*bytes)(int64_t parameters);  // that its header promises: of a rank and step, without padding
};

std::vector<Case> cases() {
  return {{"none", true, [](int64_t parameters) { return static_cast<uint64_t>(4 * parameters); }}};
}

const std::vector<std::vector<int64_t>> kLayouts = {{1}, {16, 32}, {3, 10}, {5, 1, 17, 1003}};

class EveryCoder : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Table, EveryCoder, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.coder; });

TEST(Coders, EveryRowHasACase) {
  std::set<std::string> tested;
  for (const Case& test : cases()) tested.insert(test.coder);
  for (const std::string& name : coder_names()) EXPECT_EQ(tested.count(name), 1U) << name;
}

at::Tensor gradient_of(const FlatLayout& layout, int rank, int step) {
  RandomSequence random(static_cast<uint64_t>(100 * rank + step));
  at::Tensor gradient = at::zeros({layout.parameter_elements});
  for (const FlatRange& range : layout.ranges) {
    if (!range.trainable) continue;
    for (int64_t i = 0; i < range.count; ++i) {
      gradient.data_ptr<float>()[range.offset + i] = static_cast<float>(random.normal());
    }
  }
  return gradient;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == b.numel() &&
         std::memcmp(a.data_ptr<float>(), b.data_ptr<float>(), static_cast<size_t>(a.numel()) * sizeof(float)) == 0;
}

using Ranks = std::vector<std::unique_ptr<GradientCoder>>;

Ranks make_ranks(const std::string& name, const FlatLayout& layout, int size) {
  Ranks ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(make_coder(name, layout));
  return ranks;
}

// One step of all ranks as a transport drives it: what each has afterwards. `bytes` of each.
std::vector<at::Tensor> aggregate(Ranks& ranks, const FlatLayout& layout, int step, uint64_t& bytes) {
  std::vector<at::Tensor> gradients;
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
    gradients.push_back(gradient_of(layout, rank, step));
  }
  bytes = 0;
  for (int round = 0; round < ranks.front()->rounds(); ++round) {
    std::vector<Payload> payloads;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      payloads.push_back(ranks[rank]->encode(round, gradients[rank]));
      EXPECT_TRUE(payloads.back().data.is_contiguous());
      EXPECT_EQ(payloads.back().kind, payloads.front().kind);
      EXPECT_EQ(payloads.back().bytes, payloads.front().bytes);
      EXPECT_EQ(payloads.back().data.sizes(), payloads.front().data.sizes());
    }
    bytes += payloads.front().bytes;
    const bool sums = payloads.front().kind == PayloadKind::kSum;
    at::Tensor combined = payloads.front().data.clone();
    std::vector<at::Tensor> rows;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (sums && rank > 0) combined += payloads[rank].data;
      rows.push_back(payloads[rank].data.clone());
    }
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (sums) payloads[rank].data.copy_(combined);  // in place, as a transport does
      ranks[rank]->absorb(round, sums ? payloads[rank].data : at::stack(rows), gradients[rank]);
    }
  }
  return gradients;
}

TEST_P(EveryCoder, GivesEveryRankTheSameSum) {
  for (const auto& counts : kLayouts) {
    const FlatLayout layout = layout_of(counts);
    for (const int size : {1, 2, 3, 5}) {
      SCOPED_TRACE(fmt::format("{} tensors, {} ranks", counts.size(), size));
      Ranks ranks = make_ranks(GetParam().coder, layout, size);
      for (int step = 0; step < 3; ++step) {
        at::Tensor sum = gradient_of(layout, 0, step);
        for (int rank = 1; rank < size; ++rank) sum += gradient_of(layout, rank, step);
        uint64_t bytes = 0;
        const auto results = aggregate(ranks, layout, step, bytes);
        EXPECT_EQ(bytes, GetParam().bytes(layout.parameter_count()));
        for (const at::Tensor& result : results) {
          EXPECT_TRUE(same_bits(result, results.front())) << "ranks would part";
          if (GetParam().exact) {
            EXPECT_TRUE(same_bits(result, sum));
          }
        }
      }
    }
  }
}

TEST_P(EveryCoder, ResumesIdentically) {
  const FlatLayout layout = layout_of({5, 1, 17, 1003});
  Ranks whole = make_ranks(GetParam().coder, layout, 2);
  Ranks parts = make_ranks(GetParam().coder, layout, 2);
  uint64_t bytes = 0;
  for (int step = 0; step < 6; ++step) {
    if (step == 0 || step == 3) {  // before the first step, too
      for (auto& coder : parts) {
        NamedState state;
        coder->export_state(state);
        coder = make_coder(GetParam().coder, layout);
        coder->import_state(state);
      }
    }
    const auto expected = aggregate(whole, layout, step, bytes);
    const auto resumed = aggregate(parts, layout, step, bytes);
    for (size_t rank = 0; rank < 2; ++rank) EXPECT_TRUE(same_bits(resumed[rank], expected[rank])) << "step " << step;
  }
}

TEST_P(EveryCoder, SaysItsName) {
  const auto coder = make_coder(GetParam().coder, layout_of({3}));
  EXPECT_EQ(coder->name(), GetParam().coder);
  EXPECT_GE(coder->rounds(), 1);
}

// ---- each by itself ------------------------------------------------------------------------------------------------

TEST(IdentityCoder, SharesTheGradientsMemory) {
  const FlatLayout layout = layout_of({3, 10});
  const auto coder = make_coder("none", layout);
  at::Tensor gradient = at::ones({32});
  const Payload payload = coder->encode(0, gradient);
  EXPECT_EQ(payload.kind, PayloadKind::kSum);
  EXPECT_EQ(payload.data.data_ptr(), gradient.data_ptr());
  payload.data.mul_(3);
  coder->absorb(0, payload.data, gradient);
  EXPECT_TRUE(at::equal(gradient, at::full({32}, 3.0F)));
  coder->absorb(0, at::full({32}, 5.0F), gradient);
  EXPECT_TRUE(at::equal(gradient, at::full({32}, 5.0F))) << "a result that came elsewhere";
}

TEST(Coders, UnknownNameListsTheValidOnes) {
  EXPECT_THAT([] { make_coder("qsgd", layout_of({3})); },
              ThrowsMessage<UserError>(HasSubstr("unknown compression 'qsgd'; valid: none")));
}

}  // namespace
}  // namespace mlbench::compress
