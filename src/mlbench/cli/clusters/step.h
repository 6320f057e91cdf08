#pragma once

// What making or removing a cluster does, one command after the other, as an operator would type them.

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mlbench::cli {

struct Step {
  std::string what;  // what it makes, asks or takes away, for messages: "the chart"
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment = {};
  std::vector<std::string> unless = {};  // a command after whose success this one is not needed
  // A command that must name `listed` as a word of its own, or there is nothing to do.
  std::vector<std::string> if_lists = {};
  std::string listed = {};
  std::filesystem::path output = {};  // a file of this user alone that gets what the command writes
  std::string content = {};           // with `output` and no arguments: the line that the file gets
  bool makes = false;                 // something that stays when a later step fails
  bool may_fail = false;              // what follows does not need it
  std::chrono::seconds limit = std::chrono::minutes(30);
};

// A line for a shell.
std::string to_text(const Step& step);

// The programs that the steps need and PATH lacks. UserError naming them and where they come from; none: nothing.
void check_programs(const std::vector<Step>& steps);

// Runs steps in order. What the tools write goes to standard error. Under an InterruptGuard of the caller's: Ctrl-C is
// handed to the tool.
class StepRunner {
 public:
  // CommError for the first that fails or takes longer than its limit: with its command, what was made before it and
  // what was not.
  void run(const std::vector<Step>& steps);
  bool made_something() const { return made_something_; }

 private:
  void run_one(const Step& step);

  bool made_something_ = false;
};

}  // namespace mlbench::cli
