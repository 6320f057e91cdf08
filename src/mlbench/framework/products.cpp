#include "mlbench/framework/products.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <optional>

#include "mlbench/framework/product_kernels.h"

namespace mlbench::framework {
namespace {

using namespace product_kernels;

// Extents of blocks: a panel of the right factor stays in the first cache, a block of the left one in the second.
constexpr int64_t kInnerBlock = 448;
constexpr int64_t kRowBlock = 8 * kSliceRows;
constexpr int64_t kColumnBlock = 64 * kPanelColumns;
constexpr int64_t kLeastWork = int64_t{1} << 15;  // multiplications that are worth another thread

int64_t parts_of(int64_t extent, int64_t most) { return (extent + most - 1) / most; }

// Where part `i` of `parts` nearly equal ones begins, in steps of `step`.
int64_t begin_of(int64_t i, int64_t parts, int64_t extent, int64_t step) {
  return std::min(extent, parts_of(extent, step) * i / parts * step);
}

at::Tensor scratch(int64_t values) {
  // At a multiple of 64 bytes, as LibTorch allocates.
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

struct Extents {
  int64_t rows = 0, columns = 0, inner = 0;
};

int64_t threads_for(const Extents& extents) {
  const int64_t worth = parts_of(extents.rows * extents.columns * extents.inner, kLeastWork);
  return at::in_parallel_region() ? 1 : std::min<int64_t>(at::get_num_threads(), worth);
}

// Rows of `a` from here on, as slices of nearly equal height next to each other.
struct Slices {
  int64_t rows = 0, count = 0;
  explicit Slices(int64_t all) : rows(all), count(parts_of(all, kSliceRows)) {}
  int64_t begin(int64_t i) const { return rows * i / count; }
};

void pack_slices(const Slices& slices, const View& a, int64_t inner, float* packed) {
  for (int64_t i = 0; i < slices.count; ++i) {
    const int64_t first = slices.begin(i);
    pack_slice(a.at(first, 0), slices.begin(i + 1) - first, inner, packed + first * inner);
  }
}

// Of one thread.
void multiply_part(const Extents& extents, const View& a, const View& b, float* c, int64_t stride, bool add) {
  const int64_t inner_parts = parts_of(extents.inner, kInnerBlock);
  const int64_t most_inner = parts_of(extents.inner, inner_parts);
  const int64_t most_rows = std::min(kRowBlock, extents.rows);
  const int64_t most_columns = std::min(kColumnBlock, parts_of(extents.columns, kPanelColumns) * kPanelColumns);
  const at::Tensor left = scratch(most_rows * most_inner), right = scratch(most_columns * most_inner);
  float *const slices_at = left.data_ptr<float>(), *const panels_at = right.data_ptr<float>();
  for (int64_t column = 0; column < extents.columns; column += kColumnBlock) {
    const int64_t columns = std::min(kColumnBlock, extents.columns - column);
    for (int64_t part = 0; part < inner_parts; ++part) {
      const int64_t first = extents.inner * part / inner_parts;
      const int64_t inner = extents.inner * (part + 1) / inner_parts - first;
      for (int64_t j = 0; j < columns; j += kPanelColumns) {
        pack_panel(b.at(first, column + j), inner, std::min<int64_t>(kPanelColumns, columns - j),
                   panels_at + j * inner);
      }
      for (int64_t row = 0; row < extents.rows; row += kRowBlock) {
        const Slices slices(std::min(kRowBlock, extents.rows - row));
        pack_slices(slices, a.at(row, first), inner, slices_at);
        for (int64_t j = 0; j < columns; j += kPanelColumns) {
          const int64_t width = std::min<int64_t>(kPanelColumns, columns - j);
          for (int64_t i = 0; i < slices.count; ++i) {
            const int64_t top = slices.begin(i);
            multiply_tile(slices.begin(i + 1) - top, width, inner, slices_at + top * inner, panels_at + j * inner,
                          c + (row + top) * stride + column + j, stride, add || part > 0);
          }
        }
      }
    }
  }
}

bool by_kernels(at::Tensor& to, const at::Tensor& a, const at::Tensor& b, bool add) {
  static const bool can = available();
  const auto left = view_of(a), right = view_of(b), result = view_of(to);
  if (!can || !left || !right || !result || result->along_columns != 1) return false;
  const Extents all{to.size(0), to.size(1), a.size(1)};
  if (all.rows < 1 || all.columns < 1 || all.inner < 1) return false;
  float* const c = to.data_ptr<float>();
  const int64_t stride = result->along_rows, threads = threads_for(all);
  const bool by_rows = all.rows >= all.columns;
  at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (by_rows) {
        const int64_t first = begin_of(i, threads, all.rows, kSliceRows),
                      last = begin_of(i + 1, threads, all.rows, kSliceRows);
        if (first < last) {
          multiply_part({last - first, all.columns, all.inner}, left->at(first, 0), *right, c + first * stride, stride,
                        add);
        }
      } else {
        const int64_t first = begin_of(i, threads, all.columns, kPanelColumns),
                      last = begin_of(i + 1, threads, all.columns, kPanelColumns);
        if (first < last) {
          multiply_part({all.rows, last - first, all.inner}, *left, right->at(0, first), c + first, stride, add);
        }
      }
    }
  });
  return true;
}

}  // namespace

