#pragma once

// A program that is asked something, and may hang.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/process.h"

namespace mlbench::exec {

struct Answer {
  std::optional<ProcessEnd> end;  // empty: there was none in time
  std::string output;
  std::string errors;  // of the program; or why there is no answer

  bool good() const { return end && end->code == 0; }
};

// Asked without waiting. Destroyed before its answer, the program is killed.
class Question {
 public:
  // Killed after `limit`, and with the thread that asks. `standard_input`: a descriptor that it reads; -1: nothing.
  Question(const std::vector<std::string>& command, std::chrono::milliseconds limit, int standard_input = -1);
  ~Question();
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;
  // Waits up to `timeout` for it. Empty while there is none; once.
  std::optional<Answer> answer(std::chrono::milliseconds timeout);

 private:
  std::string program_;
  std::chrono::milliseconds limit_;
  std::chrono::steady_clock::time_point deadline_;
  FileDescriptor output_, errors_;
  std::optional<ChildProcess> process_;
  std::string not_started_;
};

// Asks and waits.
Answer ask(const std::vector<std::string>& command, std::chrono::milliseconds limit);

}  // namespace mlbench::exec
