#pragma once

// Averaged SGD with a trigger (NT-ASGD, Merity et al. 2018, section 4; Polyak & Juditsky 1992). Once the validation
// loss has had no new best for `patience` evaluations, the weights after every further update are averaged. The average
// is evaluated and stored; training goes on with the weights themselves, at the same rate. The formula is that of
// PyTorch's torch.optim.ASGD with t0 = 0 and lambd = 0, where p_n is the weights after the n-th update since then:
//   average = p_1, then p_2 (the first one drops out), then average + (p_n - average) / (n - 1)
//
// To evaluate or store the average, swap() puts it into the parameters and keeps the weights; a second swap() puts
// these back. State is exported and imported while the average is swapped in, since the average is the model's.

#include <ATen/ATen.h>

#include <cstdint>
#include <limits>

#include "mlbench/base/flat_layout.h"
#include "mlbench/base/named_state.h"
#include "mlbench/base/separate_memory.h"

namespace mlbench::optim {

class WeightAverage {
 public:
  // `patience` must be at least 1. The parameters are in `memory`; null: in the host's.
  WeightAverage(int64_t patience, FlatLayout layout, SeparateMemory* memory = nullptr);

  // Tells the validation loss of an evaluation, the same on every rank. A loss smaller than all before is a new best.
  void on_evaluation(double loss);
  // Whether updates are averaged.
  bool begun() const { return begun_; }
  // Takes the parameters after an update. Before the trigger, nothing happens.
  void add(const at::Tensor& parameters);
  // Before the first add() after the trigger, nothing happens.
  void swap(at::Tensor& parameters);

  // The keys are "optimizer/averaging_best", "optimizer/averaging_bad", "optimizer/averaging",
  // "optimizer/averaged_steps" and, from the first averaged step on, "optimizer/weights/<parameter>": the weights with
  // which training goes on.
  void export_state(NamedState& state) const;
  void import_state(const NamedState& state);

 private:
  int64_t patience_;
  FlatLayout layout_;
  SeparateMemory* memory_;
  double best_ = std::numeric_limits<double>::infinity();
  int64_t bad_ = 0;  // evaluations since the best one
  bool begun_ = false;
  int64_t steps_ = 0;   // averaged steps
  at::Tensor average_;  // the weights, while swapped; undefined before the first step
  bool swapped_ = false;
};

}  // namespace mlbench::optim
