#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "mlbench/framework/tensors/additive_attention.h"
#include "mlbench/framework/tensors/cross_entropy_kernel.h"
#include "mlbench/framework/tensors/lstm.h"
#include "mlbench/framework/tensors/lstm_kernels.h"
#include "mlbench/framework/tensors/vector_math.h"

namespace mlbench::framework {
namespace {

constexpr double kUnit = std::numeric_limits<float>::epsilon();

double error_of(const at::Tensor& value, const at::Tensor& expected) {
  const at::Tensor exact = expected.to(at::kDouble);
  return ((value.to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
}

TEST(VectorMath, IsNearlyExact) {
  double exp_error = 0, tanh_error = 0, sigmoid_error = 0;
  for (double x = -80; x < 80; x += 0.00137) {
    const auto y = static_cast<float>(x);
    const double z = y;
    exp_error = std::max(exp_error, std::abs(fast_exp(y) / std::exp(z) - 1));
    tanh_error = std::max(tanh_error, std::abs(fast_tanh(y) / std::tanh(z) - 1));
    sigmoid_error = std::max(sigmoid_error, std::abs(fast_sigmoid(y) * (1 + std::exp(-z)) - 1));
  }
  EXPECT_LT(exp_error, 2 * kUnit);
  EXPECT_LT(tanh_error, 3 * kUnit);
  EXPECT_LT(sigmoid_error, 3 * kUnit);
  EXPECT_EQ(fast_exp(0), 1);
  EXPECT_EQ(fast_tanh(0), 0);
  EXPECT_EQ(fast_tanh(1000), 1);
  EXPECT_EQ(fast_tanh(-1000), -1);
  EXPECT_LT(fast_exp(-1000), 1e-37F);
  EXPECT_TRUE(std::isnan(fast_exp(std::nanf(""))));
  EXPECT_TRUE(std::isnan(fast_tanh(std::nanf(""))));
}

TEST(LstmKernels, EqualTheReference) {
  at::manual_seed(1);
  for (const int64_t hidden : {1, 7, 16, 53}) {
    constexpr int64_t kSequences = 5;
    const at::Tensor sums = at::randn({kSequences, 4 * hidden}), before = at::randn({kSequences, hidden});
    at::Tensor gates = sums.clone(), cell = at::empty({kSequences, hidden}), state = at::empty_like(cell);
    const LstmShape shape{kSequences, hidden};
    lstm_cell(shape, gates.data_ptr<float>(), before.const_data_ptr<float>(), cell.data_ptr<float>(),
              state.data_ptr<float>());
    at::Tensor expected = sums.to(at::kDouble), exact_cell = cell.to(at::kDouble), exact_state = exact_cell.clone();
    lstm_cell_reference(expected, before.to(at::kDouble), exact_cell, exact_state);
    EXPECT_LT(error_of(gates, expected), 4 * kUnit);
    EXPECT_LT(error_of(cell, exact_cell), 4 * kUnit);
    EXPECT_LT(error_of(state, exact_state), 4 * kUnit);

    const at::Tensor d_state = at::randn_like(cell);
    at::Tensor d_cell = at::randn_like(cell), exact_d_cell = d_cell.to(at::kDouble);
    lstm_cell_backward(shape, gates.data_ptr<float>(), before.const_data_ptr<float>(), cell.const_data_ptr<float>(),
                       d_state.const_data_ptr<float>(), d_cell.data_ptr<float>());
    lstm_cell_backward_reference(expected, before.to(at::kDouble), exact_cell, d_state.to(at::kDouble), exact_d_cell);
    EXPECT_LT(error_of(gates, expected), 8 * kUnit);
    EXPECT_LT(error_of(d_cell, exact_d_cell), 8 * kUnit);
  }
}

TEST(Lstm, OnTheHostAndElsewhereTheSame) {
  at::manual_seed(2);
  const LstmWeights weights{at::randn({28, 5}), at::randn({28, 7}), at::randn({28}), at::randn({28})};
  const at::Tensor x = at::randn({18, 5}), state = at::randn({3, 7}), cell = at::randn({3, 7}),
                   d_output = at::randn({18, 7});
  LstmTape host = lstm_forward(x, lstm_rows(6, 3), weights, state, cell, at::kFloat, true);
  LstmTape other = lstm_forward(x, lstm_rows(6, 3), weights, state, cell, at::kFloat, false);
  EXPECT_LT(error_of(host.output(), other.output()), 1e-6);
  EXPECT_TRUE(at::equal(host.states.narrow(0, 0, 3), state));
  const at::Tensor dx = lstm_backward(host, d_output, true, true),
                   expected = lstm_backward(other, d_output, true, false);
  EXPECT_LT(error_of(dx, expected), 1e-6);
  EXPECT_LT(error_of(host.gates, other.gates), 1e-6);
}

// Each sequence gives the same results as if it were alone in the batch.
TEST(Lstm, SequencesOfDifferentLengths) {
  at::manual_seed(5);
  const LstmWeights weights{at::randn({28, 5}), at::randn({28, 7}), at::randn({28}), at::randn({28})};
  const std::vector<int64_t> lengths = {6, 4, 4, 1};
  const LstmRows rows{{4, 3, 3, 3, 1, 1}};
  const at::Tensor x = at::randn({15, 5}), state = at::randn({4, 7}), cell = at::randn({4, 7}),
                   d_output = at::randn({15, 7});
  LstmTape all = lstm_forward(x, rows, weights, state, cell, at::kFloat, true);
  const at::Tensor output = all.output().clone(), before = all.before(), dx = lstm_backward(all, d_output, true, true);
  at::Tensor d_weight = at::zeros({28, 7});
  for (int64_t s = 0; s < 4; ++s) {
    std::vector<int64_t> of_sequence;
    int64_t first = 0;
    for (int64_t t = 0; t < lengths[static_cast<size_t>(s)]; ++t) {
      of_sequence.push_back(first + s);
      first += rows.sequences[static_cast<size_t>(t)];
    }
    const at::Tensor index = at::tensor(of_sequence);
    LstmTape one = lstm_forward(x.index_select(0, index), lstm_rows(index.size(0), 1), weights, state.narrow(0, s, 1),
                                cell.narrow(0, s, 1), at::kFloat, true);
    EXPECT_LT(error_of(output.index_select(0, index), one.output()), 1e-6) << s;
    EXPECT_LT(error_of(dx.index_select(0, index), lstm_backward(one, d_output.index_select(0, index), true, true)),
              2e-6)
        << s;
    d_weight += one.gates.t().mm(one.before());
  }
  EXPECT_LT(error_of(all.gates.t().mm(before), d_weight), 2e-6);
}

TEST(AdditiveAttention, EqualsTheReference) {
  at::manual_seed(3);
  for (const int64_t units : {1, 16, 37}) {
    const AdditiveInputs inputs{at::randn({3, 4, units}), at::randn({3, 6, units}), at::randn({units}),
                                at::tensor(std::vector<int64_t>{6, 1, 4})};
    const at::Tensor scores = additive_scores(inputs), expected = additive_scores_reference(inputs);
    EXPECT_TRUE(at::equal(scores.isinf(), expected.isinf()));
    EXPECT_EQ(scores.isinf().sum().item<int64_t>(), 4 * (5 + 2));
    EXPECT_LT(error_of(scores.nan_to_num(0, 0, 0), expected.nan_to_num(0, 0, 0)), 8 * kUnit);
    const at::Tensor d_scores = at::randn_like(scores);
    const AdditiveGradients found = additive_scores_backward(inputs, d_scores),
                            exact = additive_scores_backward_reference(inputs, d_scores);
    EXPECT_LT(error_of(found.queries, exact.queries), 16 * kUnit);
    EXPECT_LT(error_of(found.keys, exact.keys), 16 * kUnit);
    EXPECT_LT(error_of(found.weight, exact.weight), 16 * kUnit);
  }
}

TEST(CrossEntropyRows, EqualTheReference) {
  at::manual_seed(4);
  for (const int64_t classes : {5, 64, 1000}) {
    for (const double smoothing : {0.0, 0.1}) {
      const at::Tensor logits = at::randn({9, classes}) * 5, targets = at::randint(0, classes, {9}, at::kLong);
      at::Tensor gradient = logits.clone(), exact = logits.to(at::kDouble);
      const CrossEntropySums found = cross_entropy_rows(gradient, targets, smoothing, true),
                             expected = cross_entropy_rows_reference(exact, targets, smoothing, true);
      EXPECT_NEAR(found.loss, expected.loss, 1e-6 * expected.loss);
      EXPECT_NEAR(found.nll, expected.nll, 1e-6 * expected.nll);
      EXPECT_LT(error_of(gradient, exact), 4 * kUnit);
      at::Tensor untouched = logits.clone();
      EXPECT_EQ(cross_entropy_rows(untouched, targets, smoothing, false).loss, found.loss);
      EXPECT_TRUE(at::equal(untouched, logits));
    }
  }
}

// A NaN shows in the loss and in the gradient of its row, and in no other row.
TEST(CrossEntropyRows, WhatIsNoNumberStaysNone) {
  at::Tensor logits = at::zeros({2, 100});
  logits[0][77] = std::nanf("");
  const CrossEntropySums sums = cross_entropy_rows(logits, at::zeros({2}, at::kLong), 0.1, true);
  EXPECT_TRUE(std::isnan(sums.loss));
  EXPECT_TRUE(logits[0].isnan().all().item<bool>());
  EXPECT_FALSE(logits[1].isnan().any().item<bool>());
  logits = at::full({1, 100}, -1e4F);
  logits[0][3] = 1e4F;
  EXPECT_EQ(cross_entropy_rows(logits, at::full({1}, 3, at::kLong), 0, true).loss, 0);
}

}  // namespace
}  // namespace mlbench::framework
