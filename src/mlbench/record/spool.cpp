#include "mlbench/record/spool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <system_error>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/record/events.h"
#include "mlbench/record/step_reader.h"

namespace mlbench::record {

namespace fs = std::filesystem;

namespace {

std::string read_if_present(const fs::path& path, const Input& input) {
  std::error_code error;
  return fs::exists(path, error) ? read_file(path, input) : "";
}

constexpr size_t kMostEvents = 300'000;

}  // namespace

void check_identity(const fs::path& run_dir, const fs::path& path, const SpoolHeader& header) {
  std::error_code error;
  if (!fs::exists(spec_path(run_dir), error)) return;
  std::string own;
  try {
    own = text_member(read_json_file(spec_path(run_dir), inputs::kSpec), "identity");
  } catch (const std::runtime_error&) {
    return;  // whoever needs the specification reports what is wrong with it
  }
  if (own == header.identity) return;
  throw UserError(fmt::format("{}: of another run ({}), so it was not read", path.string(),
                              header.identity.empty() ? "without an identity" : header.identity));
}

int64_t last_segment(const fs::path& run_dir) {
  constexpr int64_t kMostSegments = 1000;  // a reader looks at each
  int64_t last = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(spool_dir(run_dir), error)) {
    long long rank = 0, segment = 0;
    const bool named = std::sscanf(entry.path().filename().c_str(), "rank-%9lld.seg-%9lld.", &rank, &segment) == 2;
    if (named && segment <= kMostSegments) last = std::max<int64_t>(last, segment);
  }
  return last;
}

bool is_plausible(const StepRecord& record) {
  constexpr int64_t kMostNs = int64_t{366} * 24 * 3600 * 1'000'000'000;  // a year
  const auto in_range = [](int64_t ns) { return ns >= 0 && ns <= kMostNs; };
  return record.first_step <= uint64_t{kMostInteger} && record.samples <= uint64_t{kMostInteger} &&
         in_range(record.end_ns) && std::ranges::all_of(record.kinds_ns, in_range) &&
         std::ranges::all_of(record.exchange_ns, in_range) &&
         std::ranges::equal(record.hidden_ns, record.exchange_ns,
                            [](int64_t hidden, int64_t all) { return hidden >= 0 && hidden <= all; });
}

Events read_events(const fs::path& run_dir, int64_t segment, int64_t rank) {
  Events events;
  const std::string content = read_if_present(events_path(run_dir, segment, rank), inputs::kEventFile);
  std::string_view text = content;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    if (text.front() == '\0') break;  // after a power failure a file may end in blocks that were never written
    auto event = events.lines.size() < kMostEvents ? parse_event(text.substr(0, end)) : std::nullopt;
    if (event) {
      events.lines.push_back(std::move(*event));
    } else {
      ++events.left_out;
    }
    text.remove_prefix(end + 1);
  }
  return events;
}

RankSpool read_spool(const fs::path& run_dir, int64_t segment, int64_t rank) {
  RankSpool spool;
  // A writer puts the steps before an event on disk first. So events are read first: no event then lacks its steps.
  Events events = read_events(run_dir, segment, rank);
  spool.events = std::move(events.lines);
  spool.left_out = events.left_out;
  StepReader steps(run_dir, segment, rank);
  spool.header = steps.header();
  while (const auto record = steps.next()) spool.steps.push_back(*record);
  return spool;
}

}  // namespace mlbench::record
