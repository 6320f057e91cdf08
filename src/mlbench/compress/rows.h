#pragma once

// Coders that send each element in 8 or 4 bits, with one scale for each row of a tensor. A tensor [r, ...] has r rows;
// a vector is one row. With m the largest magnitude of a row and Q the largest number of the format, an element v
// becomes
//
//   int8   the whole number next to v Q / m, ties to even, Q = 127 (Dettmers et al. 2022)
//   fp8    the float8 next to v Q / m: e4m3 with Q = 448, or e5m2 with Q = 57344 (Micikevicius et al. 2022)
//   fp4    e3m0, the float of a sign and 3 bits of exponent next to v / m, Q = 1 (Douillard et al. 2025): 0 or a power
//          of two from 2^-6 to 1, ties away from 0. The error is at most |v| / 3, or m / 128 where that is more.
//
// What comes out is the sum over ranks of code * m / Q. Gathered: 4 bytes per row, and 1 byte per element; with fp4
// half a byte per element of each row, rounded up. With error feedback, what rounding takes away of a rank's gradient
// is added to its next one.

#include "mlbench/compress/coder.h"
#include "mlbench/compress/error_memory.h"

namespace mlbench::compress {

enum class RowFormat { kInt8, kE4m3, kE5m2, kE3m0 };

struct RowOptions {
  RowFormat format = RowFormat::kInt8;
  bool error_feedback = true;
};

class RowCoder final : public GradientCoder {
 public:
  RowCoder(const RowOptions& options, const CoderContext& context);
  std::string name() const override;
  bool decodes_alone() const override { return !memory_.enabled(); }
  bool adds_payloads() const override { return true; }
  std::optional<uint64_t> bytes_per_step() const override { return static_cast<uint64_t>(payload_bytes_); }
  Payload encode(int round, const at::Tensor& gradient) override;
  void absorb(int round, std::span<const at::Tensor> results, at::Tensor& gradient) override;
  void export_state(NamedState& state) const override { memory_.export_state(state); }
  void import_state(const NamedState& state) override { memory_.import_state(state); }

 private:
  // The row's scale m / Q, then its codes, begin at `payload` in the bytes.
  struct Row {
    int64_t offset = 0, count = 0, payload = 0;
  };

  RowOptions options_;
  std::vector<Row> rows_;
  int64_t payload_bytes_ = 0;
  ErrorMemory memory_;
};

}  // namespace mlbench::compress
