#pragma once

// How step records lie in a file. Little endian. Its header names the columns, so that a reader finds those that it
// knows, all of which it needs, and skips the others.
//
//   header   64 bytes: "MLBSTEPS", version (uint32), bytes of the header (uint32), run id (uint64), segment (uint32),
//            rank (uint32), start (int64, microseconds since 1970), columns (uint32), identity of the run
//            (16 bytes), 4 bytes of zeros
//   columns  32 bytes each: name (24), type (8), both filled up with zeros
//   records  a cell of 8 bytes per column (u64, i64, f64), in the order of the header; then, of each column whose type
//            ends in [], `count` cells: one per step of the record

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/record/spool.h"

namespace mlbench::record {

// What a writer puts first, and then for each record (whose `count` is 1 to kMostMergedSteps).
std::string encode_header(const SpoolHeader& header);
// An identity as it is stored, and back; zeros are none. What is no identity has zeros.
std::array<uint8_t, 16> identity_bytes(const std::string& identity);
std::string identity_text(std::span<const uint8_t, 16> bytes);
void append_record(std::string& bytes, const StepRecord& record);

// No header is longer; what reads one asks for so many bytes.
inline constexpr size_t kMostHeaderBytes = 8192;

class StepFormat {
 public:
  // From the first bytes of a file; empty while its header is being written. UserError, naming `path`, when this is no
  // spool, one of another version, or one that lacks a column.
  static std::optional<StepFormat> parse(const std::filesystem::path& path, std::string_view bytes);

  const SpoolHeader& header() const { return header_; }
  size_t header_bytes() const { return header_bytes_; }

  // The record at the beginning of `bytes`: how many it takes, 0 when it is not whole. One that was never written
  // (blocks of zeros after a power failure) has no steps. Empty: damaged, more steps than a record can have.
  std::optional<size_t> decode(std::string_view bytes, StepRecord& record) const;

 private:
  struct Cell {
    size_t from = 0, to = 0;  // offsets in the file's record and in StepRecord
  };
  struct EachCell {
    size_t index = 0, to = 0;  // among the columns with one cell per step
  };

  SpoolHeader header_;
  size_t header_bytes_ = 0;
  size_t fixed_bytes_ = 0;  // of a record, without the cells per step
  size_t each_columns_ = 0;
  std::vector<Cell> cells_;
  std::vector<EachCell> each_;
};

}  // namespace mlbench::record
