#include "mlbench/record/spool_tail.h"

#include "mlbench/base/run_folder.h"
#include "mlbench/record/events.h"

namespace mlbench::record {

namespace {

constexpr int kMostRecordsPerRead = 10'000;

}  // namespace

SpoolTail::SpoolTail(std::filesystem::path run_dir, int64_t segment, int64_t rank, const SpoolCursor& from)
    : events_path_(events_path(run_dir, segment, rank)),
      steps_(run_dir, segment, rank, static_cast<std::uintmax_t>(from.steps)),
      cursor_(from) {}

bool SpoolTail::read(const TakeStep& take_step, const TakeEvent& take_event) {
  bool moved = false;
  for (int records = 0; records < kMostRecordsPerRead; ++records) {
    const auto step = steps_.next();
    if (!step) break;
    cursor_.steps = static_cast<int64_t>(steps_.offset());
    moved = true;
    take_step(*step);
  }
  const bool lines = read_lines(events_path_, cursor_.events, [&](std::string_view line) {
    const auto event = parse_event(line);
    event ? take_event(*event) : void(++cursor_.events.left_out);
  });
  return moved || lines;
}

}  // namespace mlbench::record
