#include "mlbench/cli/clusters/host_check.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <sstream>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/text.h"
#include "mlbench/exec/executor.h"
#include "mlbench/exec/placement.h"

namespace mlbench::cli {

namespace {

constexpr int kNoProgram = 127;  // a shell's exit code where it finds no program

std::optional<double> number_in(const std::string& line) {
  char* end = nullptr;
  const double value = std::strtod(line.c_str(), &end);
  if (end == line.c_str() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

std::vector<std::string> host_question(const std::string& host, const std::string& ssh_config,
                                       const std::string& program) {
  // The script is constant but for the path of this program, which is quoted. The time comes last, since the commands
  // before it may take long.
  const std::string script = fmt::format("nproc && cut -d' ' -f1 /proc/loadavg && {} && date +%s.%N",
                                         exec::command_line({}, {program, "--version", "--json"}));
  if (exec::is_this_host(host)) return {"/bin/sh", "-c", script};
  std::vector<std::string> words = {"ssh"};
  if (!ssh_config.empty()) words.insert(words.end(), {"-F", ssh_config});
  // With BatchMode, ssh asks for no password or key, which nobody could answer.
  words.insert(words.end(), {"-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o",
                             "ServerAliveCountMax=2", host, script});
  return words;
}

HostCheck judge_host(const spec::HostSlots& host, const ProcessOutput& answer, double asked, double answered,
                     const std::string& build_id, const std::string& question) {
  HostCheck check{.name = host.name};
  const auto wrong = [&](std::string text) {
    check.problem = std::move(text);
    return check;
  };
  if (answer.end.code == kNoProgram) {
    return wrong(fmt::format("has no mlbench at the path of this one ({}): install the same build there",
                             printable(last_line(trimmed(answer.standard_error)))));
  }
  if (answer.end.code != 0) {
    return wrong(fmt::format("{} (this must work from here: {})",
                             answer.standard_error.empty() ? fmt::format("ended with {}", answer.end.code)
                                                           : printable(last_line(trimmed(answer.standard_error))),
                             question));
  }
  std::istringstream lines(answer.standard_output);
  std::string cores, load;
  std::getline(lines, cores);
  std::getline(lines, load);
  const std::string rest(std::istreambuf_iterator<char>(lines), {});
  const size_t end = rest.rfind('}') + 1;  // 0: there is none
  const auto version = try_parse_json(rest.substr(0, end), inputs::kWorkerAnswer);
  const auto core_count = number_in(cores), load_1m = number_in(load);
  const auto time = number_in(trimmed(rest.substr(end)));
  if (!version || !version->is_object() || !core_count || !load_1m || !time) {
    return wrong(fmt::format("answers, but not as expected; a login script there may print words (see: {})", question));
  }
  check.cores = static_cast<int64_t>(*core_count);
  check.load = *load_1m;
  check.build_id = version->value("build_id", "");
  if (*time > answered) check.clock_offset_s = *time - answered;
  if (*time < asked) check.clock_offset_s = *time - asked;
  if (check.build_id != build_id) {
    return wrong(fmt::format("has another build of mlbench ({}, here {}): install the same one there", check.build_id,
                             build_id));
  }
  if (std::abs(check.clock_offset_s) > kMostClockOffset_s) {
    return wrong(fmt::format("its clock is {:.1f} s {}: set it (timedatectl set-ntp true)",
                             std::abs(check.clock_offset_s), check.clock_offset_s > 0 ? "ahead" : "behind"));
  }
  if (check.cores < host.slots) {
    return wrong(
        fmt::format("has {} cores for {} slots: give at most {}:{}", check.cores, host.slots, host.name, check.cores));
  }
  return check;
}

std::string to_text(const HostCheck& check, const spec::HostSlots& host, size_t width) {
  if (!check.problem.empty()) return fmt::format("{:<{}}  WRONG  {}\n", check.name, width, check.problem);
  const double free = static_cast<double>(check.cores) - check.load;
  const std::string busy = free + 0.5 < static_cast<double>(host.slots)
                               ? fmt::format("; busy now (load {:.1f}): times would show it", check.load)
                               : "";
  return fmt::format("{:<{}}  ok     {} cores, {} slots, clock within {:.2f} s{}\n", check.name, width, check.cores,
                     host.slots, std::max(0.01, std::abs(check.clock_offset_s)), busy);
}

}  // namespace mlbench::cli
