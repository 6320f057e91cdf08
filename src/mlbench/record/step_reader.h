#pragma once

// Reads the step records of one file of a spool (spool.h), one after the other, in little memory, while the file grows.

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
  // An absent or empty file has no records yet. `from` is 0, or the offset() of an earlier reader at which to go on.
  // Throws UserError, here or in next(), when the file is no spool, has another version or run, is too large, or is no
  // plain file.
  StepReader(const std::filesystem::path& run_dir, int64_t segment, int64_t rank, std::uintmax_t from = 0);
  bool has_header() const { return format_.has_value(); }
  // All zero while the file has no header.
  const SpoolHeader& header() const;
  // The next complete record; empty after the last one, until the file has grown. Throws UserError for a damaged
  // record; nothing after it is returned.
  std::optional<StepRecord> next();
  std::uintmax_t offset() const { return offset_; }  // in the file, after the last record that was returned

 private:
  // The sums of all records returned so far. No sum that is derived from them overflows.
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
  std::string piece_;  // bytes of the file, from `offset_ - used_` on
  size_t used_ = 0;
  std::optional<uint64_t> sequence_;  // of the next record; empty before the first when reading goes on at an offset
  Sums sums_;
};

}  // namespace mlbench::record
