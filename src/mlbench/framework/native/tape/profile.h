#pragma once

// What each operation of a tape costs: seconds of the first thread in training passes.

#include <chrono>
#include <map>
#include <vector>

#include "mlbench/framework/framework.h"
#include "mlbench/framework/native/tape/tape.h"

namespace mlbench::framework::native_framework {

class Profile {
 public:
  explicit Profile(const Tape& tape) : tape_(tape) {}

  // Counts from zero, or no more.
  void count(bool on);

  // Calls `work`; where it is to be counted, adds the seconds to forward_s or backward_s of the operation.
  template <typename Work>
  void timed(const Pass& pass, int thread, double OperationCost::*cost, const Operation* operation, const Work& work) {
    if (!on_ || !pass.training || thread != 0) return work();
    const auto begin = std::chrono::steady_clock::now();
    work();
    costs_.at(operation).*cost += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  // In the order of the tape, with what is known without running it.
  std::vector<OperationCost> costs() const;

 private:
  const Tape& tape_;
  std::map<const Operation*, OperationCost> costs_;
  bool on_ = false;
};

}  // namespace mlbench::framework::native_framework
