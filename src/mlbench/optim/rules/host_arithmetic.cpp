#include <ATen/Parallel.h>

#include <algorithm>

#include "mlbench/optim/gradient_norm.h"
#include "mlbench/optim/rules/arithmetic.h"

namespace mlbench::optim {

namespace {

constexpr int64_t kElementGrain = 32768;

void sgd(FlatTensors& tensors, at::Tensor& momentum, const SgdCoefficients& coefficients) {
  sgd_update(tensors.parameters.data_ptr<float>(), tensors.gradients.const_data_ptr<float>(),
             momentum.defined() ? momentum.data_ptr<float>() : nullptr, tensors.parameters.numel(), coefficients);
}

void adam(FlatTensors& tensors, AdamState& state, const AdamCoefficients& coefficients) {
  const AdamMoments moments{state.exp_avg.data_ptr<float>(), state.exp_avg_sq.data_ptr<float>(),
                            state.max_exp_avg_sq.defined() ? state.max_exp_avg_sq.data_ptr<float>() : nullptr};
  adam_update(tensors.parameters.data_ptr<float>(), tensors.gradients.const_data_ptr<float>(), moments,
              tensors.parameters.numel(), coefficients);
}

double squares_of(const at::Tensor& flat, const FlatLayout& layout) {
  return sum_of_squares(flat.const_data_ptr<float>(), layout);
}

void blend(at::Tensor& average, const at::Tensor& value, float share) {
  const float* from = value.const_data_ptr<float>();
  float* to = average.data_ptr<float>();
  at::parallel_for(0, average.numel(), kElementGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] += (from[i] - to[i]) * share;
  });
}

void swap_values(at::Tensor& one, at::Tensor& other) {
  float* first = one.data_ptr<float>();
  float* second = other.data_ptr<float>();
  at::parallel_for(0, one.numel(), kElementGrain,
                   [&](int64_t begin, int64_t end) { std::swap_ranges(first + begin, first + end, second + begin); });
}

}  // namespace

const Arithmetic kHostArithmetic{sgd, adam, squares_of, blend, swap_values};

}  // namespace mlbench::optim
