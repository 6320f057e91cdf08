#include "mlbench/exec/slurm/answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>
#include <string_view>

#include "mlbench/base/input.h"
#include "mlbench/base/or_null.h"
#include "mlbench/base/text.h"
#include "mlbench/base/to_number.h"

namespace mlbench::exec::slurm {
namespace {

// The states of squeue(1), JOB STATE CODES. A job in any other state runs.
constexpr std::array<std::string_view, 6> kQueuedStates = {"PENDING",     "REQUEUED",     "REQUEUE_HOLD",
                                                           "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"};
constexpr std::array<std::string_view, 12> kEndedStates = {"BOOT_FAIL", "CANCELLED",     "COMPLETED", "DEADLINE",
                                                           "FAILED",    "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
                                                           "PREEMPTED", "RECONFIG_FAIL", "REVOKED",   "TIMEOUT"};

template <size_t N>
bool is_one_of(const std::array<std::string_view, N>& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

bool is_key(std::string_view word) {
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view(":/_-").find(static_cast<char>(c)) != std::string_view::npos;
  };
  return !word.empty() && std::isalpha(static_cast<unsigned char>(word.front())) != 0 &&
         std::ranges::all_of(word, fits);
}

Json known_or_null(const std::string& text) { return text_or_null(text == "N/A" ? "" : text); }

// The fields of "KEY=VALUE KEY=VALUE ...", where a value may have blanks, and is "" for (null). Of a key that comes
// again, the first counts: comments and commands, where others' words stand, come last.
std::map<std::string, std::string> fields_of(const std::string& line) {
  std::map<std::string, std::string> fields;
  std::istringstream words(line);
  std::string* value = nullptr;
  std::string repeated;
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || !is_key(std::string_view(word).substr(0, equals))) {
      if (value != nullptr) *value += " " + word;
      continue;
    }
    std::string text = word.substr(equals + 1);
    if (text == "(null)") text.clear();
    const auto [place, is_new] = fields.emplace(word.substr(0, equals), text);
    repeated = text;
    value = is_new ? &place->second : &repeated;
  }
  return fields;
}

// The number of GPUs of all kinds in text as "gpu:a100:4(S:0-1),gpu:2,shard:8".
int64_t gpus_in(const std::string& resources) {
  int64_t gpus = 0;
  for (std::string part : split_at(resources, ',')) {
    part.resize(std::min(part.size(), part.find('(')));
    if (part == "gpu") ++gpus;
    if (part.starts_with("gpu:"))
      gpus += std::clamp<int64_t>(to_number<int64_t>(part.substr(part.rfind(':') + 1)).value_or(1), 0, 1024);
  }
  return gpus;
}

// Whether a node in such a state (sinfo(1), NODE STATE CODES) takes jobs, now or after those that it has. The mark
// behind a state is about the node's power, or "*": the node does not answer.
bool takes_jobs(const std::string& state) {
  const std::vector<std::string> parts = split_at(state.substr(0, state.find_first_of("*~#!%$@^-")), '+');
  constexpr std::array<std::string_view, 5> kGood = {"IDLE", "MIXED", "ALLOCATED", "COMPLETING", "RESERVED"};
  const bool good = is_one_of(kGood, parts.front()) && state.find('*') == std::string::npos;
  constexpr std::array<std::string_view, 6> kBad = {"DOWN", "DRAIN", "FAIL", "MAINT", "INVALID_REG", "NOT_RESPONDING"};
  return good && std::none_of(parts.begin() + 1, parts.end(), [&](const auto& flag) { return is_one_of(kBad, flag); });
}

}  // namespace

std::optional<JobName> parse_submission(const std::string& output) {
  std::string last;  // the line of the job; a site's plug-in may say something before it
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (!trimmed(line).empty()) last = trimmed(line);
  }
  const size_t end = std::min(last.find(';'), last.size());
  JobName name{last.substr(0, end), end < last.size() ? last.substr(end + 1) : ""};
  const auto digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  if (name.id.empty() || !std::ranges::all_of(name.id, digit)) return std::nullopt;
  return name;
}

std::string JobInfo::field(const std::string& name) const {
  const auto found = fields.find(name);
  return found == fields.end() ? "" : found->second;
}

