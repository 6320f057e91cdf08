#include "mlbench/exec/slurm/script.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string_view>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/gpus.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/text.h"
#include "mlbench/exec/linked.h"
#include "mlbench/exec/openmpi.h"
#include "mlbench/guard/channel.h"
#include "mlbench/guard/launcher_words.h"

namespace mlbench::exec::slurm {
namespace {

constexpr const char* kScratch = "/tmp";

// An option of sbatch that the script below decides, and what to use in its place.
struct OwnOption {
  std::string_view key, instead;
};
constexpr OwnOption kOwnOptions[] = {
    {"ntasks", "the number of workers"},
    {"ntasks-per-node", "--ranks-per-host"},
    {"cpus-per-task", "--threads-per-worker"},
    {"job-name", "the name of the run"},
    {"chdir", "--work-dir, or --scratch"},
    {"open-mode", "nothing: what the job says is appended"},
    {"export", "--env"},
    {"export-file", "--env"},
    {"get-user-env", "--setup"},
    {"array", "--repeat: each run has a job of its own"},
    {"wrap", "--setup"},
    {"wait", "nothing: the run is waited for"},
    {"parsable", "nothing"},
    {"test-only", "--dry-run"},
    {"het-group", "nothing: heterogeneous jobs are not supported"},
    {"hetjob", "nothing: heterogeneous jobs are not supported"},
};

// Whether the option says how nodes are shared, which is then left to the user.
bool says_who_shares(const std::string& option) {
  const std::string_view key = std::string_view(option).substr(0, option.find('='));
  return key == "exclusive" || key == "oversubscribe" || key == "share";
}

// Who decides which GPUs the tasks have.
enum class GpusBy {
  kNobody,  // the run uses no GPU
  kUs,      // this script gives one to each task, to which srun binds the task
  kJob,     // an option gives GPUs to the job or its nodes: the guard of each rank picks one
  kTask,    // an option gives GPUs to tasks
};

GpusBy who_gives_gpus(const LaunchRequest& request, const std::vector<std::string>& options) {
  if (!request.gpu) return GpusBy::kNobody;
  GpusBy by = GpusBy::kUs;
  for (const std::string& option : options) {
    const std::string_view key = std::string_view(option).substr(0, option.find('='));
    if (key == "gpus-per-task" || key == "gpu-bind" || key.starts_with("tres-")) return GpusBy::kTask;
    const bool other = key == "gres" && option.find("gpu") == std::string::npos;
    if (!other && (key == "gres" || key == "gpus" || key.starts_with("gpus-per-"))) by = GpusBy::kJob;
  }
  return by;
}

bool is_option_key(std::string_view key) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
  return !key.empty() && std::isalpha(static_cast<unsigned char>(key.front())) != 0 && std::ranges::all_of(key, fits);
}

// The value as sbatch reads it in a line of a script: sbatch splits at blanks, # begins a comment, and \ keeps the next
// character from both.
std::string quoted_for_sbatch(const std::string& value) {
  if (value.find_first_of(" \"'\\#") == std::string::npos) return value;
  std::string text = "\"";
  for (const char c : value) text += c == '"' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  return text + "\"";
}

// Returns `path`, a path of this run for an option of sbatch, which is one line. Throws UserError where the path has a
// character that would begin another line.
const std::string& one_line(const std::string& path) {
  if (!has_control_character(path)) return path;
  throw UserError(
      fmt::format("{} has a line break, a tab or another control character in it, and an option of sbatch is "
                  "one line: use another folder",
                  Json(path).dump(-1, ' ', true, Json::error_handler_t::replace)));
}

std::string line(const std::string& key, const std::string& value) {
  return fmt::format("#SBATCH --{}={}\n", key, quoted_for_sbatch(value));
}

std::filesystem::path start_folder(const LaunchRequest& request, const Options& engine) {
  if (!request.working_directory.empty()) return request.working_directory;
  return engine.scratch.empty() ? kScratch : engine.scratch;
}

// Who reads the mounts, and what none of their paths may hold: neither has an escape for it.
struct MountLanguage {
  std::string_view reader, taken, names;
};
// Apptainer splits at commas and colons, and drops ^ (ParseBindPath).
constexpr MountLanguage kApptainerMounts = {"Apptainer", ",:\\^", "a comma, a colon, a backslash or ^"};
// pyxis writes a mount, within double quotes, into a script of bash, which prints a line of a table of mounts.
constexpr MountLanguage kPyxisMounts = {"pyxis", ",:\\\"$` \t\n",
                                        "a comma, a colon, a backslash, \", $, `, a blank or a line break"};

// The mounts of the guard and of the folders that ranks need, at the same paths in the container, as Apptainer and
// pyxis take them.
std::string mounts(const LaunchRequest& request, const Options& engine) {
  const bool by_apptainer = is_of_apptainer(engine.image);
  const MountLanguage& language = by_apptainer ? kApptainerMounts : kPyxisMounts;
  std::vector<SharedFolder> folders = {{request.guard, false},
                                       {engine.scratch.empty() ? kScratch : engine.scratch, true}};
  folders.insert(folders.end(), request.folders.begin(), request.folders.end());
  std::string text;
  for (const SharedFolder& folder : folders) {
    const std::string& path = folder.path.native();
    if (path.find_first_of(language.taken) != std::string::npos) {
      throw UserError(fmt::format("--image: the path {} has {} in it, where {} takes it apart: use another folder",
                                  path, language.names, language.reader));
    }
    // Behind a colon, Apptainer keeps the blanks at the end of a path.
    const char* writable = by_apptainer ? ":rw" : "";
    text += fmt::format("{}{}:{}{}", text.empty() ? "" : ",", path, path, folder.writable ? writable : ":ro");
  }
  return text;
}

// The words that run a rank in an image of Apptainer's. Of the host's files, a container sees only those that are
// mounted. It has the host's devices, processes and /dev/shm, which Open MPI needs.
std::vector<std::string> apptainer(const LaunchRequest& request, const Options& engine) {
  if (!engine.image.starts_with('/')) {
    throw UserError(
        fmt::format("--image {}: a file of Apptainer's needs its absolute path, on all nodes", engine.image));
  }
  std::vector<std::string> words = {"apptainer",    "exec",   "--no-mount",
                                    "home,cwd,tmp", "--bind", mounts(request, engine)};
  if (request.cpus > 0) words.insert(words.end(), {"--cpus", fmt::format("{}", request.cpus)});
  if (request.gpu) words.emplace_back("--nv");
  if (!request.working_directory.empty()) {
    words.insert(words.end(), {"--pwd", request.working_directory.string()});
  }
  words.push_back(engine.image);
  return words;
}

// The number of CPUs of each task: Slurm gives whole ones.
std::string cpus_per_task(const LaunchRequest& request) {
  return std::to_string(request.cpus > 0 ? static_cast<int>(std::ceil(request.cpus)) : request.threads);
}

std::vector<std::string> srun(const LaunchRequest& request, const Options& engine) {
  std::vector<std::string> words = {"srun", fmt::format("--ntasks={}", request.workers)};
  if (engine.ranks_per_host > 0) {
    words.push_back(fmt::format("--ntasks-per-node={}", std::min<int64_t>(engine.ranks_per_host, request.workers)));
  }
  words.push_back("--cpus-per-task=" + cpus_per_task(request));
  if (who_gives_gpus(request, engine.slurm) == GpusBy::kUs) {
    words.emplace_back("--gpus-per-task=1");
    // A worker picks its own GPU among all of its node.
    if (!gives_own_gpu(request)) words.emplace_back("--gpu-bind=none");
  }
  // A site may set each of these otherwise. The supervisor judges which end of a rank ends the run.
  words.insert(words.end(), {"--distribution=block", "--cpu-bind=none", request.by_mpirun ? "--mpi=pmix" : "--mpi=none",
                             "--kill-on-bad-exit=0", "--wait=0", "--export=ALL", "--input=none", "--label"});
  if (is_of_apptainer(engine.image)) {
    for (std::string& word : apptainer(request, engine)) words.push_back(std::move(word));
  } else if (!engine.image.empty()) {
    words.push_back("--container-image=" + engine.image);
    words.push_back("--container-mounts=" + mounts(request, engine));
    if (!request.working_directory.empty()) {
      words.push_back("--container-workdir=" + request.working_directory.string());
    }
  }
  words.insert(words.end(), {request.guard.string(), "slurm"});
  for (std::string& word : guard::shielded(request.command)) words.push_back(std::move(word));
  return words;
}

}  // namespace

