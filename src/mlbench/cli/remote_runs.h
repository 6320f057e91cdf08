#pragma once

// Runs of a master elsewhere, as verbs and reports read those of this home. What it answers is checked like a file.

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/cli/remote.h"
#include "mlbench/record/record.h"
#include "mlbench/report/study/measured_run.h"

namespace mlbench::cli {

// What lists show (RunSummary in api/openapi.json) of all runs with `search` in their name or notes, oldest first.
Json remote_summaries(const MasterClient& master, const std::string& search);

record::Record remote_record(const MasterClient& master, const std::string& name);
// The records of a run and, unless it names one of them, of its repeats, oldest first.
std::vector<record::Record> remote_repeats(const MasterClient& master, const std::string& name);
// With its loss over the train clock; `source` is the run's address.
report::MeasuredRun remote_run(const MasterClient& master, const std::string& name);

// What verbs write of a run into one file.
struct FileOfRun {
  std::string_view what;      // "archive"
  std::string_view ending;    // ".zip", behind the run's name where no file is given
  std::string_view resource;  // "/download", of the run at a master
  std::function<void(const std::filesystem::path& run_dir, const record::Record& record,
                     const std::filesystem::path& file)>
      write;
};
// From the master of -u, or else of this home; says which file it is, and whether the run is still on. UserError for a
// folder as `output`.
void write_file_of_run(const Context& context, const FileOfRun& of, const std::string& name, const std::string& output);

}  // namespace mlbench::cli
