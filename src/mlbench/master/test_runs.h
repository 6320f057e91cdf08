#pragma once

// Lists of made runs, for tests.

#include <fmt/format.h>

#include <map>
#include <string>

#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/home/summary.h"
#include "mlbench/master/run_list.h"
#include "mlbench/report/test_records.h"

namespace mlbench::master {

class MadeRuns {
 public:
  // Later ones are newer. Runs of one configuration repeat each other.
  void add(report::RecordJson record, const std::string& configuration = "", const report::RunNotes& notes = {}) {
    record["id"] = next_id_++;
    const Json summary = home::summary_of(record, notes);
    runs_.push_back(indexed_run(summary, home::words_of(summary, notes)));
    configurations_[record["name"]] = configuration.empty() ? record["name"].get<std::string>() : configuration;
  }
  // Stores what was added.
  store::RunIndex& index() {
    index_.put(runs_);
    index_.set_configurations(configurations_);
    runs_.clear();
    configurations_.clear();
    return index_;
  }

 private:
  TemporaryFolder folder_;
  store::RunIndex index_{folder_.path()};
  int64_t next_id_ = 1;
  std::vector<store::IndexedRun> runs_;
  std::map<std::string, std::string> configurations_;
};

}  // namespace mlbench::master
