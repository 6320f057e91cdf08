#pragma once

// For tests: a podman whose containers are processes of this host. It stands first in PATH while the object lives.

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "mlbench/base/files.h"
#include "mlbench/base/paths.h"

namespace mlbench::exec {

class FakePodman {
 public:
  // `script` is the path of fake_podman.sh. The image "here" is on this host.
  explicit FakePodman(const std::filesystem::path& script)
      : path_(environment_variable("PATH").value_or("/usr/bin:/bin")) {
    std::filesystem::create_directories(folder_ / "bin");
    std::filesystem::create_directories(folder_ / "images");
    std::filesystem::create_symlink(std::filesystem::absolute(script), folder_ / "bin" / "podman");
    write_file_atomically(folder_ / "images" / "here", "");
    setenv("PATH", ((folder_ / "bin").string() + ":" + path_).c_str(), 1);
    setenv("FAKE_PODMAN", folder_.path().c_str(), 1);
  }
  ~FakePodman() {
    setenv("PATH", path_.c_str(), 1);
    unsetenv("FAKE_PODMAN");
  }
  FakePodman(const FakePodman&) = delete;
  FakePodman& operator=(const FakePodman&) = delete;

  // What podman was asked, a line per call.
  std::string said() const { return std::filesystem::exists(folder_ / "said") ? read_file(folder_ / "said") : ""; }

 private:
  const std::string path_;
  TemporaryFolder folder_;
};

}  // namespace mlbench::exec
