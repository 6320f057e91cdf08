#pragma once

// The step records of one file of a spool (spool.h), one after the other, in little memory, while it grows.

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "mlbench/record/spool.h"
#include "mlbench/record/step_format.h"

namespace mlbench::record {

class StepReader {
 public:
  // An absent or empty file has no records yet. `from`: 0, or the offset() of an earlier reader, to read on behind it.
  // UserError, here or in next(), when the file is no spool, of another version or run, too large, or no plain file.
  StepReader(const std::filesystem::path& run_dir, int64_t segment, int64_t rank, std::uintmax_t from = 0);
  bool has_header() const { return format_.has_value(); }
  // Zeros while the file has none.
  const SpoolHeader& header() const;
  // Empty behind the last whole record: ask again when the file has grown. UserError for a damaged one; none is given
  // from there on.
  std::optional<StepRecord> next();
  std::uintmax_t offset() const { return offset_; }  // of the file, behind the last record that was given

 private:
  // Of the records given: no sum that is derived from them overflows.
  struct Sums {
    int64_t samples = 0, total_ns = 0, exchange_ns = 0, largest_ns = 0;
    std::array<int64_t, kStepKinds> kinds_ns{};
    bool add(const StepRecord& record);  // whether they are still plausible
  };
  void open();
  bool read_piece();

  std::filesystem::path path_;
  std::optional<StepFormat> format_;
  std::uintmax_t offset_ = 0;
  std::string piece_;  // of the file, from `offset_ - used_` on
  size_t used_ = 0;
  std::optional<uint64_t> sequence_;  // of the next record; empty before the first of a reader that reads on
  Sums sums_;
};

}  // namespace mlbench::record
