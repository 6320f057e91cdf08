#include "mlbench/supervise/link_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "mlbench/base/errors.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/exec/executor.h"
#include "mlbench/record/spool.h"
#include "mlbench/record/timeline.h"
#include "mlbench/record/tracker_lines.h"

namespace mlbench::supervise {

namespace fs = std::filesystem;

namespace {

// The files of a checkpoint, relative to the run's folder, in the order of names. So state.json, which makes the
// checkpoint valid, comes after the tensors.
std::vector<std::string> files_of_checkpoint(const fs::path& run_dir, int64_t step) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& file : fs::recursive_directory_iterator(checkpoints_dir(run_dir) / checkpoint_name(step), error)) {
    if (file.is_regular_file()) files.push_back(file.path().lexically_relative(run_dir).string());
  }
  if (files.empty()) {
    throw UserError(fmt::format("there is no checkpoint at step {} in {}", step, checkpoints_dir(run_dir).string()));
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

net::LinkServerOptions link_options(const spec::RunSpec& run, int64_t segment) {
  const auto names_of = [](const std::vector<fs::path>& paths) {
    std::vector<std::string> names;
    for (const fs::path& path : paths) names.push_back(path.string());
    return names;
  };
  return {.size = static_cast<int>(run.workers),
          .folder = run.run_dir,
          .files =
              [=](int rank) {
                return names_of({steps_path("", segment, rank), events_path("", segment, rank),
                                 timeline_path("", segment, rank),
                                 rank_log_path(logs_dir(""), segment, rank, LogStream::kStdout),
                                 rank_log_path(logs_dir(""), segment, rank, LogStream::kStderr)});
              },
          .older_files = [=](int rank) { return names_of({tracker_lines_path("", rank)}); },
          .folders =
              [](int rank) { return rank == 0 ? std::vector<std::string>{kCheckpoints} : std::vector<std::string>{}; }};
}

std::function<std::vector<std::string>(int rank)> files_to_resume(const spec::RunSpec& run,
                                                                  std::optional<int64_t> resume_step) {
  if (!resume_step) return nullptr;
  std::vector<std::string> files = files_of_checkpoint(run.run_dir, *resume_step);
  for (int64_t segment = 1; segment <= record::last_segment(run.run_dir); ++segment) {
    for (const fs::path& spool : {steps_path("", segment, 0), events_path("", segment, 0)}) {
      if (fs::exists(run.run_dir / spool)) files.push_back(spool.string());
    }
  }
  return [files, run_dir = fs::path(run.run_dir)](int rank) {
    std::vector<std::string> given = files;
    const fs::path lines = tracker_lines_path("", rank);
    if (fs::exists(run_dir / lines)) given.push_back(lines.string());
    return given;
  };
}

}  // namespace mlbench::supervise
