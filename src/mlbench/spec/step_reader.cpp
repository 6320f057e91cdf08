#include "mlbench/spec/step_reader.h"

#include <fmt/format.h>

#include <cstring>

#include "mlbench/base/errors.h"
#include "mlbench/base/growing_lines.h"

namespace mlbench::spec {

namespace {

constexpr size_t kRecordsPerPiece = 1024;

}  // namespace

StepReader::StepReader(const std::filesystem::path& run_dir, int64_t segment, int64_t rank)
    : path_(steps_path(run_dir, segment, rank)) {
  const std::string bytes = read_from(path_, 0, sizeof header_);
  if (const auto header = parse_header(path_, bytes)) {
    header_ = *header;
    offset_ = sizeof header_;
  }
}

std::optional<StepRecord> StepReader::next() {
  if (offset_ == 0) return std::nullopt;
  if (piece_.size() - used_ < sizeof(StepRecord)) {
    piece_ = read_from(path_, offset_, kRecordsPerPiece * sizeof(StepRecord));
    used_ = 0;
    if (piece_.size() < sizeof(StepRecord)) return std::nullopt;
    piece_.resize(piece_.size() / sizeof(StepRecord) * sizeof(StepRecord));
    offset_ += piece_.size();
  }
  StepRecord record;
  std::memcpy(&record, piece_.data() + used_, sizeof record);
  // After a power failure a file may end in blocks that were never written.
  if (record.sequence != records_ || record.count == 0) return std::nullopt;
  check_plausible(path_, record);
  used_ += sizeof record;
  ++records_;
  return record;
}

}  // namespace mlbench::spec
