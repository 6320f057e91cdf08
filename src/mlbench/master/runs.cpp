#include "mlbench/master/runs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <system_error>
#include <thread>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/report/records.h"
#include "mlbench/spec/record.h"
#include "mlbench/supervise/progress.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench::master {

namespace fs = std::filesystem;

namespace {

// Between the making of a folder and its supervisor taking the lease nobody owns the run.
constexpr std::chrono::seconds kStartGrace{15};

// Removed on the way out unless the folder was renamed away.
struct StagedFolder {
  explicit StagedFolder(fs::path folder) : path(std::move(folder)) { fs::create_directories(path); }
  ~StagedFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;
  fs::path path;
};

int64_t next_id(const fs::path& home) {
  int64_t id = 1;
  const fs::path counter = report::runs_dir(home) / ".next-id";
  if (fs::exists(counter)) {
    const std::string text = read_file(counter);
    std::from_chars(text.data(), text.data() + text.size(), id);
  }
  // A home copied without its hidden files.
  for (const fs::path& run : report::list_runs(home)) {
    try {
      id = std::max(id, read_json_file(run / "spec.json").value("id", int64_t{0}) + 1);
    } catch (const std::exception&) {
      // Damaged: has no id to avoid.
    }
  }
  write_file_atomically(counter, std::to_string(id + 1) + "\n");
  return id;
}

[[noreturn]] void name_taken(const fs::path& home, const std::string& name) {
  throw NameTaken(fmt::format(
      "run '{}' exists already in {}: choose another NAME, look at it with 'mlbench status {}', or remove it with "
      "'mlbench delete {}'",
      name, report::runs_dir(home).string(), name, name));
}

fs::path waiting_path(const fs::path& run_dir) { return run_dir / "control" / "queue.json"; }

}  // namespace

FileLock lock_runs(const fs::path& home) {
  const fs::path runs = report::runs_dir(home);
  std::error_code error;
  fs::create_directories(runs, error);
  if (error) throw IoError(fmt::format("cannot create {}: {}", runs.string(), error.message()));
  auto lock = FileLock::acquire(runs / ".lock", std::chrono::seconds(10));
  if (!lock) throw IoError(fmt::format("{} is locked by another mlbench for 10 s already", (runs / ".lock").string()));
  return std::move(*lock);
}

std::optional<Waiting> read_waiting(const fs::path& run_dir) {
  if (!fs::exists(waiting_path(run_dir))) return std::nullopt;
  return Waiting{read_json_file(waiting_path(run_dir)).value("no_wait", false)};
}

void remove_waiting(const fs::path& run_dir) {
  std::error_code error;
  fs::remove(waiting_path(run_dir), error);
  if (error) throw IoError(fmt::format("cannot remove {}: {}", waiting_path(run_dir).string(), error.message()));
}

void check_names_free(const fs::path& home, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (fs::exists(report::runs_dir(home) / name)) name_taken(home, name);
  }
}

spec::RunSpec create_run(const fs::path& home, spec::RunSpec spec, const std::optional<Waiting>& waiting) {
  const FileLock lock = lock_runs(home);
  check_names_free(home, {spec.name});
  const fs::path run_dir = report::runs_dir(home) / spec.name;
  spec.id = next_id(home);
  spec.run_dir = run_dir;
  spec.created_at = format_utc(SystemClock().wall_now());

  const StagedFolder staged(report::runs_dir(home) / fmt::format(".new-{}-{}", spec.name, getpid()));
  write_json_file(staged.path / "spec.json", spec::to_json(spec));
  write_json_file(staged.path / "run.json", spec::build_record(spec, spec::RunProgress{}));
  if (waiting) {
    fs::create_directories(staged.path / "control");
    write_json_file(waiting_path(staged.path), {{"no_wait", waiting->no_wait}});
  }
  std::error_code error;
  fs::rename(staged.path, run_dir, error);
  if (error) throw IoError(fmt::format("cannot create {}: {}", run_dir.string(), error.message()));
  sync_directory(report::runs_dir(home));
  return spec;
}

spec::RunSpec read_spec(const fs::path& run_dir) {
  spec::RunSpec spec = spec::read_run_spec(run_dir / "spec.json");
  spec.run_dir = fs::absolute(run_dir);  // the home may have been moved
  return spec;
}

Json current_record(const fs::path& run_dir) {
  Json record = report::read_record(run_dir);
  if (!report::is_active(record)) return record;
  if (supervise::lease_held(run_dir)) {
    const auto progress = supervise::read_progress(run_dir);
    return progress ? supervise::record_of(run_dir, *progress) : record;
  }
  if (record["state"] == "queued" && fs::exists(waiting_path(run_dir))) return record;
  const auto age = SystemClock().wall_now() - parse_utc(record.value("created_at", ""));
  if (record["state"] == "queued" && age < kStartGrace) return record;
  supervise::settle_if_lost(run_dir);
  return report::read_record(run_dir);
}

bool is_active_run(const fs::path& run_dir) {
  try {
    if (!report::is_active(report::read_record(run_dir))) return false;
    // Asked often, of runs with millions of steps: no record is built for it.
    return supervise::lease_held(run_dir) || report::is_active(current_record(run_dir));
  } catch (const std::exception&) {
    return supervise::lease_held(run_dir);
  }
}

std::vector<int64_t> checkpoint_steps(const fs::path& run_dir) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run_dir / "checkpoints", error)) {
    const std::string name = entry.path().filename();
    int64_t step = 0;
    if (!name.starts_with("step-")) continue;
    const auto [end, failed] = std::from_chars(name.data() + 5, name.data() + name.size(), step);
    if (failed == std::errc() && end == name.data() + name.size()) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void stop_run(const fs::path& home, const fs::path& run_dir) {
  {
    const FileLock lock = lock_runs(home);
    if (read_waiting(run_dir) && !supervise::lease_held(run_dir)) {
      spec::RunProgress progress;
      progress.state = spec::RunState::kStopped;
      progress.finished_at = format_utc(SystemClock().wall_now());
      supervise::write_progress(run_dir, progress);
      write_json_file(run_dir / "run.json", supervise::record_of(run_dir, progress));
      remove_waiting(run_dir);
      return;
    }
  }
  // A supervisor that was just started has not taken its run yet.
  const auto deadline = std::chrono::steady_clock::now() + kStartGrace;
  while (!supervise::lease_held(run_dir) && is_active_run(run_dir) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  supervise::request_stop(run_dir);
}

void delete_run(const fs::path& home, const fs::path& run_dir) {
  const FileLock lock = lock_runs(home);
  const std::string name = run_dir.filename();
  if (is_active_run(run_dir)) {
    throw UserError(fmt::format("run '{}' is active: stop it first with 'mlbench stop {}'", name, name));
  }
  // Out of sight at once; a crash in the middle leaves no half run.
  const fs::path doomed = report::runs_dir(home) / fmt::format(".deleted-{}-{}", name, getpid());
  std::error_code error;
  fs::rename(run_dir, doomed, error);
  if (!error) fs::remove_all(doomed, error);
  if (error) throw IoError(fmt::format("cannot delete {}: {}", run_dir.string(), error.message()));
}

}  // namespace mlbench::master
