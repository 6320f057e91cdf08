#include "mlbench/framework/tensors/additive_attention.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>

#include "mlbench/base/vector_clones.h"
#include "mlbench/framework/tensors/vector_math.h"

namespace mlbench::framework {

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
constexpr int64_t kScoreLanes = 16;  // their number fixes the order of additions

MLBENCH_VECTOR_CLONES
float score_of(const float* __restrict query, const float* __restrict key, const float* __restrict weight,
               int64_t units) {
  float sums[kScoreLanes] = {};
  int64_t u = 0;
  for (; u + kScoreLanes <= units; u += kScoreLanes) {
    for (int64_t lane = 0; lane < kScoreLanes; ++lane) {
      sums[lane] += weight[u + lane] * fast_tanh(query[u + lane] + key[u + lane]);
    }
  }
  for (int64_t lane = 0; u + lane < units; ++lane) {
    sums[lane] += weight[u + lane] * fast_tanh(query[u + lane] + key[u + lane]);
  }
  float sum = 0;
  for (const float one : sums) sum += one;
  return sum;
}

MLBENCH_VECTOR_CLONES
void score_backward(const float* __restrict query, const float* __restrict key, const float* __restrict weight,
                    float d_score, int64_t units, float* __restrict d_query, float* __restrict d_key,
                    float* __restrict d_weight) {
  for (int64_t u = 0; u < units; ++u) {
    const float value = fast_tanh(query[u] + key[u]);
    const float d = d_score * weight[u] * (1 - value * value);
    d_query[u] += d;
    d_key[u] += d;
    d_weight[u] += d_score * value;
  }
}

at::Tensor is_padding(const AdditiveInputs& inputs) {  // [B, S]
  return at::arange(inputs.keys.size(1), inputs.lengths.options()).unsqueeze(0) >= inputs.lengths.unsqueeze(1);
}

// The number of queries that the references take at once: 1; on a GPU, which wants much work at a time, as many as give
// 256 MB of tanh.
int64_t queries_at_once(const AdditiveInputs& inputs) {
  constexpr int64_t kValues = int64_t{1} << 26;
  return inputs.queries.is_cuda() ? std::max<int64_t>(kValues / std::max<int64_t>(inputs.keys.numel(), 1), 1) : 1;
}

at::Tensor values_of(const at::Tensor& queries, const AdditiveInputs& inputs) {  // [B, queries, S, U]
  return at::tanh(queries.unsqueeze(2) + inputs.keys.unsqueeze(1));
}

}  // namespace

at::Tensor additive_scores(const AdditiveInputs& inputs) {
  const int64_t sequences = inputs.queries.size(0), queries = inputs.queries.size(1), units = inputs.queries.size(2),
                positions = inputs.keys.size(1);
  at::Tensor scores = at::full({sequences, queries, positions}, kMinusInfinity, inputs.queries.options());
  const float *q = inputs.queries.const_data_ptr<float>(), *k = inputs.keys.const_data_ptr<float>(),
              *v = inputs.weight.const_data_ptr<float>();
  const int64_t* lengths = inputs.lengths.const_data_ptr<int64_t>();
  float* out = scores.data_ptr<float>();
  at::parallel_for(0, sequences * queries, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t b = row / queries;
      for (int64_t s = 0; s < lengths[b]; ++s) {
        out[row * positions + s] = score_of(q + row * units, k + (b * positions + s) * units, v, units);
      }
    }
  });
  return scores;
}

AdditiveGradients additive_scores_backward(const AdditiveInputs& inputs, const at::Tensor& d_scores) {
  const int64_t sequences = inputs.queries.size(0), queries = inputs.queries.size(1), units = inputs.queries.size(2),
                positions = inputs.keys.size(1);
  AdditiveGradients result{at::zeros_like(inputs.queries), at::zeros_like(inputs.keys), {}};
  // Each sequence has its own sum, so that these are added in order whatever the number of threads.
  const at::Tensor weights = at::zeros({sequences, units}, inputs.queries.options());
  const at::Tensor dense = d_scores.contiguous();
  const float *q = inputs.queries.const_data_ptr<float>(), *k = inputs.keys.const_data_ptr<float>(),
              *v = inputs.weight.const_data_ptr<float>(), *d = dense.const_data_ptr<float>();
  const int64_t* lengths = inputs.lengths.const_data_ptr<int64_t>();
  float *dq = result.queries.data_ptr<float>(), *dk = result.keys.data_ptr<float>(), *dv = weights.data_ptr<float>();
  at::parallel_for(0, sequences, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      for (int64_t t = 0; t < queries; ++t) {
        const int64_t row = b * queries + t;
        for (int64_t s = 0; s < lengths[b]; ++s) {
          const int64_t key = (b * positions + s) * units;
          score_backward(q + row * units, k + key, v, d[row * positions + s], units, dq + row * units, dk + key,
                         dv + b * units);
        }
      }
    }
  });
  result.weight = weights.sum(0);
  return result;
}

at::Tensor additive_scores_reference(const AdditiveInputs& inputs) {
  std::vector<at::Tensor> scores;
  for (const at::Tensor& queries : inputs.queries.split(queries_at_once(inputs), 1)) {
    scores.push_back(values_of(queries, inputs).matmul(inputs.weight));
  }
  return at::cat(scores, 1).masked_fill_(is_padding(inputs).unsqueeze(1), kMinusInfinity);
}

AdditiveGradients additive_scores_backward_reference(const AdditiveInputs& inputs, const at::Tensor& d_scores) {
  AdditiveGradients result{{}, at::zeros_like(inputs.keys), at::zeros_like(inputs.weight)};
  const int64_t at_once = queries_at_once(inputs);
  const std::vector<at::Tensor> queries = inputs.queries.split(at_once, 1),
                                d = d_scores.masked_fill(is_padding(inputs).unsqueeze(1), 0).split(at_once, 1);
  std::vector<at::Tensor> d_queries;
  for (size_t i = 0; i < queries.size(); ++i) {
    const at::Tensor value = values_of(queries[i], inputs), d_score = d[i].unsqueeze(3);
    result.weight.add_((d_score * value).sum(at::IntArrayRef{0, 1, 2}));
    const at::Tensor d_sum = d_score * inputs.weight * (1 - value * value);
    d_queries.push_back(d_sum.sum(2));
    result.keys.add_(d_sum.sum(1));
  }
  result.queries = at::cat(d_queries, 1);
  return result;
}

}  // namespace mlbench::framework
