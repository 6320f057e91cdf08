#pragma once

// Errors of the system that keep the number of errno, and the one rule for which of these errors pass by themselves.

#include <exception>
#include <string>

#include "mlbench/base/errors.h"

namespace mlbench {

class SystemError : public IoError {
 public:
  // The error's text is "`what`: No space left on device (errno 28)".
  SystemError(const std::string& what, int error_number)
      : IoError(what + ": " + errno_text(error_number)), error_number_(error_number) {}
  int error_number() const { return error_number_; }

 private:
  int error_number_;
};

// A disk, or the user's share of it, has no room. Nothing is wrong with what was to be written.
class DiskFull : public SystemError {
 public:
  using SystemError::SystemError;
};

// Throws DiskFull when the number says so, else SystemError. Every failing system call ends here.
[[noreturn]] void throw_system_error(const std::string& what, int error_number);

// Whether the system is short of something (descriptors, memory, processes, disk) or refuses at the moment (a lock, a
// permission, a disk that fails to read). The same call may succeed later, so such an error says nothing about what was
// asked for: nobody keeps such an answer, and no run ends for it. SystemError, std::system_error and std::bad_alloc
// count.
bool is_transient(const std::exception& error);
bool is_transient(int error_number);

}  // namespace mlbench
