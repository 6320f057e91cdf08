#pragma once

// Checks whether a host is good for runs, by what it says about itself over ssh.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/base/process.h"
#include "mlbench/spec/hosts.h"

namespace mlbench::cli {

// Hosts whose clocks differ by more seconds are refused, since records order events of all hosts by time.
inline constexpr double kMostClockOffset_s = 0.5;

struct HostCheck {
  std::string name = {};
  std::string problem = {};   // what is wrong, and what to type; "": the host is good
  std::string build_id = {};  // of mlbench on that host
  int64_t cores = 0;
  double load = 0;            // mean number of processes that ran or waited in the last minute
  double clock_offset_s = 0;  // at least how far the host's clock is ahead of (> 0) or behind (< 0) this host's
};

// The command that asks a host, with ssh or, for this host, with a shell. `program` is the path of mlbench there.
std::vector<std::string> host_question(const std::string& host, const std::string& ssh_config,
                                       const std::string& program);

// Judges the answer to host_question(). `asked` and `answered` are the Unix times, in seconds, of question and answer
// on this host. `build_id` is this program's. `question` is what to type to see the answer again.
HostCheck judge_host(const spec::HostSlots& host, const ProcessOutput& answer, double asked, double answered,
                     const std::string& build_id, const std::string& question);

// A check as a line, "h1  ok     4 cores, 2 slots, clock within 0.02 s"; the name is padded to `width`.
std::string to_text(const HostCheck& check, const spec::HostSlots& host, size_t width);

}  // namespace mlbench::cli
