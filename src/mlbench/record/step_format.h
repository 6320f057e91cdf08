#pragma once

// How step records are stored in a file, in little endian. The file's header names the columns, so that a reader finds
// the columns that it knows, all of which it needs, and skips the others.
//
//   header   64 bytes: "MLBSTEPS", version (uint32), bytes of the header (uint32), run id (uint64), segment (uint32),
//            rank (uint32), start (int64, microseconds since 1970), columns (uint32), identity of the run (16 bytes),
//            4 bytes of zeros
//   columns  32 bytes each: name (24), type (8), both padded with zeros
//   records  a cell of 8 bytes per column (u64, i64, f64), in the order of the header; then, for each column whose type
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

// The header, which a writer puts first.
std::string encode_header(const SpoolHeader& header);
// Convert an identity to its stored form, and back. Zeros mean none, and are stored for a text that is no identity.
std::array<uint8_t, 16> identity_bytes(const std::string& identity);
std::string identity_text(std::span<const uint8_t, 16> bytes);
// Appends a record after the header. Precondition: its `count` is 1 to kMostMergedSteps.
void append_record(std::string& bytes, const StepRecord& record);

// No header is longer; a reader of headers asks for so many bytes.
inline constexpr size_t kMostHeaderBytes = 8192;

class StepFormat {
 public:
  // Reads the first bytes of a file; empty while its header is still being written. Throws UserError, naming `path`,
  // when this is no spool, or a spool that has another version or lacks a column.
  static std::optional<StepFormat> parse(const std::filesystem::path& path, std::string_view bytes);

  const SpoolHeader& header() const { return header_; }
  size_t header_bytes() const { return header_bytes_; }

  // Reads the record at the beginning of `bytes`, and returns its length; 0 when the record is not complete, and empty
  // when it is damaged (it has more steps than a record can have). A record that was never written (blocks of zeros
  // after a power failure) has no steps.
  std::optional<size_t> decode(std::string_view bytes, StepRecord& record) const;

 private:
  struct Cell {
    size_t from = 0, to = 0;  // offsets in a record of the file and in StepRecord
  };
  struct EachCell {
    size_t index = 0, to = 0;  // `index` is among the columns with one cell per step
  };

  SpoolHeader header_;
  size_t header_bytes_ = 0;
  size_t fixed_bytes_ = 0;  // of a record, without the cells per step
  size_t each_columns_ = 0;
  std::vector<Cell> cells_;
  std::vector<EachCell> each_;
};

}  // namespace mlbench::record
