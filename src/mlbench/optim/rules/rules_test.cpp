// Rules beside plain float64, step by step from one start, on a matrix and a vector.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/optim/exchange/steps_test.h"
#include "mlbench/optim/rules/dion.h"
#include "mlbench/optim/rules/lion.h"
#include "mlbench/optim/rules/muon.h"

namespace mlbench::optim {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// A matrix of 2 x 3 and a bias of 2, with padding behind each.
FlatLayout two_tensors() {
  return {
      .ranges = {{"weight", {2, 3}, 0, 6, true, TensorUse::kMatrix}, {"bias", {2}, 16, 2, true, TensorUse::kVector}},
      .parameter_elements = 32};
}

using Vector = std::vector<double>;

double norm(const Vector& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

Vector drawn(size_t count, uint64_t seed) {
  RandomSequence random(seed);
  Vector values(count);
  for (double& value : values) value = static_cast<float>(random.normal());
  return values;
}

void put(at::Tensor& flat, int64_t offset, const Vector& values) {
  for (size_t i = 0; i < values.size(); ++i) flat[offset + static_cast<int64_t>(i)] = static_cast<float>(values[i]);
}

// How a tensor is updated in plain float64: `step` from 1. What it remembers is the caller's.
using Reference = std::function<void(Vector& weights, const Vector& gradient, int step)>;

// 50 steps of a rule with gradients that are drawn, scaled by 0.5, beside the references of the two tensors.
void compare(const std::string& name, const Json& options, double lr, const Reference& matrix, const Reference& vector,
             double tolerance = 2e-5) {
  SCOPED_TRACE(name + " " + options.dump());
  const auto comm = one_rank();
  const auto optimizer = make_optimizer(named(name, options), two_tensors(), *comm);
  FlatTensors tensors{at::zeros({32}), at::zeros({32})};
  Vector weight = drawn(6, 1), bias = drawn(2, 2);
  put(tensors.parameters, 0, weight);
  put(tensors.parameters, 16, bias);
  for (int step = 1; step <= 50; ++step) {
    Vector gradient = drawn(6, static_cast<uint64_t>(100 + step)), other = drawn(2, static_cast<uint64_t>(200 + step));
    put(tensors.gradients, 0, gradient);
    put(tensors.gradients, 16, other);
    optimizer->begin({step - 1, lr}, tensors);
    optimizer->finish();
    optimizer->step(tensors, lr, 2);
    optimizer->after_update(tensors);
    for (double& value : gradient) value /= 2;
    for (double& value : other) value /= 2;
    matrix(weight, gradient, step);
    vector(bias, other, step);
    for (size_t i = 0; i < 6; ++i) {
      ASSERT_NEAR(tensors.parameters[static_cast<int64_t>(i)].item<float>(), weight[i], tolerance) << "step " << step;
    }
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_NEAR(tensors.parameters[16 + static_cast<int64_t>(i)].item<float>(), bias[i], tolerance)
          << "step " << step;
    }
  }
  for (const auto& [offset, count] : {std::pair{6, 10}, {18, 14}}) {
    EXPECT_TRUE(at::equal(tensors.parameters.narrow(0, offset, count), at::zeros({count}))) << "padding";
  }
}

Reference adam(double lr, double decay, bool decoupled) {
  return [=, m = Vector(6, 0), v = Vector(6, 0)](Vector& w, const Vector& g, int step) mutable {
    for (size_t i = 0; i < w.size(); ++i) {
      const double d = g[i] + (decoupled ? 0 : decay * w[i]);
      m[i] = 0.9 * m[i] + 0.1 * d;
      v[i] = 0.999 * v[i] + 0.001 * d * d;
      if (decoupled) w[i] *= 1 - lr * decay;
      w[i] -= lr * (m[i] / (1 - std::pow(0.9, step))) / (std::sqrt(v[i] / (1 - std::pow(0.999, step))) + 1e-8);
    }
  };
}

// The weights of a matrix of 1 x 2 behind each of three steps.
std::vector<Vector> three_steps(const std::string& name, const Json& options, const Vector& start,
                                const std::vector<Vector>& gradients, const Vector& lr) {
  const FlatLayout layout{.ranges = {{"w", {1, 2}, 0, 2, true}}, .parameter_elements = 16};
  const auto comm = one_rank();
  const auto optimizer = make_optimizer(named(name, options), layout, *comm);
  FlatTensors tensors{at::zeros({16}), at::zeros({16})};
  put(tensors.parameters, 0, start);
  std::vector<Vector> weights;
  for (size_t step = 0; step < 3; ++step) {
    put(tensors.gradients, 0, gradients[step]);
    step_with(*optimizer, tensors, tensors.gradients, {static_cast<int64_t>(step), lr[step]});
    weights.push_back({tensors.parameters[0].item<float>(), tensors.parameters[1].item<float>()});
  }
  return weights;
}

void expect_weights(const std::vector<Vector>& weights, const std::vector<Vector>& expected) {
  for (size_t step = 0; step < 3; ++step) {
    EXPECT_THAT(weights[step], testing::Pointwise(testing::DoubleNear(2e-6), expected[step])) << "step " << step;
  }
}

TEST(Rules, ThreeStepsComputedByHand) {
  // Without memory d = g / (|g| + 1) = 1/2, 2/3, -1/2; weights lose a quarter first.
  expect_weights(three_steps("adamw", {{"betas", {0, 0}}, {"eps", 1}, {"weight_decay", 0.5}}, {1, 1},
                             {{1, 1}, {2, 2}, {-1, -1}}, {0.5, 0.5, 0.5}),
                 {{0.5, 0.5}, {1 / 24.0, 1 / 24.0}, {0.28125, 0.28125}});
  // |w| = 5, 3, 2.5 and |g| = 2, 6, 5: trust 2.5, 0.5, 0.5; v = (0, 4), (0, 2) + (1.5, 0), (0.75, 1) + (0, 1).
  expect_weights(three_steps("lars", {{"momentum", 0.5}, {"trust_coefficient", 1}}, {3, 4}, {{0, 2}, {6, 0}, {0, 5}},
                             {0.8, 0.5, 0.4}),
                 {{3, 0}, {1.5, -2}, {0.75, -4}});
  // m = (-0.75, 0.125), (-1.125, -1.6875), (-1.3125, 0) over 1/2, 3/4, 7/8. With a fifth of the weights
  // r = (0, 1), (0, -0.5), (0, 0.45); a step is lr |w| long, where |w| = 5, 3, 3.75.
  expect_weights(three_steps("lamb", {{"betas", {0.5, 0}}, {"eps", 1}, {"weight_decay", 0.2}}, {3, 4},
                             {{-1.5, 0.25}, {-1.5, -3.5}, {-1.5, 1.6875}}, {0.8, 0.75, 0.4}),
                 {{3, 0}, {3, 2.25}, {3, 0.75}});
  // Directions (+, -), (+, +), (0.625 - 0.5, 0.375 - 0.375); weights lose a quarter first.
  expect_weights(three_steps("lion", {{"betas", {0.5, 0.5}}, {"weight_decay", 0.5}}, {1, 1},
                             {{1, -1}, {2, 2}, {-1, -0.75}}, {0.5, 0.5, 0.5}),
                 {{0.25, 1.25}, {-0.3125, 0.4375}, {-0.734375, 0.328125}});
}

TEST(Rules, AdamWDecaysWeightsBesideTheStep) {
  compare("adamw", {{"weight_decay", 0.1}}, 0.01, adam(0.01, 0.1, true), adam(0.01, 0.1, true));
  compare("centralized_adam", {{"weight_decay", 0.1}}, 0.01, adam(0.01, 0.1, false), adam(0.01, 0.1, false));
}

Reference lion(double lr, double decay) {
  return [=, m = Vector(6, 0)](Vector& w, const Vector& g, int) mutable {
    for (size_t i = 0; i < w.size(); ++i) {
      const double direction = 0.9 * m[i] + 0.1 * g[i];
      w[i] = (1 - lr * decay) * w[i] - lr * ((direction > 0) - (direction < 0));
      m[i] = 0.99 * m[i] + 0.01 * g[i];
    }
  };
}

TEST(Rules, LionStepsBySigns) { compare("lion", {{"weight_decay", 0.1}}, 0.01, lion(0.01, 0.1), lion(0.01, 0.1)); }

// With x, y and z as the paper has them: z_1 = x_1 = y_1 are the weights, and `w` is y.
Reference schedule_free(double lr, double decay, double beta, bool adam) {
  return [=, x = Vector(), z = Vector(), v = Vector(6, 0)](Vector& y, const Vector& g, int step) mutable {
    if (step == 1) x = z = y;
    for (size_t i = 0; i < y.size(); ++i) {
      double d = g[i];
      if (adam) {
        v[i] = 0.999 * v[i] + 0.001 * d * d;
        d /= std::sqrt(v[i] / (1 - std::pow(0.999, step))) + 1e-8;
      }
      d += decay * y[i];
      z[i] -= lr * d;
      x[i] += (z[i] - x[i]) / step;  // at a constant rate, all steps weigh the same
      y[i] = (1 - beta) * z[i] + beta * x[i];
    }
  };
}

TEST(Rules, ScheduleFreeOnesStepAsThePaperSays) {
  compare("schedule_free_sgd", {{"weight_decay", 0.1}}, 0.05, schedule_free(0.05, 0.1, 0.9, false),
          schedule_free(0.05, 0.1, 0.9, false));
  compare("schedule_free_adamw", {{"weight_decay", 0.1}, {"betas", {0.8, 0.999}}}, 0.01,
          schedule_free(0.01, 0.1, 0.8, true), schedule_free(0.01, 0.1, 0.8, true));
}

// One weight 1, gradients 1, 0 and 0 at the rate 0.5: z = 0.5, 0.5, 0.5; x = 0.5 from the first step on.
TEST(Rules, AScheduleFreeRuleEvaluatesTheAverageOfItsSteps) {
  const FlatLayout layout{.ranges = {{"w", {1}, 0, 1, true}}, .parameter_elements = 16};
  const auto comm = one_rank();
  spec::OptimizerSpec spec = named("schedule_free_sgd", {{"momentum", 0.75}});
  const auto optimizer = make_optimizer(spec, layout, *comm);
  FlatTensors tensors{at::zeros({16}), at::zeros({16})};
  const auto weight = [&] { return tensors.parameters[0].item<float>(); };
  const auto step = [&](int64_t number, double gradient, double lr) {
    tensors.gradients[0] = gradient;
    optimizer->begin({number, lr}, tensors);
    optimizer->finish();
    optimizer->step(tensors, lr);
    optimizer->after_update(tensors);
  };
  tensors.parameters[0] = 1;
  optimizer->swap_average(tensors);
  EXPECT_EQ(weight(), 1) << "before the first step";
  optimizer->swap_average(tensors);
  step(0, 1, 0.5);
  EXPECT_FLOAT_EQ(weight(), 0.5);
  // A larger rate weighs by its square: z = 0.5 - 1 = -0.5, c = 1 / (0.25 + 1), x = 0.2 * 0.5 + 0.8 * -0.5 = -0.3.
  step(1, 1, 1);
  EXPECT_FLOAT_EQ(weight(), 0.25F * -0.5F + 0.75F * -0.3F);
  const float trained = weight();
  optimizer->swap_average(tensors);
  EXPECT_FLOAT_EQ(weight(), -0.3F);
  optimizer->swap_average(tensors);
  EXPECT_EQ(weight(), trained);
  spec.options["averaging_patience"] = 3;
  EXPECT_THAT([&] { make_optimizer(spec, layout, *comm); },
              ThrowsMessage<UserError>(HasSubstr("a rule that averages by itself")));
}

Reference lars(double lr, double decay, bool scaled) {
  return [=, v = Vector(6, 0)](Vector& w, const Vector& g, int) mutable {
    const double trust = scaled ? 0.02 * norm(w) / (norm(g) + decay * norm(w)) : 1;
    for (size_t i = 0; i < w.size(); ++i) {
      v[i] = 0.9 * v[i] + lr * trust * (g[i] + (scaled ? decay * w[i] : 0));
      w[i] -= v[i];
    }
  };
}

TEST(Rules, LarsScalesMatricesByTheirNorms) {
  compare("lars", {{"weight_decay", 0.1}, {"trust_coefficient", 0.02}}, 0.05, lars(0.05, 0.1, true),
          lars(0.05, 0.1, false));
}

Reference lamb(double lr, double decay, bool scaled) {
  return [=, m = Vector(6, 0), v = Vector(6, 0)](Vector& w, const Vector& g, int step) mutable {
    Vector r(w.size());
    for (size_t i = 0; i < w.size(); ++i) {
      m[i] = 0.9 * m[i] + 0.1 * g[i];
      v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
      r[i] = m[i] / (1 - std::pow(0.9, step)) / (std::sqrt(v[i] / (1 - std::pow(0.999, step))) + 1e-6);
      if (scaled) r[i] += decay * w[i];
    }
    const double trust = scaled ? norm(w) / norm(r) : 1;
    for (size_t i = 0; i < w.size(); ++i) w[i] -= lr * trust * r[i];
  };
}

TEST(Rules, LambScalesMatricesByTheirNorms) {
  compare("lamb", {{"weight_decay", 0.1}}, 0.01, lamb(0.01, 0.1, true), lamb(0.01, 0.1, false), 5e-5);
}

// ---- Muon -----------------------------------------------------------------------------------------------------------

// Takes a matrix of 2 x 3 through X <- a X + (b A + c A A) X with A = X X^T, five times, from u / |u|.
Vector newton_schulz(const Vector& u) {
  Vector x = u;
  const double length = std::max(norm(u), 1e-7);
  for (double& value : x) value /= length;
  for (int step = 0; step < 5; ++step) {
    double a[2][2] = {}, p[2][2] = {};
    for (size_t r = 0; r < 2; ++r) {
      for (size_t s = 0; s < 2; ++s) {
        for (size_t c = 0; c < 3; ++c) a[r][s] += x[3 * r + c] * x[3 * s + c];
      }
    }
    for (size_t r = 0; r < 2; ++r) {
      for (size_t s = 0; s < 2; ++s) p[r][s] = -4.7750 * a[r][s] + 2.0315 * (a[r][0] * a[0][s] + a[r][1] * a[1][s]);
    }
    Vector next(6);
    for (size_t r = 0; r < 2; ++r) {
      for (size_t c = 0; c < 3; ++c) next[3 * r + c] = 3.4445 * x[3 * r + c] + p[r][0] * x[c] + p[r][1] * x[3 + c];
    }
    x = next;
  }
  return x;
}

Reference muon(double lr, double decay, double scale, bool nesterov) {
  return [=, b = Vector(6, 0)](Vector& w, const Vector& g, int) mutable {
    Vector u(6);
    for (size_t i = 0; i < 6; ++i) {
      b[i] = 0.95 * b[i] + 0.05 * g[i];
      u[i] = nesterov ? 0.95 * b[i] + 0.05 * g[i] : b[i];
    }
    const Vector o = newton_schulz(u);
    for (size_t i = 0; i < 6; ++i) w[i] = (1 - lr * decay) * w[i] - lr * scale * o[i];
  };
}

TEST(Rules, MuonOrthogonalisesMatricesAndHasAdamWForTheRest) {
  compare("muon", {{"weight_decay", 0.1}}, 0.01, muon(0.01, 0.1, 0.2 * std::sqrt(3.0), true), adam(0.01, 0.1, true),
          1e-4);
  compare("muon", {{"weight_decay", 0}, {"nesterov", false}, {"adjust_lr", "original"}, {"adam_rate", 0.5}}, 0.01,
          muon(0.01, 0, 1, false), adam(0.005, 0, true), 1e-4);
}

TEST(Muon, SingularValuesBecomeAboutOne) {
  at::Tensor matrix = at::empty({40, 25});
  const Vector values = drawn(1000, 7);
  for (int64_t i = 0; i < 1000; ++i) matrix.view({-1})[i] = static_cast<float>(values[static_cast<size_t>(i)]);
  const at::Tensor result = orthogonalised(matrix, 5);
  EXPECT_EQ(result.sizes(), matrix.sizes());
  const at::Tensor squares = at::mm(result.t(), result).diagonal();
  EXPECT_GT(squares.min().item<float>(), 0.4F);
  EXPECT_LT(squares.max().item<float>(), 1.5F);
  EXPECT_TRUE(at::allclose(orthogonalised(matrix.t().contiguous(), 5), result.t(), 1e-4, 1e-5));
  EXPECT_TRUE(at::equal(orthogonalised(at::zeros({3, 4}), 5), at::zeros({3, 4})));
}

// ---- Dion -----------------------------------------------------------------------------------------------------------

FlatLayout two_by_two() {
  return {.ranges = {{"weight", {2, 2}, 0, 4, true, TensorUse::kMatrix}}, .parameter_elements = 16};
}

// Momentum 0.5, rate 0.5, no decay, rank 1. Whatever the first Q: B = (3, 4) e1^T gives P = +-(0.6, 0.8), Q = +-e1, and
// M = B / 2. Without a gradient B is half as long, and the step is the same, M = (0.75, 1) e1^T. The third gradient
// makes B = (0, 5) e1^T, and the step (0, 1) e1^T. Each step moves by half of it.
TEST(Dion, ThreeStepsComputedByHand) {
  DionRule rule({.momentum = 0.5, .rank_fraction = 0.5, .weight_decay = 0}, two_by_two());
  FlatTensors tensors{at::zeros({16}), at::zeros({16})};
  const Vector gradients[3] = {{3, 0, 4, 0}, {0, 0, 0, 0}, {-0.75, 0, 4, 0}};
  const Vector weights[3] = {{-0.3, 0, -0.4, 0}, {-0.6, 0, -0.8, 0}, {-0.6, 0, -1.3, 0}};
  for (size_t step = 0; step < 3; ++step) {
    put(tensors.gradients, 0, gradients[step]);
    rule.update(tensors, 0.5, 1);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(tensors.parameters[static_cast<int64_t>(i)].item<float>(), weights[step][i], 1e-6) << "step " << step;
    }
  }
}

