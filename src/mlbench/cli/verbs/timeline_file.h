#pragma once

// The option `--timeline FILE` of the verbs that make runs: says where traces go, and writes them at the end.

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
  // `given` is the flag's value; where it is "", HOROVOD_TIMELINE counts, and a diagnostic says so. `custom` says that
  // the runs are of a user's command, for whose own Horovod that variable is. Throws UserError where no file can be
  // written at that path, and for a flag with `custom`.
  TimelineFiles(const std::string& given, bool custom);
  bool wanted() const { return !file_.empty(); }

  // The trace's path for the run `name`: FILE or, with several runs, FILE with the name before its extension.
  std::filesystem::path of(const std::string& name, size_t runs) const;

  // Writes the traces of the runs `names`, which have ended, and says where they are. A `master` (may be null)
  // elsewhere gives them. Of a run without a timeline, only a diagnostic is written. `runs` is the number of all runs,
  // for of().
  void write(const Context& context, const std::filesystem::path& home, const MasterClient* master,
             const std::vector<std::string>& names, size_t runs) const;
  // Says for runs that are not followed what to type once they have ended.
  void say_how(const Context& context, const std::vector<std::string>& names) const;

 private:
  std::filesystem::path file_;
};

}  // namespace mlbench::cli