JobPhase JobInfo::phase() const {
  if (is_one_of(kQueuedStates, state())) return JobPhase::kQueued;
  if (is_one_of(kEndedStates, state())) return JobPhase::kEnded;
  return state() == "COMPLETING" ? JobPhase::kEnding : JobPhase::kRunning;
}

bool JobInfo::requeued() const {
  return to_number<int64_t>(field("Restarts")).value_or(0) > 0 ||
         (phase() == JobPhase::kQueued && state() != "PENDING");
}

bool JobInfo::host_gone() const {
  const std::string reason = field("Reason");
  return state() == "NODE_FAIL" || reason == "NodeDown" || reason == "NodeFail";
}

bool JobInfo::preempted() const { return state() == "PREEMPTED"; }

bool JobInfo::ended_by_itself() const {
  return !requeued() && (phase() == JobPhase::kEnding || state() == "COMPLETED" || state() == "FAILED");
}

std::string JobInfo::words() const {
  std::string words = state();
  const std::string reason = field("Reason"), nodes = field("NodeList");
  if (!reason.empty() && reason != "None") words += fmt::format(" ({})", reason);
  if (phase() != JobPhase::kQueued && !nodes.empty()) words += " on " + nodes;
  return words;
}

std::optional<JobInfo> parse_job(const std::string& output) {
  JobInfo job{fields_of(output.substr(0, output.find('\n')))};
  if (!job.fields.contains("JobId") || job.state().empty()) return std::nullopt;
  return job;
}

std::vector<ClusterNode> parse_nodes(const std::string& output) {
  std::vector<ClusterNode> nodes;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line) && nodes.size() < kMostNodes;) {
    std::map<std::string, std::string> fields = fields_of(line);
    const std::string state = fields["State"];
    if (fields["NodeName"].empty() || state.empty()) continue;
    const std::string reason = fields["Reason"];
    const auto effective =
        to_number<int64_t>(fields["CPUEfctv"]);  // less those that the system keeps; since Slurm 22.05
    const auto cpus = effective ? effective : to_number<int64_t>(fields["CPUTot"]);
    const auto memory_mib = to_number<int64_t>(fields["RealMemory"]);
    nodes.push_back({.name = fields["NodeName"],
                     .state = reason.empty() ? state : fmt::format("{} ({})", state, reason),
                     .ready = takes_jobs(state),
                     .cpus = cpus ? std::optional(static_cast<double>(*cpus)) : std::nullopt,
                     .memory_bytes = memory_mib && *memory_mib < (int64_t{1} << 40)
                                         ? std::optional(*memory_mib * 1024 * 1024)
                                         : std::nullopt,
                     .gpus = gpus_in(fields["Gres"])});
  }
  return nodes;
}

bool job_is_unknown(const std::string& errors) { return errors.find("Invalid job id") != std::string::npos; }

Json identity_of(const JobName& name) {
  return {{"engine", "slurm"}, {"job", name.id}, {"cluster", known_or_null(name.cluster)}};
}

std::optional<JobName> job_of(const Json& allocation) {
  if (text_member(allocation, "engine") != "slurm") return std::nullopt;
  const std::string job = text_member(allocation, "job"), cluster = text_member(allocation, "cluster");
  return parse_submission(cluster.empty() ? job : job + ";" + cluster);
}

Json allocation_of(const JobName& name, const JobInfo& job) {
  const std::string given = job.field("AllocTRES");
  const std::string resources = given.empty() ? job.field("TRES") : given;  // before and since Slurm 23.11
  std::string memory;
  for (const std::string& part : split_at(resources, ',')) {
    if (part.starts_with("mem=")) memory = part.substr(4);
  }
  return {{"engine", "slurm"},
          {"job", name.id},
          {"cluster", known_or_null(name.cluster)},
          {"partition", known_or_null(job.field("Partition"))},
          {"account", known_or_null(job.field("Account"))},
          {"qos", known_or_null(job.field("QOS"))},
          {"reservation", known_or_null(job.field("Reservation"))},
          {"nodes", known_or_null(job.field("NodeList"))},
          {"node_count", or_null(to_number<int64_t>(job.field("NumNodes")))},
          {"cpus", or_null(to_number<int64_t>(job.field("NumCPUs")))},
          {"memory", known_or_null(memory)},
          {"resources", known_or_null(resources)},
          {"time_limit", known_or_null(job.field("TimeLimit"))}};
}

}  // namespace mlbench::exec::slurm
