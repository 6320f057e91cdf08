#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "mlbench/framework/framework.h"
#include "mlbench/framework/native/graph/attention_kernels.h"
#include "mlbench/framework/native/graph/token_kernels.h"
#include "mlbench/framework/tensors/dropout.h"
#include "mlbench/framework/tensors/flat.h"

namespace mlbench::framework::native_framework {
namespace {

constexpr double kUnit = std::numeric_limits<float>::epsilon();

double error_of(const at::Tensor& value, const at::Tensor& expected) {
  const at::Tensor exact = expected.to(at::kDouble);
  return ((value.to(at::kDouble) - exact).norm() / (exact.norm() + 1e-30)).item<double>();
}

at::Tensor mask_from(uint64_t key, double p, int64_t first, int64_t count) {
  const at::Tensor mask = at::empty({first + count}, at::kFloat);
  dropout_mask_reference(key, p, values_of(mask));
  return mask.narrow(0, first, count).to(at::kDouble);
}

// ---- attention

struct HeadCase {
  int64_t queries, keys, width;
  bool causal;
  double p;
};
const HeadCase kHeads[] = {{7, 5, 8, false, 0},      {1, 1, 64, true, 0},  {35, 50, 64, false, 0.1},
                           {33, 33, 64, true, 0.3},  {16, 16, 3, true, 0}, {5, 100, 80, false, 0},
                           {20, 17, 16, false, 0.5}, {4, 4, 1, false, 0}};

struct HeadValues {
  explicit HeadValues(const HeadCase& of) : test(of) {
    at::manual_seed(3);
    // Each matrix is a part of wider rows.
    const auto rows = [&](int64_t count) { return at::randn({count, of.width + 5}).narrow(1, 2, of.width); };
    q = rows(of.queries), k = rows(of.keys), v = rows(of.keys), dy = rows(of.queries);
    shape = {of.queries, of.keys, of.width, of.causal, 77, of.p, 13, of.keys + 2};
  }
  at::Tensor dropped(const at::Tensor& weights) const {
    if (test.p == 0) return weights;
    const at::Tensor mask = mask_from(77, test.p, 13, test.queries * shape.mask_stride);
    return weights * mask.view({test.queries, -1}).narrow(1, 0, test.keys);
  }
  at::Tensor weights() const {
    at::Tensor scores = q.to(at::kDouble).mm(k.to(at::kDouble).t()) / std::sqrt(static_cast<double>(test.width));
    if (test.causal) {
      scores =
          scores.masked_fill(at::ones(scores.sizes(), at::kBool).triu(1), -std::numeric_limits<double>::infinity());
    }
    return scores.softmax(1);
  }
  static HeadRows of(const at::Tensor& rows) { return {rows.const_data_ptr<float>(), rows.stride(0)}; }

