#pragma once

// Kernels for what a graph computes between its products, in one pass over memory each. Rows have `features` values.
// The calling thread's pool computes.

#include <cstdint>
#include <functional>

namespace mlbench::framework::native_framework {

struct Rows {
  int64_t count = 0, features = 0;
};

// Dropout with probability `p` (0: none). The mask of row i begins at element places[i] * features of the mask with
// this key (models::dropout_key).
struct RowMask {
  uint64_t key = 0;
  double p = 0;
  const int64_t* places = nullptr;
};

// Computes y = mask * act(y + bias) in place. act is ReLU with `relu`, else nothing. `bias` may be null.
void finish_linear(const Rows& rows, const float* bias, bool relu, const RowMask& mask, float* y);
// Computes the gradient `dx` of the input of ReLU and of dropout with probability `p`, from their output `y` and its
// gradient `dy`.
void finish_linear_backward(const Rows& rows, const float* y, double p, const float* dy, float* dx);

// Computes z = x + mask * y. A null `x` means 0.
void add_dropped(const Rows& rows, const float* x, const float* y, const RowMask& mask, float* z);

// Calls body(i) for each i below `count`. The threads share out these calls.
void share_out(int64_t count, const std::function<void(int64_t)>& body);

// Computes row i of `y` as row ids[i] of `table` times `scale`, and times factors[ids[i]] unless `factors` is null.
void gather_rows(const Rows& rows, const float* table, const int64_t* ids, float scale, const float* factors, float* y);
// The gradient of gather_rows(): adds row i of `dy`, with the same factors, to row ids[i] of `gradient`, in the order
// of i.
void scatter_rows(const Rows& rows, const float* dy, const int64_t* ids, float scale, const float* factors,
                  float* gradient);

}  // namespace mlbench::framework::native_framework
