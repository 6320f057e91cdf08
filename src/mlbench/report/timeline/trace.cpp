#include "mlbench/report/timeline/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "mlbench/base/atomic_file.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/growing_lines.h"
#include "mlbench/base/input.h"
#include "mlbench/base/or_null.h"
#include "mlbench/report/timeline/summary.h"

namespace mlbench::report {

namespace fs = std::filesystem;

namespace {

using record::Span;
using record::SpanKind;

constexpr size_t kPieceBytes = size_t{64} << 10;
constexpr std::string_view kStart = R"({"displayTimeUnit":"ms","otherData":)";

// The rows of a rank; asynchronous operations that overlap have further rows. Numbers do not begin with 0: Perfetto
// takes 0 for the row that has the process's number, and mixes the two.
enum Row : int64_t { kStepsRow = 1, kTrainingRow, kCommunicationRow, kFurtherRows };

std::string row_name(int64_t row) {
  switch (row) {
    case kStepsRow:
      return "steps";
    case kTrainingRow:
      return "training thread";
    case kCommunicationRow:
      return "communication thread";
    default:
      return fmt::format("operations {}", row - kFurtherRows + 1);
  }
}

std::string_view category(SpanKind kind) {
  constexpr std::array<std::string_view, record::kSpanKinds> kCategories = {"phase",      "layer",      "communication",
                                                                            "evaluation", "checkpoint", "prepare"};
  return kCategories[static_cast<size_t>(kind)];
}

Json hosts_of(const record::Record& record) {
  Json hosts = Json::array();
  for (const record::Host& host : record.hosts) hosts.push_back(host.name);
  return hosts;
}

}  // namespace

class TraceStream::Impl {
 public:
  Impl(TimelineRun run, const Json& summary, std::optional<int64_t> step) : run_(std::move(run)), only_(step) {
    const Json other = {{"format", "mlbench timeline"},
                        {"version", 1},
                        {"hosts", hosts_of(run_.record)},
                        {"started_at", text_or_null(run_.record.started_at)},
                        {"summary", summary}};
    text_ = fmt::format("{}{},\n\"traceEvents\":[\n", kStart, other.dump());
    for (int64_t rank = 0; rank < run_.workers; ++rank) {
      metadata("process_name", rank, 0, {{"name", fmt::format("rank {}", rank)}});
      metadata("process_sort_index", rank, 0, {{"sort_index", rank}});
    }
  }

  std::string next() {
    while (text_.size() < kPieceBytes && !done_) go_on();
    return std::exchange(text_, {});
  }

  size_t held_bytes() const {
    size_t bytes = kPieceBytes;
    for (const auto& parts : run_.parts) {
      for (const RankPart& part : parts) {
        bytes += part.operations.size() * sizeof(TimelineOperation) + part.stretches.size() * sizeof(Stretch);
      }
    }
    return bytes;
  }

 private:
  const RankPart& part() const { return run_.parts[segment_][rank_]; }

  // Writes a few more events. For each part, the operations come first, then the other spans of its file.
  void go_on() {
    if (segment_ == run_.parts.size()) {
      text_ += "\n]}\n";
      done_ = true;
    } else if (part().stretches.empty()) {
      next_part();
    } else if (operation_ < part().operations.size()) {
      if (is_wanted(part().operations[operation_].step)) add_operation(part().operations[operation_]);
      ++operation_;
    } else {
      if (!reader_) reader_.emplace(run_.run_dir, part().segment, part().rank);
      auto entry = reader_->next();
      if (!entry) return next_part();
      if (const auto* span = std::get_if<Span>(&*entry)) add_span(*span);
    }
  }

  void next_part() {
    end_step();
    reader_.reset();
    operation_ = 0;
    nested_until_ = communicating_until_ = INT64_MIN;
    communicating_step_ = -1;
    further_until_.clear();
    if (++rank_ == run_.parts[segment_].size()) {
      rank_ = 0;
      ++segment_;
    }
  }

  bool is_wanted(int64_t step) const { return !only_ || *only_ == step; }

  void separate() {
    if (std::exchange(any_, true)) text_ += ",\n";
  }

