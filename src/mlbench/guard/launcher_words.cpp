#include "mlbench/guard/launcher_words.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace mlbench::guard {
namespace {

// The words that Open MPI 4.0 and 4.1, and srun, take for their own.
constexpr std::string_view kTakenWords[] = {":", "-mca", "--mca", "-gmca", "--gmca", "-am", "--am", "-tune", "--tune"};

constexpr std::string_view kTakenNames[] = {"HOME", "PATH", "TMPDIR", "BASH_ENV", "ENV"};
// clang-format off
constexpr std::string_view kTakenPrefixes[] = {
    kShield,  // so that a name that begins so keeps it, when one is taken off
    "LD_", "XDG_",
    "OMPI_", "OPAL_", "ORTE_", "PMIX_", "PRTE_",
    "SLURM_", "SLURMD_", "SBATCH_", "SALLOC_", "SRUN_", "SCANCEL_", "SCONTROL_", "SINFO_",
    "CONTAINER", "PODMAN_", "BUILDAH_", "REGISTRY_", "STORAGE_", "DOCKER_",
    "APPTAINER", "SINGULARITY", "ENROOT_", "PYXIS_",
};
// clang-format on

bool is_taken_word(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('\\'), word.size()));
  return std::ranges::find(kTakenWords, word) != std::end(kTakenWords);
}

bool is_taken_name(std::string_view name) {
  return std::ranges::find(kTakenNames, name) != std::end(kTakenNames) ||
         std::ranges::any_of(kTakenPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::string shielded(std::string word) { return is_taken_word(word) ? "\\" + word : word; }

std::vector<std::string> shielded(std::vector<std::string> command) {
  for (std::string& word : command) word = shielded(std::move(word));
  return command;
}

std::vector<std::string> unshielded(std::vector<std::string> command) {
  for (std::string& word : command) {
    if (word.starts_with('\\') && is_taken_word(word)) word.erase(0, 1);
  }
  return command;
}

std::map<std::string, std::string> shielded(const std::map<std::string, std::string>& variables) {
  std::map<std::string, std::string> all;
  for (const auto& [name, value] : variables) all[(is_taken_name(name) ? std::string(kShield) : "") + name] = value;
  return all;
}

void unshield_environment() {
  std::vector<std::pair<std::string, std::string>> taken;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const size_t equals = text.find('=');
    if (!text.starts_with(kShield) || equals == std::string_view::npos) continue;
    taken.emplace_back(text.substr(kShield.size(), equals - kShield.size()), text.substr(equals + 1));
  }
  for (const auto& [name, value] : taken) {
    unsetenv((std::string(kShield) + name).c_str());
  }
  for (const auto& [name, value] : taken) setenv(name.c_str(), value.c_str(), 1);
}

}  // namespace mlbench::guard
