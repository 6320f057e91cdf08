#include "mlbench/base/program_start.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/system_error.h"

namespace mlbench {

namespace {

using Words = std::vector<std::string_view>;

// A launcher of others. Where one of its marks is set, this process is one of its tasks, or runs within one. Variables
// that begin with its prefixes are then about that task, and programs that we start would believe them.
struct Launcher {
  Words marks, prefixes, kept;
  std::span<const char* const> names = {};  // such variables by their full names
};

const std::vector<Launcher>& launchers() {
  static const std::vector<Launcher> table = {
      {{"RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"},  // torchrun, and by hand
       {"RANK=", "WORLD_SIZE=", "LOCAL_RANK=", "LOCAL_WORLD_SIZE=", "MASTER_ADDR=", "MASTER_PORT=", "GROUP_RANK=",
        "GROUP_WORLD_SIZE=", "ROLE_RANK=", "ROLE_WORLD_SIZE=", "ROLE_NAME=", "TORCHELASTIC_"},
       {}},
      {{"OMPI_COMM_WORLD_RANK", "PMIX_RANK"}, {"OMPI_", "PMIX_", "PRTE_", "ORTE_", "OPAL_"}, {}},
      {{"PMI_RANK", "PMI_SIZE", "PMI_FD", "PMI_PORT"}, {"PMI_", "MPI_LOCALRANKID=", "MPI_LOCALNRANKS=", "HYDI_"}, {}},
      {{"MV2_COMM_WORLD_RANK"}, {"MV2_COMM_WORLD_", "MPISPAWN_"}, {}},
      {{"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_PROCID"},
       {"SLURM_", "SLURMD_"},
       {"SLURM_CONF=", "SLURM_CONF_SERVER=", "SLURM_JWT="}},  // they say how to reach Slurm
      {{"JSM_NAMESPACE_RANK"}, {"JSM_"}, {}},
      {{"PALS_RANKID"}, {"PALS_"}, {}},
      {{"FLUX_TASK_RANK"}, {"FLUX_TASK_", "FLUX_JOB_"}, {}},
      {{"JOB_COMPLETION_INDEX"}, {"JOB_COMPLETION_INDEX="}, {}},
      {{"HOROVOD_RANK"},
       {"HOROVOD_RANK=", "HOROVOD_SIZE=", "HOROVOD_LOCAL_", "HOROVOD_CROSS_", "HOROVOD_GLOO_",
        "HOROVOD_CONTROLLER=", "HOROVOD_CPU_OPERATIONS=", "HOROVOD_HOSTNAME="},
       {}},
      // Marks a rank of ours that starts runs itself.
      {{variables::kRunId}, {}, {}, variables::kOfRank},
  };
  return table;
}

// The names of variables that children do not get. They are written before other threads exist.
std::set<std::string, std::less<>>& kept_from_children() {
  static std::set<std::string, std::less<>> names;
  return names;
}

void note_launchers() {
  const auto is_set = [](std::string_view name) { return std::getenv(std::string(name).c_str()) != nullptr; };
  for (const Launcher& launcher : launchers()) {
    if (std::ranges::none_of(launcher.marks, is_set)) continue;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      const std::string_view text = *entry, name = text.substr(0, text.find('='));
      const auto begins = [&](std::string_view prefix) { return text.starts_with(prefix); };
      const bool named = std::ranges::find(launcher.names, name) != launcher.names.end();
      if (!named && std::ranges::none_of(launcher.prefixes, begins)) continue;
      if (std::ranges::none_of(launcher.kept, begins)) kept_from_children().emplace(name);
    }
  }
}

void open_standard_descriptors() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    const int flags = fcntl(stream, F_GETFL);
    if (flags >= 0) {
      if ((flags & O_NONBLOCK) != 0) fcntl(stream, F_SETFL, flags & ~O_NONBLOCK);
      continue;
    }
    // The lowest number that is free is this one.
    if (open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY) != stream) {
      throw_system_error("cannot open /dev/null", errno);
    }
  }
}

void set_signals(const sigset_t& held) {
  struct sigaction now {};
  for (int number = 1; number < NSIG; ++number) {  // a handler cannot be the parent's: a library set it
    if (number == SIGHUP || sigaction(number, nullptr, &now) != 0 || now.sa_handler != SIG_IGN) continue;
    signal(number, SIG_DFL);
  }
  for (const int number : {SIGPIPE, SIGXFSZ}) signal(number, SIG_IGN);
  sigprocmask(SIG_SETMASK, &held, nullptr);
}

struct Limit {
  decltype(RLIMIT_NOFILE) resource;
  const char* name;
  rlim_t least;   // with less, our programs cannot work
  rlim_t wanted;  // the soft limit is raised to this, as far as the hard one allows
};

constexpr Limit kLimits[] = {
    {RLIMIT_NOFILE, "open files (ulimit -n)", 64, 1024},
    {RLIMIT_STACK, "the stack in bytes (ulimit -s: in KiB)", 1 << 20, 8 << 20},
    {RLIMIT_FSIZE, "file sizes in bytes (ulimit -f: in KiB)", 16 << 20, RLIM_INFINITY},
    // A shell's own limits are soft; who sets a limit that is to hold sets the hard one.
    {RLIMIT_CPU, "processor time in seconds (ulimit -t)", 0, RLIM_INFINITY},
    {RLIMIT_AS, "address space in bytes (ulimit -v: in KiB)", 64 << 20, RLIM_INFINITY},
    {RLIMIT_DATA, "data in bytes (ulimit -d: in KiB)", 16 << 20, RLIM_INFINITY},
    {RLIMIT_NPROC, "processes (ulimit -u)", 0, RLIM_INFINITY},
};

void raise_limits() {
  for (const Limit& limit : kLimits) {
    rlimit now{};
    if (getrlimit(limit.resource, &now) != 0) throw_system_error("cannot read a limit", errno);
    if (now.rlim_cur >= limit.wanted) continue;
    const rlim_t soft = std::min(now.rlim_max, limit.wanted);
    if (soft < limit.least) {
      throw UserError("the limit of " + std::string(limit.name) + " is " + std::to_string(soft) + ", and " +
                      std::to_string(limit.least) + " are needed: raise it");
    }
    now.rlim_cur = soft;
    if (setrlimit(limit.resource, &now) != 0) {
      throw_system_error("cannot raise the limit of " + std::string(limit.name), errno);
    }
    if (limit.resource != RLIMIT_STACK) continue;
    // The C library has already taken the size of new threads' stacks from the old limit.
    pthread_attr_t attributes;
    if (pthread_getattr_default_np(&attributes) != 0) continue;
    pthread_attr_setstacksize(&attributes, soft);
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
  }
}

}  // namespace

void begin_program(const ProgramStart& start) {
  set_signals(start.held);
  open_standard_descriptors();
  keep_files_private();
  if (!start.launched) note_launchers();
  raise_limits();
}

bool is_kept_from_children(std::string_view variable) { return kept_from_children().contains(variable); }

bool working_folder_is_gone() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::current_path(error);
  return folder.empty() && error == std::errc::no_such_file_or_directory;
}

}  // namespace mlbench
