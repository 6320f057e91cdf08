#pragma once

// What the hosts of each executor have for ranks, asked of its engine at most twice a minute.

#include <chrono>
#include <map>
#include <mutex>
#include <string>

#include "mlbench/exec/executor.h"

namespace mlbench::cli {

// Thread-safe. Who asks while another waits for an engine's answer, waits for the same.
class ExecutorOffers {
 public:
  // Empty where the executor is not available here, or its engine does not say.
  exec::HostsOffer of(const std::string& executor);

 private:
  struct Known {
    std::chrono::steady_clock::time_point since;
    exec::HostsOffer offer;
  };
  std::mutex mutex_;
  std::map<std::string, Known> known_;
};

// Rows of list_executors() with "gpus": how many their hosts have; null where nobody knows that before a run.
void add_gpus(Json& executors, ExecutorOffers& offers);

}  // namespace mlbench::cli
