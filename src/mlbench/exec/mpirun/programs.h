#pragma once

// The programs of ranks on their hosts: at the path that they have here, or where a host has none there, or others,
// brought there once by ssh, into a folder that has the name of their build.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/exec/executor.h"

namespace mlbench::exec::mpirun {

struct Programs {
  std::filesystem::path guard;
  std::filesystem::path worker;  // empty: the ranks are a command of the user's
};

// SCRATCH/mlbench-UID/build-ID, of all runs with these programs, on each host. UserError where one has no build id.
std::filesystem::path folder_of_build(const Programs& programs, const std::filesystem::path& scratch);

// What every host is asked, by its shell. It answers with the words "installed" (at the paths that they have here) and
// "copied" (in the folder of the build), as far as they hold. Reads the programs.
std::vector<std::string> question_about(const Programs& programs, const std::filesystem::path& folder);
// What makes that folder there, of a tar file at its standard input; under a lock, and once.
std::vector<std::string> installation_of(const Programs& programs, const std::filesystem::path& folder);
// The command that does either on a host; `ssh`: program and options.
std::vector<std::string> on_host(const std::vector<std::string>& ssh, const std::string& host,
                                 std::vector<std::string> command);

// Asks the hosts (each once; this one is asked without ssh). Where some host does not have the programs at their paths,
// all that lack the folder of the build get it. Then `launch` starts, which is told whether they are in that folder.
// kQueued while they are brought: that may take minutes. It fails with what a host said, and what to install there.
std::unique_ptr<Start> start_with_programs(const std::vector<std::string>& ssh, std::vector<std::string> hosts,
                                           const Programs& programs, const std::filesystem::path& folder,
                                           std::function<std::unique_ptr<Start>(bool copied)> launch);

}  // namespace mlbench::exec::mpirun
