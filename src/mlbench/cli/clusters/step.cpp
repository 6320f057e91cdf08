#include "mlbench/cli/clusters/step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <set>
#include <sstream>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/process.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/terminal/interrupt.h"
#include "mlbench/exec/executor.h"

namespace mlbench::cli {

using namespace std::chrono_literals;

namespace {

constexpr auto kQuestionLimit = 2min;
constexpr auto kToolPoll = 200ms;
constexpr auto kInterruptPatience = 60s;  // in which a cloud's tools clean up

const std::map<std::string, std::string, std::less<>> kSources = {
    {"gcloud", "the Google Cloud CLI"},
    {"gke-gcloud-auth-plugin", "gcloud components install gke-gcloud-auth-plugin"},
    {"aws", "the AWS CLI"},
    {"eksctl", "eksctl.io"},
    {"kind", "kind.sigs.k8s.io"},
    {"docker", "Debian: docker.io"},
    {"helm", "helm.sh, version 3.14 or later"},
    {"kubectl", "kubernetes.io/docs/tasks/tools"},
    {"sinfo", "Debian: slurm-client"},
    {"scontrol", "Debian: slurm-client"},
    {"ssh", "Debian: openssh-client"}};

std::string quoted_word(const std::string& word) { return exec::command_line({}, {word}); }

// Runs the step's command, with its standard output to the descriptor `output`, and returns its end.
ProcessEnd run_tool(const Step& step, int output) {
  ProcessOptions options;
  options.arguments = step.arguments;
  options.environment = step.environment;
  options.standard_output = output;
  options.die_with_parent = true;
  ChildProcess child = ChildProcess::start(options);
  const auto deadline = std::chrono::steady_clock::now() + step.limit;
  const int before = InterruptGuard::count();
  for (;;) {
    if (const auto end = child.wait(kToolPoll)) return *end;
    if (InterruptGuard::count() > before) {
      child.signal(SIGINT);
      if (const auto end = child.wait(kInterruptPatience)) return *end;
      return child.stop(5s);
    }
    if (std::chrono::steady_clock::now() > deadline) {
      child.stop(10s);
      throw CommTimeout(fmt::format("'{}' did not end within {} s", to_text(step), step.limit.count()));
    }
  }
}

bool says_word(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment,
               const std::string& word) {
  ProcessOptions options;
  options.arguments = command;
  options.environment = environment;
  const ProcessOutput output = run_process(options, kQuestionLimit);
  if (output.end.code != 0) {
    throw CommError(fmt::format("'{}' ended with {}: {}", exec::command_line(environment, command), output.end.code,
                                output.standard_error));
  }
  std::istringstream words(output.standard_output);
  for (std::string one; words >> one;) {
    if (one == word) return true;
  }
  return false;
}

bool succeeds(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment) {
  ProcessOptions options;
  options.arguments = command;
  options.environment = environment;
  return run_process(options, kQuestionLimit).end.code == 0;
}

std::string in_one_line(const std::vector<std::string>& texts) {
  return texts.empty() ? "nothing" : fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

std::string to_text(const Step& step) {
  const std::string output = step.output.empty() ? "" : " > " + quoted_word(step.output.string());
  if (step.arguments.empty()) return fmt::format("printf '%s\\n' {}{}", quoted_word(step.content), output);
  std::string line = exec::command_line(step.environment, step.arguments) + output;
  if (!step.unless.empty()) {
    line = fmt::format("{} >/dev/null 2>&1 || {}", exec::command_line(step.environment, step.unless), line);
  }
  if (!step.if_lists.empty()) {
    line = fmt::format("{} | tr '\\t' '\\n' | grep -qxF {} && {}", exec::command_line(step.environment, step.if_lists),
                       quoted_word(step.listed), line);
  }
  return line;
}

void check_programs(const std::vector<Step>& steps) {
  std::set<std::string> missing;
  for (const Step& step : steps) {
    for (const auto* command : {&step.arguments, &step.unless, &step.if_lists}) {
      if (!command->empty() && !program_exists(command->front())) missing.insert(command->front());
    }
  }
  if (missing.empty()) return;
  std::vector<std::string> words;
  for (const std::string& one : missing) {
    const auto source = kSources.find(one);
    words.push_back(source == kSources.end() ? one : fmt::format("{} ({})", one, source->second));
  }
  throw UserError(fmt::format("PATH lacks {}: install {}, and type the same again", fmt::join(words, ", "),
                              missing.size() == 1 ? "it" : "them"));
}

void StepRunner::run_one(const Step& step) {
  if (!step.if_lists.empty() && !says_word(step.if_lists, step.environment, step.listed)) {
    say(fmt::format("{}: not there", step.what));
    return;
  }
  if (!step.unless.empty() && succeeds(step.unless, step.environment)) return;
  if (step.makes) made_something_ = true;
  if (!step.output.empty()) make_folder(step.output.parent_path());
  if (step.arguments.empty()) return write_file_atomically(step.output, step.content + "\n");
  say(to_text(step));
  if (step.output.empty()) {
    const ProcessEnd end = run_tool(step, STDERR_FILENO);
    if (end.code != 0) throw CommError(fmt::format("'{}' ended with {}", to_text(step), end.code));
    return;
  }
  ProcessOptions options;
  options.arguments = step.arguments;
  options.environment = step.environment;
  const ProcessOutput output = run_process(options, step.limit);
  if (output.end.code != 0) {
    throw CommError(fmt::format("'{}' ended with {}: {}", to_text(step), output.end.code, output.standard_error));
  }
  write_file_atomically(step.output, output.standard_output);
}

void StepRunner::run(const std::vector<Step>& steps) {
  for (size_t i = 0; i < steps.size(); ++i) {
    std::string why;
    try {
      if (InterruptGuard::count() > 0) throw CommError("interrupted");
      run_one(steps[i]);
      continue;
    } catch (const CommError& error) {
      why = error.what();
    } catch (const IoError& error) {
      why = error.what();
    }
    if (steps[i].may_fail && InterruptGuard::count() == 0) {
      say(fmt::format("note: {}: {}; going on", steps[i].what, why));
      continue;
    }
    std::vector<std::string> before, after;
    for (size_t other = 0; other < i; ++other) before.push_back(steps[other].what);
    for (size_t other = i + 1; other < steps.size(); ++other) after.push_back(steps[other].what);
    throw CommError(fmt::format("step {} of {}, {}: {}\n  done: {}\n  not done: {}", i + 1, steps.size(), steps[i].what,
                                why, in_one_line(before), in_one_line(after)));
  }
}

}  // namespace mlbench::cli
