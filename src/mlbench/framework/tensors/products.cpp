#include "mlbench/framework/tensors/products.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/framework/tensors/product_kernels.h"

namespace mlbench::framework {
namespace {

using product_kernels::Factors;
using product_kernels::Kernels;
using product_kernels::kPanelColumns;
using product_kernels::packed_rows;
using product_kernels::Tile;
using product_kernels::View;

constexpr int64_t kColumnBlock = 64 * kPanelColumns;  // columns whose panels stay in the third-level cache
constexpr int64_t kLeastWork = int64_t{1} << 15;      // multiplications for which another thread pays
constexpr int64_t kRowsWorthSharing = 48;             // rows per thread for which panels that all threads read pay

int64_t parts_of(int64_t extent, int64_t most) { return (extent + most - 1) / most; }

at::Tensor scratch(int64_t values) {
  // LibTorch aligns the memory to 64 bytes.
  return at::empty({values}, at::kFloat);
}

std::optional<View> view_of(const at::Tensor& matrix) {
  if (matrix.scalar_type() != at::kFloat || !matrix.device().is_cpu() || matrix.dim() != 2) return std::nullopt;
  int64_t along_rows = matrix.stride(0), along_columns = matrix.stride(1);
  // An extent of one has any stride.
  if (matrix.size(1) == 1) along_columns = 1;
  if (matrix.size(0) == 1 && along_columns != 1) along_rows = 1;
  if (along_rows != 1 && along_columns != 1) return std::nullopt;
  return View{matrix.const_data_ptr<float>(), along_rows, along_columns};
}

Factors factors_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return Factors::kFloat32;
    case at::kBFloat16:
      return Factors::kBFloat16;
    case at::kHalf:
      return Factors::kFloat16;
    default:
      MLBENCH_CHECK(false, std::string("products of factors that are ") + at::toString(type));
  }
}

void multiply_by_torch(at::Tensor& to, const at::Tensor& a, const at::Tensor& b, bool add, KeptMatrix* kept) {
  if (a.scalar_type() != at::kFloat) {
    at::Tensor product = kept != nullptr ? kept->of({a.size(0), b.size(1)}, a.options()) : at::Tensor();
    if (kept != nullptr) {
      at::mm_out(product, a, b);
    } else {
      product = at::mm(a, b);
    }
    add ? to.add_(product) : to.copy_(product);
  } else if (add) {
    to.addmm_(a, b);
  } else {
    at::mm_out(to, a, b);
  }
}

struct Extents {
  int64_t rows = 0, columns = 0, inner = 0;
};

int64_t threads_for(const Extents& extents) {
  const int64_t worth = parts_of(extents.rows * extents.columns * extents.inner, kLeastWork);
  return at::in_parallel_region() ? 1 : std::min<int64_t>(at::get_num_threads(), worth);
}

// The division of rows of `a` into slices of nearly equal height, next to each other.
struct Slices {
  int64_t rows = 0, count = 0;
  Slices(int64_t all, const Kernels& kernels) : rows(all), count(parts_of(all, kernels.slice_rows)) {}
  int64_t begin(int64_t i) const { return rows * i / count; }
};

void pack_slices(const Kernels& kernels, const Slices& slices, const View& a, int64_t inner, Factors factors,
                 float* packed) {
  for (int64_t i = 0; i < slices.count; ++i) {
    const int64_t first = slices.begin(i);
    kernels.pack_slice(a.at(first, 0), slices.begin(i + 1) - first, inner, factors,
                       packed + first * packed_rows(inner, factors));
  }
}

// Computes c = slices panel, or with `tile.add` c += slices panel.
void multiply_slices(const Kernels& kernels, const Slices& slices, const float* slices_at, Tile tile, Factors factors) {
  float* const c = tile.c;
  for (int64_t i = 0; i < slices.count; ++i) {
    const int64_t top = slices.begin(i);
    tile.rows = slices.begin(i + 1) - top;
    tile.slice = slices_at + top * tile.inner;
    tile.c = c + top * tile.stride;
    kernels.multiply_tile(tile, factors);
  }
}

// What all products of a call have in common.
struct Call {
  const Kernels& kernels;
  View a = {}, b = {};
  float* c = nullptr;
  int64_t stride = 0;
  bool add = false;
  Factors factors = Factors::kFloat32;
};

// A part of the inner extent. Its length is even, so that no pair of bfloat16 is split.
struct InnerPart {
  int64_t first = 0, length = 0, packed = 0;
};

std::vector<InnerPart> inner_parts(int64_t inner, const Call& call) {
  const int64_t parts = parts_of(packed_rows(inner, call.factors), call.kernels.inner_block);
  const int64_t step = parts_of(parts_of(inner, parts), 2) * 2;
  std::vector<InnerPart> result;
  for (int64_t first = 0; first < inner; first += step) {
    const int64_t length = std::min(step, inner - first);
    result.push_back({first, length, packed_rows(length, call.factors)});
  }
  return result;
}

