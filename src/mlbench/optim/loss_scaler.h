#pragma once

// Dynamic loss scaling (Micikevicius et al. 2018, section 3.2), as mixed precision needs it. The loss, and with it the
// gradient, is multiplied by a scale, so that small gradients do not vanish in 16 bits; the update divides by the
// scale. A step whose gradient is not finite is skipped and lowers the scale. After `interval` steps in a row that were
// not skipped, the scale grows.
//
// Scales are powers of two: multiplying and dividing by one loses nothing. All ranks see the same aggregated gradient
// (optimizer.h), so that they agree on each skip without a message.

#include <cstdint>

#include "mlbench/base/named_state.h"
#include "mlbench/base/options.h"

namespace mlbench::optim {

struct LossScaleOptions {
  double initial = 0;  // 0: the loss is not scaled
  double growth = 2;   // factor
  int64_t interval = 2000;
  double maximum = 16777216;
  double backoff = 0.5;  // factor
};

// Reads loss_scale (initial), loss_scale_growth, loss_scale_interval, loss_scale_maximum and loss_scale_backoff.
LossScaleOptions read_loss_scale(OptionReader& options);

class LossScaler {
 public:
  // Throws UserError for a number that is no power of two, or out of its range.
  explicit LossScaler(const LossScaleOptions& options);

  // The scale of the next step.
  double scale() const { return scale_; }
  // A step with this scale has ended. If its gradient was not `finite`, it counts as skipped. Throws UserError when the
  // scale has fallen to 1e-4, as it does when the weights themselves are no longer finite.
  void update(bool finite);
  int64_t skipped_steps() const { return skipped_steps_; }

  // The keys are "optimizer/loss_scale", "optimizer/loss_scale_good_steps" and "optimizer/skipped_steps".
  void export_state(NamedState& state) const;
  void import_state(const NamedState& state);

 private:
  LossScaleOptions options_;
  double scale_;
  int64_t good_steps_ = 0;  // since the scale changed, or since a step was skipped
  int64_t skipped_steps_ = 0;
};

}  // namespace mlbench::optim
