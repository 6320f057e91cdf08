#pragma once

// The two families of errors that users meet, the marker of our own bugs, and the one place that maps
// each to a process exit code.

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>

namespace mlbench {

// Something given from outside is wrong: a flag, a file, a value. The text says what was given, what was
// expected and the valid choices; fixing the input fixes the error.
class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A file, disk or socket refused (errno text included where there is one).
class IoError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A peer was lost or a communication took too long. Names the operation and the peer where it is known.
class CommError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A communication took longer than its timeout: the peer may be stopped, cut off or slow, and says nothing.
class CommTimeout : public CommError {
 public:
  using CommError::CommError;
};

// A broken invariant of this program, thrown by MLBENCH_CHECK. Not to be caught except at the top of main.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// Exit codes of both programs. Stable: scripts and the supervisor read them.
enum class ExitCode : int {
  kOk = 0,
  kInternalError = 1,   // a bug of ours, or an exception of a library nobody translated
  kUserError = 2,       // wrong flag, file or value
  kCommError = 3,       // a peer was lost or an operation timed out
  kIoError = 4,         // disk full, permission, socket
  kRunFailed = 5,       // the command worked, but a run that it followed failed
  kSupervisorLost = 6,  // a rank saw its supervisor disappear
  kStopped = 130,       // Ctrl-C or a stop request
};

// Exit code for the given exception (kInternalError for those of unknown type).
ExitCode exit_code_of(const std::exception& error);

// "errno text (errno N)" for the current or given errno value.
std::string errno_text(int error_number);

namespace detail {
[[noreturn]] void check_failed(const char* condition, const char* file, int line, const std::string& message);
}

}  // namespace mlbench

// Invariants of our own code; never for user input. The message is only built when the check fails.
#define MLBENCH_CHECK(condition, message)                                         \
  do {                                                                            \
    if (!(condition)) [[unlikely]]                                                \
      ::mlbench::detail::check_failed(#condition, __FILE__, __LINE__, (message)); \
  } while (false)
