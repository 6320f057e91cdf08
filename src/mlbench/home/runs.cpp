#include "mlbench/home/runs.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>

#include "mlbench/base/choices.h"
#include "mlbench/base/clock.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/system_error.h"
#include "mlbench/home/staging.h"
#include "mlbench/record/build_record.h"
#include "mlbench/report/records.h"
#include "mlbench/supervise/progress.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench::home {

namespace fs = std::filesystem;

namespace {

// Nobody owns a run from the making of its folder until its supervisor has the lease and writes progress.
constexpr std::chrono::seconds kStartGrace{15};
// Longer than a master waits, while it holds the lock, for a supervisor that it started.
constexpr std::chrono::seconds kLockPatience{30};

std::string this_boot() { return boot_id().substr(0, boot_id().find(':')); }

double seconds_since_boot() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void note_the_making(const fs::path& run_dir) {
  write_json_file(made_path(run_dir), {{"host", host_name()}, {"boot", this_boot()}, {"boot_s", seconds_since_boot()}});
}

bool just_made(const fs::path& run_dir, const record::Record& record) {
  if (supervise::read_progress(run_dir)) return false;
  Json made = Json::object();
  if (fs::exists(made_path(run_dir))) made = read_json_file(made_path(run_dir), inputs::kMarker);
  if (made.value("host", host_name()) != host_name()) {
    return SystemClock().wall_now() - parse_utc(record.created_at) < kStartGrace;
  }
  return made.value("boot", "") == this_boot() &&
         seconds_since_boot() - made.value("boot_s", 0.0) < kStartGrace.count();
}

// Renames a run whose start failed. Its record says what it was called. Precondition: lock_runs() is held.
void make_room(const fs::path& home, const std::string& name) {
  const auto other = name_of_failed_start(home, name);
  if (!other) return;
  rename_folder(runs_dir(home), name, *other);
  const fs::path run_dir = runs_dir(home) / *other;
  spec::RunSpec spec = read_spec(run_dir);
  spec.name = *other;
  write_json_file(spec_path(run_dir), spec::to_json(spec), inputs::kSpec);
  record::RunProgress progress = supervise::read_progress(run_dir).value();
  progress.notes.push_back(
      fmt::format("was named {} until another run took that name, as this start had failed", name));
  supervise::write_progress(run_dir, progress);
  write_json_file(record_path(run_dir), record::to_json(supervise::record_of(run_dir, progress)));
}

[[noreturn]] void name_taken(const fs::path& home, const std::string& name) {
  throw NameTaken(fmt::format(
      "run '{}' exists already in {}: choose another NAME, look at it with 'mlbench status {}', or remove it with "
      "'mlbench delete {}'",
      name, runs_dir(home).string(), name, name));
}

}  // namespace

FileLock lock_runs(const fs::path& home) {
  const fs::path runs = runs_dir(home);
  make_folder(runs);
  auto lock = FileLock::acquire(runs_lock_path(home), kLockPatience);
  if (!lock) {
    throw_system_error(fmt::format("{} is locked by another mlbench for {} s already", runs_lock_path(home).string(),
                                   kLockPatience.count()),
                       EBUSY);
  }
  collect_staged(runs);
  return std::move(*lock);
}

std::optional<Waiting> read_waiting(const fs::path& run_dir) {
  if (!fs::exists(waiting_path(run_dir))) return std::nullopt;
  return Waiting{read_json_file(waiting_path(run_dir), inputs::kMarker).value("no_wait", false)};
}

void remove_waiting(const fs::path& run_dir) {
  std::error_code error;
  fs::remove(waiting_path(run_dir), error);
  if (error) throw_system_error("cannot remove " + waiting_path(run_dir).string(), error.value());
}

std::optional<std::string> name_of_failed_start(const fs::path& home, const std::string& name) {
  const fs::path run_dir = runs_dir(home) / name;
  try {
    const record::Record record = report::read_record(run_dir);
    const bool failed = record.state == "failed" && record.failure && record.failure->kind == "start_failed";
    if (!failed || record.segments.size() > 1 || record.placement) return std::nullopt;
    if (supervise::lease_held(run_dir) || !supervise::read_progress(run_dir)) return std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;  // there is no such run, or a damaged one
  }
  std::string other = name + ".failed";
  for (int number = 2; fs::exists(runs_dir(home) / other); ++number) other = fmt::format("{}.failed.{}", name, number);
  return other;
}

bool is_taken(const fs::path& home, const std::string& name) {
  return fs::exists(runs_dir(home) / name) && !name_of_failed_start(home, name);
}

void check_names_free(const fs::path& home, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (is_taken(home, name)) name_taken(home, name);
  }
}

std::string without_repeat(const std::string& run_name) {
  const size_t number = run_name.find_last_not_of("0123456789");
  const bool repeat =
      number != std::string::npos && number > 0 && number + 1 < run_name.size() && run_name[number] == '.';
  return repeat ? run_name.substr(0, number) : run_name;
}

