#include "mlbench/framework/tensors/token_loss.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/framework/tensors/products.h"

namespace mlbench::framework {

namespace {

constexpr int64_t kChunkElements = int64_t{16} << 20;  // 64 MiB of logits
constexpr int64_t kLeastRows = 64;                     // rows of a chunk for which reading the weight pays

}  // namespace

TokenLoss::TokenLoss(const TokenLossOptions& options, GradientBuffer& gradients)
    : loss_(options.loss),
      weight_(options.weight),
      bias_(options.bias),
      biased_(options.bias.value.defined()),
      on_host_(options.on_host),
      type_(options.product_type),
      gradients_(gradients) {}

MetricSums TokenLoss::forward(const at::Tensor& hidden, const at::Tensor& targets, bool training) {
  const at::NoGradGuard nothing_to_differentiate;
  shape_ = hidden.sizes().vec();
  at::Tensor rows = hidden.detach().reshape({-1, shape_.back()});
  at::Tensor wanted = targets.reshape({-1});
  MLBENCH_CHECK(rows.size(0) == wanted.size(0), "hidden values and targets of different numbers of positions");
  kept_ = at::Tensor();
  if (loss_.ignored >= 0) {
    kept_ = at::nonzero(wanted != loss_.ignored).flatten();
    if (kept_.size(0) == rows.size(0)) {
      kept_ = at::Tensor();
    } else {
      rows = rows.index_select(0, kept_);
      wanted = wanted.index_select(0, kept_);
    }
  }
  rows = prepared(rows.contiguous(), type_);
  const at::Tensor weight = prepared(weight_.value, type_, &rounded_weight_);
  wanted = wanted.contiguous();
  const int64_t count = rows.size(0), classes = weight_.value.size(0);
  const int64_t chunk = std::max(kLeastRows, kChunkElements / classes);
  if (training) {
    d_rows_ = at::empty({count, shape_.back()}, hidden.options().dtype(at::kFloat));
    if (!d_weight_.defined()) {
      d_weight_ = at::empty_like(weight_.value);
      if (biased_) d_bias_ = at::empty_like(bias_.value);
    }
    if (count == 0) d_weight_.zero_();
    if (biased_) d_bias_.zero_();
  }
  CrossEntropySums sums;
  for (int64_t first = 0; first < count; first += chunk) {
    const int64_t n = std::min(chunk, count - first);
    forward_chunk(rows.narrow(0, first, n), weight, wanted.narrow(0, first, n), first, training, sums);
  }
  return {sums.loss, sums.nll, count};
}

void TokenLoss::forward_chunk(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& targets,
                              int64_t first, bool training, CrossEntropySums& sums) {
  const int64_t n = rows.size(0), classes = weight_.value.size(0);
  if (!buffer_.defined() || buffer_.size(0) < n) buffer_ = at::empty({n, classes}, weight_.value.options());
  at::Tensor logits = buffer_.narrow(0, 0, n);
  if (biased_) logits.copy_(bias_.value.expand(logits.sizes()));
  multiply(logits, rows, weight.t(), biased_, type_, &rounded_logits_);
  const CrossEntropySums part = on_host_
                                    ? cross_entropy_rows(logits, targets, loss_.label_smoothing, training)
                                    : cross_entropy_rows_reference(logits, targets, loss_.label_smoothing, training);
  sums.loss += part.loss;
  sums.nll += part.nll;
  if (!training) return;
  if (biased_) d_bias_.add_(logits.sum(0));
  at::Tensor d_rows = d_rows_.narrow(0, first, n);
  const at::Tensor d = prepared(logits, type_, &rounded_logits_);
  multiply(d_rows, d, weight, false, type_, &rounded_gradient_);
  multiply(d_weight_, d.t(), rows, first > 0, type_, &rounded_gradient_);
}

at::Tensor TokenLoss::backward(double scale) {
  const at::NoGradGuard nothing_to_differentiate;
  const auto scaled = [scale](at::Tensor& target, const at::Tensor& gradient, bool add) {
    if (add) {
      target.add_(gradient, scale);
    } else {
      at::mul_out(target, gradient, at::scalar_tensor(scale, gradient.options()));
    }
  };
  if (biased_) {
    gradients_.contribute(bias_.slot, [&](at::Tensor& target, bool add) { scaled(target, d_bias_, add); });
  }
  gradients_.contribute(weight_.slot, [&](at::Tensor& target, bool add) { scaled(target, d_weight_, add); });
  const at::Tensor d_rows = std::exchange(d_rows_, {}).mul_(scale);
  if (!kept_.defined()) return d_rows.view(shape_);
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape_.size(); ++i) rows *= shape_[i];
  return at::zeros({rows, shape_.back()}, d_rows.options()).index_copy_(0, kept_, d_rows).view(shape_);
}

at::Tensor TokenLoss::logits(const at::Tensor& hidden) const {
  std::vector<int64_t> shape = hidden.sizes().vec();
  shape.back() = weight_.value.size(0);
  const at::Tensor y = product(hidden.flatten(0, -2), weight_.value.t(), type_).view(shape);
  return biased_ ? y + bias_.value : y;
}

}  // namespace mlbench::framework
