#pragma once

// What lies where in a home, and in the folder of a run below it: HOME/runs/NAME-K. On a rank's host that shares no
// disk with the supervisor's the run has a folder that looks the same. A path of the folder "" is relative to it.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlbench {

// ---- a home --------------------------------------------------------------------------------------------------------

inline std::filesystem::path runs_dir(const std::filesystem::path& home) { return home / "runs"; }
// Held while folders of runs get their numbers and names.
inline std::filesystem::path runs_lock_path(const std::filesystem::path& home) { return runs_dir(home) / ".lock"; }
// Prepared data, and the catalogs of worker programs.
inline std::filesystem::path cache_dir_of(const std::filesystem::path& home) { return home / "cache"; }
// Where `mlbench data fetch` writes, and runs look last.
inline std::filesystem::path data_dir_of(const std::filesystem::path& home) { return home / "data"; }

// ---- a run as a whole ----------------------------------------------------------------------------------------------

inline constexpr std::string_view kSpecFile = "spec.json", kRecordFile = "run.json", kNotesFile = "notes.json";

// What was asked for: written once, by whoever makes the run.
inline std::filesystem::path spec_path(const std::filesystem::path& run_dir) { return run_dir / kSpecFile; }
// What was measured: made with the run, then the supervisor's.
inline std::filesystem::path record_path(const std::filesystem::path& run_dir) { return run_dir / kRecordFile; }
// What people wrote about the run, at any time.
inline std::filesystem::path notes_path(const std::filesystem::path& run_dir) { return run_dir / kNotesFile; }
// What the supervisor knows while the run is on: whoever finds it dead makes the record of it.
inline std::filesystem::path progress_path(const std::filesystem::path& run_dir) { return run_dir / "progress.json"; }
// Held and refreshed by the supervisor as long as it lives.
inline std::filesystem::path lease_path(const std::filesystem::path& run_dir) { return run_dir / "lease"; }

// Small files by which programs tell each other something about the run.
inline std::filesystem::path control_dir(const std::filesystem::path& run_dir) { return run_dir / "control"; }
// Where and when the folder was made, on the clock of that boot, which nobody sets.
inline std::filesystem::path made_path(const std::filesystem::path& run_dir) {
  return control_dir(run_dir) / "made.json";
}
// There as long as the run waits for the scheduler of a master.
inline std::filesystem::path waiting_path(const std::filesystem::path& run_dir) {
  return control_dir(run_dir) / "queue.json";
}
// There once somebody wants the run to stop.
inline std::filesystem::path stop_path(const std::filesystem::path& run_dir) { return control_dir(run_dir) / "stop"; }
// Room on the disk, kept for the last record.
inline std::filesystem::path reserve_path(const std::filesystem::path& run_dir) {
  return control_dir(run_dir) / "reserve";
}

// ---- what its programs say -----------------------------------------------------------------------------------------

inline std::filesystem::path logs_dir(const std::filesystem::path& run_dir) { return run_dir / "logs"; }
inline constexpr std::string_view kSupervisorLog = "supervisor.log";
inline std::filesystem::path supervisor_log_path(const std::filesystem::path& run_dir) {
  return logs_dir(run_dir) / kSupervisorLog;
}
// A rank's standard output and error.
std::filesystem::path rank_log_path(const std::filesystem::path& logs, int64_t segment, int64_t rank);
// What `program` ("mpirun", "slurm") said, which starts the ranks, or a file that it is given.
std::filesystem::path launcher_log_path(const std::filesystem::path& logs, std::string_view program, int64_t segment,
                                        std::string_view extension = "log");

// ---- what ranks measure --------------------------------------------------------------------------------------------

// Of a rank in a segment: record/spool.h, record/timeline.h.
inline std::filesystem::path spool_dir(const std::filesystem::path& run_dir) { return run_dir / "spool"; }
std::filesystem::path steps_path(const std::filesystem::path& run_dir, int64_t segment, int64_t rank);
std::filesystem::path events_path(const std::filesystem::path& run_dir, int64_t segment, int64_t rank);
inline std::filesystem::path timeline_dir(const std::filesystem::path& run_dir) { return run_dir / "timeline"; }
std::filesystem::path timeline_path(const std::filesystem::path& run_dir, int64_t segment, int64_t rank);
// Of all ranks, as the supervisor saw them: record/usage_lines.h.
inline std::filesystem::path usage_path(const std::filesystem::path& run_dir) {
  return spool_dir(run_dir) / "usage.jsonl";
}
// Of a rank that is a script of the user's: record/tracker_lines.h.
std::filesystem::path tracker_lines_path(const std::filesystem::path& run_dir, int64_t rank);

// Makes those of these folders that every rank needs.
void create_run_folders(const std::filesystem::path& run_dir);

// ---- what the model becomes ----------------------------------------------------------------------------------------

inline constexpr const char* kCheckpoints = "checkpoints";
inline std::filesystem::path checkpoints_dir(const std::filesystem::path& run_dir) { return run_dir / kCheckpoints; }
// A checkpoint's folder below that one.
std::string checkpoint_name(int64_t step);
// Empty for other names.
std::optional<int64_t> step_of_checkpoint(std::string_view name);
// The files in it.
inline constexpr const char *kTensorFile = "model.safetensors", *kStateFile = "state.json";
// Of a run, rising.
std::vector<int64_t> checkpoint_steps(const std::filesystem::path& run_dir);

inline std::filesystem::path translations_dir(const std::filesystem::path& run_dir) { return run_dir / "translations"; }

}  // namespace mlbench
