#pragma once

// Averaged SGD with a trigger (NT-ASGD, Merity et al. 2018, section 4; Polyak & Juditsky 1992): once the validation
// loss has had no new best for `patience` evaluations, the weights behind every further update are averaged. The
// average is what is evaluated and stored; training goes on with the weights themselves, at the same rate. As
// PyTorch's torch.optim.ASGD with t0 = 0 and lambd = 0 has it, with p_n the weights behind the n-th update since:
//   average = p_1, then p_2 (the first one drops out), then average + (p_n - average) / (n - 1)
//
// Where the average is evaluated or stored, swap() puts it into the parameters and keeps the weights meanwhile; a
// second swap() puts them back. State is exported and imported while it is swapped, the average being the model's.

#include <ATen/ATen.h>

#include <cstdint>
#include <limits>

#include "mlbench/base/flat_layout.h"
#include "mlbench/base/named_state.h"
#include "mlbench/base/separate_memory.h"

namespace mlbench::optim {

class WeightAverage {
 public:
  // `patience`: at least 1. The parameters are in `memory`; null: in the host's.
  WeightAverage(int64_t patience, FlatLayout layout, SeparateMemory* memory = nullptr);

  // The validation loss of an evaluation, the same on every rank. Only a smaller one than all before is a new best.
  void on_evaluation(double loss);
  // Whether updates are averaged.
  bool begun() const { return begun_; }
  // The parameters behind an update; before the trigger nothing happens.
  void add(const at::Tensor& parameters);
  // Nothing happens before the first add() behind the trigger.
  void swap(at::Tensor& parameters);

  // "optimizer/averaging_best", "optimizer/averaging_bad", "optimizer/averaging", "optimizer/averaged_steps" and, from
  // the first averaged step on, "optimizer/weights/<parameter>": those that training goes on with.
  void export_state(NamedState& state) const;
  void import_state(const NamedState& state);

 private:
  int64_t patience_;
  FlatLayout layout_;
  SeparateMemory* memory_;
  double best_ = std::numeric_limits<double>::infinity();
  int64_t bad_ = 0;  // evaluations since the best one
  bool begun_ = false;
  int64_t steps_ = 0;   // averaged
  at::Tensor average_;  // while swapped the weights; undefined before the first step
  bool swapped_ = false;
};

}  // namespace mlbench::optim
