#pragma once

// Run folders on their way into HOME/runs and out of it: HOME/runs/.staging/ID/. Such a folder has the run folders, and
// a file `lock`, which its owner holds under flock while it lives. Once a set of new runs is certain to stay, it also
// has `committed`. Whoever locks the runs next finishes or removes what an owner left. This header also has the ids of
// runs.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/files.h"

namespace mlbench::home {

// Precondition of all functions, unless they say otherwise: lock_runs() is held. All errors are IoError.

class Staging {
 public:
  explicit Staging(const std::filesystem::path& runs_dir);
  // Removes what is left; what cannot be removed now is collected later. Needs no lock.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  const std::filesystem::path& path() const { return path_; }

  // Moves the folders, which must be complete on the disk, to HOME/runs: all of them, even after a crash in between, or
  // none after an error. Precondition: the names are free. `at_step` is for tests.
  void publish(const std::vector<std::string>& names, const std::function<void(const char* step)>& at_step);
  // Takes a folder out of HOME/runs.
  void take(const std::string& name);

 private:
  std::filesystem::path runs_dir_, path_;
  std::optional<FileLock> owned_;
};

// Gives a run's folder another name. Precondition: the name is free.
void rename_folder(const std::filesystem::path& runs_dir, const std::string& from, const std::string& to);

// Finishes or removes what dead owners left. The cost is one look into a folder that is mostly empty.
void collect_staged(const std::filesystem::path& runs_dir);

// Takes `count` ascending ids that no run of the home has or had, and returns the first. HOME/runs/.next-id has the
// next id and the time of our last change of HOME/runs. All runs are looked at only where that time differs (runs were
// copied here by hand, or the home was) or the file cannot be read.
int64_t take_ids(const std::filesystem::path& runs_dir, int64_t count);

}  // namespace mlbench::home
