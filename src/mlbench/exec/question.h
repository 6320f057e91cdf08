#pragma once

// Programs that are asked something, and that may hang.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/process.h"

namespace mlbench::exec {

struct Answer {
  std::optional<ProcessEnd> end;  // empty: the program did not start, or did not end in time
  std::string output;
  std::string errors;  // the program's; or why there is no answer

  bool good() const { return end && end->code == 0; }
};

// A program that was asked, and that nobody has to wait for. Destruction before the answer kills the program.
class Question {
 public:
  // Starts the program, which is killed after `limit`, and when the calling thread ends. `standard_input` is a
  // descriptor that the program reads; -1: nothing. answer() reports a program that could not be started.
  Question(const std::vector<std::string>& command, std::chrono::milliseconds limit, int standard_input = -1);
  ~Question();
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;
  // Returns the answer, for which it waits up to `timeout`; empty while there is none. The answer can be taken once.
  std::optional<Answer> answer(std::chrono::milliseconds timeout);

 private:
  std::string program_;
  std::chrono::milliseconds limit_;
  std::chrono::steady_clock::time_point deadline_;
  FileDescriptor output_, errors_;
  std::optional<ChildProcess> process_;
  std::string not_started_;
};

// Asks, and waits up to `limit` for the answer.
Answer ask(const std::vector<std::string>& command, std::chrono::milliseconds limit);

}  // namespace mlbench::exec
