#include "mlbench/spec/spool.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <system_error>
#include <type_traits>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/spec/step_reader.h"

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

std::vector<Json> parse_events(std::string_view text) {
  std::vector<Json> events;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    Json event = Json::parse(text.substr(0, end), nullptr, false);
    if (!event.is_object()) break;
    events.push_back(std::move(event));
    text.remove_prefix(end + 1);
  }
  return events;
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
  const std::string_view magic(expected.magic, sizeof expected.magic);
  if (bytes.size() < sizeof expected) {
    // Killed while the header was being written.
    if (magic.starts_with(bytes.substr(0, magic.size())) || bytes.starts_with(magic)) return std::nullopt;
    throw UserError(path.string() + ": not a spool: " + std::to_string(bytes.size()) + " bytes without its header");
  }
  SpoolHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (!bytes.starts_with(magic)) {
    throw UserError(path.string() + ": not a spool: it does not start with MLBSTEPS");
  }
  if (header.version != expected.version || header.record_bytes != expected.record_bytes) {
    throw UserError(
        fmt::format("{}: spool of version {} with records of {} bytes; this program reads version {} with {}",
                    path.string(), header.version, header.record_bytes, expected.version, expected.record_bytes));
  }
  return header;
}

void check_plausible(const fs::path& path, const StepRecord& record) {
  if (is_plausible(record)) return;
  throw UserError(fmt::format("{}: record {} is damaged: {} steps of {} ns, the last ending at {} ns", path.string(),
                              record.sequence, record.count, record.total.sum, record.end_ns));
}

std::vector<Json> read_events(const fs::path& run_dir, int64_t segment, int64_t rank) {
  return parse_events(read_if_present(events_path(run_dir, segment, rank)));
}

RankSpool read_spool(const fs::path& run_dir, int64_t segment, int64_t rank) {
  RankSpool spool;
  // A writer puts the steps before an event on disk first; read the other way round, no event lacks its steps.
  spool.events = read_events(run_dir, segment, rank);
  StepReader steps(run_dir, segment, rank);
  spool.header = steps.header();
  while (const auto record = steps.next()) spool.steps.push_back(*record);
  return spool;
}

}  // namespace mlbench::spec