std::vector<spec::RunSpec> create_runs(const fs::path& home, std::vector<spec::RunSpec> specs,
                                       const std::optional<Waiting>& waiting,
                                       const std::function<void(const char*)>& at_step) {
  const fs::path runs = runs_dir(home);
  const auto step = [&](const char* name) {
    if (at_step) at_step(name);
  };
  const std::vector<std::string> names = names_of(specs);
  int64_t id = 0;
  Staging staging = [&] {
    const FileLock lock = lock_runs(home);
    check_names_free(home, names);
    id = take_ids(runs, std::ssize(specs));
    return Staging(runs);
  }();
  step("staged");
  // This waits for the disk, so it happens without the lock.
  for (spec::RunSpec& spec : specs) {
    spec.id = id++;
    spec.identity = random_hex(16);
    spec.run_dir = runs / spec.name;
    spec.created_at = format_utc(SystemClock().wall_now());
    const fs::path folder = staging.path() / spec.name;
    make_folder(control_dir(folder));
    if (waiting) write_json_file(waiting_path(folder), {{"no_wait", waiting->no_wait}});
    write_json_file(spec_path(folder), spec::to_json(spec), inputs::kSpec);
    write_json_file(record_path(folder), record::to_json(first_record(spec)));
    note_the_making(folder);
    step("written");
  }
  const FileLock lock = lock_runs(home);
  check_names_free(home, names);  // somebody may have been faster
  for (const std::string& name : names) make_room(home, name);
  staging.publish(names, step);
  step("published");
  return specs;
}

spec::RunSpec create_run(const fs::path& home, spec::RunSpec spec, const std::optional<Waiting>& waiting) {
  return std::move(create_runs(home, {std::move(spec)}, waiting).front());
}

record::Record first_record(const spec::RunSpec& spec) { return record::build_record(spec, record::RunProgress{}); }

spec::RunSpec read_spec(const fs::path& run_dir) {
  spec::RunSpec spec = spec::read_run_spec(spec_path(run_dir));
  spec.run_dir = fs::absolute(run_dir);  // the home may have been moved
  return spec;
}

record::Record current_record(const fs::path& run_dir) {
  record::Record record = report::read_record(run_dir);
  if (!record::is_active(record)) return record;
  if (supervise::lease_held(run_dir)) {
    const auto progress = supervise::read_progress(run_dir);
    const record::Record now = progress ? supervise::record_of(run_dir, *progress) : record;
    return record::is_active(now) ? now : record;  // the supervisor is about to write the record of a run that is over
  }
  if (record.state == "queued" && fs::exists(waiting_path(run_dir))) return record;
  if (record.state == "queued" && just_made(run_dir, record)) return record;
  try {
    supervise::settle_if_lost(run_dir);
  } catch (const IoError&) {
    return supervise::lost_record(run_dir);  // the medium cannot be written, or is full: the answer does not change
  }
  return report::read_record(run_dir);
}

std::vector<record::Record> records_of_repeats(const fs::path& home, const std::string& name) {
  std::vector<record::Record> records = {current_record(runs_dir(home) / name)};
  for (const std::string& other : report::run_names(home)) {
    if (other != name && without_repeat(other) == name) {
      records.push_back(current_record(runs_dir(home) / other));
    }
  }
  std::ranges::stable_sort(records, {}, &record::Record::id);
  return records;
}

bool is_active_run(const fs::path& run_dir) {
  try {
    if (!record::is_active(report::read_record(run_dir))) return false;
    // This is asked often, also of runs with millions of steps: no record is built for it.
    return supervise::lease_held(run_dir) || record::is_active(current_record(run_dir));
  } catch (const std::exception&) {
    return supervise::lease_held(run_dir);
  }
}

void stop_run(const fs::path& home, const fs::path& run_dir) {
  {
    const FileLock lock = lock_runs(home);
    if (read_waiting(run_dir) && !supervise::lease_held(run_dir)) {
      record::RunProgress progress;
      progress.state = record::RunState::kStopped;
      progress.finished_at = format_utc(SystemClock().wall_now());
      supervise::write_progress(run_dir, progress);
      write_json_file(record_path(run_dir), record::to_json(supervise::record_of(run_dir, progress)));
      remove_waiting(run_dir);
      return;
    }
  }
  // A supervisor that was just started has not yet taken its run.
  const auto deadline = std::chrono::steady_clock::now() + kStartGrace;
  while (!supervise::lease_held(run_dir) && is_active_run(run_dir) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  supervise::request_stop(run_dir);
}

void fail_waiting(const fs::path& run_dir, const std::string& message) {
  record::RunProgress progress;
  progress.state = record::RunState::kFailed;
  progress.finished_at = format_utc(SystemClock().wall_now());
  progress.failure.emplace();
  progress.failure->kind = "start_failed";
  progress.failure->message = message;
  supervise::write_progress(run_dir, progress);
  write_json_file(record_path(run_dir), record::to_json(record::build_record(read_spec(run_dir), progress)));
  remove_waiting(run_dir);
}

void delete_run(const fs::path& home, const fs::path& run_dir) {
  const std::string name = run_dir.filename();
  std::optional<Staging> staging;  // its destructor removes what may be large, without the lock
  const FileLock lock = lock_runs(home);
  if (is_active_run(run_dir)) {
    throw UserError(fmt::format("run '{}' is active: stop it first with 'mlbench stop {}'", name, name));
  }
  staging.emplace(runs_dir(home)).take(name);
}

}  // namespace mlbench::home
