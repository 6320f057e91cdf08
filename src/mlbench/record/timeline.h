#pragma once

// What the threads of a rank did, span by span, and how the rank's clock relates to the supervisor's. Each rank of a
// run with a timeline appends to a file of its own, RUN/timeline/rank-R.seg-S.spans: a header like that of step records
// (step_format.h), then entries (docs/record.md). A reader ignores an incomplete last entry. Times are nanoseconds of
// the rank's own monotonic clock, whose zero means nothing; the clock samples relate it to the supervisor's clock.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "mlbench/record/spool.h"

namespace mlbench::record {

// What a span is: its row in the trace, and how the summary counts it.
enum class SpanKind : uint8_t {
  kPhase,       // of a step, one after the other on the training thread; named as in kStepKindNames
  kLayer,       // the forward or backward pass of a layer, within a phase
  kOperation,   // of communication, from call to return (asynchronous: to the end of its Work)
  kEvaluation,  // this and the next two: between steps, on the training thread
  kCheckpoint,
  kPrepare
};
inline constexpr size_t kSpanKinds = 6;

// The threads of a rank that have spans.
enum class SpanThread : uint8_t { kTraining, kCommunication };

struct Span {
  SpanKind kind = SpanKind::kPhase;
  SpanThread thread = SpanThread::kTraining;
  std::string name;      // "fwd_pass"; "stage1.block1.conv1 backward"; "all_reduce"
  int64_t begin_ns = 0;  // on the rank's clock
  int64_t end_ns = 0;
  int64_t step = -1;       // the global step to which it belongs, from 0; -1: none
  int64_t sequence = 0;    // operations: as Operation::sequence in comm/operation_board.h; else 0
  uint64_t bytes = 0;      // operations: as Operation::bytes
  int64_t root_peer = -1;  // operations: the root of a rooted one, or the peer of a message; -1: neither
};

// A round trip to the supervisor, which read its clock at a moment between the rank's two readings.
struct ClockSample {
  int64_t sent_ns = 0;      // on the rank's clock
  int64_t server_ns = 0;    // on the supervisor's clock
  int64_t received_ns = 0;  // on the rank's clock
};

struct RankTimeline {
  SpoolHeader header;
  std::vector<Span> spans;  // in the order of their ends
  std::vector<ClockSample> clock;
  int64_t left_out = 0;  // entries after the first 20,000,000
};

// Appends entries. A name is written once, at its first use.
class TimelineEncoder {
 public:
  static std::string header(const SpoolHeader& header);
  void append(std::string& bytes, const Span& span);
  void append(std::string& bytes, const ClockSample& sample);

 private:
  std::unordered_map<std::string, uint32_t> names_;
};

// Reads the entries of a file one after the other, in little memory.
class TimelineReader {
 public:
  // An absent file has no entries. Throws UserError, here or in next(), when the file is no timeline, is damaged, or
  // has another version or run.
  TimelineReader(const std::filesystem::path& run_dir, int64_t segment, int64_t rank);
  const SpoolHeader& header() const { return header_; }
  // The next complete entry; empty after the last one.
  std::optional<std::variant<Span, ClockSample>> next();
  int64_t left_out() const { return left_out_; }  // so far: entries after the first 20,000,000

 private:
  [[noreturn]] void refuse(const std::string& why) const;
  [[noreturn]] void refuse_entry(const std::string& why) const;
  std::string_view bytes(size_t count);
  void skip(size_t count);
  void read_header();
  std::optional<std::string> read_name(uint32_t size);
  std::optional<Span> read_span();
  std::optional<ClockSample> read_sample();
  bool take();

  std::filesystem::path path_;
  SpoolHeader header_;
  bool open_ = false;  // there may be another entry
  std::vector<std::string> names_;
  int64_t taken_ = 0, left_out_ = 0;
  std::uintmax_t offset_ = 0;
  std::string piece_;  // bytes of the file, from `offset_ - used_` on
  size_t used_ = 0;
};

// Reads all complete entries; empty lists when the file is absent. Throws UserError when the file is no timeline, is
// damaged, or has another version.
RankTimeline read_timeline(const std::filesystem::path& run_dir, int64_t segment, int64_t rank);

}  // namespace mlbench::record
