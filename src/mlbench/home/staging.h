#pragma once

// Run folders on their way into HOME/runs, and out of it: HOME/runs/.staging/ID/. It holds the folders, `lock`, which
// its owner has under flock while it lives, and, from the moment on that a set of new runs is there to stay,
// `committed`. What an owner left behind is finished or removed by whoever locks the runs next. And the ids of runs.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/files.h"

namespace mlbench::home {

// All functions are called with the lock of the runs held (lock_runs), unless they say otherwise. All errors: IoError.

class Staging {
 public:
  explicit Staging(const std::filesystem::path& runs_dir);
  // Removes what is left; what cannot be removed now is collected later. Needs no lock.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  const std::filesystem::path& path() const { return path_; }

  // Moves the folders, which are on the disk whole, to HOME/runs: all of them, also after a crash in the middle, or on
  // an error none. Nobody may have taken the names. `at_step`: tests.
  void publish(const std::vector<std::string>& names, const std::function<void(const char* step)>& at_step);
  // Takes a folder out of HOME/runs.
  void take(const std::string& name);

 private:
  std::filesystem::path runs_dir_, path_;
  std::optional<FileLock> owned_;
};

// Finishes or removes what owners that are dead left behind. Cost: one look into a folder that is mostly empty.
void collect_staged(const std::filesystem::path& runs_dir);

// `count` ids that no run of the home has or had, ascending by one: the first of them. The next one is kept in
// HOME/runs/.next-id, together with the time of the last change of HOME/runs by us. Only where that says something else
// (runs were copied here by hand, the home was), or the file cannot be read, all runs are looked at.
int64_t take_ids(const std::filesystem::path& runs_dir, int64_t count);

}  // namespace mlbench::home
