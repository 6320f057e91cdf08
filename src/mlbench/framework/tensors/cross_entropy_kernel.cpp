#include "mlbench/framework/tensors/cross_entropy_kernel.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "mlbench/base/vector_clones.h"
#include "mlbench/framework/tensors/vector_math.h"

namespace mlbench::framework {

namespace {

constexpr int64_t kEntropyLanes = 64;  // their number fixes the order of additions

struct RowSums {
  float largest = 0;
  double logits = 0, exponentials = 0;  // sums of z, and of exp(z - largest)
};

MLBENCH_VECTOR_CLONES
void row_largest(const float* __restrict z, int64_t classes, float& largest, double& sum) {
  float most[kEntropyLanes], sums[kEntropyLanes] = {};
  std::fill_n(most, kEntropyLanes, z[0]);
  int64_t j = 0;
  for (; j + kEntropyLanes <= classes; j += kEntropyLanes) {
    for (int64_t lane = 0; lane < kEntropyLanes; ++lane) {
      const float value = z[j + lane];
      // NaN wins, so that the loss becomes NaN.
      most[lane] = ((value > most[lane]) | (value != value)) ? value : most[lane];
      sums[lane] += value;
    }
  }
  largest = z[0];
  sum = 0;
  for (int64_t lane = 0; lane < kEntropyLanes; ++lane) {
    if (most[lane] > largest || most[lane] != most[lane]) largest = most[lane];
    sum += sums[lane];
  }
  for (; j < classes; ++j) {
    if (z[j] > largest || z[j] != z[j]) largest = z[j];
    sum += z[j];
  }
}

MLBENCH_VECTOR_CLONES
double row_exponentials(float* __restrict z, int64_t classes, float largest, bool store) {
  float sums[kEntropyLanes] = {};
  int64_t j = 0;
  for (; j + kEntropyLanes <= classes; j += kEntropyLanes) {
    for (int64_t lane = 0; lane < kEntropyLanes; ++lane) {
      const float value = fast_exp(z[j + lane] - largest);
      sums[lane] += value;
      z[j + lane] = store ? value : z[j + lane];
    }
  }
  double sum = 0;
  for (const float one : sums) sum += one;
  for (; j < classes; ++j) {
    const float value = fast_exp(z[j] - largest);
    sum += value;
    if (store) z[j] = value;
  }
  return sum;
}

MLBENCH_VECTOR_CLONES
void row_scale(float* __restrict z, int64_t classes, float scale, float less) {
  for (int64_t j = 0; j < classes; ++j) z[j] = z[j] * scale - less;
}

}  // namespace

CrossEntropySums cross_entropy_rows(at::Tensor logits, const at::Tensor& targets, double smoothing, bool gradient) {
  const int64_t rows = logits.size(0), classes = logits.size(1);
  float* all = logits.data_ptr<float>();
  const int64_t* target_of = targets.const_data_ptr<int64_t>();
  const double smooth = smoothing / static_cast<double>(classes);
  std::vector<CrossEntropySums> parts(static_cast<size_t>(rows));
  at::parallel_for(0, rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* z = all + row * classes;
      const int64_t target = target_of[row];
      RowSums sums;
      row_largest(z, classes, sums.largest, sums.logits);
      const double of_target = z[target];
      sums.exponentials = row_exponentials(z, classes, sums.largest, gradient);
      const double log_sum = std::log(sums.exponentials) + sums.largest;
      CrossEntropySums& part = parts[static_cast<size_t>(row)];
      part.nll = log_sum - of_target;
      part.loss = (1 - smoothing) * part.nll + smoothing * log_sum - smooth * sums.logits;
      if (!gradient) continue;
      row_scale(z, classes, static_cast<float>(1 / sums.exponentials), static_cast<float>(smooth));
      z[target] -= static_cast<float>(1 - smoothing);
    }
  });
  CrossEntropySums total;
  for (const CrossEntropySums& part : parts) {
    total.loss += part.loss;
    total.nll += part.nll;
  }
  return total;
}

CrossEntropySums cross_entropy_rows_reference(at::Tensor logits, const at::Tensor& targets, double smoothing,
                                              bool gradient) {
  const at::Tensor log_p = at::log_softmax(logits, 1);
  const at::Tensor column = targets.unsqueeze(1);
  const double nll = -log_p.gather(1, column).sum(at::kDouble).item<double>();
  const double uniform = -log_p.mean(1).sum(at::kDouble).item<double>();
  if (gradient) {
    logits.copy_(log_p.exp().sub_(smoothing / static_cast<double>(logits.size(1))));
    logits.scatter_add_(1, column, at::full_like(column, -(1 - smoothing), logits.options()));
  }
  return {(1 - smoothing) * nll + smoothing * uniform, nll};
}

}  // namespace mlbench::framework
