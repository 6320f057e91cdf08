#include "mlbench/compress/sparse.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/compress/selection.h"
#include "mlbench/compress/sparse_payload.h"

namespace mlbench::compress {

namespace {

std::vector<int64_t> trainable_elements(const FlatLayout& layout) {
  std::vector<int64_t> elements;
  for (const FlatRange& range : layout.ranges) {
    if (!range.trainable) continue;
    for (int64_t i = 0; i < range.count; ++i) elements.push_back(range.offset + i);
  }
  return elements;
}

}  // namespace

// ---- the largest ----------------------------------------------------------------------------------------------------

TopKCoder::TopKCoder(const SparseOptions& options, const CoderContext& context)
    : sent_(count_of(options.share, context.layout)),
      memory_(name(), context.layout, options.error_feedback, options.error_decay) {
  MLBENCH_CHECK(context.layout.parameter_elements < (int64_t{1} << 31), "an index of 32 bits");
}

std::optional<uint64_t> TopKCoder::bytes_per_step() const {
  return static_cast<uint64_t>(sent_) * (sizeof(int32_t) + sizeof(float));
}

Payload TopKCoder::encode(int /*round*/, const at::Tensor& gradient) {
  const at::Tensor& whole = memory_.with(gradient);
  const std::vector<int32_t> indices = largest(values_of(whole), sent_);
  Payload payload = sparse_payload(whole, indices);
  if (memory_.enabled()) clear_elements(indices, memory_.values());
  return payload;
}

void TopKCoder::absorb(int /*round*/, std::span<const at::Tensor> results, at::Tensor& gradient) {
  gradient.zero_();
  add_elements(results, gradient);
}

// ---- those above a threshold ----------------------------------------------------------------------------------------

ThresholdCoder::ThresholdCoder(const ThresholdOptions& options, const CoderContext& context)
    : threshold_(static_cast<float>(options.threshold)), memory_(name(), context.layout, options.error_feedback) {
  MLBENCH_CHECK(context.layout.parameter_elements < (int64_t{1} << 31), "an index of 32 bits");
}

Payload ThresholdCoder::encode(int /*round*/, const at::Tensor& gradient) {
  const at::Tensor& whole = memory_.with(gradient);
  const std::span<const float> values = values_of(whole);
  std::vector<int32_t> indices;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!(std::abs(values[i]) < threshold_)) indices.push_back(static_cast<int32_t>(i));  // NaN is sent, too
  }
  Payload payload = sparse_payload(whole, indices);
  if (memory_.enabled()) clear_elements(indices, memory_.values());
  payload.uneven = true;
  return payload;
}

void ThresholdCoder::absorb(int /*round*/, std::span<const at::Tensor> results, at::Tensor& gradient) {
  gradient.zero_();
  add_elements(results, gradient);
}

// ---- all that are not zero ------------------------------------------------------------------------------------------

NonZeroCoder::NonZeroCoder(const CoderContext& context)
    : count_(static_cast<size_t>(context.layout.parameter_count())) {
  MLBENCH_CHECK(context.layout.parameter_elements < (int64_t{1} << 31), "an index of 32 bits");
}

Payload NonZeroCoder::encode(int /*round*/, const at::Tensor& gradient) {
  const std::span<const float> values = values_of(gradient);
  std::vector<int32_t> indices;
  for (size_t i = 0; i < values.size() && 2 * indices.size() < count_; ++i) {
    if (values[i] != 0) indices.push_back(static_cast<int32_t>(i));
  }
  Payload payload;
  if (2 * indices.size() < count_) {
    payload = sparse_payload(gradient, indices);
  } else {
    payload.kind = PayloadKind::kGather;
    payload.data = gradient.view(at::kInt).clone();
    payload.bytes = count_ * sizeof(float);
  }
  payload.uneven = true;
  return payload;
}

// Indices and values are fewer words than the gradient has, which tells a payload's form.
void NonZeroCoder::absorb(int /*round*/, std::span<const at::Tensor> results, at::Tensor& gradient) {
  gradient.zero_();
  for (const at::Tensor& payload : results) {
    if (payload.numel() == gradient.numel()) {
      gradient.add_(payload.view(at::kFloat));
    } else {
      add_elements(std::span(&payload, 1), gradient);
    }
  }
}

// ---- drawn ----------------------------------------------------------------------------------------------------------

RandomCoder::RandomCoder(RandomPart part, const SparseOptions& options, const CoderContext& context)
    : part_(part),
      seed_(context.seed),
      elements_(trainable_elements(context.layout)),
      sent_(count_of(options.share, context.layout)),
      memory_(name(), context.layout, options.error_feedback, options.error_decay) {}

std::optional<uint64_t> RandomCoder::bytes_per_step() const { return static_cast<uint64_t>(sent_) * sizeof(float); }

at::Tensor RandomCoder::draw() const {
  RandomSequence random(derive_key(seed_, {kCoderStream, static_cast<uint64_t>(step_)}));
  const auto all = static_cast<uint64_t>(elements_.size());
  at::Tensor drawn = at::empty({sent_}, at::kLong);
  auto* places = drawn.data_ptr<int64_t>();
  if (part_ == RandomPart::kBlock) {
    const uint64_t first = all == 0 ? 0 : random.below(all);
    for (int64_t i = 0; i < sent_; ++i) places[i] = elements_[(first + static_cast<uint64_t>(i)) % all];
    return drawn;
  }
  // Floyd's sample without repetition.
  std::unordered_set<uint64_t> chosen;
  const auto sent = static_cast<uint64_t>(sent_);
  for (uint64_t last = all - sent; last < all; ++last) {
    const uint64_t one = random.below(last + 1);
    if (!chosen.insert(one).second) chosen.insert(last);
  }
  std::vector<uint64_t> sorted(chosen.begin(), chosen.end());
  std::ranges::sort(sorted);
  for (size_t i = 0; i < sorted.size(); ++i) places[i] = elements_[sorted[i]];
  return drawn;
}

Payload RandomCoder::encode(int /*round*/, const at::Tensor& gradient) {
  drawn_ = draw();
  Payload payload;
  payload.kind = PayloadKind::kSum;
  payload.bytes = bytes_per_step().value();
  payload.data = at::index_select(memory_.with(gradient), 0, drawn_);
  if (memory_.enabled()) {
    memory_.values().index_fill_(0, drawn_, 0);
  } else {
    payload.data.mul_(static_cast<double>(elements_.size()) / static_cast<double>(std::max<int64_t>(1, sent_)));
  }
  return payload;
}

void RandomCoder::absorb(int /*round*/, std::span<const at::Tensor> results, at::Tensor& gradient) {
  gradient.zero_();
  gradient.index_copy_(0, drawn_, results[0]);
}

}  // namespace mlbench::compress
