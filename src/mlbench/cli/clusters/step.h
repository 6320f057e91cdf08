#pragma once

// The commands that make or remove a cluster, one after the other, as an operator would type them.

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mlbench::cli {

struct Step {
  std::string what;  // what the step makes, asks or removes, for messages: "the chart"
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment = {};
  std::vector<std::string> unless = {};  // a command; where it succeeds, the step is not needed
  // A command that lists things. Where `listed` is no word of its output, there is nothing to do.
  std::vector<std::string> if_lists = {};
  std::string listed = {};
  std::filesystem::path output = {};  // a file, of this user alone, that gets what the command writes
  std::string content = {};           // with `output` and no arguments: the line that the file gets
  bool makes = false;                 // the step makes something that stays when a later step fails
  bool may_fail = false;              // later steps do not need this one
  std::chrono::seconds limit = std::chrono::minutes(30);
};

// The step as a line for a shell.
std::string to_text(const Step& step);

// Throws UserError where PATH lacks programs that the steps need, with their names and where they come from.
void check_programs(const std::vector<Step>& steps);

// Runs steps in order. What the tools write goes to standard error. Precondition: the caller has an InterruptGuard;
// Ctrl-C is handed to the tool.
class StepRunner {
 public:
  // Throws CommError for the first step that fails or takes longer than its limit, with its command, the steps that
  // were done before it and those that were not.
  void run(const std::vector<Step>& steps);
  bool made_something() const { return made_something_; }  // whether a step with Step::makes was begun

 private:
  void run_one(const Step& step);

  bool made_something_ = false;
};

}  // namespace mlbench::cli
