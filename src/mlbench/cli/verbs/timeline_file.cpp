#include "mlbench/cli/verbs/timeline_file.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/home/runs.h"
#include "mlbench/report/records.h"
#include "mlbench/report/timeline/trace.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

void add_timeline_option(CLI::App& verb, std::string& file) {
  verb.add_option("--timeline", file,
                  "record what each rank does and when, and write it to FILE at the end, for ui.perfetto.dev "
                  "(default: HOROVOD_TIMELINE)")
      ->type_name("FILE")
      ->group("How to run");
}

TimelineFiles::TimelineFiles(const std::string& given, bool custom) {
  const std::string variable = environment_variable("HOROVOD_TIMELINE").value_or("");
  if (custom && !given.empty()) {
    throw UserError("--timeline is an option of tasks: what a command behind -- does is not known");
  }
  if (given.empty() && (custom || variable.empty())) return;
  if (given.empty()) {
    say(fmt::format("HOROVOD_TIMELINE is set: a timeline is recorded, as with --timeline {}", variable));
  } else if (!variable.empty() && variable != given) {
    say(fmt::format("--timeline {} goes before HOROVOD_TIMELINE={}", given, variable));
  }
  file_ = fs::absolute(given.empty() ? variable : given).lexically_normal();
  std::error_code error;
  if (fs::is_directory(file_, error)) {
    throw UserError(fmt::format("--timeline {} is a folder: give a file, {}", file_.string(),
                                (file_ / "timeline.json").lexically_normal().string()));
  }
  if (!fs::is_directory(file_.parent_path(), error)) {
    throw UserError(fmt::format("--timeline {}: there is no folder {}", file_.string(), file_.parent_path().string()));
  }
}

fs::path TimelineFiles::of(const std::string& name, size_t runs) const {
  if (runs == 1) return file_;
  return file_.parent_path() / fmt::format("{}.{}{}", file_.stem().string(), name, file_.extension().string());
}

void TimelineFiles::write(const Context& context, const fs::path& home, const MasterClient* master,
                          const std::vector<std::string>& names, size_t runs) const {
  if (!wanted()) return;
  const UserUmask named;
  for (const std::string& name : names) {
    const fs::path file = of(name, runs);
    try {
      if (master != nullptr && master->elsewhere()) {
        master->get_file(path_of_run(name) + "/timeline", file);
      } else {
        const fs::path run_dir = runs_dir(home) / name;
        report::write_trace(run_dir, home::current_record(run_dir), file);
      }
    } catch (const UserError& error) {
      say(fmt::format("no timeline of {}: {}", name, error.what()));
      continue;
    }
    say(fmt::format("timeline of {}: {}; what it says: {} timeline summary {}", name, file.string(), context.command,
                    file.string()));
  }
}

void TimelineFiles::say_how(const Context& context, const std::vector<std::string>& names) const {
  if (!wanted()) return;
  for (const std::string& name : names) {
    say(fmt::format("once {} has ended: {} timeline export {} -o {}", name, context.command, name,
                    of(name, names.size()).string()));
  }
}

}  // namespace mlbench::cli
