#pragma once

// For tests: a Slurm whose nodes are all this host. Its commands stand first in PATH while the object lives.

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "mlbench/base/files.h"
#include "mlbench/base/paths.h"

namespace mlbench::exec::slurm {

class FakeSlurm {
 public:
  // `script` is the path of fake_slurm.sh, which says what may be in `plan`.
  explicit FakeSlurm(const std::filesystem::path& script, const std::string& plan = "run")
      : path_(environment_variable("PATH").value_or("/usr/bin:/bin")) {
    std::filesystem::create_directory(folder_ / "bin");
    for (const char* name : {"sbatch", "scancel", "scontrol", "sinfo", "srun"}) {
      std::filesystem::create_symlink(std::filesystem::absolute(script), folder_ / "bin" / name);
    }
    setenv("PATH", ((folder_ / "bin").string() + ":" + path_).c_str(), 1);
    setenv("FAKE_SLURM", folder_.path().c_str(), 1);
    write("plan", plan);
  }
  ~FakeSlurm() {
    setenv("PATH", path_.c_str(), 1);
    unsetenv("FAKE_SLURM");
  }
  FakeSlurm(const FakeSlurm&) = delete;
  FakeSlurm& operator=(const FakeSlurm&) = delete;

  void write(const std::string& name, const std::string& text) const { write_file_atomically(folder_ / name, text); }
  std::string read(const std::string& name) const {
    return std::filesystem::exists(folder_ / name) ? read_file(folder_ / name) : "";
  }

 private:
  const std::string path_;
  TemporaryFolder folder_;
};

}  // namespace mlbench::exec::slurm
