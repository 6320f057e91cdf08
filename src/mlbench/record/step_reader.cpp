#include "mlbench/record/step_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <system_error>

#include "mlbench/base/errors.h"
#include "mlbench/base/growing_lines.h"
#include "mlbench/base/input.h"

namespace mlbench::record {

namespace {

constexpr size_t kRecordsPerPiece = 1024;

}  // namespace

bool StepReader::Sums::add(const StepRecord& record) {
  samples += static_cast<int64_t>(record.samples);
  largest_ns = std::max(largest_ns, total_ns += record.total.sum);
  for (size_t kind = 0; kind < kStepKinds; ++kind) {
    largest_ns = std::max(largest_ns, kinds_ns[kind] += record.kinds[kind].sum);
  }
  return samples <= kMostInteger && largest_ns <= kMostInteger;
}

StepReader::StepReader(const std::filesystem::path& run_dir, int64_t segment, int64_t rank)
    : path_(steps_path(run_dir, segment, rank)) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::exists(path_, error)) return;
  if (!fs::is_regular_file(path_, error)) throw UserError(path_.string() + ": not a spool: it is no plain file");
  if (const auto size = fs::file_size(path_, error); !error && size > inputs::kStepFile.most_bytes) {
    refuse_size(path_.string(), size, inputs::kStepFile);
  }
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
  if (!is_plausible(record) || !sums_.add(record)) {
    throw UserError(fmt::format("{}: record {} is damaged: {} steps of {} ns, the last ending at {} ns", path_.string(),
                                record.sequence, record.count, record.total.sum, record.end_ns));
  }
  used_ += sizeof record;
  ++records_;
  return record;
}

}  // namespace mlbench::record
