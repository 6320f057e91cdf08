#pragma once

// The step records of one file of a spool (spool.h), one after the other: for runs of any length in little memory.

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "mlbench/record/spool.h"

namespace mlbench::record {

class StepReader {
 public:
  // An absent or empty file has no records. UserError when the file is no spool, one of another version, too large, or
  // no plain file.
  StepReader(const std::filesystem::path& run_dir, int64_t segment, int64_t rank);
  const SpoolHeader& header() const { return header_; }
  // Empty behind the last complete record. UserError for a damaged one.
  std::optional<StepRecord> next();

 private:
  // Of the file so far: no sum that is derived from it overflows.
  struct Sums {
    int64_t samples = 0, total_ns = 0, largest_ns = 0;
    std::array<int64_t, kStepKinds> kinds_ns{};
    bool add(const StepRecord& record);  // whether they are still plausible
  };

  std::filesystem::path path_;
  SpoolHeader header_;
  std::uintmax_t offset_ = 0;  // of the file, behind piece_
  std::string piece_;
  size_t used_ = 0;
  uint64_t records_ = 0;
  Sums sums_;
};

}  // namespace mlbench::record
