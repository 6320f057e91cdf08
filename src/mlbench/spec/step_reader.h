#pragma once

// The step records of one file of a spool (spool.h), one after the other: for runs of any length in little memory.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "mlbench/spec/spool.h"

namespace mlbench::spec {

class StepReader {
 public:
  // An absent or empty file has no records. UserError when the file is no spool or one of another version.
  StepReader(const std::filesystem::path& run_dir, int64_t segment, int64_t rank);
  const SpoolHeader& header() const { return header_; }
  // Empty behind the last complete record. UserError for a damaged one.
  std::optional<StepRecord> next();

 private:
  std::filesystem::path path_;
  SpoolHeader header_;
  std::uintmax_t offset_ = 0;  // of the file, behind piece_
  std::string piece_;
  size_t used_ = 0;
  uint64_t records_ = 0;
};

}  // namespace mlbench::spec
