#pragma once

// For tests: ranks that are threads of one process.

#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "mlbench/comm/communicator.h"
#include "mlbench/comm/in_process.h"

namespace mlbench::comm {

inline constexpr std::chrono::milliseconds kGroupPatience{60'000};

// Runs `body` on one thread per rank. An error that a rank throws fails the test.
inline void run_group(std::vector<std::unique_ptr<Communicator>> ranks,
                      const std::function<void(Communicator&)>& body) {
  std::vector<std::thread> threads;
  for (auto& rank : ranks) {
    threads.emplace_back([&body, comm = std::move(rank)] {
      try {
        body(*comm);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << comm->rank() << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}
inline void run_group(int size, const std::function<void(Communicator&)>& body) {
  run_group(make_in_process_group(size, kGroupPatience), body);
}

}  // namespace mlbench::comm
