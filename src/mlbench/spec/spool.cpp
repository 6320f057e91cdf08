#include "mlbench/spec/spool.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <type_traits>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"

namespace mlbench::spec {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "the spool is copied to and from memory as it is");
static_assert(std::is_trivially_copyable_v<StepRecord> && std::is_trivially_copyable_v<SpoolHeader>);

namespace {

fs::path spool_file(const fs::path& run_dir, int64_t segment, int64_t rank, const char* kind) {
  return run_dir / "spool" / fmt::format("rank-{}.seg-{}.{}", rank, segment, kind);
}

std::string read_if_present(const fs::path& path, const Input& input) {
  std::error_code error;
  return fs::exists(path, error) ? read_file(path, input) : "";
}

constexpr size_t kBlockRecords = 4096, kMostEvents = 300'000;

// Far enough from the ends that sums and differences of a few do not overflow.
constexpr int64_t kMostInteger = 100'000'000'000'000'000;

bool is_whole(const Json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>() <= uint64_t{kMostInteger};
  return value.is_number_integer() && value.get<int64_t>() >= -kMostInteger;
}

// What readers of events rely on.
struct Member {
  std::string_view name;
  bool (*fits)(const Json& value);
};
constexpr auto kText = [](const Json& value) { return value.is_string(); };
constexpr auto kNumber = [](const Json& value) { return value.is_number(); };
constexpr auto kObject = [](const Json& value) { return value.is_object(); };
constexpr Member kMembers[] = {
    {"event", kText},         {"split", kText},       {"weights_sha256", kText}, {"reason", kText},
    {"sequence", is_whole},   {"end_ns", is_whole},   {"train_ns", is_whole},    {"duration_ns", is_whole},
    {"start_step", is_whole}, {"step", is_whole},     {"last_step", is_whole},   {"steps_per_epoch", is_whole},
    {"epoch", kNumber},       {"prepare_s", kNumber}, {"metrics", kObject},
};

// Of a file: no sum that is derived from it overflows.
class Sums {
 public:
  void add(const StepRecord& record) {
    samples_ += static_cast<int64_t>(record.samples);
    largest_ns_ = std::max(largest_ns_, total_ns_ += record.total.sum);
    for (size_t kind = 0; kind < kStepKinds; ++kind) {
      largest_ns_ = std::max(largest_ns_, kinds_ns_[kind] += record.kinds[kind].sum);
    }
  }
  bool plausible() const { return samples_ <= kMostInteger && largest_ns_ <= kMostInteger; }

 private:
  int64_t samples_ = 0, total_ns_ = 0, largest_ns_ = 0;
  std::array<int64_t, kStepKinds> kinds_ns_{};
};

// In blocks: what a file announces by its size need not be in it.
void read_steps(const fs::path& path, RankSpool& spool) {
  std::error_code error;
  if (!fs::exists(path, error)) return;
  if (!fs::is_regular_file(path, error)) throw UserError(path.string() + ": not a spool: it is no plain file");
  if (const auto size = fs::file_size(path, error); !error && size > inputs::kStepFile.most_bytes) {
    refuse_size(path.string(), size, inputs::kStepFile);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError(fmt::format("cannot read {}: {}", path.string(), errno_text(errno)));
  std::string bytes;
  const auto fill = [&](size_t wanted) {
    bytes.resize(wanted);
    file.read(bytes.data(), static_cast<std::streamsize>(wanted));
    if (file.bad()) throw IoError(fmt::format("cannot read {}: {}", path.string(), errno_text(errno)));
    bytes.resize(static_cast<size_t>(file.gcount()));
  };
  fill(sizeof(SpoolHeader));
  const auto header = parse_header(path, bytes);
  if (!header) return;
  spool.header = *header;
  Sums sums;
  for (;;) {
    fill(kBlockRecords * sizeof(StepRecord));
    for (size_t at = 0; at + sizeof(StepRecord) <= bytes.size(); at += sizeof(StepRecord)) {
      StepRecord record;
      std::memcpy(&record, bytes.data() + at, sizeof record);
      // After a power failure a file may end in blocks that were never written.
      if (record.sequence != spool.steps.size() || record.count == 0) return;
      const bool plausible = is_plausible(record);
      if (plausible) sums.add(record);
      if (!plausible || !sums.plausible()) {
        throw UserError(fmt::format("{}: record {} is damaged: {} steps of {} ns, the last ending at {} ns",
                                    path.string(), record.sequence, record.count, record.total.sum, record.end_ns));
      }
      spool.steps.push_back(record);
    }
    if (bytes.size() < kBlockRecords * sizeof(StepRecord)) return;
  }
}

void parse_events(std::string_view text, RankSpool& spool) {
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    if (text.front() == '\0') return;  // after a power failure a file may end in blocks that were never written
    auto event = spool.events.size() < kMostEvents ? parse_event(text.substr(0, end)) : std::nullopt;
    if (event) {
      spool.events.push_back(std::move(*event));
    } else {
      ++spool.left_out;
    }
    text.remove_prefix(end + 1);
  }
}

}  // namespace

