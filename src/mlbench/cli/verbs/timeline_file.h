#pragma once

// `--timeline FILE` of the verbs that make runs: where the traces go, and their writing at the end.

#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/remote.h"

namespace mlbench::cli {

void add_timeline_option(CLI::App& verb, std::string& file);

class TimelineFiles {
 public:
  // `given`: of the flag; without it HOROVOD_TIMELINE is asked, which is said. `custom`: of a command of somebody
  // else's, whose Horovod that variable is for. UserError where no file can be written there.
  TimelineFiles(const std::string& given, bool custom);
  bool wanted() const { return !file_.empty(); }

  // Of `runs` runs the one of that name: FILE, or with several FILE with the name before its extension.
  std::filesystem::path of(const std::string& name, size_t runs) const;

  // Of those that were made and have ended, says where. With a master elsewhere it gives the traces. What a run has not
  // recorded is said, and no error.
  void write(const Context& context, const std::filesystem::path& home, const MasterClient* master,
             const std::vector<std::string>& names, size_t runs) const;
  // Of runs that nobody follows: what to type later.
  void say_how(const Context& context, const std::vector<std::string>& names) const;

 private:
  std::filesystem::path file_;
};

}  // namespace mlbench::cli
