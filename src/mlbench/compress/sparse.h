#pragma once

// Coders that send some elements of the gradient. With s elements sent of n:
//
//   top_k         the s elements of largest absolute value, chosen by each rank for itself (Aji & Heafield 2017; with
//                 error feedback Stich et al. 2018). Gathered: 8 s bytes per rank and step (index and value).
//   random_k      s elements drawn from (seed, step), the same on all ranks (Stich et al. 2018). Summed: 4 s bytes.
//   random_block  s elements in a row, beginning at an element drawn from (seed, step), around the end of the flat
//                 gradient. Summed: 4 s bytes.
//
//   threshold     all elements whose absolute value is at least `threshold` (Strom 2015; with error feedback Dutta et
//                 al. 2020). Gathered: 8 bytes per element that is sent, which depends on the gradient.
//
//   nonzero       all elements that are not zero, of n parameters. Gathered: a rank with s of them sends min(8 s, 4 n)
//                 bytes, as where indices do not pay it sends the gradient as it is. Nothing is left out.
//
// With `error_decay` below 1 what is not sent fades, as an outer momentum does that every rank has for itself
// (SparseLoCo, Sarfi et al. 2025).
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

class TopKCoder final : public GradientCoder {
 public:
  TopKCoder(const SparseOptions& options, const CoderContext& context);
  std::string name() const override { return "top_k"; }
  bool decodes_alone() const override { return !memory_.enabled(); }
  std::optional<uint64_t> bytes_per_step() const override;
  Payload encode(int round, const at::Tensor& gradient) override;
  void absorb(int round, std::span<const at::Tensor> results, at::Tensor& gradient) override;
  void export_state(NamedState& state) const override { memory_.export_state(state); }
  void import_state(const NamedState& state) override { memory_.import_state(state); }

 private:
  int64_t sent_;  // elements
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