int64_t width_of(int64_t panel, int64_t columns) {
  return std::min<int64_t>(kPanelColumns, columns - panel * kPanelColumns);
}

// Packs panels number `begin` to `end` of the `columns` columns from `column` on, next to each other.
void pack_panels(const Call& call, const InnerPart& part, int64_t column, int64_t columns, int64_t begin, int64_t end,
                 float* panels) {
  for (int64_t panel = begin; panel < end; ++panel) {
    call.kernels.pack_panel(call.b.at(part.first, column + panel * kPanelColumns), part.length,
                            width_of(panel, columns), call.factors, panels + panel * kPanelColumns * part.packed);
  }
}

// Multiplies rows from `row` on, a block at a time, by these panels.
void multiply_rows(const Call& call, const InnerPart& part, int64_t row, int64_t rows, int64_t column, int64_t columns,
                   const float* panels) {
  const int64_t block = call.kernels.row_block;
  const at::Tensor own = scratch(std::min(block, rows) * part.packed);
  for (const int64_t end = row + rows; row < end; row += block) {
    const Slices slices(std::min(block, end - row), call.kernels);
    pack_slices(call.kernels, slices, call.a.at(row, part.first), part.length, call.factors, own.data_ptr<float>());
    for (int64_t panel = 0; panel < parts_of(columns, kPanelColumns); ++panel) {
      multiply_slices(call.kernels, slices, own.const_data_ptr<float>(),
                      {.columns = width_of(panel, columns),
                       .inner = part.packed,
                       .panel = panels + panel * kPanelColumns * part.packed,
                       .c = call.c + row * call.stride + column + panel * kPanelColumns,
                       .stride = call.stride,
                       .add = call.add || part.first > 0},
                      call.factors);
    }
  }
}

// Threads share out the packing of panels, then the rows.
void multiply_by_rows(const Call& call, const Extents& extents, int64_t threads) {
  const int64_t column_step =
      parts_of(parts_of(extents.columns, parts_of(extents.columns, kColumnBlock)), kPanelColumns) * kPanelColumns;
  const at::Tensor shared = scratch(column_step * std::min(call.kernels.inner_block + 1, extents.inner));
  float* const panels = shared.data_ptr<float>();
  for (int64_t column = 0; column < extents.columns; column += column_step) {
    const int64_t columns = std::min(column_step, extents.columns - column);
    for (const InnerPart& part : inner_parts(extents.inner, call)) {
      at::parallel_for(0, parts_of(columns, kPanelColumns), 4, [&](int64_t begin, int64_t end) {
        pack_panels(call, part, column, columns, begin, end, panels);
      });
      at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
        const int64_t first = extents.rows * begin / threads, last = extents.rows * end / threads;
        multiply_rows(call, part, first, last - first, column, columns, panels);
      });
    }
  }
}

// For few rows: the threads share out the columns.
void multiply_by_columns(const Call& call, const Extents& extents, int64_t threads) {
  const std::vector<InnerPart> parts = inner_parts(extents.inner, call);
  at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
    const at::Tensor own = scratch(kPanelColumns * std::min(call.kernels.inner_block + 1, extents.inner));
    const int64_t panels = parts_of(extents.columns, kPanelColumns);
    for (const InnerPart& part : parts) {
      const Slices slices(extents.rows, call.kernels);
      const at::Tensor left = scratch(extents.rows * part.packed);
      pack_slices(call.kernels, slices, call.a.at(0, part.first), part.length, call.factors, left.data_ptr<float>());
      for (int64_t panel = panels * begin / threads; panel < panels * end / threads; ++panel) {
        const int64_t column = panel * kPanelColumns;
        call.kernels.pack_panel(call.b.at(part.first, column), part.length, width_of(panel, extents.columns),
                                call.factors, own.data_ptr<float>());
        multiply_slices(call.kernels, slices, left.const_data_ptr<float>(),
                        {.columns = width_of(panel, extents.columns),
                         .inner = part.packed,
                         .panel = own.const_data_ptr<float>(),
                         .c = call.c + column,
                         .stride = call.stride,
                         .add = call.add || part.first > 0},
                        call.factors);
      }
    }
  });
}

// The fastest kernels of this processor for a factor of many products; null: there are none.
const Kernels* kernels_for(Factors factors) {
  for (const Kernels* kernels : product_kernels::all_kernels()) {
    if (kernels->available(factors)) return kernels;
  }
  return nullptr;
}

// Returns the fastest kernels for any product. For bfloat16, LibTorch's products (oneDNN's) are faster, so null.
const Kernels* kernels_for_all(Factors factors) {
  return factors == Factors::kBFloat16 ? nullptr : kernels_for(factors);
}

