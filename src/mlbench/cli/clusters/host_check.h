#pragma once

// Whether a host is good for runs: what it says of itself over ssh, and what is wrong with that.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/base/process.h"
#include "mlbench/spec/hosts.h"

namespace mlbench::cli {

// Hosts whose clocks are further apart are refused: records put their events in the order of time.
inline constexpr double kMostClockOffset_s = 0.5;

struct HostCheck {
  std::string name = {};
  std::string problem = {};   // what is wrong, and what to type; "": it is good
  std::string build_id = {};  // of mlbench there
  int64_t cores = 0;
  double load = 0;            // processes that ran or waited in the last minute
  double clock_offset_s = 0;  // at least so far ahead (> 0) or behind (< 0) of this host
};

// The words for ssh, or for a shell of this host.
std::vector<std::string> host_question(const std::string& host, const std::string& ssh_config,
                                       const std::string& program);

// What the answer to host_question() means. `asked`, `answered`: seconds since 1970 on this host. `question`: what to
// type to see it again.
HostCheck judge_host(const spec::HostSlots& host, const ProcessOutput& answer, double asked, double answered,
                     const std::string& build_id, const std::string& question);

// "h1  ok     4 cores, 2 slots, clock within 0.02 s"
std::string to_text(const HostCheck& check, const spec::HostSlots& host, size_t width);

}  // namespace mlbench::cli
