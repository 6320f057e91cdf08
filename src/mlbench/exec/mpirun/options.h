#pragma once

// The options of the executor mpirun.

#include <cstdint>
#include <string>

#include "mlbench/base/input.h"
#include "mlbench/exec/facts.h"
#include "mlbench/exec/options.h"

namespace mlbench::exec::mpirun {

inline constexpr ExecutorFacts kFacts = {};

inline std::string hosts_with_slots(const std::string& text, const std::string& /*label*/) {
  return spec::to_text(spec::parse_hosts(text));
}

inline constexpr spec::FileFlag kHostFileFlag = {"--hostfile", "file that names them: lines as 'h1 slots=2'",
                                                 &inputs::kHostFile, spec::hosts_of_file};

inline constexpr spec::RunOption kRanksOfNamedHosts = [] {
  spec::RunOption option = kRanksPerHostOption;
  option.names_cluster = true;  // the number becomes the slots of the named hosts
  return option;
}();

// clang-format off
inline constexpr spec::RunOption kOptions[] = {
    {.name = "hosts", .flags = "-H,--hosts", .kind = OptionKind::kText, .value = "HOST[:N],...",
     .help = "hosts, and how many ranks each takes: h1:2,h2:2 (executor mpirun)",
     .compared = "hosts", .form = hosts_with_slots, .file_flag = &kHostFileFlag, .names_cluster = true},
    kRanksOfNamedHosts,
    {.name = "ssh_config", .flags = "--ssh-config", .kind = OptionKind::kText, .value = "FILE",
     .help = "configuration of ssh in place of the user's own",
     .not_compared = "how ranks are started, not how they run", .form = absolute_path, .path = true},
    kScratchOption,
    kImageOption,
    kRequeueOption,
};
// clang-format on

struct Options {
  std::string hosts = {};      // "h1:2,h2:1"; "": none are named
  int64_t ranks_per_host = 0;  // 0: as many as the host has slots
  std::string ssh_config = {};
  std::string scratch = {};  // "": /tmp
  std::string image = {};    // "": ranks are programs of their hosts
};
// Throws UserError for options that the executor does not take.
Options read_options(const Json& engine);

}  // namespace mlbench::exec::mpirun
