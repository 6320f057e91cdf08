#pragma once

// What mpirun says, in short, and what to do about it.

#include <optional>
#include <string>
#include <vector>

namespace mlbench::exec::mpirun {

// Why the ranks do not run, from all that mpirun (Open MPI 4.1) and ssh wrote: the program or folder that a host lacks,
// ssh's refusals; else its last lines. One line where it is known. `ssh_config`: as ssh was given it, for the advice.
std::string why_no_start(const std::string& said, const std::string& ssh_config);

// The host whose daemon mpirun says that it lost. Empty: none.
std::optional<std::string> lost_host(const std::string& said);

// The last lines, without rules and what does no harm.
std::string last_lines(const std::string& said);

// "ranks 4, 5" of the host, "no rank" where it has none.
std::string ranks_on(const std::string& host, const std::vector<std::string>& hosts);

}  // namespace mlbench::exec::mpirun
