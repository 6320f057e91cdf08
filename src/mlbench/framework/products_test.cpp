#include "mlbench/framework/products.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace mlbench::framework {
namespace {

// As rows, as columns, or a part of something wider.
enum class Kind { kRows, kColumns, kPart };

at::Tensor matrix(int64_t rows, int64_t columns, Kind kind) {
  if (kind == Kind::kColumns) return at::randn({columns, rows}).t();
  if (kind == Kind::kPart) return at::randn({rows, columns + 3}).narrow(1, 2, columns);
  return at::randn({rows, columns});
}

void expect_product(int64_t rows, int64_t inner, int64_t columns, Kind left, Kind right, bool add) {
  const at::Tensor a = matrix(rows, inner, left), b = matrix(inner, columns, right);
  at::Tensor to = matrix(rows, columns, Kind::kRows);
  at::Tensor expected = a.to(at::kDouble).mm(b.to(at::kDouble));
  if (add) expected += to;
  multiply(to, a, b, add);
  const double error = (to - expected).norm().item<double>();
  EXPECT_LE(error, 1e-6 * static_cast<double>(inner + 1) * (expected.norm().item<double>() + 1))
      << rows << " x " << inner << " x " << columns << (add ? ", added" : "");
}

TEST(Products, EqualThoseInFloat64) {
  at::manual_seed(1);
  for (const auto& [rows, inner, columns] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                                {1, 5, 3},
                                                                                {3, 1, 2},
                                                                                {7, 9, 1},
                                                                                {20, 115, 460},
                                                                                {65, 33, 129},
                                                                                {200, 900, 33},
                                                                                {30, 449, 1100}}) {
    for (const Kind left : {Kind::kRows, Kind::kColumns, Kind::kPart}) {
      for (const Kind right : {Kind::kRows, Kind::kColumns, Kind::kPart}) {
        for (const bool add : {false, true}) expect_product(rows, inner, columns, left, right, add);
      }
    }
  }
}

TEST(Products, NothingToAddUpIsZero) {
  at::Tensor to = at::ones({2, 3});
  multiply(to, at::empty({2, 0}), at::empty({0, 3}), false);
  EXPECT_TRUE(to.eq(0).all().item<bool>());
  at::Tensor none = at::empty({0, 3});
  multiply(none, at::empty({0, 4}), at::ones({4, 3}), true);
  EXPECT_EQ(none.size(0), 0);
}

TEST(Products, WhatIsNoNumberStaysSo) {
  at::Tensor to = at::full({2, 2}, NAN);
  multiply(to, at::ones({2, 2}), at::ones({2, 2}), false);  // what was there does not count
  EXPECT_TRUE(to.eq(2).all().item<bool>());
  at::Tensor a = at::ones({2, 2});
  a[0][1] = NAN;
  multiply(to, a, at::zeros({2, 2}), false);
  EXPECT_TRUE(to[0].isnan().all().item<bool>());
  EXPECT_TRUE(to[1].eq(0).all().item<bool>());
}

TEST(Products, ARightFactorServesAnyNumberOfRows) {
  at::manual_seed(2);
  for (const auto& [inner, columns] : std::vector<std::array<int64_t, 2>>{{1, 1}, {5, 17}, {115, 460}, {64, 48}}) {
    for (const Kind kind : {Kind::kRows, Kind::kColumns, Kind::kPart}) {
      const at::Tensor b = matrix(inner, columns, kind);
      const RightFactor factor(b);
      for (const int64_t rows : {1, 2, 16, 20, 24, 25, 49}) {
        for (const bool add : {false, true}) {
          const at::Tensor a = at::randn({rows, inner});
          at::Tensor to = at::randn({rows, columns});
          at::Tensor expected = a.to(at::kDouble).mm(b.to(at::kDouble));
          if (add) expected += to;
          factor.multiply(to, a, add);
          EXPECT_LE((to - expected).abs().max().item<double>(), 1e-6 * static_cast<double>(inner + 10))
              << rows << " x " << inner << " x " << columns;
        }
      }
    }
  }
}

TEST(Products, TheKernelsHaveAName) {
  EXPECT_TRUE(product_kernels_name() == "LibTorch" || product_kernels_name() == "AVX-512") << product_kernels_name();
}

}  // namespace
}  // namespace mlbench::framework
