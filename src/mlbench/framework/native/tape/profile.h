#pragma once

// Measures what each operation of a tape costs: seconds of the first thread in training passes.

#include <chrono>
#include <functional>
#include <map>
#include <vector>

#include "mlbench/framework/framework.h"
#include "mlbench/framework/native/tape/tape.h"

namespace mlbench::framework::native_framework {

// The seconds of the fastest of twenty calls.
double fastest_call_s(const std::function<void()>& call);

class Profile {
 public:
  explicit Profile(const Tape& tape) : tape_(tape) {}

  // Starts to count from zero, or stops.
  void count(bool on);

  // Calls `work`. Where costs are counted, adds the seconds to the member `cost` (forward_s or backward_s) of the
  // operation.
  template <typename Work>
  void timed(const Pass& pass, int thread, double OperationCost::*cost, const Operation* operation, const Work& work) {
    if (!on_ || !pass.training || thread != 0) return work();
    const auto begin = std::chrono::steady_clock::now();
    work();
    costs_.at(operation).*cost += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  // The costs in the order of the tape, with the figures that are known without a run. Calls Operation::measure_floor,
  // which runs kernels.
  std::vector<OperationCost> costs() const;

 private:
  const Tape& tape_;
  std::map<const Operation*, OperationCost> costs_;
  bool on_ = false;
};

}  // namespace mlbench::framework::native_framework
