#pragma once

// Writes a run for TensorBoard: an event file for each rank, in a folder of its own, so that TensorBoard draws the
// ranks as lines of one chart. Tags are the flat names of series (record/legacy_names.h). The file is a sequence of
//   length (u64), its checksum (u32), an Event (tensorboard_event.proto), its checksum (u32)
// in little endian; checksums are CRC-32C, rotated and offset.

#include <cstdint>
#include <filesystem>
#include <string>

#include "mlbench/record/record.h"

namespace mlbench::report {

// The event file's path, "rank-R/events.out.tfevents.SECONDS.NAME": SECONDS and NAME are the time at which the run was
// created (Unix time) and its name.
std::filesystem::path tensorboard_path(const record::Record& record, int64_t rank);

// The bytes of the event file of `rank`, with events by step. Throws UserError for a spool of another version.
std::string tensorboard_events(const std::filesystem::path& run_dir, const record::Record& record, int64_t rank);

}  // namespace mlbench::report