// Rank 1 of the diagonal (4, 1): what is not along P stays whole in the momentum, what is along P shrinks by half.
TEST(Dion, WhatIsNotOfTheRankStaysInTheMomentum) {
  DionRule rule({.momentum = 0.5, .rank_fraction = 0.5, .weight_decay = 0}, two_by_two());
  FlatTensors tensors{at::zeros({16}), at::zeros({16})};
  const at::Tensor diagonal = at::diag(at::tensor({4.0F, 1.0F}));
  tensors.gradients.narrow(0, 0, 4).copy_(diagonal.view({-1}));
  rule.update(tensors, 1, 1);
  NamedState state;
  rule.export_state(state);
  at::Tensor momentum = at::empty({2, 2});
  std::memcpy(momentum.data_ptr<float>(), state.tensor("optimizer/momentum/weight").bytes.data(), 16);
  const at::Tensor kept = at::sub(diagonal, momentum);  // (1 - momentum) P P^T B
  const at::Tensor step = tensors.parameters.narrow(0, 0, 4).view({2, 2});
  EXPECT_NEAR(at::linalg_det(kept).item<float>(), 0, 1e-5) << "of rank 1";
  EXPECT_NEAR(step.norm().item<float>(), 1, 1e-5) << "the step is P Q^T, both of length 1";
  // P P^T keeps 2 kept, so P^T momentum = P^T B / 2.
  EXPECT_TRUE(at::allclose(at::mm(kept.t(), at::sub(at::mul(kept, 2), diagonal)), at::zeros({2, 2}), 0, 1e-4));
}

