#pragma once

// The programs of ranks on their hosts. They are at the paths that they have here. Where some host has none there, or
// others, ssh brings them once to a folder of each host, which has the name of their build.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/exec/executor.h"

namespace mlbench::exec::mpirun {

struct Programs {
  std::filesystem::path guard;
  std::filesystem::path worker = {};  // empty: the ranks run a command of the user's
  std::string modules = {};           // LaunchRequest::modules
};

// The folder of all runs with these programs on each host: `scratch`/mlbench-UID/build-ID. Throws UserError where a
// program has no build id.
std::filesystem::path folder_of_build(const Programs& programs, const std::filesystem::path& scratch);

// The command of a shell that asks a host about the programs. It prints "installed" where they are at the paths that
// they have here, and "copied" where they are in `folder`. The call reads the programs.
std::vector<std::string> question_about(const Programs& programs, const std::filesystem::path& folder);
// The command that makes `folder` on a host from a tar file at its standard input. It holds a lock, and does nothing
// where the folder is complete.
std::vector<std::string> installation_of(const Programs& programs, const std::filesystem::path& folder);
// The words that run `command` on `host`: by `ssh`, a program with options, unless the host is this one.
std::vector<std::string> on_host(const std::vector<std::string>& ssh, const std::string& host,
                                 std::vector<std::string> command);

// Asks each of `hosts` once about its programs, this host without ssh. Where some host lacks them at their paths,
// brings them to `folder` on all hosts that do not have them there. Then calls `launch`, and says whether the programs
// are in that folder. The start is kQueued while they are brought, which may take minutes. It fails with what a host
// said, and what to install there.
std::unique_ptr<Start> start_with_programs(const std::vector<std::string>& ssh, std::vector<std::string> hosts,
                                           const Programs& programs, const std::filesystem::path& folder,
                                           std::function<std::unique_ptr<Start>(bool copied)> launch);

}  // namespace mlbench::exec::mpirun
