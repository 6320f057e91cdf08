#pragma once

// The outer optimizer of ranks that step by themselves between two averages (SlowMo, Wang et al. 2020; DiLoCo,
// Douillard et al. 2023). With x the parameters that all ranks had behind the last average, d the mean over ranks of
// what their own parameters differ from x, and b = 0 at first:
//   b <- momentum * b + d
//   x <- x - lr * b, or with nesterov x - lr * (d + momentum * b)
// By default lr is 1 and momentum 0: x becomes the mean of the ranks' parameters.

#include <ATen/ATen.h>

#include "mlbench/optim/exchange/exchange.h"

namespace mlbench::optim {

struct OuterOptions {
  double lr = 1;
  double momentum = 0;
  bool nesterov = false;
};

// Reads the options "outer_lr", "outer_momentum" and "outer_nesterov".
OuterOptions read_outer_options(OptionReader& options);

class OuterOptimizer {
 public:
  // Throws UserError for nesterov without momentum. `memory` is where the parameters are; null: in the host's.
  OuterOptimizer(const OuterOptions& options, FlatLayout layout, SeparateMemory* memory);

  // Takes the parameters, which are the same on all ranks, as x in the first call, and does nothing in later ones.
  void begin(const at::Tensor& parameters);
  // x: as long as the flat parameters. Undefined before begin().
  const at::Tensor& anchor() const { return anchor_; }
  // Steps on a part of x by its d, whose memory is used.
  void step(const FlatPart& part, at::Tensor difference);

  // "exchange/anchor/<parameter>" and, with momentum, "exchange/outer_momentum/<parameter>"; nothing before begin().
  void export_state(NamedState& state) const;
  // Takes what was exported behind begin().
  void import_state(const NamedState& state);

 private:
  OuterOptions options_;
  FlatLayout layout_;
  SeparateMemory* memory_;
  at::Tensor anchor_;    // x
  at::Tensor momentum_;  // b; undefined before begin(), and without momentum
};

}  // namespace mlbench::optim