TEST(Dion, WithoutAnyGradientItsBasisStays) {
  DionRule rule({.weight_decay = 0.5}, two_by_two());
  FlatTensors tensors{at::ones({16}), at::zeros({16})};
  rule.update(tensors, 1, 1);
  EXPECT_TRUE(at::equal(tensors.parameters.narrow(0, 0, 4), at::full({4}, 0.5F))) << "decay alone";
  put(tensors.gradients, 0, {3, 0, 4, 0});
  rule.update(tensors, 1, 1);
  EXPECT_NEAR(tensors.parameters[0].item<float>(), 0.25 - 0.6, 1e-6);
}

TEST(Rules, OfMatricesKeepWhatTheyNeedOfEachTensor) {
  const FlatLayout layout = two_tensors();
  NamedState muon, dion;
  MuonRule(MuonOptions(), layout).export_state(muon);
  DionRule(DionOptions(), layout).export_state(dion);
  EXPECT_EQ(muon.tensors.size(), 3U) << "the matrix' momentum, and both moments of the bias";
  EXPECT_EQ(dion.tensors.size(), 4U) << "and the matrix' basis";
}

TEST(Lion, TheKernelEqualsItsReferenceToTheBit) {
  constexpr size_t kCount = 100003;
  std::vector<float> start(kCount), gradients(kCount), momentum(kCount);
  RandomSequence random(4);
  for (auto* values : {&start, &gradients, &momentum}) {
    for (float& value : *values) value = static_cast<float>(random.normal());
  }
  gradients[5] = momentum[5] = 0;
  std::vector<float> fast = start, plain = start, fast_momentum = momentum, plain_momentum = momentum;
  const LionCoefficients c{0.01F, 0.9F, 0.1F, 0.99F, 0.01F, 0.999F, 0.37F};
  lion_update(fast.data(), gradients.data(), fast_momentum.data(), kCount, c);
  lion_update_reference(plain.data(), gradients.data(), plain_momentum.data(), kCount, c);
  EXPECT_EQ(fast, plain);
  EXPECT_EQ(fast_momentum, plain_momentum);
}

TEST(Rules, RefuseWhatCannotBe) {
  const auto comm = one_rank();
  const auto refusal = [&](const std::string& name, const Json& options, const std::string& text) {
    EXPECT_THAT([&] { make_optimizer(named(name, options), two_tensors(), *comm); },
                ThrowsMessage<UserError>(HasSubstr(text)));
  };
  refusal("lion", {{"betas", {0.9, 1}}}, "expected 0 or more and less than 1");
  refusal("dion", {{"momentum", 1}}, "expected 0 or more and less than 1");
  refusal("dion", {{"rank_fraction", 0}}, "rank_fraction");
  refusal("muon", {{"adjust_lr", "none"}}, "has no adjust_lr 'none'");
  refusal("centralized_sgd", {{"rule", "adagrad"}}, "unknown rule 'adagrad'");
  refusal("centralized_sgd", {{"pattern", "tree"}}, "unknown pattern 'tree'");
  refusal("centralized_sgd", {{"betas", {0.9, 0.99}}}, "has no option 'betas'");
}

}  // namespace
}  // namespace mlbench::optim
