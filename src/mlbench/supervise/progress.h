#pragma once

// RUN/progress.json: what the supervisor knows beside spec and spools (record::RunProgress), so that anybody can
// rebuild the record after a crash, and a resumed run goes on from there.

#include <filesystem>
#include <optional>

#include "mlbench/base/json.h"
#include "mlbench/record/build_record.h"

namespace mlbench::supervise {

Json to_json(const record::RunProgress& progress);
// UserError naming the missing or wrong field.
record::RunProgress progress_from_json(const Json& json);

void write_progress(const std::filesystem::path& run_dir, const record::RunProgress& progress);
// Empty when the run has none yet.
std::optional<record::RunProgress> read_progress(const std::filesystem::path& run_dir);

// Whether the disk that holds the folder has no room for a record any more.
bool disk_is_full(const std::filesystem::path& run_dir);

// A full disk leaves no room to say so: RUN/control/reserve is kept for the last record (1 MiB). IoError when there is
// no room for it now.
void reserve_room(const std::filesystem::path& run_dir);
void release_room(const std::filesystem::path& run_dir);

// The record of a run folder that has come to `progress`. Where spec.json is wrong, what run.json says, in that state,
// with the reason among its notes: whatever is in a folder, its run can be shown, ended and deleted.
record::Record record_of(const std::filesystem::path& run_dir, const record::RunProgress& progress);

}  // namespace mlbench::supervise
