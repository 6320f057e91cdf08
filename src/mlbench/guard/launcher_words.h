#pragma once

// The words and variables of a rank on their way through programs that take some of them for their own, wherever these
// stand. Open MPI's mpirun takes "--mca KEY VALUE" and "--am FILE" in a rank's command for its own options, whose
// values a shell of other hosts sees. ":" begins another command for mpirun and srun. podman, docker and sbatch take
// variables. Who starts such a program shields words and variables, and the guard behind it takes the shields off: they
// arrive as they were typed.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/own_variables.h"

namespace mlbench::guard {

// Puts a '\' before a word that these programs take, also where it stands behind any number of '\'. Other words stay as
// they are.
std::string shielded(std::string word);
std::vector<std::string> shielded(std::vector<std::string> command);
// The inverse of shielded().
std::vector<std::string> unshielded(std::vector<std::string> command);

// The prefix that shielded() puts before the names of variables that these programs would act upon (HOME, PATH,
// SBATCH_PARTITION, OMPI_MCA_plm).
inline constexpr std::string_view kShield = variables::kGivenPrefix;
std::map<std::string, std::string> shielded(const std::map<std::string, std::string>& variables);
// Gives variables of this process's environment that have the prefix their own names back.
void unshield_environment();

}  // namespace mlbench::guard
