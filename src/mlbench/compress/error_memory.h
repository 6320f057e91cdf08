#pragma once

// Error feedback (Stich et al. 2018, Karimireddy et al. 2019): what a coder did not send of a gradient is added to the
// next one, so that what was sent and what is kept equal the running sum of the gradients.

#include <ATen/ATen.h>

#include <string>

#include "mlbench/base/flat_layout.h"
#include "mlbench/base/named_state.h"

namespace mlbench::compress {

class ErrorMemory {
 public:
  // `coder` is the name under which the memory stands in a checkpoint. Where `enabled` is false, nothing is kept. What
  // is kept is multiplied by `decay` in every step, before the gradient is added; 1: nothing is lost.
  ErrorMemory(std::string coder, const FlatLayout& layout, bool enabled, double decay = 1);

  bool enabled() const { return values_.defined(); }
  // What is kept: as long as the flat gradient; undefined where nothing is kept.
  const at::Tensor& values() const { return values_; }
  at::Tensor& values() { return values_; }

  // What a coder is to send: the gradient and what is kept. From now on this is what is kept, until the coder takes
  // away what it sends. Where nothing is kept, the gradient itself.
  const at::Tensor& with(const at::Tensor& gradient);

  // "coder/error", and "coder/name" so that no other coder takes it.
  void export_state(NamedState& state) const;
  // Throws UserError where the state is another coder's or of another model.
  void import_state(const NamedState& state);

 private:
  std::string coder_;
  double decay_;
  at::Tensor values_;
};

}  // namespace mlbench::compress
