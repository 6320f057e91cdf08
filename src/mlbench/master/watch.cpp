#include "mlbench/master/watch.h"

#include <sys/stat.h>

#include <cerrno>
#include <chrono>

#include "mlbench/base/log.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/system_error.h"
#include "mlbench/home/runs.h"
#include "mlbench/home/summary.h"
#include "mlbench/master/run_list.h"
#include "mlbench/report/notes.h"
#include "mlbench/report/records.h"

namespace mlbench::master {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr auto kActivePeriod = 400ms;
constexpr int kRoundsPerScan = 10;

// A stamp of the file, 0 where it does not exist. Throws SystemError where the system cannot say.
int64_t file_stamp(const fs::path& file) {
  struct stat info {};
  if (stat(file.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return 0;
    throw_system_error("cannot look at " + file.string(), errno);
  }
  return info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec + static_cast<int64_t>(info.st_ino % 997);
}

// A stamp of the record and the notes; 0 where there is no record.
int64_t stamp_of(const fs::path& run_dir) {
  const int64_t record = file_stamp(record_path(run_dir));
  return record == 0 ? 0 : record + file_stamp(notes_path(run_dir)) % 1'000'000'007;
}

int64_t folder_stamp(const fs::path& folder) {
  struct stat info {};
  return stat(folder.c_str(), &info) == 0 ? info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec : 0;
}

}  // namespace

Watcher::Watcher(fs::path home, store::RunIndex& index,
                 std::function<void(const std::vector<std::filesystem::path>&)> active)
    : home_(std::move(home)), index_(index), active_(std::move(active)), stamps_(index.stamps()), repeats_(home_) {
  for (const std::string& name : index.names_in_state("damaged")) stamps_.erase(name);  // they may have been mended
  scan();
  thread_ = std::thread([this] { work(); });
}

Watcher::~Watcher() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Watcher::refresh(const std::string& name) {
  const std::lock_guard scanning(scanning_);
  std::vector<store::IndexedRun> changed;
  std::vector<std::string> gone;
  update(name, changed, gone);
  keep(changed, gone);
}

std::vector<std::string> Watcher::unread() const {
  const std::lock_guard scanning(scanning_);
  return {unread_.begin(), unread_.end()};
}

bool Watcher::update(const std::string& name, std::vector<store::IndexedRun>& changed, std::vector<std::string>& gone) {
  try {
    const bool news = look(name, changed, gone);
    unread_.erase(name);
    return news;
  } catch (const std::exception& error) {
    if (!is_transient(error)) throw;
    if (unread_.insert(name).second) spdlog::warn("run {} cannot be read now: {}", name, error.what());
    return false;
  }
}

bool Watcher::look(const std::string& name, std::vector<store::IndexedRun>& changed, std::vector<std::string>& gone) {
  const fs::path run_dir = runs_dir(home_) / name;
  const int64_t stamp = stamp_of(run_dir);
  const auto known = stamps_.find(name);
  if (stamp == 0) {
    if (known == stamps_.end()) return false;
    gone.push_back(name);
    repeats_.gone(name);
    families_.insert(home::without_repeat(name));
    return true;
  }
  if (known != stamps_.end() && known->second == stamp) return false;
  Json summary = {{"id", nullptr}, {"name", name}, {"state", "damaged"}};
  std::string words;
  try {
    const record::Record record = report::read_record(run_dir);
    const report::RunNotes notes = report::notes_or_none(run_dir);
    Json told = home::summary_of(record, notes);
    told["name"] = name;
    if (record.state.empty()) told["state"] = "damaged";
    words = home::words_of(told, notes);
    if (repeats_.changed(name, record)) families_.insert(home::without_repeat(name));
    summary = std::move(told);
  } catch (const std::exception& error) {
    if (is_transient(error)) throw;
    summary["failure"] = error.what();
    families_.insert(home::without_repeat(name));
  }
  store::IndexedRun run = indexed_run(summary, words);
  run.stamp = stamp;
  changed.push_back(std::move(run));
  return true;
}

void Watcher::scan() {
  const std::lock_guard scanning(scanning_);
  std::vector<store::IndexedRun> changed;
  std::vector<std::string> gone;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(runs_dir(home_), error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with('.')) update(name, changed, gone);
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw_system_error("cannot list " + runs_dir(home_).string(), error.value());
  }
  std::vector<std::string> known;
  for (const auto& [name, stamp] : stamps_) known.push_back(name);
  for (const std::string& name : known) {
    if (!fs::exists(record_path(runs_dir(home_) / name), error)) update(name, changed, gone);
  }
  keep(changed, gone);
}

// The stamps are stored last, so that a run is looked at again where the index did not take it.
void Watcher::keep(const std::vector<store::IndexedRun>& changed, const std::vector<std::string>& gone) {
  index_.put(changed);
  index_.remove(gone);
  for (const store::IndexedRun& run : changed) stamps_[run.name] = run.stamp;
  for (const std::string& name : gone) stamps_.erase(name);
  group_repeats();
}

void Watcher::group_repeats() {
  std::map<std::string, std::string> configurations;
  for (const std::string& family : families_) {
    std::vector<std::string> names = index_.names_below(family);
    std::erase_if(names, [&](const std::string& name) { return home::without_repeat(name) != family; });
    configurations.merge(repeats_.configurations(names));
  }
  index_.set_configurations(configurations);
  families_.clear();
}

void Watcher::look_at_active() {
  std::vector<std::string> names = index_.names_in_state("running");
  for (std::string& name : index_.names_in_state("queued")) names.push_back(std::move(name));
  std::vector<fs::path> folders;
  for (const std::string& name : names) {
    const fs::path run_dir = runs_dir(home_) / name;
    try {
      home::is_active_run(run_dir);  // settles a lost run
    } catch (const std::exception& error) {
      spdlog::debug("run {}: {}", name, error.what());  // it is being deleted
    }
    refresh(name);
    folders.push_back(run_dir);
  }
  if (active_) active_(folders);
}

void Watcher::work() {
  int64_t folder = folder_stamp(runs_dir(home_));
  std::unique_lock lock(mutex_);
  for (int round = 1; !stopping_; ++round) {
    lock.unlock();
    try {
      const int64_t now = folder_stamp(runs_dir(home_));
      // A scan is also made from time to time, since a resumed run changes only inside its folder.
      if (now != folder || round % kRoundsPerScan == 0) scan();
      folder = now;
      look_at_active();
    } catch (const std::exception& error) {
      spdlog::error("looking at runs: {}", error.what());
    }
    lock.lock();
    if (!stopping_) wake_.wait_for(lock, kActivePeriod);
  }
}

}  // namespace mlbench::master