void multiply(at::Tensor& to, const at::Tensor& a, const at::Tensor& b, bool add) {
  if (by_kernels(to, a, b, add)) return;
  if (add) {
    to.addmm_(a, b);
  } else {
    at::mm_out(to, a, b);
  }
}

RightFactor::RightFactor(const at::Tensor& b) : inner_(b.size(0)), columns_(b.size(1)) {
  const auto view = view_of(b);
  if (!available() || !view || inner_ < 1 || columns_ < 1) {
    plain_ = b;
    return;
  }
  const int64_t panels = parts_of(columns_, kPanelColumns);
  panels_ = scratch(panels * kPanelColumns * inner_);
  float* const to = panels_.data_ptr<float>();
  at::parallel_for(0, panels, 8, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t column = panel * kPanelColumns;
      pack_panel(view->at(0, column), inner_, std::min<int64_t>(kPanelColumns, columns_ - column),
                 to + column * inner_);
    }
  });
}

void RightFactor::multiply(at::Tensor& to, const at::Tensor& a, bool add) const {
  const auto left = view_of(a), result = view_of(to);
  if (!panels_.defined() || !left || !result || result->along_columns != 1 || a.size(0) < 1) {
    TORCH_CHECK(plain_.defined(), "a product with a packed factor that its kernels do not take");
    framework::multiply(to, a, plain_, add);
    return;
  }
  const Slices slices(a.size(0));
  const float* const panels_at = panels_.const_data_ptr<float>();
  float* const c = to.data_ptr<float>();
  const int64_t panels = parts_of(columns_, kPanelColumns), threads = threads_for({slices.rows, columns_, inner_});
  const int64_t stride = result->along_rows;
  at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
    const at::Tensor packed = scratch(slices.rows * inner_);
    float* const slices_at = packed.data_ptr<float>();
    pack_slices(slices, *left, inner_, slices_at);
    for (int64_t panel = panels * begin / threads; panel < panels * end / threads; ++panel) {
      const int64_t column = panel * kPanelColumns;
      const int64_t width = std::min<int64_t>(kPanelColumns, columns_ - column);
      for (int64_t i = 0; i < slices.count; ++i) {
        const int64_t top = slices.begin(i);
        multiply_tile(slices.begin(i + 1) - top, width, inner_, slices_at + top * inner_, panels_at + column * inner_,
                      c + top * stride + column, stride, add);
      }
    }
  });
}

std::string product_kernels_name() { return available() ? "AVX-512" : "LibTorch"; }

}  // namespace mlbench::framework
