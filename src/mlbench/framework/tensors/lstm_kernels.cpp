#include "mlbench/framework/tensors/lstm_kernels.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "mlbench/base/vector_clones.h"
#include "mlbench/framework/tensors/vector_math.h"

namespace mlbench::framework {

namespace {

MLBENCH_VECTOR_CLONES
void cell_row(int64_t hidden, float* __restrict gates, const float* __restrict before, float* __restrict cell,
              float* __restrict state) {
  float* __restrict in = gates;
  float* __restrict forget = gates + hidden;
  float* __restrict candidate = gates + 2 * hidden;
  float* __restrict out = gates + 3 * hidden;
  for (int64_t j = 0; j < hidden; ++j) {
    const float i = fast_sigmoid(in[j]), f = fast_sigmoid(forget[j]), g = fast_tanh(candidate[j]),
                o = fast_sigmoid(out[j]);
    const float c = f * before[j] + i * g;
    in[j] = i, forget[j] = f, candidate[j] = g, out[j] = o;
    cell[j] = c;
    state[j] = o * fast_tanh(c);
  }
}

MLBENCH_VECTOR_CLONES
void cell_row_backward(int64_t hidden, float* __restrict gates, const float* __restrict before,
                       const float* __restrict cell, const float* __restrict d_state, float* __restrict d_cell) {
  float* __restrict in = gates;
  float* __restrict forget = gates + hidden;
  float* __restrict candidate = gates + 2 * hidden;
  float* __restrict out = gates + 3 * hidden;
  for (int64_t j = 0; j < hidden; ++j) {
    const float i = in[j], f = forget[j], g = candidate[j], o = out[j], tanh_c = fast_tanh(cell[j]);
    const float dh = d_state[j];
    const float dc = d_cell[j] + dh * o * (1 - tanh_c * tanh_c);
    in[j] = dc * g * i * (1 - i);
    forget[j] = dc * before[j] * f * (1 - f);
    candidate[j] = dc * i * (1 - g * g);
    out[j] = dh * tanh_c * o * (1 - o);
    d_cell[j] = dc * f;
  }
}

int64_t lstm_grain(const LstmShape& shape) { return std::max<int64_t>(1, 4096 / std::max<int64_t>(1, shape.hidden)); }

}  // namespace

void lstm_cell(const LstmShape& shape, float* gates, const float* before, float* cell, float* state) {
  const int64_t h = shape.hidden;
  at::parallel_for(0, shape.sequences, lstm_grain(shape), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      cell_row(h, gates + b * 4 * h, before + b * h, cell + b * h, state + b * h);
    }
  });
}

void lstm_cell_backward(const LstmShape& shape, float* gates, const float* before, const float* cell,
                        const float* d_state, float* d_cell) {
  const int64_t h = shape.hidden;
  at::parallel_for(0, shape.sequences, lstm_grain(shape), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      cell_row_backward(h, gates + b * 4 * h, before + b * h, cell + b * h, d_state + b * h, d_cell + b * h);
    }
  });
}

void lstm_cell_reference(at::Tensor gates, const at::Tensor& before, at::Tensor cell, at::Tensor state) {
  const std::vector<at::Tensor> parts = gates.chunk(4, 1);
  const at::Tensor i = at::sigmoid(parts[0]), f = at::sigmoid(parts[1]), g = at::tanh(parts[2]),
                   o = at::sigmoid(parts[3]);
  cell.copy_(f * before + i * g);
  state.copy_(o * at::tanh(cell));
  gates.copy_(at::cat({i, f, g, o}, 1));
}

void lstm_cell_backward_reference(at::Tensor gates, const at::Tensor& before, const at::Tensor& cell,
                                  const at::Tensor& d_state, at::Tensor d_cell) {
  const std::vector<at::Tensor> parts = gates.chunk(4, 1);
  const at::Tensor &i = parts[0], &f = parts[1], &g = parts[2], &o = parts[3];
  const at::Tensor tanh_c = at::tanh(cell);
  const at::Tensor dc = d_cell + d_state * o * (1 - tanh_c * tanh_c);
  const at::Tensor sums = at::cat(
      {dc * g * i * (1 - i), dc * before * f * (1 - f), dc * i * (1 - g * g), d_state * tanh_c * o * (1 - o)}, 1);
  d_cell.copy_(dc * f);
  gates.copy_(sums);
}

}  // namespace mlbench::framework
