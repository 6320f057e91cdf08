// Coders against PyTorch's communication hooks, or NumPy where it has none: 50 steps of two ranks from one state.
// coder_oracle.py is run at test time by a Python that has its own PyTorch.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/compress/coder.h"
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
  return {{"power_sgd", {8, 6}, 1, "power_sgd", power(1)},        {"power_sgd", {8, 6}, 2, "power_sgd", power(2)},
          {"power_sgd", {16, 3, 3, 3}, 4, "power_sgd", power(4)}, {"acp_sgd", {8, 6}, 1, "acp_sgd", power(1)},
          {"acp_sgd", {16, 3, 3, 3}, 4, "acp_sgd", power(4)},     {"fp16", {8, 6}, 0, "half", {{"type", "float16"}}}};
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
// The first Q: columns x rank.
std::vector<float> first_q(const CoderCase& test) {
  return golden::drawn(elements_of(test) / test.shape[0] * test.rank, 12345);
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

}  // namespace
}  // namespace mlbench
