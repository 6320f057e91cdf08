#include "mlbench/base/errors.h"

#include <cstring>
#include <filesystem>

namespace mlbench {

ExitCode exit_code_of(const std::exception& error) {
  if (dynamic_cast<const UserError*>(&error) != nullptr) return ExitCode::kUserError;
  if (dynamic_cast<const CommError*>(&error) != nullptr) return ExitCode::kCommError;
  if (dynamic_cast<const IoError*>(&error) != nullptr) return ExitCode::kIoError;
  if (dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr) return ExitCode::kIoError;
  return ExitCode::kInternalError;
}

std::string errno_text(int error_number) {
  char buffer[256];
  return std::string(strerror_r(error_number, buffer, sizeof buffer)) + " (errno " + std::to_string(error_number) + ")";
}

namespace detail {
void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  throw InternalError(std::string(file) + ":" + std::to_string(line) + ": check failed: " + condition + ": " + message);
}
}  // namespace detail

}  // namespace mlbench
