#pragma once

// Reads runs of a master elsewhere in the forms in which verbs and reports read those of this home. The master's
// answers are checked like files: CommError is thrown for an answer that no master gives.

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/cli/remote.h"
#include "mlbench/record/record.h"
#include "mlbench/report/study/measured_run.h"

namespace mlbench::cli {

// The summaries (RunSummary in api/openapi.json) of all runs with `search` in their name or notes, oldest first.
Json remote_summaries(const MasterClient& master, const std::string& search);
// The newest 1,000 runs of MLflow's clients, oldest first, in the same form.
Json remote_tracked_runs(const MasterClient& master, const std::string& search);

record::Record remote_record(const MasterClient& master, const std::string& name);
// The records of the run `name` and, unless `name` is that of a repeat, of its repeats, oldest first.
std::vector<record::Record> remote_repeats(const MasterClient& master, const std::string& name);
// A run with its loss over the train clock; `source` is the run's address at the master.
report::MeasuredRun remote_run(const MasterClient& master, const std::string& name);

// A kind of file that verbs write for a run.
struct FileOfRun {
  std::string_view what;      // "archive"
  std::string_view ending;    // ".zip", behind the run's name where no file is given
  std::string_view resource;  // "/download", behind the run's path at a master
  std::function<void(const std::filesystem::path& run_dir, const record::Record& record,
                     const std::filesystem::path& file)>
      write;
};
// Writes the file of kind `of` for the run `name`, which given_master() or else this home has. `output` is the file;
// "": a file in this folder that is named after the run. Prints the path, and says so where the run is still active.
// Throws UserError where `output` is a folder.
void write_file_of_run(const Context& context, const FileOfRun& of, const std::string& name, const std::string& output);

}  // namespace mlbench::cli