  HeadCase test;
  HeadShape shape;
  at::Tensor q, k, v, dy;
};

TEST(AttentionKernels, EqualFloat64) {
  for (const HeadCase& test : kHeads) {
    SCOPED_TRACE(testing::Message() << test.queries << " x " << test.keys << " x " << test.width << " causal "
                                    << test.causal << " p " << test.p);
    const HeadValues head(test);
    at::Tensor weights = at::full({test.queries, head.shape.weights_stride()}, 9.0F);
    at::Tensor y = at::full({test.queries, test.width + 3}, 7.0F);
    attend(head.shape, HeadValues::of(head.q), HeadValues::of(head.k), HeadValues::of(head.v),
           weights.data_ptr<float>(), y.data_ptr<float>(), y.stride(0));
    const at::Tensor exact = head.weights(), v = head.v.to(at::kDouble), dy = head.dy.to(at::kDouble);
    EXPECT_LT(error_of(weights.narrow(1, 0, test.keys), exact), 16 * kUnit);
    EXPECT_EQ(weights.narrow(1, test.keys, head.shape.weights_stride() - test.keys).abs().sum().item<float>(), 0);
    EXPECT_LT(error_of(y.narrow(1, 0, test.width), head.dropped(exact).mm(v)), 16 * kUnit);
    EXPECT_TRUE((y.narrow(1, test.width, 3) == 7).all().item<bool>()) << "wrote behind its rows";

    at::Tensor dq = at::full({test.queries, test.width + 1}, 7.0F), dkv = at::full({test.keys, 2 * test.width}, 7.0F);
    attend_backward(
        head.shape, HeadValues::of(head.q), HeadValues::of(head.k), HeadValues::of(head.v),
        weights.const_data_ptr<float>(), HeadValues::of(head.dy),
        {dq.data_ptr<float>(), dkv.data_ptr<float>(), dkv.data_ptr<float>() + test.width, dq.stride(0), dkv.stride(0)});
    const at::Tensor d_weights = head.dropped(dy.mm(v.t()));
    const at::Tensor d_scores =
        exact * (d_weights - (exact * d_weights).sum(1, true)) / std::sqrt(static_cast<double>(test.width));
    EXPECT_LT(error_of(dkv.narrow(1, test.width, test.width), head.dropped(exact).t().mm(dy)), 32 * kUnit);
    if (test.keys > 1) {
      EXPECT_LT(error_of(dq.narrow(1, 0, test.width), d_scores.mm(head.k.to(at::kDouble))), 64 * kUnit);
      EXPECT_LT(error_of(dkv.narrow(1, 0, test.width), d_scores.t().mm(head.q.to(at::kDouble))), 64 * kUnit);
    } else {
      EXPECT_LT(dq.narrow(1, 0, test.width).norm().item<double>(), 1e-5) << "of a weight that is always 1";
    }
    EXPECT_TRUE((dq.narrow(1, test.width, 1) == 7).all().item<bool>());
  }
}

TEST(AttentionKernels, AgreeWithFiniteDifferences) {
  HeadValues head({6, 9, 16, false, 0.2});
  const auto loss_of = [&] {
    at::Tensor weights = at::empty({6, 16}), y = at::empty({6, 16});
    attend(head.shape, HeadValues::of(head.q), HeadValues::of(head.k), HeadValues::of(head.v),
           weights.data_ptr<float>(), y.data_ptr<float>(), 16);
    return (y.to(at::kDouble) * head.dy.to(at::kDouble)).sum().item<double>();
  };
  at::Tensor weights = at::empty({6, 16}), y = at::empty({6, 16}), dq = at::empty({6, 16}), dkv = at::empty({9, 32});
  attend(head.shape, HeadValues::of(head.q), HeadValues::of(head.k), HeadValues::of(head.v), weights.data_ptr<float>(),
         y.data_ptr<float>(), 16);
  attend_backward(head.shape, HeadValues::of(head.q), HeadValues::of(head.k), HeadValues::of(head.v),
                  weights.const_data_ptr<float>(), HeadValues::of(head.dy),
                  {dq.data_ptr<float>(), dkv.data_ptr<float>(), dkv.data_ptr<float>() + 16, 16, 32});
  const std::pair<at::Tensor, at::Tensor> pairs[] = {
      {head.q, dq}, {head.k, dkv.narrow(1, 0, 16)}, {head.v, dkv.narrow(1, 16, 16)}};
  for (const auto& [value, gradient] : pairs) {
    const at::Tensor before = value.clone(), direction = gradient / gradient.norm();
    constexpr double kStep = 1e-2;
    value.copy_(before + direction * kStep);
    const double above = loss_of();
    value.copy_(before - direction * kStep);
    const double below = loss_of();
    value.copy_(before);
    const double norm = gradient.norm().item<double>();
    EXPECT_NEAR((above - below) / (2 * kStep), norm, 5e-3 * norm);
  }
}

// ---- rows

TEST(TokenKernels, EqualLibTorch) {
  at::manual_seed(4);
  const at::Tensor places = at::tensor(std::vector<int64_t>{4, 0, 7, 2, 3});
  for (const int64_t features : {1, 16, 37, 300}) {
    for (const double p : {0.0, 0.4}) {
      SCOPED_TRACE(testing::Message() << features << " features, p " << p);
      const Rows rows{5, features};
      const at::Tensor x = at::randn({5, features}), y = at::randn({5, features}), bias = at::randn({features});
      const at::Tensor mask =
          p > 0 ? mask_from(9, p, 0, 8 * features).view({8, features}).index_select(0, places).to(at::kFloat)
                : at::ones({5, features});
      const RowMask of_rows{9, p, places.const_data_ptr<int64_t>()};

      at::Tensor z = at::empty_like(x);
      add_dropped(rows, x.const_data_ptr<float>(), y.const_data_ptr<float>(), of_rows, z.data_ptr<float>());
      EXPECT_LT(error_of(z, x + mask * y), kUnit);
      add_dropped(rows, nullptr, y.const_data_ptr<float>(), of_rows, z.data_ptr<float>());
      EXPECT_TRUE(at::equal(z, mask * y));

      for (const bool relu : {false, true}) {
        at::Tensor out = y.clone(), dx = at::empty_like(y);
        finish_linear(rows, bias.const_data_ptr<float>(), relu, of_rows, out.data_ptr<float>());
        const at::Tensor sum = y + bias;
        EXPECT_TRUE(at::equal(out, (relu ? sum.relu() : sum) * mask));
        if (!relu) continue;
        finish_linear_backward(rows, out.const_data_ptr<float>(), p, x.const_data_ptr<float>(), dx.data_ptr<float>());
        EXPECT_TRUE(at::equal(dx, x * mask * (sum > 0)));
      }
    }
  }
}

TEST(TokenKernels, ReluLetsNoNumberPass) {
  std::vector<float> y = {std::nanf(""), -1, 2};
  finish_linear({1, 3}, nullptr, true, {}, y.data());
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[2], 2);
}

TEST(TokenKernels, RowsOfATableAndBack) {
  at::manual_seed(5);
  const at::Tensor table = at::randn({6, 70}), ids = at::tensor(std::vector<int64_t>{5, 0, 5, 3}),
                   factors = at::randn({6}), dy = at::randn({4, 70});
  for (const bool factored : {false, true}) {
    const float* of_ids = factored ? factors.const_data_ptr<float>() : nullptr;
    const at::Tensor scale = factored ? factors.index_select(0, ids).unsqueeze(1) * 2 : at::full({4, 1}, 2.0F);
    at::Tensor y = at::empty({4, 70}), gradient = at::ones({6, 70});
    gather_rows({4, 70}, table.const_data_ptr<float>(), ids.const_data_ptr<int64_t>(), 2, of_ids, y.data_ptr<float>());
    EXPECT_TRUE(at::equal(y, table.index_select(0, ids) * scale));
    scatter_rows({4, 70}, dy.const_data_ptr<float>(), ids.const_data_ptr<int64_t>(), 2, of_ids,
                 gradient.data_ptr<float>());
    EXPECT_LT(error_of(gradient, at::ones({6, 70}).index_add(0, ids, dy * scale)), kUnit);
  }
}

}  // namespace
}  // namespace mlbench::framework::native_framework
