#pragma once

#include <string>

namespace mlbench {

// Whether an implementation can be used on this machine in this build; what a back-end folder's available() returns.
struct Availability {
  bool available = false;
  std::string reason;  // why not
};

}  // namespace mlbench
