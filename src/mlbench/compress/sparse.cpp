#include "mlbench/compress/sparse.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <unordered_set>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/compress/elias_codes.h"
#include "mlbench/compress/selection.h"
#include "mlbench/compress/sign.h"
#include "mlbench/compress/sparse_payload.h"

namespace mlbench::compress {

namespace {

constexpr int kWholeIndexBits = 32;
constexpr int64_t kChunksAtATime = 8;

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

TopKCoder::TopKCoder(const TopKOptions& options, const CoderContext& context)
    : options_(options),
      index_bits_(options.chunk == 0 ? kWholeIndexBits : std::bit_width(static_cast<uint64_t>(options.chunk - 1))),
      memory_(name(), context.layout, options.sparse.error_feedback, options.sparse.error_decay) {
  MLBENCH_CHECK(context.layout.parameter_elements < (int64_t{1} << 31), "an index of 32 bits");
  const double share = options.sparse.share;
  if (options.chunk == 0) {
    add_chunk(0, context.layout.parameter_elements, count_of(share, context.layout));
    chosen_.ranges.push_back({"values", {sent_}, 0, sent_});
  }
  for (const FlatRange& range : context.layout.ranges) {
    if (!range.trainable || options.chunk == 0) continue;
    const int64_t before = sent_;
    for (int64_t done = 0; done < range.count; done += options.chunk) {
      const int64_t count = std::min(options.chunk, range.count - done);
      add_chunk(range.offset + done, count, count_of(share, count));
    }
    chosen_.ranges.push_back({range.name, {sent_ - before}, before, sent_ - before});
  }
  chosen_.parameter_elements = sent_;
  const SignCoder one_bit(SignScale::kMeanOfEachSign, {chosen_});
  value_bytes_ = options.bits == 0 ? sent_ * static_cast<int64_t>(sizeof(float))
                                   : options.bits * static_cast<int64_t>(one_bit.bytes_per_step().value());
}

void TopKCoder::add_chunk(int64_t offset, int64_t count, int64_t sent) {
  chunks_.push_back({offset, count, sent_, sent});
  sent_ += sent;
}

int64_t TopKCoder::index_bytes() const { return (sent_ * index_bits_ + 7) / 8; }

std::optional<uint64_t> TopKCoder::bytes_per_step() const {
  return static_cast<uint64_t>(index_bytes() + value_bytes_);
}

std::vector<int32_t> TopKCoder::choose(std::span<const float> values) const {
  std::vector<int32_t> indices(static_cast<size_t>(sent_));
  at::parallel_for(0, static_cast<int64_t>(chunks_.size()), kChunksAtATime, [&](int64_t begin, int64_t end) {
    for (int64_t number = begin; number < end; ++number) {
      const Chunk& chunk = chunks_[static_cast<size_t>(number)];
      const auto part = values.subspan(static_cast<size_t>(chunk.offset), static_cast<size_t>(chunk.count));
      std::ranges::transform(largest(part, chunk.sent), indices.begin() + chunk.first,
                             [&](int32_t index) { return static_cast<int32_t>(index + chunk.offset); });
    }
  });
  return indices;
}

at::Tensor TopKCoder::pack(const std::vector<int32_t>& indices, const at::Tensor& values) const {
  BitWriter writer;
  for (const Chunk& chunk : chunks_) {
    for (int64_t i = chunk.first; i < chunk.first + chunk.sent; ++i) {
      writer.put(static_cast<uint64_t>(indices[static_cast<size_t>(i)] - chunk.offset), index_bits_);
    }
  }
  const std::vector<uint8_t> places = writer.finish();
  at::Tensor packed = at::empty({index_bytes() + value_bytes_}, at::kByte);
  auto* bytes = std::ranges::copy(places, packed.data_ptr<uint8_t>()).out;
  if (options_.bits == 0) {
    std::memcpy(bytes, values.const_data_ptr<float>(), values.nbytes());
    return packed;
  }
  // A coder of its own, which keeps what is left from one time to the next.
  SignCoder one_bit(SignScale::kMeanOfEachSign, {chosen_});
  for (int64_t bit = 0; bit < options_.bits; ++bit) {
    const at::Tensor signs = one_bit.encode(0, bit == 0 ? values : at::zeros_like(values)).data;
    bytes = std::copy_n(signs.const_data_ptr<uint8_t>(), signs.numel(), bytes);
  }
  return packed;
}

std::vector<int32_t> TopKCoder::unpack_indices(const at::Tensor& packed) const {
  BitReader reader({packed.const_data_ptr<uint8_t>(), static_cast<size_t>(index_bytes())});
  std::vector<int32_t> indices;
  indices.reserve(static_cast<size_t>(sent_));
  for (const Chunk& chunk : chunks_) {
    for (int64_t i = 0; i < chunk.sent; ++i) {
      const auto place = static_cast<int64_t>(reader.number(index_bits_));
      MLBENCH_CHECK(place < chunk.count, "an index outside of its chunk");
      indices.push_back(static_cast<int32_t>(chunk.offset + place));
    }
  }
  return indices;
}

at::Tensor TopKCoder::unpack_values(const at::Tensor& packed) const {
  at::Tensor values = at::empty({sent_});
  const at::Tensor bytes = packed.narrow(0, index_bytes(), value_bytes_);
  if (options_.bits == 0) {
    std::memcpy(values.data_ptr<float>(), bytes.const_data_ptr<uint8_t>(), bytes.nbytes());
  } else {
    SignCoder one_bit(SignScale::kMeanOfEachSign, {chosen_});
    one_bit.absorb(0, bytes.chunk(options_.bits), values);
  }
  return values;
}

Payload TopKCoder::encode(int /*round*/, const at::Tensor& gradient) {
  const at::Tensor& whole = memory_.with(gradient);
  const std::vector<int32_t> indices = choose(values_of(whole));
  Payload payload = sparse_payload(whole, indices);
  if (!is_plain()) {
    payload.data = pack(indices, payload.data.narrow(0, sent_, sent_).view(at::kFloat));
    payload.bytes = payload.data.nbytes();
  }
  if (!memory_.enabled()) return payload;
  if (options_.bits == 0) {
    clear_elements(indices, memory_.values());
  } else {
    const at::Tensor sent = unpack_values(payload.data);
    auto* kept = memory_.values().data_ptr<float>();
    for (size_t i = 0; i < indices.size(); ++i) kept[indices[i]] -= values_of(sent)[i];
  }
  return payload;
}

void TopKCoder::absorb(int /*round*/, std::span<const at::Tensor> results, at::Tensor& gradient) {
  gradient.zero_();
  if (is_plain()) return add_elements(results, gradient);
  auto* sums = gradient.data_ptr<float>();
  for (const at::Tensor& packed : results) {
    const std::vector<int32_t> indices = unpack_indices(packed);
    const at::Tensor values = unpack_values(packed);
    for (size_t i = 0; i < indices.size(); ++i) sums[indices[i]] += values_of(values)[i];
  }
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
