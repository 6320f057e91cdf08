// Coders against PyTorch's communication hooks, or NumPy where it has none: 50 steps of several ranks from one state.
// coder_oracle.py and coder_paper_oracle.py are run at test time by a Python that has its own PyTorch.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/base/test_layout.h"
#include "mlbench/compress/coder.h"
#include "mlbench/compress/test_gradients.h"
#include "tests/golden/oracle.h"

namespace mlbench {
namespace {

constexpr int kRanks = 2;
constexpr int kCoderSteps = 50;
constexpr int64_t kVector = 4;

struct CoderCase {
  const char* hook;
  std::vector<int64_t> shape;  // of a matrix, or of a convolution
  int64_t rank;
  std::string coder;
  Json options;
};

std::vector<CoderCase> coder_cases() {
  const auto power = [](int64_t rank) { return Json{{"rank", rank}, {"min_compression", 1}}; };
  const auto batched = [](std::vector<int64_t> shape, int64_t rank) {
    return CoderCase{"batched_power_sgd", std::move(shape), rank, "power_sgd", {{"rank", rank}, {"batched", true}}};
  };
  return {{"power_sgd", {8, 6}, 1, "power_sgd", power(1)},
          {"power_sgd", {8, 6}, 2, "power_sgd", power(2)},
          {"power_sgd", {16, 3, 3, 3}, 4, "power_sgd", power(4)},
          {"acp_sgd", {8, 6}, 1, "acp_sgd", power(1)},
          {"acp_sgd", {16, 3, 3, 3}, 4, "acp_sgd", power(4)},
          {"fp16", {8, 6}, 0, "half", {{"type", "float16"}}},
          batched({8, 6}, 1),
          batched({5, 9}, 2),
          batched({16, 3, 3, 3}, 4)};
}

int64_t elements_of(const CoderCase& test) {
  int64_t count = 1;
  for (const int64_t extent : test.shape) count *= extent;
  return count;
}

// The gradient of one step and rank: matrix, then vector.
std::vector<float> gradient_of(const CoderCase& test, int step, int rank) {
  return golden::drawn(elements_of(test) + kVector, static_cast<uint64_t>(kRanks * step + rank));
}
// The first Q: columns x rank; batched, those of the square that holds matrix and vector.
std::vector<float> first_q(const CoderCase& test) {
  int64_t columns = elements_of(test) / test.shape[0];
  if (test.options.contains("batched")) {
    for (columns = 1; columns * columns < elements_of(test) + kVector;) ++columns;
  }
  return golden::drawn(columns * test.rank, 12345);
}

Json ask_oracles() {
  Json given = {{"cases", Json::array()}};
  for (const CoderCase& test : coder_cases()) {
    Json gradients = Json::array();
    for (int step = 0; step < kCoderSteps; ++step) {
      gradients.push_back({gradient_of(test, step, 0), gradient_of(test, step, 1)});
    }
    given["cases"].push_back({{"hook", test.hook},
                              {"shape", test.shape},
                              {"vector", kVector},
                              {"rank", test.rank},
                              {"q", first_q(test)},
                              {"gradients", gradients}});
  }
  return golden::answer_of("coder_oracle.py", given);
}

std::unique_ptr<compress::GradientCoder> make(const CoderCase& test, const FlatLayout& layout, int rank) {
  OptionReader options("coder", test.options);
  auto coder = compress::read_coder(test.coder, options)({layout, 42, rank, kRanks});
  if (test.rank == 0) return coder;
  NamedState state;
  coder->export_state(state);
  const std::vector<float> q = first_q(test);
  EXPECT_EQ(state.tensor("coder/q").bytes.size(), q.size() * sizeof(float));
  std::memcpy(state.tensors["coder/q"].bytes.data(), q.data(), q.size() * sizeof(float));
  state.scalars["coder/steps"] = int64_t{2};  // in its first step a coder draws Q
  coder->import_state(state);
  return coder;
}

double norm_of(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

double distance(std::vector<double> a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b.at(i);
  return norm_of(a);
}

using CoderGolden = golden::OracleTest;

TEST_F(CoderGolden, FiftyStepsAreAsExactAsThoseOfTheOracles) {
  const Json golden = ask_oracles();
  ASSERT_EQ(golden.size(), coder_cases().size());
  for (size_t number = 0; number < coder_cases().size(); ++number) {
    const CoderCase test = coder_cases()[number];
    SCOPED_TRACE(fmt::format("{} of rank {}", test.hook, test.rank));
    const int64_t matrix = elements_of(test);
    const FlatLayout layout{
        .ranges = {{"matrix", test.shape, 0, matrix, true}, {"vector", {kVector}, matrix, kVector, true}},
        .parameter_elements = matrix + kVector};
    std::vector<std::unique_ptr<compress::GradientCoder>> coders;
    for (int rank = 0; rank < kRanks; ++rank) coders.push_back(make(test, layout, rank));
    double peers_worst = 0;
    for (int step = 0; step < kCoderSteps; ++step) {
      std::vector<at::Tensor> gradients;
      for (int rank = 0; rank < kRanks; ++rank) {
        coders[static_cast<size_t>(rank)]->begin({.step = step, .share = 1.0 / kRanks});
        gradients.push_back(at::tensor(gradient_of(test, step, rank)).div_(kRanks));
      }
      for (int round = 0; round < coders.front()->rounds(); ++round) {
        const auto one = coders[0]->encode(round, gradients[0]), other = coders[1]->encode(round, gradients[1]);
        const at::Tensor sum = one.data + other.data;
        for (size_t rank = 0; rank < kRanks; ++rank) coders[rank]->absorb(round, std::span(&sum, 1), gradients[rank]);
      }
      const auto of_step = [&](const char* type) {
        return golden[number][type][static_cast<size_t>(step)].get<std::vector<double>>();
      };
      const std::vector<double> single = of_step("float32"), exact = of_step("float64");
      ASSERT_EQ(exact.size(), static_cast<size_t>(matrix + kVector));
      const float* ours = gradients[0].const_data_ptr<float>();
      if (test.rank == 0) {
        for (size_t i = 0; i < single.size(); ++i) ASSERT_EQ(ours[i], static_cast<float>(single[i])) << "step " << step;
        continue;
      }
      // Error feedback amplifies what rounding did in earlier steps, on both sides by some random factor.
      peers_worst = std::max({peers_worst, distance(single, exact), 1e-6 * norm_of(exact)});
      ASSERT_LE(distance(std::vector<double>(ours, ours + exact.size()), exact), 10 * peers_worst) << "step " << step;
    }
  }
}

// ---- by the papers --------------------------------------------------------------------------------------------------

struct PaperCase {
  std::string coder;
  Json options = Json::object();  // all that coder_paper_oracle.py reads
  bool draws = false;
};

std::vector<PaperCase> paper_cases() {
  const auto with = [](Json options, bool error_feedback) {
    options["error_feedback"] = error_feedback;
    return options;
  };
  const auto deep = [](double momentum, bool nesterov, double clip, int warmup) {
    return Json{{"share", 0.1},
                {"coder_momentum", momentum},
                {"coder_nesterov", nesterov},
                {"coder_clip", clip},
                {"coder_warmup_steps", warmup}};
  };
  const auto qsgd = [](int bits, int bucket, const char* norm, const char* coding) {
    return PaperCase{"qsgd", {{"bits", bits}, {"bucket", bucket}, {"norm", norm}, {"coding", coding}}, true};
  };
  std::vector<PaperCase> cases = {
      {"none"},
      {"top_k", with({{"share", 0.1}, {"error_decay", 0.9}}, true)},
      {"top_k", with({{"share", 0.1}, {"error_decay", 0.9}, {"chunk", 20}, {"bits", 2}}, true)},
      {"top_k", with({{"share", 0.2}, {"bits", 3}}, true)},
      {"nonzero"},
      {"ef21", {{"share", 0.1}}},
      {"deep_gradient", deep(0.5, false, 0, 0)},
      {"deep_gradient", deep(0.9, true, 5, 20)},
      {"sign_vote"},
      {"ef_sign"},
      {"one_bit"},
      qsgd(4, 16, "largest", "fixed"),
      qsgd(3, 20, "euclidean", "elias"),
      {"terngrad", {{"clip_sigma", 2.5}}, true},
      {"terngrad", {{"clip_sigma", 0}}, true},
      {"natural", Json::object(), true}};
  for (const bool feedback : {false, true}) {
    for (const char* type : {"bfloat16", "float16"}) cases.push_back({"half", with({{"type", type}}, feedback)});
    cases.push_back({"top_k", with({{"share", 0.1}}, feedback)});
    cases.push_back({"threshold", with({{"threshold", 0.5}}, feedback)});
    for (const char* drawn : {"random_k", "random_block"}) {
      cases.push_back({drawn, with({{"share", 0.2}}, feedback), true});
    }
    cases.push_back({"int8", with(Json::object(), feedback)});
    for (const char* type : {"e4m3", "e5m2"}) cases.push_back({"fp8", with({{"type", type}}, feedback)});
    cases.push_back({"fp4", with(Json::object(), feedback)});
  }
  return cases;
}

// Two matrices of odd extents, a vector, and padding behind each.
FlatLayout paper_layout() {
  FlatLayout layout = layout_with_buffer({45, 5, 42});
  layout.ranges[0].shape = {5, 9};
  layout.ranges[2].shape = {6, 7};
  return layout;
}

double weight_of(int rank, int ranks) { return 2.0 * (rank + 1) / (ranks * (ranks + 1)); }

// A rank's share of the gradient, in odd steps with zeros.
at::Tensor share_of(const FlatLayout& layout, int step, int rank, int ranks) {
  const at::Tensor gradient = compress::drawn_for(layout, rank, step) * weight_of(rank, ranks);
  return step % 2 == 0 ? gradient : at::where(gradient.abs() < weight_of(rank, ranks), 0.0F, gradient);
}

std::vector<float> without_padding(const FlatLayout& layout, const at::Tensor& flat) {
  std::vector<float> values;
  for (const FlatRange& range : layout.ranges) {
    const float* from = flat.const_data_ptr<float>() + range.offset;
    if (range.trainable) values.insert(values.end(), from, from + range.count);
  }
  return values;
}

struct PaperSteps {
  std::vector<std::vector<float>> gradients;  // that come out, per step
  std::vector<std::vector<uint64_t>> bytes;   // per step and rank
  Json drawn;                                 // per step and rank what its payload stands for; null without draws
};

PaperSteps steps_of(const PaperCase& test, const FlatLayout& layout, int ranks) {
  OptionReader options("coder", test.options);
  const compress::MakeCoder make_coder = compress::read_coder(test.coder, options);
  options.finish();
  std::vector<std::unique_ptr<compress::GradientCoder>> coders;
  for (int rank = 0; rank < ranks; ++rank) coders.push_back(make_coder({layout, 42, rank, ranks}));
  PaperSteps steps;
  for (int step = 0; step < kCoderSteps; ++step) {
    std::vector<at::Tensor> payloads;
    steps.bytes.emplace_back();
    Json drawn = Json::array();
    bool sums = false;
    at::Tensor gradient;
    for (int rank = 0; rank < ranks; ++rank) {
      compress::GradientCoder& coder = *coders[static_cast<size_t>(rank)];
      coder.begin({.step = step, .share = weight_of(rank, ranks)});
      gradient = share_of(layout, step, rank, ranks);
      const compress::Payload payload = coder.encode(0, gradient);
      payloads.push_back(payload.data.clone());
      steps.bytes.back().push_back(payload.bytes);
      sums = payload.kind == compress::PayloadKind::kSum;
      if (!test.draws) continue;
      coder.absorb(0, std::span(&payload.data, 1), gradient);
      drawn.push_back(without_padding(layout, gradient));
    }
    if (sums) {
      for (size_t rank = 1; rank < payloads.size(); ++rank) payloads[0] += payloads[rank];
      payloads.resize(1);
    }
    coders[0]->absorb(0, payloads, gradient);
    steps.gradients.push_back(without_padding(layout, gradient));
    if (test.draws) steps.drawn.push_back(drawn);
  }
  return steps;
}

TEST_F(CoderGolden, FiftyStepsEqualThoseOfThePapers) {
  const FlatLayout layout = paper_layout();
  const std::vector<PaperCase> cases = paper_cases();
  for (const int ranks : golden::rank_counts()) {
    Json asked = {{"shapes", {layout.ranges[0].shape, layout.ranges[1].shape, layout.ranges[2].shape}}};
    for (int rank = 0; rank < ranks; ++rank) asked["weights"].push_back(weight_of(rank, ranks));
    for (int step = 0; step < kCoderSteps; ++step) {
      Json shares = Json::array();
      for (int rank = 0; rank < ranks; ++rank) {
        shares.push_back(without_padding(layout, share_of(layout, step, rank, ranks)));
      }
      asked["shares"].push_back(shares);
    }
    std::vector<PaperSteps> ours;
    for (const PaperCase& test : cases) {
      ours.push_back(steps_of(test, layout, ranks));
      asked["cases"].push_back({{"coder", test.coder}, {"options", test.options}, {"drawn", ours.back().drawn}});
    }
    const Json golden = golden::answer_of("coder_paper_oracle.py", asked);
    ASSERT_EQ(golden.size(), cases.size());
    for (size_t number = 0; number < cases.size(); ++number) {
      SCOPED_TRACE(fmt::format("{} {}, {} ranks", cases[number].coder, cases[number].options.dump(), ranks));
      EXPECT_EQ(golden[number]["bytes"].get<std::vector<std::vector<uint64_t>>>(), ours[number].bytes);
      double largest = 0, farthest = 0;
      for (size_t step = 0; step < kCoderSteps; ++step) {
        const at::Tensor exact = at::tensor(golden[number]["gradients"][step].get<std::vector<double>>());
        largest = std::max(largest, exact.abs().max().item<double>());
        farthest = std::max(farthest, (at::tensor(ours[number].gradients[step]) - exact).abs().max().item<double>());
      }
      EXPECT_GT(largest, 0.5) << "something was sent";
      EXPECT_LE(farthest, 1e-6 * largest);
    }
  }
}

TEST(Coders, EveryRowHasAnOracle) {
  std::set<std::string> compared;
  for (const CoderCase& test : coder_cases()) compared.insert(test.coder);
  for (const PaperCase& test : paper_cases()) compared.insert(test.coder);
  for (const Json& row : compress::list_coders()) EXPECT_TRUE(compared.contains(row["name"].get<std::string>())) << row;
}

}  // namespace
}  // namespace mlbench
