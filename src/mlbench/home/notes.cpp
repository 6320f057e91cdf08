#include "mlbench/home/notes.h"

#include <fmt/format.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/home/runs.h"
#include "mlbench/report/records.h"

namespace mlbench::home {

report::RunNotes change_notes(const std::filesystem::path& home, const std::filesystem::path& run_dir,
                              const std::function<void(report::RunNotes&)>& change) {
  const FileLock lock = lock_runs(home);
  if (!report::is_run(run_dir)) throw UserError(fmt::format("run '{}' is gone", run_dir.filename().string()));
  report::RunNotes notes = report::read_notes(run_dir);
  change(notes);
  report::check_notes(notes);
  write_json_file(notes_path(run_dir), report::to_json(notes), inputs::kNotes);
  return notes;
}

}  // namespace mlbench::home