bool is_of_apptainer(const std::string& image) { return image.ends_with(".sif"); }

std::string option_line(const std::string& option) {
  const size_t equals = std::min(option.find('='), option.size());
  const std::string key = option.substr(0, equals);
  if (!is_option_key(key)) {
    throw UserError(
        fmt::format("--slurm-option '{}': expected KEY or KEY=VALUE with a long option of sbatch, without "
                    "its dashes, as in partition=gpu or exclusive",
                    option.substr(0, 80)));
  }
  if (has_control_character(option)) {
    throw UserError(
        fmt::format("--slurm-option {}: a line break, a tab or another control character stands in its "
                    "value: an option is one line of the batch script",
                    key));
  }
  for (const OwnOption& own : kOwnOptions) {
    if (own.key == key) throw UserError(fmt::format("--slurm-option {}: mlbench sets it; use {}", key, own.instead));
  }
  return equals == option.size() ? fmt::format("#SBATCH --{}\n", key) : line(key, option.substr(equals + 1));
}

std::string for_file_pattern(const std::string& path) {
  const char doubled = path.find('\\') == std::string::npos ? '%' : '\\';
  std::string escaped;
  for (const char c : path) escaped.append(c == doubled ? 2 : 1, c);
  return escaped;
}

LaunchRequest on_hosts(const LaunchRequest& request, const Options& engine) {
  LaunchRequest theirs = request;
  if (const std::filesystem::path here = folder_here(request); !here.empty()) {
    theirs.links.folder = here;
    theirs = moved_to(std::move(theirs), folder_on_hosts(request, engine.scratch));
  }
  theirs.environment = guard::shielded(theirs.environment);
  if (const auto gpus = theirs.environment.extract(kVisibleGpus)) {  // srun would set or unset the variable
    theirs.environment[std::string(guard::kShield) + kVisibleGpus] = gpus.mapped();
  }
  // describe() is to show this variable; for start(), guard_environment() sets it, too.
  if (request.rank_words) theirs.environment[variables::kGuardRankWords] = "1";
  if (gives_own_gpu(request) && who_gives_gpus(request, engine.slurm) == GpusBy::kJob) {
    theirs.environment[variables::kGuardOwnGpu] = "1";
  }
  if (request.by_mpirun) {
    if (request.environment.contains(variables::kOversubscribed)) {
      theirs.environment["OMPI_MCA_mpi_yield_when_idle"] = "1";
    }
    // An address is one host's: Open MPI finds those of the other hosts.
    if (!request.network_interface.empty() && !is_numeric_address(request.network_interface)) {
      theirs.environment["OMPI_MCA_btl_tcp_if_include"] = request.network_interface;
    }
  }
  return theirs;
}