  void metadata(const char* what, int64_t rank, int64_t row, const Json& arguments) {
    separate();
    fmt::format_to(std::back_inserter(text_), R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{}}})", what, rank,
                   row, arguments.dump());
  }

  // Writes nanoseconds as microseconds of the trace.
  void time(const char* name, int64_t ns) {
    const auto all = static_cast<uint64_t>(std::max<int64_t>(0, ns));
    fmt::format_to(std::back_inserter(text_), R"(,"{}":{}.{:03})", name, all / 1000, all % 1000);
  }

  void event(const std::string& name, std::string_view kind, int64_t row, int64_t begin_ns, int64_t end_ns,
             const std::string& arguments) {
    const int64_t rank = part().rank;
    if (named_rows_.insert({rank, row}).second) {
      metadata("thread_name", rank, row, {{"name", row_name(row)}});
      metadata("thread_sort_index", rank, row, {{"sort_index", row}});
    }
    separate();
    fmt::format_to(std::back_inserter(text_), R"({{"name":{},"cat":"{}","ph":"X","pid":{},"tid":{})", Json(name).dump(),
                   kind, rank, row);
    const int64_t shown = begin_ns - run_.zero_ns[segment_] + run_.origin_ns[segment_];
    time("ts", shown);
    time("dur", end_ns - begin_ns);
    text_ += arguments.empty() ? "}" : ",\"args\":{" + arguments + "}}";
  }

  // ---- spans of the file --------------------------------------------------------------------------------------------

  void add_span(const Span& span) {
    if (span.kind == SpanKind::kOperation || !is_wanted(span.step)) return;
    const int64_t begin_ns = part().at(span.begin_ns).ns;
    int64_t end_ns = part().at(span.end_ns).ns;
    if (span.kind == SpanKind::kLayer) end_ns = within_phase(begin_ns, end_ns);
    const int64_t row = span.thread == record::SpanThread::kTraining ? kTrainingRow : kCommunicationRow;
    event(span.name, category(span.kind), row, begin_ns, end_ns,
          span.step < 0 ? "" : fmt::format(R"("step":{})", span.step));
    if (span.kind == SpanKind::kPhase && span.step >= 0) {
      if (span.step != step_) end_step();
      if (step_ < 0) step_begin_ns_ = begin_ns;
      step_ = span.step;
      step_end_ns_ = end_ns;
    }
  }

  void end_step() {
    if (step_ < 0) return;
    event(fmt::format("step {}", step_), "step", kStepsRow, step_begin_ns_, step_end_ns_,
          fmt::format(R"("step":{})", step_));
    step_ = -1;
  }

  // The end of a layer, which is at the latest the end of the phase in which the layer began.
  int64_t within_phase(int64_t begin_ns, int64_t end_ns) const {
    const std::vector<Stretch>& stretches = part().stretches;
    auto at = std::ranges::upper_bound(stretches, begin_ns, {}, &Stretch::begin_ns);
    if (at == stretches.begin()) return end_ns;
    const Activity activity = (--at)->activity;
    while (at->end_ns < end_ns && at + 1 != stretches.end() && (at + 1)->activity == activity) ++at;
    return std::clamp(end_ns, begin_ns, std::max(begin_ns, at->end_ns));
  }

  // ---- operations ---------------------------------------------------------------------------------------------------

  int64_t row_of(const TimelineOperation& operation) {
    const bool communicates = operation.thread == record::SpanThread::kCommunication;
    int64_t& until = communicates ? communicating_until_ : nested_until_;
    if ((communicates || operation.nests) && operation.begin_ns >= until) {
      until = operation.end_ns;
      return communicates ? kCommunicationRow : kTrainingRow;
    }
    auto free = std::ranges::find_if(further_until_, [&](int64_t end_ns) { return end_ns <= operation.begin_ns; });
    if (free == further_until_.end()) free = further_until_.insert(free, 0);
    *free = operation.end_ns;
    return kFurtherRows + (free - further_until_.begin());
  }

  std::string arguments_of(const TimelineOperation& operation) const {
    std::string text = fmt::format(R"("sequence":{},"bytes":{})", operation.sequence, operation.bytes);
    const auto add = [&](const char* name, const auto& value) {
      fmt::format_to(std::back_inserter(text), R"(,"{}":{})", name, value);
    };
    const auto microseconds = [](int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); };
    if (operation.step >= 0) add("step", operation.step);
    if (operation.root_peer >= 0) add("root_or_peer", operation.root_peer);
    if (!operation.matched) return text;
    add("wait_us", microseconds(operation.ready_ns - operation.begin_ns));
    add("transfer_us", microseconds(operation.end_ns - operation.ready_ns));
    if (operation.late_rank >= 0) add("waited_for", operation.late_rank);
    fmt::format_to(std::back_inserter(text), R"(,"verdict":"{}")", verdict_name(operation.verdict));
    return text;
  }

  void add_operation(const TimelineOperation& operation) {
    const int64_t before_ns = communicating_until_, row = row_of(operation);
    const std::string& name = run_.names[operation.name];
    if (row == kCommunicationRow) {
      if (operation.step >= 0 && operation.step == communicating_step_ && operation.begin_ns > before_ns) {
        event("WAIT_FOR_DATA", "communication", row, before_ns, operation.begin_ns, "");
      }
      communicating_step_ = operation.step;
    }
    event(name, category(SpanKind::kOperation), row, operation.begin_ns, operation.end_ns, arguments_of(operation));
    if (!operation.matched || operation.verdict == TimelineVerdict::kInconclusive) return;
    const std::string horovod = horovod_name(name);
    if (operation.ready_ns > operation.begin_ns) {
      event("NEGOTIATE_" + horovod, "communication", row, operation.begin_ns, operation.ready_ns, "");
    }
    if (operation.end_ns > operation.ready_ns) {
      event(horovod, "communication", row, operation.ready_ns, operation.end_ns, "");
    }
  }

  const TimelineRun run_;
  const std::optional<int64_t> only_;
  std::string text_;
  bool any_ = false, done_ = false;
  std::set<std::pair<int64_t, int64_t>> named_rows_;
  // The state of the part that is being written.
  size_t segment_ = 0, rank_ = 0, operation_ = 0;
  std::optional<record::TimelineReader> reader_;
  int64_t step_ = -1, step_begin_ns_ = 0, step_end_ns_ = 0;
  int64_t nested_until_ = INT64_MIN, communicating_until_ = INT64_MIN, communicating_step_ = -1;
  std::vector<int64_t> further_until_;
};

