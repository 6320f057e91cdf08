#include "mlbench/home/staging.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "mlbench/base/input.h"
#include "mlbench/base/log.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/system_error.h"

namespace mlbench::home {

namespace fs = std::filesystem;

namespace {

// ---- ids ------------------------------------------------------------------------------------------------------------

constexpr int64_t kMostId = int64_t{1} << 53;  // a larger one is not ours, and no number of JavaScript

struct Counter {
  int64_t next = 1;
  int64_t changed_ns = 0;  // when we last changed HOME/runs
};

fs::path counter_path(const fs::path& runs_dir) { return runs_dir / ".next-id"; }

// When a name in the folder was last made, removed or changed. Nobody can set this time.
int64_t last_change_ns(const fs::path& folder) {
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0) {
    throw_system_error(fmt::format("cannot look at {}", folder.string()), errno);
  }
  return info.st_ctim.tv_sec * 1'000'000'000 + info.st_ctim.tv_nsec;
}

std::optional<Counter> read_counter(const fs::path& runs_dir) {
  try {
    const Json json = read_json_file(counter_path(runs_dir), inputs::kRunCounter);
    const Json& changed = json.at("runs_changed_ns");  // too large for integer_member()
    Counter counter{integer_member(json, "next"), changed.is_number_integer() ? changed.get<int64_t>() : 0};
    if (counter.next > 0 && counter.next < kMostId) return counter;
  } catch (const std::exception&) {
    // There is no counter, or a damaged one.
  }
  return std::nullopt;
}

// Writes in place, so that HOME/runs does not change by it, and always the same length, so that a full disk has room.
void write_counter(const fs::path& runs_dir, const Counter& counter) {
  const fs::path path = counter_path(runs_dir);
  const FileDescriptor fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!fd) throw_system_error(fmt::format("cannot write {}", path.string()), errno);
  const std::string text = fmt::format(R"({{"next": {}, "runs_changed_ns": {}}})", counter.next, counter.changed_ns);
  write_all(fd.get(), fmt::format("{:<127}\n", text), path.string());
  if (ftruncate(fd.get(), 128) != 0) throw_system_error(fmt::format("cannot write {}", path.string()), errno);
}

int64_t id_in(const fs::path& file) {
  try {
    return integer_member(read_json_file(file, inputs::kRecord), "id");
  } catch (const std::exception&) {
    return 0;
  }
}

// An id above those of all runs. A damaged run may have its id in only one of its two files.
int64_t next_by_looking(const fs::path& runs_dir) {
  int64_t next = 1;
  for (const auto& entry : fs::directory_iterator(runs_dir)) {
    if (entry.path().filename().string().starts_with('.')) continue;
    int64_t id = id_in(spec_path(entry.path()));
    if (id <= 0) id = id_in(record_path(entry.path()));
    if (id < kMostId) next = std::max(next, id + 1);
  }
  return next;
}

// Makes a change of HOME/runs and keeps the counter valid.
template <typename Change>
void change_runs(const fs::path& runs_dir, const Change& change) {
  std::optional<Counter> counter = read_counter(runs_dir);
  if (counter && counter->changed_ns != last_change_ns(runs_dir)) counter.reset();
  change();
  if (!counter) return;
  try {
    counter->changed_ns = last_change_ns(runs_dir);
    write_counter(runs_dir, *counter);
  } catch (const IoError& error) {
    spdlog::warn("{}: the next id is found by looking at all runs", error.what());
  }
}

// ---- folders --------------------------------------------------------------------------------------------------------

fs::path staging_dir(const fs::path& runs_dir) { return runs_dir / ".staging"; }
fs::path mark_of(const fs::path& staged) { return staged / "committed"; }
fs::path lock_of(const fs::path& staged) { return staged / "lock"; }

void move_folder(const fs::path& from, const fs::path& to) {
  if (rename(from.c_str(), to.c_str()) != 0) {
    throw_system_error(fmt::format("cannot create {}", to.string()), errno);
  }
}

std::vector<std::string> folders_in(const fs::path& staged) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(staged)) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  return names;
}

