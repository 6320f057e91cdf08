#pragma once

// The error types of mlbench, the check macro that marks bugs of our own, and the one place that maps errors to exit
// codes.

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>

namespace mlbench {

// Something given from outside is wrong: a flag, a file, a value. The text says what was given, what was expected and
// which choices are valid. The user fixes the error by fixing the input.
class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The system refused a file, a disk or a socket. The text contains that of errno where there is one.
class IoError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A peer was lost, or a communication took too long. The text names the operation, and the peer where it is known.
class CommError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A communication took longer than its timeout. The peer may be stopped, cut off or slow: nothing is known of it.
class CommTimeout : public CommError {
 public:
  using CommError::CommError;
};

// An invariant of this program is broken; MLBENCH_CHECK throws this. Only the top of main may catch it.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// The stable exit codes of both programs: scripts and the supervisor read them.
enum class ExitCode : int {
  kOk = 0,
  kInternalError = 1,   // a bug of ours, or an exception of a library that nobody translated
  kUserError = 2,       // a flag, a file or a value is wrong
  kCommError = 3,       // a peer was lost or an operation timed out
  kIoError = 4,         // a disk is full, or the system refuses a file or a socket
  kRunFailed = 5,       // the command worked, but a run that it followed failed
  kSupervisorLost = 6,  // a rank saw its supervisor disappear
  kStopped = 130,       // Ctrl-C or a stop request
};

// The exit code for `error`; kInternalError for an exception of unknown type.
ExitCode exit_code_of(const std::exception& error);

// The text for `error_number`, a value of errno: "No space left on device (errno 28)".
std::string errno_text(int error_number);

namespace detail {
[[noreturn]] void check_failed(const char* condition, const char* file, int line, const std::string& message);
}

}  // namespace mlbench

// Checks an invariant of our own code, never what a user gave. `message` is evaluated only when the check fails.
#define MLBENCH_CHECK(condition, message)                                         \
  do {                                                                            \
    if (!(condition)) [[unlikely]]                                                \
      ::mlbench::detail::check_failed(#condition, __FILE__, __LINE__, (message)); \
  } while (false)
