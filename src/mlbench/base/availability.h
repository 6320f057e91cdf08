#pragma once

#include <string>

namespace mlbench {

// Whether an implementation can be used on this machine in this build: the result of a back end's available().
struct Availability {
  bool available = false;
  std::string reason;  // why not, where it is not available
};

}  // namespace mlbench
