#pragma once

// For tests: makes spools without a recorder.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/record/step_format.h"

namespace mlbench::record {

// A record of `count` steps from `first` on, with 10 samples each, that took `ns` in all: a fifth in batch_load, a
// tenth in checkpoint, the rest in backprop.
inline StepRecord step_record(uint64_t first, uint64_t count, int64_t ns, int64_t end_ns = 0) {
  StepRecord record;
  record.first_step = first;
  record.count = count;
  record.samples = 10 * count;
  record.end_ns = end_ns;
  record.kinds_ns[static_cast<size_t>(StepKind::kBatchLoad)] = ns / 5;
  record.kinds_ns[static_cast<size_t>(StepKind::kCheckpoint)] = ns / 10;
  record.kinds_ns[static_cast<size_t>(StepKind::kBackward)] = ns - ns / 5 - ns / 10;
  return record;
}

inline void write_spool(const std::filesystem::path& run_dir, int64_t segment, int64_t rank,
                        std::vector<StepRecord> steps, const std::vector<Json>& events, int64_t start_wall_us = 0,
                        const std::string& identity = "") {
  std::filesystem::create_directories(run_dir / "spool");
  SpoolHeader header;
  header.segment = static_cast<uint32_t>(segment);
  header.rank = static_cast<uint32_t>(rank);
  header.start_wall_us = start_wall_us;
  header.identity = identity;
  std::ofstream out(steps_path(run_dir, segment, rank), std::ios::binary);
  std::string bytes = encode_header(header);
  for (size_t i = 0; i < steps.size(); ++i) {
    steps[i].sequence = i;
    append_record(bytes, steps[i]);
  }
  out << bytes;
  std::ofstream lines(events_path(run_dir, segment, rank));
  for (const Json& event : events) lines << event.dump() << "\n";
}

}  // namespace mlbench::record