TraceStream::TraceStream(TimelineRun run, const Json& summary, std::optional<int64_t> step)
    : impl_(std::make_unique<Impl>(std::move(run), summary, step)) {}
TraceStream::~TraceStream() = default;
TraceStream::TraceStream(TraceStream&&) noexcept = default;
TraceStream& TraceStream::operator=(TraceStream&&) noexcept = default;
std::string TraceStream::next() { return impl_->next(); }
size_t TraceStream::held_bytes() const { return impl_->held_bytes(); }

Json write_trace(const fs::path& run_dir, const record::Record& record, const fs::path& file) {
  TimelineRun run = read_timeline_run(run_dir, record);
  const Json summary = summarize_timeline(run);
  TraceStream trace(std::move(run), summary);
  AtomicFile out(file);
  for (std::string piece; !(piece = trace.next()).empty();) out.write(piece);
  out.commit();
  return summary;
}

Json read_trace_summary(const fs::path& file) {
  const auto refuse = [&](const std::string& why) {
    throw UserError(
        fmt::format("{}: {}; give a run, or a file that 'mlbench timeline export' or 'mlbench run --timeline' "
                    "wrote",
                    file.string(), why));
  };
  std::error_code error;
  if (!fs::is_regular_file(file, error)) refuse("no such file");
  std::string line = read_from(file, 0, inputs::kTraceHead.most_bytes);
  const size_t end = line.find(",\n");
  if (!line.starts_with(kStart) || end == std::string::npos)
    refuse("no trace of mlbench, or saved anew by another program");
  line.resize(end);
  Json head;
  try {
    head = parse_json(line + "}", inputs::kTraceHead);
  } catch (const UserError& wrong) {
    refuse(wrong.what());
  }
  const Json& other = head["otherData"];
  if (!other.is_object() || other.value("format", Json()) != "mlbench timeline" || !other.contains("summary")) {
    refuse("no trace of mlbench");
  }
  return other["summary"];
}

std::string horovod_name(const std::string& operation) {
  std::string name;
  for (const char c : operation) {
    if (c != '_') name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return name;
}

}  // namespace mlbench::report