void collect(const fs::path& runs_dir, const fs::path& staged) {
  const auto lock = FileLock::acquire(lock_of(staged), std::chrono::milliseconds(0));
  if (!lock) return;  // the owner lives
  if (fs::exists(mark_of(staged))) {
    change_runs(runs_dir, [&] {
      for (const std::string& name : folders_in(staged)) {
        // A power loss may leave a folder in both places; the published run may have started since.
        if (!fs::exists(runs_dir / name)) move_folder(staged / name, runs_dir / name);
      }
      sync_directory(runs_dir);
    });
  }
  fs::remove_all(staged);
}

}  // namespace

void rename_folder(const fs::path& runs_dir, const std::string& from, const std::string& to) {
  change_runs(runs_dir, [&] {
    move_folder(runs_dir / from, runs_dir / to);
    sync_directory(runs_dir);
  });
}

int64_t take_ids(const fs::path& runs_dir, int64_t count) {
  std::optional<Counter> counter = read_counter(runs_dir);
  if (!counter || counter->changed_ns != last_change_ns(runs_dir)) {
    const int64_t next = next_by_looking(runs_dir);
    counter = Counter{std::max(next, counter ? counter->next : 1), 0};
    if (!fs::exists(counter_path(runs_dir))) write_counter(runs_dir, *counter);  // makes the file, which is a change
    counter->changed_ns = last_change_ns(runs_dir);
  }
  const int64_t first = counter->next;
  counter->next += count;
  write_counter(runs_dir, *counter);
  return first;
}

Staging::Staging(const fs::path& runs_dir) : runs_dir_(runs_dir), path_(staging_dir(runs_dir) / random_hex(8)) {
  std::error_code error;
  if (!fs::exists(staging_dir(runs_dir), error)) {
    change_runs(runs_dir, [&] { fs::create_directory(staging_dir(runs_dir), error); });
    if (!error) sync_directory(runs_dir);
  }
  if (!error) fs::create_directory(path_, error);
  if (error) throw_system_error(fmt::format("cannot create {}", path_.string()), error.value());
  try {
    owned_ = FileLock::acquire(lock_of(path_), std::chrono::milliseconds(0));
  } catch (...) {
    fs::remove_all(path_, error);
    throw;
  }
}

Staging::~Staging() {
  if (!owned_) return;
  std::error_code error;
  fs::remove_all(path_, error);
  if (error) spdlog::warn("{} stays for now: {}", path_.string(), error.message());
}

void Staging::publish(const std::vector<std::string>& names, const std::function<void(const char*)>& at_step) {
  std::vector<std::string> moved;
  try {
    sync_directory(path_);
    sync_directory(path_.parent_path());
    write_file_atomically(mark_of(path_), "");
    at_step("committed");
    change_runs(runs_dir_, [&] {
      for (const std::string& name : names) {
        move_folder(path_ / name, runs_dir_ / name);
        moved.push_back(name);
        at_step("moved");
      }
      sync_directory(runs_dir_);
    });
  } catch (...) {
    std::error_code error;
    for (const std::string& name : moved) {
      if (!error) fs::rename(runs_dir_ / name, path_ / name, error);
    }
    // This comes last: until then, the set is finished after a crash.
    if (!error && fs::remove(mark_of(path_), error)) sync_directory(path_);
    if (error) {
      owned_.reset();
      spdlog::error("the runs in {} could not be taken back ({}): they will be made", path_.string(), error.message());
    }
    throw;
  }
}

void Staging::take(const std::string& name) {
  change_runs(runs_dir_, [&] {
    if (rename((runs_dir_ / name).c_str(), (path_ / name).c_str()) != 0) {
      throw_system_error(fmt::format("cannot delete {}", (runs_dir_ / name).string()), errno);
    }
    sync_directory(runs_dir_);
  });
}

void collect_staged(const fs::path& runs_dir) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(staging_dir(runs_dir), none)) {
    try {
      collect(runs_dir, entry.path());
    } catch (const std::exception& error) {
      spdlog::warn("what a command left in {} stays for now: {}", entry.path().string(), error.what());
    }
  }
}

}  // namespace mlbench::home
