#include "mlbench/framework/tensors/sequence_decoder.h"

#include <fmt/format.h>

#include <utility>

#include "mlbench/base/errors.h"

namespace mlbench::framework {

namespace {

class SequenceDecoder final : public Decoder {
 public:
  explicit SequenceDecoder(EncodeSources encode) : encode_(std::move(encode)) {}

  void start(const BatchView& sources, int64_t rows_per_sample) override {
    MLBENCH_CHECK(sources.samples > 0 && rows_per_sample > 0, "a decoder of no rows");
    encoded_ = encode_(sources);
    pass_ = {0, rows_per_sample, std::vector<LayerState>(encoded_.layers), {}};
    sample_of_row_.clear();
    for (int64_t row = 0; row < sources.samples * rows_per_sample; ++row)
      sample_of_row_.push_back(row / rows_per_sample);
  }

  std::span<const float> step(std::span<const int64_t> tokens) override {
    MLBENCH_CHECK(tokens.size() == sample_of_row_.size(),
                  fmt::format("{} tokens for {} rows", tokens.size(), sample_of_row_.size()));
    const at::Tensor ids = at::tensor(at::ArrayRef<int64_t>(tokens.data(), tokens.size())).to(encoded_.device);
    log_probabilities_ = encoded_.step(ids, pass_).to(at::kCPU).contiguous();
    return {log_probabilities_.const_data_ptr<float>(), static_cast<size_t>(log_probabilities_.numel())};
  }

  void reorder(std::span<const int64_t> rows) override {
    MLBENCH_CHECK(pass_.position > 0, "rows are reordered after a step");
    const at::Tensor index = at::tensor(at::ArrayRef<int64_t>(rows.data(), rows.size())).to(encoded_.device);
    std::vector<int64_t> samples;
    for (const int64_t row : rows) {
      MLBENCH_CHECK(row >= 0 && row < static_cast<int64_t>(sample_of_row_.size()), "no such row of the decoder");
      samples.push_back(sample_of_row_[static_cast<size_t>(row)]);
    }
    // Mostly hypotheses change places within a sentence, whose source they share.
    const bool same_sources = samples == sample_of_row_;
    for (LayerState& state : pass_.states) {
      for (at::Tensor& one : state.rows) one = one.index_select(0, index);
      if (same_sources) continue;
      for (at::Tensor& one : state.memory) one = one.index_select(0, index);
    }
    sample_of_row_ = std::move(samples);
  }

  std::span<const float> attention() override {
    if (!pass_.attention.defined()) return {};
    attention_ = pass_.attention.to(at::kCPU).contiguous();
    return {attention_.const_data_ptr<float>(), static_cast<size_t>(attention_.numel())};
  }

 private:
  EncodeSources encode_;
  EncodedSources encoded_;
  DecodePass pass_;
  std::vector<int64_t> sample_of_row_;
  at::Tensor log_probabilities_, attention_;
};

}  // namespace

std::unique_ptr<Decoder> make_sequence_decoder(EncodeSources encode) {
  return std::make_unique<SequenceDecoder>(std::move(encode));
}

}  // namespace mlbench::framework