std::string job_name(const std::string& run_name) { return "mlbench-" + (run_name.empty() ? "run" : run_name); }

std::filesystem::path script_path(const LaunchRequest& request) {
  return launcher_log_path(request.log_dir, "slurm", request.segment, "sbatch");
}

std::filesystem::path log_path(const LaunchRequest& request) {
  return launcher_log_path(request.log_dir, "slurm", request.segment);
}

std::string batch_script(const LaunchRequest& request, const Options& engine) {
  std::string text = "#!/bin/bash\n";
  text += line("job-name", job_name(request.run_name));
  text += line("ntasks", std::to_string(request.workers));
  if (engine.ranks_per_host > 0) {
    const int64_t on_each = std::min<int64_t>(engine.ranks_per_host, request.workers);
    text += line("nodes", std::to_string((request.workers + on_each - 1) / on_each));
    text += line("ntasks-per-node", std::to_string(on_each));
  }
  text += line("cpus-per-task", cpus_per_task(request));
  if (who_gives_gpus(request, engine.slurm) == GpusBy::kUs) text += line("gpus-per-task", "1");
  text += line("chdir", one_line(start_folder(request, engine).string()));
  text += line("output", for_file_pattern(one_line(log_path(request).string())));
  text += line("open-mode", "append");
  text += line("export", "ALL");
  text += "#SBATCH --no-requeue\n";
  if (!request.share_host && std::ranges::none_of(engine.slurm, says_who_shares)) text += "#SBATCH --exclusive\n";
  for (const std::string& option : engine.slurm) text += option_line(option);
  text +=
      "\n"
      "if [ \"${SLURM_RESTART_COUNT:-0}\" != 0 ]; then\n"
      "  echo 'this job was requeued: its run does not begin again' >&2\n"
      "  exit 1\n"
      "fi\n";
  if (!engine.setup.empty()) text += "\n" + engine.setup + (engine.setup.ends_with('\n') ? "" : "\n");
  text += "\nexec " + command_line({}, srun(request, engine)) + "\n";
  return text;
}

std::vector<std::string> slurm_command(std::vector<std::string> command) {
  constexpr std::array<std::string_view, 8> kPrefixes = {"SLURM_", "SLURMD_",  "SBATCH_", "SALLOC_",
                                                         "SRUN_",  "SCANCEL_", "SINFO_",  "SCONTROL_"};
  constexpr std::array<std::string_view, 3> kKept = {"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT"};
  std::vector<std::string> without;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool known = std::ranges::any_of(kPrefixes, [&](auto prefix) { return name.starts_with(prefix); });
    if (known && std::ranges::find(kKept, name) == kKept.end()) without.push_back(fmt::format("--unset={}", name));
  }
  if (without.empty()) return command;
  std::ranges::sort(without);
  without.insert(without.begin(), "env");
  without.insert(without.end(), std::make_move_iterator(command.begin()), std::make_move_iterator(command.end()));
  return without;
}

}  // namespace mlbench::exec::slurm
