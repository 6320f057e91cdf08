#pragma once

// What stands between the products of a graph, in one pass over memory each. Rows of `features` values; on the calling
// thread's pool.

#include <cstdint>
#include <functional>

namespace mlbench::framework::native_framework {

struct Rows {
  int64_t count = 0, features = 0;
};

// Dropout: the mask of row i begins at element places[i] * features (models::dropout_key). p 0: none.
struct RowMask {
  uint64_t key = 0;
  double p = 0;
  const int64_t* places = nullptr;
};

// y = mask * act(y + bias) in place; act is ReLU or nothing, `bias` may be null.
void finish_linear(const Rows& rows, const float* bias, bool relu, const RowMask& mask, float* y);
// The gradient of what ReLU and dropout (of probability p) took, from what they gave.
void finish_linear_backward(const Rows& rows, const float* y, double p, const float* dy, float* dx);

// z = x + mask * y; x may be null: 0.
void add_dropped(const Rows& rows, const float* x, const float* y, const RowMask& mask, float* z);

// body(i) for each i below `count`, which threads share out.
void share_out(int64_t count, const std::function<void(int64_t)>& body);

// Rows ids[i] of a table, times `scale`, and times factors[ids[i]] where there are any.
void gather_rows(const Rows& rows, const float* table, const int64_t* ids, float scale, const float* factors, float* y);
// Added to rows ids[i] of the gradient, in the order of i.
void scatter_rows(const Rows& rows, const float* dy, const int64_t* ids, float scale, const float* factors,
                  float* gradient);

}  // namespace mlbench::framework::native_framework
