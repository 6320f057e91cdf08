#include "mlbench/spec/spool.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <system_error>
#include <type_traits>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"

namespace mlbench::spec {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "the spool is copied to and from memory as it is");
static_assert(std::is_trivially_copyable_v<StepRecord> && std::is_trivially_copyable_v<SpoolHeader>);

namespace {

fs::path spool_file(const fs::path& run_dir, int64_t segment, int64_t rank, const char* kind) {
  return run_dir / "spool" / fmt::format("rank-{}.seg-{}.{}", rank, segment, kind);
}

std::string read_if_present(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error) ? read_file(path) : "";
}

// Sums over a run's records stay far from overflow.
bool is_plausible(const StepRecord& record) {
  constexpr int64_t kMostNs = int64_t{366} * 24 * 3600 * 1'000'000'000;  // a year
  const auto in_range = [](int64_t ns) { return ns >= 0 && ns <= kMostNs; };
  return in_range(record.end_ns) && in_range(record.total.sum) &&
         std::all_of(record.kinds.begin(), record.kinds.end(), [&](const Spread& kind) { return in_range(kind.sum); });
}

void parse_steps(const fs::path& path, std::string_view bytes, RankSpool& spool) {
  const SpoolHeader expected;
  if (bytes.size() < sizeof expected) {
    // Killed while the header was being written.
    if (std::string_view(expected.magic, sizeof expected.magic).starts_with(bytes.substr(0, sizeof expected.magic)) ||
        bytes.starts_with(std::string_view(expected.magic, sizeof expected.magic))) {
      return;
    }
    throw UserError(path.string() + ": not a spool: " + std::to_string(bytes.size()) + " bytes without its header");
  }
  std::memcpy(&spool.header, bytes.data(), sizeof spool.header);
  if (std::memcmp(spool.header.magic, expected.magic, sizeof expected.magic) != 0) {
    throw UserError(path.string() + ": not a spool: it does not start with MLBSTEPS");
  }
  if (spool.header.version != expected.version || spool.header.record_bytes != expected.record_bytes) {
    throw UserError(fmt::format(
        "{}: spool of version {} with records of {} bytes; this program reads version {} with {}", path.string(),
        spool.header.version, spool.header.record_bytes, expected.version, expected.record_bytes));
  }
  bytes.remove_prefix(sizeof spool.header);
  spool.steps.reserve(bytes.size() / sizeof(StepRecord));
  for (; bytes.size() >= sizeof(StepRecord); bytes.remove_prefix(sizeof(StepRecord))) {
    StepRecord record;
    std::memcpy(&record, bytes.data(), sizeof record);
    // After a power failure a file may end in blocks that were never written.
    if (record.sequence != spool.steps.size() || record.count == 0) return;
    if (!is_plausible(record)) {
      throw UserError(fmt::format("{}: record {} is damaged: {} steps of {} ns, the last ending at {} ns",
                                  path.string(), record.sequence, record.count, record.total.sum, record.end_ns));
    }
    spool.steps.push_back(record);
  }
}

void parse_events(std::string_view text, RankSpool& spool) {
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    Json event = Json::parse(text.substr(0, end), nullptr, false);
    if (!event.is_object()) return;
    spool.events.push_back(std::move(event));
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

RankSpool read_spool(const fs::path& run_dir, int64_t segment, int64_t rank) {
  RankSpool spool;
  // A writer puts the steps before an event on disk first; read the other way round, no event lacks its steps.
  parse_events(read_if_present(events_path(run_dir, segment, rank)), spool);
  const fs::path steps = steps_path(run_dir, segment, rank);
  parse_steps(steps, read_if_present(steps), spool);
  return spool;
}

}  // namespace mlbench::spec
