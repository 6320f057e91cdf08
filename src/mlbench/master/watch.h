#pragma once

// Keeps the index of runs in step with their folders, which supervisors, commands and other users write. A run is
// marked as damaged where its record cannot be read. An error that comes from a shortage of the system (files, memory)
// is not counted as damage: the run is looked at again.

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "mlbench/master/repeats.h"
#include "mlbench/store/run_index.h"

namespace mlbench::master {

class Watcher {
 public:
  // The index is complete when the constructor returns. The watcher's thread calls `active` in each round with the
  // folders of the runs that are not over.
  Watcher(std::filesystem::path home, store::RunIndex& index,
          std::function<void(const std::vector<std::filesystem::path>&)> active);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  // Looks at one run now. Callers use it after they made, changed or deleted the run.
  void refresh(const std::string& name);
  // Runs whose records cannot be read at the moment for a shortage of the system. Their rows in the index are as
  // before, or still missing.
  std::vector<std::string> unread() const;

 private:
  void scan();
  void look_at_active();
  bool update(const std::string& name, std::vector<store::IndexedRun>& changed, std::vector<std::string>& gone);
  bool look(const std::string& name, std::vector<store::IndexedRun>& changed, std::vector<std::string>& gone);
  void keep(const std::vector<store::IndexedRun>& changed, const std::vector<std::string>& gone);
  // Looks which runs repeat each other, where records of `families_` changed.
  void group_repeats();
  void work();

  const std::filesystem::path home_;
  store::RunIndex& index_;
  const std::function<void(const std::vector<std::filesystem::path>&)> active_;
  mutable std::mutex scanning_;  // held during a scan: one at a time
  std::map<std::string, int64_t> stamps_;
  std::set<std::string> unread_;
  Repeats repeats_;
  std::set<std::string> families_;  // names without the number of a repeat
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace mlbench::master
