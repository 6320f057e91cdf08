#pragma once

// The words and variables of a rank on their way through programs that take some of them for their own, wherever these
// stand: Open MPI's mpirun ("--mca KEY VALUE" and "--am FILE" in a rank's command are its own options, whose values a
// shell of other hosts sees; ":" begins another command), srun (":"), podman, docker and sbatch (variables). Who starts
// such a program shields them, and the guard behind it takes the shields off: they arrive as they were typed.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/own_variables.h"

namespace mlbench::guard {

// A word of these programs, also behind any number of '\', with another '\' in front of it; all others as they are.
std::string shielded(std::string word);
std::vector<std::string> shielded(std::vector<std::string> command);
// The inverse.
std::vector<std::string> unshielded(std::vector<std::string> command);

// Variables that these programs would act upon (HOME, PATH, SBATCH_PARTITION, OMPI_MCA_plm) get this in front.
inline constexpr std::string_view kShield = variables::kGivenPrefix;
std::map<std::string, std::string> shielded(const std::map<std::string, std::string>& variables);
// In this process's environment, variables with that in front get their own names back.
void unshield_environment();

}  // namespace mlbench::guard
