#pragma once

// The names of what lies in a home, and in the folder of each run below it: HOME/runs/NAME-K. A rank's host that shares
// no disk with the supervisor's has a folder of the run with the same names. Given "" as the folder, a function returns
// a path relative to the folder.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlbench {

// ---- a home --------------------------------------------------------------------------------------------------------

inline std::filesystem::path runs_dir(const std::filesystem::path& home) { return home / "runs"; }
// This lock is held while run folders get their numbers and names.
inline std::filesystem::path runs_lock_path(const std::filesystem::path& home) { return runs_dir(home) / ".lock"; }
// Prepared data and the catalogs of worker programs lie here.
inline std::filesystem::path cache_dir_of(const std::filesystem::path& home) { return home / "cache"; }
// `mlbench data fetch` writes here; runs look for data here last.
inline std::filesystem::path data_dir_of(const std::filesystem::path& home) { return home / "data"; }

// ---- a run as a whole ----------------------------------------------------------------------------------------------

inline constexpr std::string_view kSpecFile = "spec.json", kRecordFile = "run.json", kNotesFile = "notes.json";

// What was asked for. Whoever makes the run writes this file, once.
inline std::filesystem::path spec_path(const std::filesystem::path& run_dir) { return run_dir / kSpecFile; }
// What was measured. Whoever makes the run makes this file; later the supervisor alone writes it.
inline std::filesystem::path record_path(const std::filesystem::path& run_dir) { return run_dir / kRecordFile; }
// What people wrote about the run, at any time.
inline std::filesystem::path notes_path(const std::filesystem::path& run_dir) { return run_dir / kNotesFile; }
// What the supervisor knows while the run is on. Whoever finds the supervisor dead makes the record from this file.
inline std::filesystem::path progress_path(const std::filesystem::path& run_dir) { return run_dir / "progress.json"; }
// The supervisor holds and refreshes this lease as long as it lives.
inline std::filesystem::path lease_path(const std::filesystem::path& run_dir) { return run_dir / "lease"; }

// In this folder are small files by which programs tell each other something about the run.
inline std::filesystem::path control_dir(const std::filesystem::path& run_dir) { return run_dir / "control"; }
// Says where and when the folder was made, on the clock that counts from the host's boot and that nobody sets.
inline std::filesystem::path made_path(const std::filesystem::path& run_dir) {
  return control_dir(run_dir) / "made.json";
}
// Exists as long as the run waits for the scheduler of a master.
inline std::filesystem::path waiting_path(const std::filesystem::path& run_dir) {
  return control_dir(run_dir) / "queue.json";
}
// Exists once somebody wants the run to stop.
inline std::filesystem::path stop_path(const std::filesystem::path& run_dir) { return control_dir(run_dir) / "stop"; }
// Keeps room on the disk for the last record.
inline std::filesystem::path reserve_path(const std::filesystem::path& run_dir) {
  return control_dir(run_dir) / "reserve";
}

// ---- what its programs say -----------------------------------------------------------------------------------------

inline std::filesystem::path logs_dir(const std::filesystem::path& run_dir) { return run_dir / "logs"; }
inline constexpr std::string_view kSupervisorLog = "supervisor.log";
inline std::filesystem::path supervisor_log_path(const std::filesystem::path& run_dir) {
  return logs_dir(run_dir) / kSupervisorLog;
}
// A rank has a log for each of its streams. Other programs write to one log, which counts as kStderr.
enum class LogStream { kStdout, kStderr };
inline constexpr LogStream kLogStreams[] = {LogStream::kStdout, LogStream::kStderr};
constexpr std::string_view name_of(LogStream stream) { return stream == LogStream::kStdout ? "stdout" : "stderr"; }
std::filesystem::path rank_log_path(const std::filesystem::path& logs, int64_t segment, int64_t rank, LogStream stream);
// What `program` ("mpirun", "slurm"), which starts the ranks, said; with another `extension`, a file that it is given.
std::filesystem::path launcher_log_path(const std::filesystem::path& logs, std::string_view program, int64_t segment,
                                        std::string_view extension = "log");

// ---- what ranks measure --------------------------------------------------------------------------------------------

// One rank's steps and events in one segment (record/spool.h), and its timeline (record/timeline.h).
inline std::filesystem::path spool_dir(const std::filesystem::path& run_dir) { return run_dir / "spool"; }
std::filesystem::path steps_path(const std::filesystem::path& run_dir, int64_t segment, int64_t rank);
std::filesystem::path events_path(const std::filesystem::path& run_dir, int64_t segment, int64_t rank);
inline std::filesystem::path timeline_dir(const std::filesystem::path& run_dir) { return run_dir / "timeline"; }
std::filesystem::path timeline_path(const std::filesystem::path& run_dir, int64_t segment, int64_t rank);
// What all ranks used, as the supervisor saw it (record/usage_lines.h).
inline std::filesystem::path usage_path(const std::filesystem::path& run_dir) {
  return spool_dir(run_dir) / "usage.jsonl";
}
// What a rank that is the user's own script recorded (record/tracker_lines.h).
std::filesystem::path tracker_lines_path(const std::filesystem::path& run_dir, int64_t rank);

// Makes those of the folders above that every rank needs.
void create_run_folders(const std::filesystem::path& run_dir);

// ---- what the model becomes ----------------------------------------------------------------------------------------

inline constexpr const char* kCheckpoints = "checkpoints";
inline std::filesystem::path checkpoints_dir(const std::filesystem::path& run_dir) { return run_dir / kCheckpoints; }
// The name of a checkpoint's folder below `kCheckpoints`.
std::string checkpoint_name(int64_t step);
// The inverse of checkpoint_name(); empty for any other name.
std::optional<int64_t> step_of_checkpoint(std::string_view name);
// The files in a checkpoint's folder.
inline constexpr const char *kTensorFile = "model.safetensors", *kStateFile = "state.json";
// The steps of all checkpoints of a run, in ascending order.
std::vector<int64_t> checkpoint_steps(const std::filesystem::path& run_dir);

// What the script of a custom run predicted for the evaluation set (metrics/predictions.h).
inline std::filesystem::path predictions_path(const std::filesystem::path& run_dir) {
  return run_dir / "predictions.jsonl";
}

inline std::filesystem::path translations_dir(const std::filesystem::path& run_dir) { return run_dir / "translations"; }

}  // namespace mlbench
