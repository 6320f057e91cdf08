#pragma once

// What the ranks tell each other between measurements, through the communicator that is being measured.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mlbench/collectives/memory.h"
#include "mlbench/comm/communicator.h"

namespace mlbench::collectives {

class Control {
 public:
  // Collective.
  Control(comm::Communicator& comm, Memory& memory);

  // Returns what rank 0 says, on all ranks.
  bool decided_by_rank_0(bool mine);
  // Returns, on rank 0, all ranks' values as [rank][i]; each rank gives the same number of values. Elsewhere empty.
  std::vector<std::vector<double>> gathered(std::span<const double> values);
  // Returns, on rank 0, the name of every rank's host, at most kMostHostName bytes of each. Elsewhere empty.
  std::vector<std::string> gathered_hosts();
  static constexpr size_t kMostHostName = 255;

  // Only the two ranks call this. Returns the sender's value on both.
  int64_t told(int64_t mine, int sender, int receiver);

 private:
  std::byte* staged(size_t bytes);

  comm::Communicator& comm_;
  Memory& memory_;
  std::shared_ptr<std::byte> stage_;
  size_t stage_bytes_ = 0;
};

}  // namespace mlbench::collectives
