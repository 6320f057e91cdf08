#pragma once

// What may keep ranks from starting on this host, for Executor::obstacle(). Each function returns the reason, or "".

#include <span>
#include <string>

#include "mlbench/exec/executor.h"

namespace mlbench::exec {

// The first of `programs` that PATH lacks; `package` is Debian's that has them.
std::string missing_program(std::span<const char* const> programs, const char* package);
inline constexpr const char* kMpirunPrograms[] = {"mpirun"};
inline constexpr const char* kMpirunPackage = "openmpi-bin";

// Each rank of a request with GPUs needs one of its own here, unless --env names the GPUs that a command sees.
std::string missing_gpu(const LaunchRequest& request);

// Says that `asked` is no network interface with an address, and which interfaces this host has.
std::string no_interface(const std::string& asked);
// Ranks on this host listen at the request's interface, which is a name or an address.
std::string missing_interface(const LaunchRequest& request);

}  // namespace mlbench::exec
