#pragma once

// RUN/progress.json holds what the supervisor knows beside spec and spools (record::RunProgress). With it, any process
// can rebuild the record after a crash, and a resumed run continues from there.

#include <filesystem>
#include <optional>

#include "mlbench/base/json.h"
#include "mlbench/record/build_record.h"

namespace mlbench::supervise {

Json to_json(const record::RunProgress& progress);
// Throws UserError naming the missing or wrong field.
record::RunProgress progress_from_json(const Json& json);

void write_progress(const std::filesystem::path& run_dir, const record::RunProgress& progress);
// Empty where the run has no progress.json yet.
std::optional<record::RunProgress> read_progress(const std::filesystem::path& run_dir);

// Whether the disk that holds the folder has no more room for a record (64 KiB).
bool disk_is_full(const std::filesystem::path& run_dir);

// Keeps 1 MiB in RUN/control/reserve for the last record, since on a full disk it could not be written. Throws IoError
// where there is no room for that now. release_room() frees it.
void reserve_room(const std::filesystem::path& run_dir);
void release_room(const std::filesystem::path& run_dir);

// The record of a run folder for `progress`. Where spec.json is wrong, the record is that of run.json with the state of
// `progress` and the reason among its notes. So a run can be shown, ended and deleted whatever its folder holds.
record::Record record_of(const std::filesystem::path& run_dir, const record::RunProgress& progress);

}  // namespace mlbench::supervise
