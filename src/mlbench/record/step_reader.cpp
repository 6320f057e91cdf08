#include "mlbench/record/step_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <system_error>

#include "mlbench/base/errors.h"
#include "mlbench/base/growing_lines.h"
#include "mlbench/base/input.h"
#include "mlbench/base/run_folder.h"

namespace mlbench::record {

namespace {

constexpr size_t kPieceBytes = size_t{256} << 10;

}  // namespace

bool StepReader::Sums::add(const StepRecord& record) {
  samples += static_cast<int64_t>(record.samples);
  largest_ns = std::max(largest_ns, total_ns += record.total_ns());
  for (const int64_t ns : record.exchange_ns) largest_ns = std::max(largest_ns, exchange_ns += ns);
  for (size_t kind = 0; kind < kStepKinds; ++kind) {
    largest_ns = std::max(largest_ns, kinds_ns[kind] += record.kinds_ns[kind]);
  }
  return samples <= kMostInteger && largest_ns <= kMostInteger;
}

StepReader::StepReader(const std::filesystem::path& run_dir, int64_t segment, int64_t rank, std::uintmax_t from)
    : path_(steps_path(run_dir, segment, rank)), offset_(from) {
  if (from == 0) sequence_ = 0;
  open();
}

const SpoolHeader& StepReader::header() const {
  static const SpoolHeader none;
  return format_ ? format_->header() : none;
}

void StepReader::open() {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::exists(path_, error)) return;
  if (!fs::is_regular_file(path_, error)) throw UserError(path_.string() + ": not a spool: it is no plain file");
  if (const auto size = fs::file_size(path_, error); !error && size > inputs::kStepFile.most_bytes) {
    refuse_size(path_.string(), size, inputs::kStepFile);
  }
  format_ = StepFormat::parse(path_, read_from(path_, 0, kMostHeaderBytes));
  if (format_) check_identity(path_.parent_path().parent_path(), path_, format_->header());
  if (format_) offset_ = std::max<std::uintmax_t>(offset_, format_->header_bytes());
}

bool StepReader::read_piece() {
  piece_ = read_from(path_, offset_, kPieceBytes);
  used_ = 0;
  return !piece_.empty();
}

std::optional<StepRecord> StepReader::next() {
  if (!format_) open();
  if (!format_) return std::nullopt;
  StepRecord record;
  auto size = format_->decode(std::string_view(piece_).substr(used_), record);
  if (size == 0 && read_piece()) size = format_->decode(piece_, record);
  if (size == 0) return std::nullopt;
  // After a power failure a file may end in blocks that were never written.
  if (record.count == 0 || (sequence_ && record.sequence != *sequence_)) return std::nullopt;
  if (!size || !is_plausible(record) || !sums_.add(record)) {
    // The sum of damaged times need not fit into total_ns().
    const double total_ns = std::accumulate(record.kinds_ns.begin(), record.kinds_ns.end(), 0.0);
    throw UserError(fmt::format("{}: record {} is damaged: {} steps of {:.0f} ns, the last ending at {} ns",
                                path_.string(), record.sequence, record.count, total_ns, record.end_ns));
  }
  used_ += *size;
  offset_ += *size;
  sequence_ = record.sequence + 1;
  return record;
}

}  // namespace mlbench::record
