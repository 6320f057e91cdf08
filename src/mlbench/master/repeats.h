#pragma once

// Which runs of a home repeat each other, by the rule of `mlbench compare` (report/study/significance.h): runs whose
// names differ in the number of the repeat alone, and which differ in no key.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "mlbench/record/record.h"

namespace mlbench::master {

// Not thread-safe.
class Repeats {
 public:
  explicit Repeats(std::filesystem::path home) : home_(std::move(home)) {}

  // Tells of a run's record as it is now; returns whether the run may repeat others than before.
  bool changed(const std::string& name, const record::Record& record);
  // Tells of a run that is gone.
  void gone(const std::string& name) { conditions_.erase(name); }
  // For each of `names`, which are the runs of one name and its repeats by id, the configuration: the name under which
  // `mlbench compare` has the run. Reads one record of those whose conditions are the same. "" for a run whose record
  // cannot be read: it repeats none.
  std::map<std::string, std::string> configurations(const std::vector<std::string>& names);

 private:
  const std::filesystem::path home_;
  std::map<std::string, std::string> conditions_;  // by run: a hash of all that the rule looks at
};

}  // namespace mlbench::master
