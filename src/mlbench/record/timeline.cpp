#include "mlbench/record/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <system_error>

#include "mlbench/base/errors.h"
#include "mlbench/base/growing_lines.h"
#include "mlbench/base/input.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/record/step_format.h"

namespace mlbench::record {

namespace fs = std::filesystem;

namespace {

static_assert(std::endian::native == std::endian::little, "entries are copied to and from memory as they are");

constexpr std::string_view kSpansMagic = "MLBSPANS";
constexpr uint32_t kSpansVersion = 1;
constexpr size_t kSpansPieceBytes = size_t{1} << 20;
constexpr int64_t kMostEntries = 20'000'000;
constexpr size_t kMostNames = 100'000;
constexpr uint32_t kLongestSpanName = 1000;

struct SpansHeader {
  char magic[8] = {};
  uint32_t version = kSpansVersion;
  uint32_t header_bytes = sizeof(SpansHeader);
  uint64_t run_id = 0;
  uint32_t segment = 0;
  uint32_t rank = 0;
  int64_t start_wall_us = 0;
  std::array<uint8_t, 16> identity = {};  // as in the header of a spool
  uint8_t reserved[8] = {};
};
static_assert(sizeof(SpansHeader) == 64);

enum class EntryType : uint8_t {
  kNever,  // in a block that was never written
  kName,   // `number` bytes follow; names are counted from 0
  kSpan,
  kClockSample
};

// All entries begin with this. `number` is the length of a name, or the number of a span's name.
struct EntryHead {
  EntryType type = EntryType::kNever;
  uint8_t kind = 0;
  uint8_t thread = 0;
  uint8_t reserved = 0;
  uint32_t number = 0;
};
static_assert(sizeof(EntryHead) == 8);

struct StoredSpan {
  EntryHead head;
  int64_t begin_ns = 0, end_ns = 0, step = 0, sequence = 0;
  uint64_t bytes = 0;
  int64_t root_peer = 0;
};
static_assert(sizeof(StoredSpan) == 56);

struct StoredSample {
  EntryHead head;
  int64_t sent_ns = 0, server_ns = 0, received_ns = 0;
};
static_assert(sizeof(StoredSample) == 32);

template <typename T>
void append_stored(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
std::optional<T> stored_in(std::string_view bytes) {
  if (bytes.size() < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

bool in_range(int64_t least, int64_t value) { return value >= least && value <= kMostInteger; }

}  // namespace

std::string TimelineEncoder::header(const SpoolHeader& header) {
  SpansHeader stored;
  std::copy(kSpansMagic.begin(), kSpansMagic.end(), stored.magic);
  stored.run_id = header.run_id;
  stored.segment = header.segment;
  stored.rank = header.rank;
  stored.start_wall_us = header.start_wall_us;
  stored.identity = identity_bytes(header.identity);
  std::string bytes;
  append_stored(bytes, stored);
  return bytes;
}

void TimelineEncoder::append(std::string& bytes, const Span& span) {
  auto name = names_.find(span.name);
  if (name == names_.end()) {
    name = names_.emplace(span.name, static_cast<uint32_t>(names_.size())).first;
    const std::string_view text = std::string_view(span.name).substr(0, kLongestSpanName);
    append_stored(bytes, EntryHead{EntryType::kName, 0, 0, 0, static_cast<uint32_t>(text.size())});
    bytes += text;
  }
  const EntryHead head{EntryType::kSpan, static_cast<uint8_t>(span.kind), static_cast<uint8_t>(span.thread), 0,
                       name->second};
  append_stored(bytes,
                StoredSpan{head, span.begin_ns, span.end_ns, span.step, span.sequence, span.bytes, span.root_peer});
}

void TimelineEncoder::append(std::string& bytes, const ClockSample& sample) {
  const EntryHead head{EntryType::kClockSample, 0, 0, 0, 0};
  append_stored(bytes, StoredSample{head, sample.sent_ns, sample.server_ns, sample.received_ns});
}

TimelineReader::TimelineReader(const fs::path& run_dir, int64_t segment, int64_t rank)
    : path_(timeline_path(run_dir, segment, rank)) {
  std::error_code error;
  if (!fs::exists(path_, error)) return;
  if (!fs::is_regular_file(path_, error)) refuse("not a timeline: it is no plain file");
  if (const auto size = fs::file_size(path_, error); !error && size > inputs::kTimelineFile.most_bytes) {
    refuse_size(path_.string(), size, inputs::kTimelineFile);
  }
  read_header();
}

void TimelineReader::refuse(const std::string& why) const { throw UserError(path_.string() + ": " + why); }

void TimelineReader::refuse_entry(const std::string& why) const {
  refuse(fmt::format("damaged at byte {}: {}", offset_, why));
}

// The bytes at the offset: at least `count`, fewer at the end of the file.
std::string_view TimelineReader::bytes(size_t count) {
  if (piece_.size() - used_ < count) {
    piece_ = read_from(path_, offset_, std::max(count, kSpansPieceBytes));
    used_ = 0;
  }
  return std::string_view(piece_).substr(used_);
}

void TimelineReader::skip(size_t count) {
  used_ += count;
  offset_ += count;
}

void TimelineReader::read_header() {
  const std::string_view start = bytes(sizeof(SpansHeader));
  if (!start.starts_with(kSpansMagic.substr(0, start.size()))) {
    refuse(fmt::format("not a timeline: it does not start with {}", kSpansMagic));
  }
  const auto header = stored_in<SpansHeader>(start);
  if (!header) return;  // the rank was killed while it wrote the header
  if (header->version != kSpansVersion) {
    refuse(fmt::format("a timeline of version {}; this program reads version {}", header->version, kSpansVersion));
  }
  if (header->header_bytes != sizeof(SpansHeader)) {
    refuse(fmt::format("damaged: a header of {} bytes; it has {}", header->header_bytes, sizeof(SpansHeader)));
  }
  if (!in_range(0, header->start_wall_us)) {
    refuse(fmt::format("a timeline that began {} us after 1970", header->start_wall_us));
  }
  header_ = {header->run_id, header->segment, header->rank, header->start_wall_us, identity_text(header->identity)};
  check_identity(path_.parent_path().parent_path(), path_, header_);
  skip(sizeof(SpansHeader));
  open_ = true;
}

std::optional<std::variant<Span, ClockSample>> TimelineReader::next() {
  while (open_) {
    const auto head = stored_in<EntryHead>(bytes(sizeof(EntryHead)));
    open_ = false;  // until what follows is known to be complete
    if (!head || head->type == EntryType::kNever) break;
    if (head->type == EntryType::kName) {
      auto name = read_name(head->number);
      if (!name) break;
      names_.push_back(std::move(*name));
    } else if (head->type == EntryType::kSpan) {
      auto span = read_span();
      if (!span) break;
      open_ = true;
      if (take()) return std::move(*span);
    } else if (head->type == EntryType::kClockSample) {
      const auto sample = read_sample();
      if (!sample) break;
      open_ = true;
      if (take()) return *sample;
    } else {
      refuse_entry(fmt::format("an entry of kind {}", static_cast<int>(head->type)));
    }
    open_ = true;
  }
  return std::nullopt;
}

std::optional<std::string> TimelineReader::read_name(uint32_t size) {
  if (size > kLongestSpanName) refuse_entry(fmt::format("a name of {} bytes; at most {}", size, kLongestSpanName));
  if (names_.size() >= kMostNames) refuse_entry(fmt::format("more than {} names", kMostNames));
  const std::string_view entry = bytes(sizeof(EntryHead) + size);
  if (entry.size() < sizeof(EntryHead) + size) return std::nullopt;
  std::string name = printable(entry.substr(sizeof(EntryHead), size), kLongestSpanName);
  skip(sizeof(EntryHead) + size);
  return name;
}

std::optional<Span> TimelineReader::read_span() {
  const auto stored = stored_in<StoredSpan>(bytes(sizeof(StoredSpan)));
  if (!stored) return std::nullopt;
  if (stored->head.kind >= kSpanKinds) refuse_entry(fmt::format("a span of kind {}", stored->head.kind));
  if (stored->head.thread > static_cast<uint8_t>(SpanThread::kCommunication)) {
    refuse_entry(fmt::format("a span of thread {}", stored->head.thread));
  }
  if (stored->head.number >= names_.size()) {
    refuse_entry(fmt::format("a span with name {} of {}", stored->head.number, names_.size()));
  }
  if (!in_range(-kMostInteger, stored->begin_ns) || !in_range(stored->begin_ns, stored->end_ns) ||
      !in_range(-1, stored->step) || !in_range(0, stored->sequence) || stored->bytes > uint64_t{kMostInteger} ||
      !in_range(-1, stored->root_peer)) {
    refuse_entry(fmt::format("a span from {} to {} ns, of step {}, operation {}, {} bytes, root or peer {}",
                             stored->begin_ns, stored->end_ns, stored->step, stored->sequence, stored->bytes,
                             stored->root_peer));
  }
  skip(sizeof(StoredSpan));
  return Span{static_cast<SpanKind>(stored->head.kind),
              static_cast<SpanThread>(stored->head.thread),
              names_[stored->head.number],
              stored->begin_ns,
              stored->end_ns,
              stored->step,
              stored->sequence,
              stored->bytes,
              stored->root_peer};
}

std::optional<ClockSample> TimelineReader::read_sample() {
  const auto stored = stored_in<StoredSample>(bytes(sizeof(StoredSample)));
  if (!stored) return std::nullopt;
  if (!in_range(-kMostInteger, stored->sent_ns) || !in_range(stored->sent_ns, stored->received_ns) ||
      !in_range(-kMostInteger, stored->server_ns)) {
    refuse_entry(fmt::format("a clock sample sent at {}, answered at {}, received at {} ns", stored->sent_ns,
                             stored->server_ns, stored->received_ns));
  }
  skip(sizeof(StoredSample));
  return ClockSample{stored->sent_ns, stored->server_ns, stored->received_ns};
}

// Whether there is room for one more entry.
bool TimelineReader::take() {
  if (taken_ < kMostEntries) return ++taken_, true;
  ++left_out_;
  return false;
}

RankTimeline read_timeline(const fs::path& run_dir, int64_t segment, int64_t rank) {
  TimelineReader reader(run_dir, segment, rank);
  RankTimeline timeline{reader.header(), {}, {}, 0};
  while (auto entry = reader.next()) {
    if (auto* span = std::get_if<Span>(&*entry)) {
      timeline.spans.push_back(std::move(*span));
    } else {
      timeline.clock.push_back(std::get<ClockSample>(*entry));
    }
  }
  timeline.left_out = reader.left_out();
  return timeline;
}

}  // namespace mlbench::record
