#pragma once

// Coders that send some elements of the gradient. With s elements sent of n:
//
//   top_k         the s elements of largest absolute value, chosen by each rank for itself (Aji & Heafield 2017; with
//                 error feedback Stich et al. 2018). Gathered: 8 s bytes per rank and step (index and value). Below are
//                 a choice within chunks, and values of a few bits.
//   random_k      s elements drawn from (seed, step), the same on all ranks (Stich et al. 2018). Summed: 4 s bytes.
//   random_block  s elements in a row, beginning at an element drawn from (seed, step), around the end of the flat
//                 gradient (Vogels et al. 2019). Summed: 4 s bytes.
//
//   threshold     all elements whose absolute value is at least `threshold` (Strom 2015; with error feedback Dutta et
//                 al. 2020). Gathered: 8 bytes per element that is sent, which depends on the gradient.
//
//   nonzero       all elements that are not zero, of n parameters (Renggli et al. 2019). Gathered: a rank with s of
//                 them sends min(8 s, 4 n) bytes: where indices do not pay, the gradient as it is. Nothing is left out.
//
// With `error_decay` below 1 what is not sent fades, as an outer momentum does that every rank has for itself
// (SparseLoCo, Sarfi et al. 2025).
//
// SparseLoCo also has top_k choose within chunks, and sends values of 2 bits:
//
//   chunk  Each tensor is cut into chunks of that many elements in a row, the last of which may be shorter. The largest
//          share of each is sent, at least one element. An index within a chunk has w = ceil(log2 chunk) bits; without
//          chunks w = 32.
//   bits   The values that are sent of a tensor (without chunks: of the model) are coded so many times by "one_bit"
//          (sign.h): each time what the times before left of them. A mean is what is nearest to all of its values, so
//          each time less is left, and error feedback, which is over both, converges as it does without.
//
// Indices of s values take ceil(w s / 8) bytes. The values take 4 s bytes, or with b bits b times the sum of 8 +
// ceil(s_t / 8), where s_t elements are sent of tensor t.
//
// Both random ones multiply by n / s where there is no error feedback, so that their expectation is the gradient; with
// error feedback they send elements as they are. Error feedback is added before elements are chosen, and momentum comes
// after the sum, in the rule; deep gradient compression (Lin et al. 2018) has it before, and is another coder.

#include "mlbench/compress/coder.h"
#include "mlbench/compress/error_memory.h"

namespace mlbench::compress {

struct SparseOptions {
  double share = 0.01;         // s / n; s is at least 1
  bool error_feedback = true;  // what is not sent is added to the next gradient
  double error_decay = 1;      // times what was not sent, before the next gradient is added to it
};

struct TopKOptions {
  SparseOptions sparse;
  int64_t chunk = 0;  // elements; 0: the largest of the whole model
  int64_t bits = 0;   // of a value; 0: float32
};

class TopKCoder final : public GradientCoder {
 public:
  TopKCoder(const TopKOptions& options, const CoderContext& context);
  std::string name() const override { return "top_k"; }
  bool decodes_alone() const override { return !memory_.enabled(); }
  std::optional<uint64_t> bytes_per_step() const override;
  Payload encode(int round, const at::Tensor& gradient) override;
  void absorb(int round, std::span<const at::Tensor> results, at::Tensor& gradient) override;
  void export_state(NamedState& state) const override { memory_.export_state(state); }
  void import_state(const NamedState& state) override { memory_.import_state(state); }

 private:
  // `sent` of the elements are sent; in a payload, `first` stand before them.
  struct Chunk {
    int64_t offset = 0, count = 0, first = 0, sent = 0;
  };

  // Whether a payload is that of sparse_payload.h.
  bool is_plain() const { return options_.chunk == 0 && options_.bits == 0; }
  void add_chunk(int64_t offset, int64_t count, int64_t sent);
  // Places in the flat gradient, chunk by chunk.
  std::vector<int32_t> choose(std::span<const float> values) const;
  int64_t index_bytes() const;
  // Indices, then values.
  at::Tensor pack(const std::vector<int32_t>& indices, const at::Tensor& values) const;
  std::vector<int32_t> unpack_indices(const at::Tensor& packed) const;
  at::Tensor unpack_values(const at::Tensor& packed) const;

  TopKOptions options_;
  int index_bits_;
  std::vector<Chunk> chunks_;
  int64_t sent_ = 0;         // elements
  FlatLayout chosen_;        // of the values that are sent, by tensor
  int64_t value_bytes_ = 0;  // of a payload
  ErrorMemory memory_;
};

struct ThresholdOptions {
  double threshold = 0.001;  // of this rank's share of the gradient
  bool error_feedback = true;
};

class ThresholdCoder final : public GradientCoder {
 public:
  ThresholdCoder(const ThresholdOptions& options, const CoderContext& context);
  std::string name() const override { return "threshold"; }
  bool one_collective() const override { return false; }
  std::optional<uint64_t> bytes_per_step() const override { return std::nullopt; }
  Payload encode(int round, const at::Tensor& gradient) override;
  void absorb(int round, std::span<const at::Tensor> results, at::Tensor& gradient) override;
  void export_state(NamedState& state) const override { memory_.export_state(state); }
  void import_state(const NamedState& state) override { memory_.import_state(state); }

 private:
  float threshold_;
  ErrorMemory memory_;
};

class NonZeroCoder final : public GradientCoder {
 public:
  explicit NonZeroCoder(const CoderContext& context);
  std::string name() const override { return "nonzero"; }
  bool one_collective() const override { return false; }
  bool exact() const override { return true; }
  std::optional<uint64_t> bytes_per_step() const override { return std::nullopt; }
  Payload encode(int round, const at::Tensor& gradient) override;
  void absorb(int round, std::span<const at::Tensor> results, at::Tensor& gradient) override;

 private:
  size_t count_;  // parameters
};

// Which elements a step sends.
enum class RandomPart { kElements, kBlock };

class RandomCoder final : public GradientCoder {
 public:
  RandomCoder(RandomPart part, const SparseOptions& options, const CoderContext& context);
  std::string name() const override { return part_ == RandomPart::kElements ? "random_k" : "random_block"; }
  std::optional<uint64_t> bytes_per_step() const override;
  void begin(const StepContext& step) override { step_ = step.step; }
  Payload encode(int round, const at::Tensor& gradient) override;
  void absorb(int round, std::span<const at::Tensor> results, at::Tensor& gradient) override;
  void export_state(NamedState& state) const override { memory_.export_state(state); }
  void import_state(const NamedState& state) override { memory_.import_state(state); }

 private:
  // The elements of this step, in the flat gradient.
  at::Tensor draw() const;

  RandomPart part_;
  uint64_t seed_;
  std::vector<int64_t> elements_;  // places of all trainable elements in the flat gradient
  int64_t sent_;
  ErrorMemory memory_;
  int64_t step_ = 0;
  at::Tensor drawn_;
};

}  // namespace mlbench::compress