fs::path steps_path(const fs::path& run_dir, int64_t segment, int64_t rank) {
  return spool_file(run_dir, segment, rank, "steps");
}

fs::path events_path(const fs::path& run_dir, int64_t segment, int64_t rank) {
  return spool_file(run_dir, segment, rank, "events");
}

std::optional<SpoolHeader> parse_header(const fs::path& path, std::string_view bytes) {
  const SpoolHeader expected;
  if (bytes.size() < sizeof expected) {
    // Killed while the header was being written.
    if (std::string_view(expected.magic, sizeof expected.magic).starts_with(bytes.substr(0, sizeof expected.magic)) ||
        bytes.starts_with(std::string_view(expected.magic, sizeof expected.magic))) {
      return std::nullopt;
    }
    throw UserError(path.string() + ": not a spool: " + std::to_string(bytes.size()) + " bytes without its header");
  }
  SpoolHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, expected.magic, sizeof expected.magic) != 0) {
    throw UserError(path.string() + ": not a spool: it does not start with MLBSTEPS");
  }
  if (header.version != expected.version || header.record_bytes != expected.record_bytes) {
    throw UserError(
        fmt::format("{}: spool of version {} with records of {} bytes; this program reads version {} with {}",
                    path.string(), header.version, header.record_bytes, expected.version, expected.record_bytes));
  }
  if (header.start_wall_us < 0 || header.start_wall_us > kMostInteger) {
    throw UserError(fmt::format("{}: a spool that began {} us after 1970", path.string(), header.start_wall_us));
  }
  return header;
}

bool is_plausible(const StepRecord& record) {
  constexpr int64_t kMostNs = int64_t{366} * 24 * 3600 * 1'000'000'000;  // a year
  const auto in_range = [](int64_t ns) { return ns >= 0 && ns <= kMostNs; };
  return record.first_step <= uint64_t{kMostInteger} && record.samples <= uint64_t{kMostInteger} &&
         in_range(record.end_ns) && in_range(record.total.sum) &&
         std::all_of(record.kinds.begin(), record.kinds.end(), [&](const Spread& kind) { return in_range(kind.sum); });
}

std::optional<Json> parse_event(std::string_view line) {
  auto event = try_parse_json(line, inputs::kEventLine);
  if (!event || !event->is_object()) return std::nullopt;
  for (const Member& member : kMembers) {
    const auto found = event->find(member.name);
    if (found != event->end() && !member.fits(*found)) return std::nullopt;
  }
  return event;
}

RankSpool read_spool(const fs::path& run_dir, int64_t segment, int64_t rank) {
  RankSpool spool;
  // A writer puts the steps before an event on disk first; read the other way round, no event lacks its steps.
  parse_events(read_if_present(events_path(run_dir, segment, rank), inputs::kEventFile), spool);
  read_steps(steps_path(run_dir, segment, rank), spool);
  return spool;
}

}  // namespace mlbench::spec