bool by_kernels(at::Tensor& to, const at::Tensor& a, const at::Tensor& b, bool add, Factors factors) {
  const Kernels* const kernels = kernels_for_all(factors);
  const auto left = view_of(a), right = view_of(b), result = view_of(to);
  if (kernels == nullptr || !left || !right || !result || result->along_columns != 1) return false;
  const Extents extents{to.size(0), to.size(1), a.size(1)};
  if (extents.rows < 1 || extents.columns < 1 || extents.inner < 1) return false;
  const Call call{*kernels, *left, *right, to.data_ptr<float>(), result->along_rows, add, factors};
  const int64_t threads = threads_for(extents);
  if (extents.rows >= kRowsWorthSharing * threads) {
    multiply_by_rows(call, extents, threads);
  } else {
    multiply_by_columns(call, extents, threads);
  }
  return true;
}

}  // namespace

at::Tensor KeptMatrix::of(at::IntArrayRef sizes, const at::TensorOptions& options) {
  const int64_t count = c10::multiply_integers(sizes);
  if (!memory_.defined() || memory_.numel() < count ||
      memory_.scalar_type() != c10::typeMetaToScalarType(options.dtype()) || memory_.device() != options.device()) {
    memory_ = at::Tensor();  // freed first, so that both never exist at once
    memory_ = at::empty({count}, options.requires_grad(false));
  }
  return memory_.narrow(0, 0, count).view(sizes);
}

at::Tensor prepared(const at::Tensor& factor, at::ScalarType factors, KeptMatrix* memory) {
  if (factors != at::kBFloat16) return factor;
  if (memory == nullptr || factor.scalar_type() == factors) return factor.to(factors);
  return memory->of(factor.sizes(), factor.options().dtype(factors)).copy_(factor);
}

at::Tensor rounded(const at::Tensor& factor, at::ScalarType type) {
  const at::Tensor result = factor.to(type);
  return type == at::kHalf && factor.device().is_cpu() ? result.to(at::kFloat) : result;
}

void multiply(at::Tensor& to, const at::Tensor& a, const at::Tensor& b, bool add, at::ScalarType factors,
              KeptMatrix* product) {
  if (by_kernels(to, a, b, add, factors_of(factors))) return;
  multiply_by_torch(to, rounded(a, factors), rounded(b, factors), add, product);
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b, at::ScalarType factors) {
  at::Tensor result = at::empty({a.size(0), b.size(1)}, a.options().dtype(at::kFloat));
  multiply(result, a, b, false, factors);
  return result;
}

RightFactor::RightFactor(const at::Tensor& b, at::ScalarType factors)
    : factors_(factors), inner_(b.size(0)), columns_(b.size(1)) {
  const Factors kind = factors_of(factors);
  const Kernels* const kernels = kernels_for(kind);
  const auto view = view_of(b);
  if (kernels == nullptr || !view || inner_ < 1 || columns_ < 1) {
    plain_ = rounded(b, factors);
    return;
  }
  const int64_t panels = parts_of(columns_, kPanelColumns), packed = packed_rows(inner_, kind);
  panels_ = scratch(panels * kPanelColumns * packed);
  float* const to = panels_.data_ptr<float>();
  at::parallel_for(0, panels, 8, [&](int64_t begin, int64_t end) {
    pack_panels({.kernels = *kernels, .b = *view, .factors = kind}, {0, inner_, packed}, 0, columns_, begin, end, to);
  });
}

void RightFactor::multiply(at::Tensor& to, const at::Tensor& a, bool add) const {
  if (plain_.defined()) {
    multiply_by_torch(to, rounded(a, factors_), plain_, add, nullptr);
    return;
  }
  if (a.size(0) == 0) return;
  const auto left = view_of(a), result = view_of(to);
  MLBENCH_CHECK(left && result && result->along_columns == 1, "a product of matrices whose neighbours are apart");
  const Factors factors = factors_of(factors_);
  const Kernels& kernels = *kernels_for(factors);
  const Slices slices(a.size(0), kernels);
  const float* const panels_at = panels_.const_data_ptr<float>();
  float* const c = to.data_ptr<float>();
  const int64_t panels = parts_of(columns_, kPanelColumns), packed = packed_rows(inner_, factors);
  const int64_t threads = threads_for({slices.rows, columns_, inner_});
  at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
    const at::Tensor own = scratch(slices.rows * packed);
    pack_slices(kernels, slices, *left, inner_, factors, own.data_ptr<float>());
    for (int64_t panel = panels * begin / threads; panel < panels * end / threads; ++panel) {
      const int64_t column = panel * kPanelColumns;
      multiply_slices(kernels, slices, own.const_data_ptr<float>(),
                      {.columns = width_of(panel, columns_),
                       .inner = packed,
                       .panel = panels_at + column * packed,
                       .c = c + column,
                       .stride = result->along_rows,
                       .add = add},
                      factors);
    }
  });
}

std::string product_kernels_name(at::ScalarType factors) {
  const Kernels* const kernels = kernels_for_all(factors_of(factors));
  return kernels != nullptr ? kernels->name : "LibTorch";
}

}  // namespace mlbench::framework
