#include "mlbench/framework/tensors/products.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "mlbench/framework/tensors/product_kernels.h"

namespace mlbench::framework {
namespace {

// How a matrix lies in memory: row by row, column by column, or as a part of wider rows.
enum class Kind { kRows, kColumns, kPart };

at::Tensor matrix(int64_t rows, int64_t columns, Kind kind) {
  if (kind == Kind::kColumns) return at::randn({columns, rows}).t();
  if (kind == Kind::kPart) return at::randn({rows, columns + 3}).narrow(1, 2, columns);
  return at::randn({rows, columns});
}

// The rounded factor, in float64.
at::Tensor exact(const at::Tensor& factor, at::ScalarType type) { return factor.to(type).to(at::kDouble); }

void expect_product(int64_t rows, int64_t inner, int64_t columns, Kind left, Kind right, bool add,
                    at::ScalarType factors) {
  const at::Tensor a = matrix(rows, inner, left), b = matrix(inner, columns, right);
  at::Tensor to = matrix(rows, columns, Kind::kRows);
  at::Tensor expected = exact(a, factors).mm(exact(b, factors));
  if (add) expected += to;
  multiply(to, a, b, add, factors);
  const double error = (to - expected).norm().item<double>();
  // LibTorch rounds results of bfloat16 to bfloat16.
  const double part = factors == at::kBFloat16 && product_kernels_name(factors) == "LibTorch"
                          ? 1.0 / 128
                          : 1e-6 * static_cast<double>(inner + 1);
  EXPECT_LE(error, part * (expected.norm().item<double>() + 1))
      << rows << " x " << inner << " x " << columns << " of " << factors << (add ? ", added" : "");
}

TEST(Products, EqualThoseInFloat64) {
  at::manual_seed(1);
  for (const auto& [rows, inner, columns] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                                {1, 5, 3},
                                                                                {3, 1, 2},
                                                                                {7, 9, 1},
                                                                                {20, 115, 460},
                                                                                {65, 33, 129},
                                                                                {200, 901, 33},
                                                                                {30, 449, 1100}}) {
    for (const Kind left : {Kind::kRows, Kind::kColumns, Kind::kPart}) {
      for (const Kind right : {Kind::kRows, Kind::kColumns, Kind::kPart}) {
        for (const bool add : {false, true}) {
          for (const at::ScalarType factors : {at::kFloat, at::kBFloat16, at::kHalf}) {
            expect_product(rows, inner, columns, left, right, add, factors);
          }
        }
      }
    }
  }
}

TEST(Products, Float16OverflowsAsItDoes) {
  at::Tensor to = at::zeros({1, 1});
  multiply(to, at::full({1, 1}, 70000.0), at::full({1, 1}, 1.0), false, at::kHalf);  // 65504 is the largest
  EXPECT_TRUE(to.isinf().all().item<bool>());
  multiply(to, at::full({1, 1}, 60000.0), at::full({1, 1}, 60000.0), false, at::kHalf);  // sums are float32
  EXPECT_NEAR(to.item<double>(), 3.6e9, 3.6e9 / 1000);
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
  constexpr double kPart = 1.0 / 128;  // bfloat16 results of LibTorch; a wrong place would be off by more
  at::manual_seed(2);
  for (const auto& [inner, columns] : std::vector<std::array<int64_t, 2>>{{1, 1}, {5, 17}, {115, 460}, {64, 48}}) {
    for (const Kind kind : {Kind::kRows, Kind::kColumns, Kind::kPart}) {
      for (const at::ScalarType factors : {at::kFloat, at::kBFloat16, at::kHalf}) {
        const at::Tensor b = matrix(inner, columns, kind);
        const RightFactor factor(b, factors);
        for (const int64_t rows : {1, 2, 16, 20, 24, 25, 49}) {
          const at::Tensor a = at::randn({rows, inner}), before = at::randn({rows, columns});
          at::Tensor whole = at::empty({rows, columns}), added = before.clone();
          factor.multiply(whole, a, false);
          factor.multiply(added, a, true);
          const at::Tensor expected = exact(a, factors).mm(exact(b, factors));
          const double most = expected.abs().max().item<double>();
          EXPECT_LE((whole - expected).abs().max().item<double>(), kPart * most) << factors;
          EXPECT_LE((added - before - expected).abs().max().item<double>(), kPart * (most + 4)) << factors;
        }
      }
    }
  }
}

// Steps multiply other extents, and the kept memory still has old values.
TEST(Products, KeptMemoryChangesNoBit) {
  at::manual_seed(3);
  KeptMatrix factor_memory, product_memory;
  for (const int64_t rows : {40, 64, 7, 64}) {
    for (const at::ScalarType factors : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const at::Tensor a = at::randn({rows, 90}), b = at::randn({90, 33});
      at::Tensor expected = at::ones({rows, 33}), found = at::ones({rows, 33});
      multiply(expected, prepared(a, factors), prepared(b, factors), true, factors);
      product_memory.of({64, 33}, b.options().dtype(at::kBFloat16)).fill_(NAN);
      const at::Tensor left = prepared(a, factors, &factor_memory);
      EXPECT_TRUE(left.equal(prepared(a, factors))) << factors;
      multiply(found, left, prepared(b, factors), true, factors, &product_memory);
      EXPECT_TRUE(found.equal(expected)) << rows << " rows, " << factors;
    }
  }
}

TEST(Products, MemoryIsKeptUntilMoreIsNeeded) {
  KeptMatrix kept;
  const at::TensorOptions options = at::TensorOptions().dtype(at::kBFloat16);
  const void* first = kept.of({20, 30}, options).const_data_ptr();
  EXPECT_EQ(kept.of({5, 7}, options).const_data_ptr(), first);
  EXPECT_EQ(kept.of({30, 20}, options).const_data_ptr(), first);
  const at::Tensor larger = kept.of({200, 30}, options);
  EXPECT_EQ(larger.sizes(), (std::vector<int64_t>{200, 30}));
  EXPECT_TRUE(larger.is_contiguous());
  EXPECT_EQ(kept.of({20, 30}, options).const_data_ptr(), larger.const_data_ptr());
  EXPECT_EQ(kept.of({2}, options.dtype(at::kFloat)).scalar_type(), at::kFloat);
}

// Compares what a kernel packs and multiplies with float64, and checks that it writes nothing beside its tile.
void expect_tile(const product_kernels::Kernels& kernels, product_kernels::Factors factors, at::ScalarType type,
                 int64_t rows, int64_t inner, int64_t columns, Kind left, Kind right, bool add) {
  using product_kernels::packed_rows;
  constexpr float kUntouched = -77;
  constexpr int64_t kPanelColumns = product_kernels::kPanelColumns, kStride = kPanelColumns + 3;
  const auto view = [](const at::Tensor& t) {
    return product_kernels::View{t.const_data_ptr<float>(), t.size(1) == 1 && t.stride(1) != 1 ? 1 : t.stride(0),
                                 t.size(0) == 1 && t.stride(0) != 1 ? 1 : t.stride(1)};
  };
  const at::Tensor a = matrix(rows, inner, left), b = matrix(inner, columns, right);
  const int64_t packed = packed_rows(inner, factors);
  at::Tensor slice = at::full({packed * rows + 1}, kUntouched),
             panel = at::full({packed * kPanelColumns + 1}, kUntouched), c = at::full({rows, kStride}, kUntouched);
  kernels.pack_slice(view(a), rows, inner, factors, slice.data_ptr<float>());
  kernels.pack_panel(view(b), inner, columns, factors, panel.data_ptr<float>());
  kernels.multiply_tile({.rows = rows,
                         .columns = columns,
                         .inner = packed,
                         .slice = slice.const_data_ptr<float>(),
                         .panel = panel.const_data_ptr<float>(),
                         .c = c.data_ptr<float>(),
                         .stride = kStride,
                         .add = add},
                        factors);
  const at::Tensor expected = exact(a, type).mm(exact(b, type)) + (add ? kUntouched : 0);
  const at::Tensor found = c.narrow(1, 0, columns);
  EXPECT_LE((found - expected).abs().max().item<double>(), 1e-5 * (expected.abs().max().item<double>() + 1))
      << kernels.name << ": " << rows << " x " << inner << " x " << columns << " of " << type;
  EXPECT_TRUE(c.narrow(1, columns, kStride - columns).eq(kUntouched).all().item<bool>());
  EXPECT_EQ(slice[-1].item<float>(), kUntouched);
  EXPECT_EQ(panel[-1].item<float>(), kUntouched);
}

TEST(ProductKernels, EachSetMultipliesTiles) {
  using product_kernels::Factors;
  at::manual_seed(4);
  bool tried = false;
  for (const product_kernels::Kernels* kernels : product_kernels::all_kernels()) {
    for (const auto& [factors, type] : {std::pair{Factors::kFloat32, at::kFloat},
                                        {Factors::kBFloat16, at::kBFloat16},
                                        {Factors::kFloat16, at::kHalf}}) {
      if (!kernels->available(factors)) continue;
      tried = true;
      for (int64_t rows = 1; rows <= kernels->slice_rows; ++rows) {
        for (const int64_t inner : {1, 2, 7, 8, 9, 16, 33}) {
          for (const int64_t columns : {1, 3, 8, 9, 15, 16}) {
            for (const Kind kind : {Kind::kRows, Kind::kColumns}) {
              const Kind other = kind == Kind::kRows ? Kind::kColumns : Kind::kRows;
              expect_tile(*kernels, factors, type, rows, inner, columns, kind, kind, false);
              expect_tile(*kernels, factors, type, rows, inner, columns, kind, other, true);
            }
          }
        }
      }
    }
  }
  if (!tried) GTEST_SKIP() << "missing capability: AVX-512 or AVX2";
}

TEST(Products, TheKernelsHaveAName) {
  for (const at::ScalarType factors : {at::kFloat, at::kBFloat16, at::kHalf}) {
    EXPECT_THAT(product_kernels_name(factors), testing::AnyOf("LibTorch", "AVX2", "AVX-512"));
  }
}

}  // namespace
}  // namespace mlbench::framework
