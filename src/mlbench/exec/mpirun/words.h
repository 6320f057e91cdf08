#pragma once

// Reads what mpirun says, and says in short what is wrong and what to do about it.

#include <optional>
#include <string>
#include <vector>

namespace mlbench::exec::mpirun {

// Why the ranks do not run, from all that mpirun (Open MPI 4.1) and ssh wrote: the program or folder that a host lacks,
// ssh's refusals, else the last lines. A reason that is known is one line. `ssh_config` is the file that ssh was given,
// for the advice.
std::string why_no_start(const std::string& said, const std::string& ssh_config);

// The host whose daemon mpirun says that it lost; empty where mpirun says no such thing.
std::optional<std::string> lost_host(const std::string& said);

// The last lines of `said`, without rules and harmless warnings.
std::string last_lines(const std::string& said);

// The ranks of `host`, as "ranks 4, 5"; "no rank" where it has none. `hosts` are the hosts of all ranks.
std::string ranks_on(const std::string& host, const std::vector<std::string>& hosts);

}  // namespace mlbench::exec::mpirun
