#include "mlbench/worker/failure.h"

#include "mlbench/base/errors.h"
#include "mlbench/base/system_error.h"

namespace mlbench::worker {

std::string kind_of(const std::exception& error) {
  if (dynamic_cast<const CommTimeout*>(&error) != nullptr) return "comm_timeout";
  if (dynamic_cast<const CommError*>(&error) != nullptr) return "comm_error";
  if (dynamic_cast<const DiskFull*>(&error) != nullptr) return "disk_full";
  if (dynamic_cast<const IoError*>(&error) != nullptr) return "io_error";
  return "rank_error";
}

std::string message_of(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find("\nException raised from"));
}

}  // namespace mlbench::worker
