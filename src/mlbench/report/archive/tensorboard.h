#pragma once

// A run for TensorBoard: an event file for each rank, in a folder of its own, so that TensorBoard draws the ranks as
// lines of one chart. Tags are the names of record/points.h. The file is a sequence of
//   length (u64), its checksum (u32), an Event (tensorboard_event.proto), its checksum (u32)
// little endian; checksums are CRC-32C, rotated and offset.

#include <cstdint>
#include <filesystem>
#include <string>

#include "mlbench/record/record.h"

namespace mlbench::report {

// "rank-R/events.out.tfevents.SECONDS.NAME": when and under which name the run was made.
std::filesystem::path tensorboard_path(const record::Record& record, int64_t rank);

// The file's bytes, events in the order of steps. UserError for a spool of another version.
std::string tensorboard_events(const std::filesystem::path& run_dir, const record::Record& record, int64_t rank);

}  // namespace mlbench::report
