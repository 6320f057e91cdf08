#include "mlbench/optim/loss_scaler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "mlbench/base/errors.h"

namespace mlbench::optim {

namespace {

const std::string kLossScale = "optimizer/loss_scale";
const std::string kGoodSteps = "optimizer/loss_scale_good_steps";
const std::string kSkippedSteps = "optimizer/skipped_steps";

constexpr double kLeastScale = 1e-4;
constexpr Range kScaleRange{0, 1e30}, kGrowthRange{1, 1024}, kIntervalRange{1, 1e9}, kBackoffRange{0, 1};

void check_power_of_two(const char* option, double value) {
  int exponent = 0;
  if (std::frexp(value, &exponent) == 0.5) return;
  throw UserError(fmt::format("{} is {}; expected a power of two, so that scaling loses nothing", option, value));
}

}  // namespace

LossScaleOptions read_loss_scale(OptionReader& options) {
  LossScaleOptions read;
  read.initial = options.number("loss_scale", read.initial, kScaleRange);
  read.growth = options.number("loss_scale_growth", read.growth, kGrowthRange);
  read.interval = options.integer("loss_scale_interval", read.interval, kIntervalRange);
  read.maximum = options.number("loss_scale_maximum", read.maximum, kScaleRange);
  read.backoff = options.number("loss_scale_backoff", read.backoff, kBackoffRange);
  return read;
}

LossScaler::LossScaler(const LossScaleOptions& options) : options_(options), scale_(options.initial) {
  check_power_of_two("loss_scale", options.initial);
  check_power_of_two("loss_scale_growth", options.growth);
  check_power_of_two("loss_scale_maximum", options.maximum);
  check_power_of_two("loss_scale_backoff", options.backoff);
  if (options.backoff == 1) throw UserError("loss_scale_backoff is 1; expected less: an overflow lowers the scale");
  if (options.initial <= kLeastScale || options.initial > options.maximum) {
    throw UserError(fmt::format("loss_scale is {}; expected more than {} and at most loss_scale_maximum, {}",
                                options.initial, kLeastScale, options.maximum));
  }
}

void LossScaler::update(bool finite) {
  if (finite) {
    if (++good_steps_ < options_.interval) return;
    scale_ = std::min(scale_ * options_.growth, options_.maximum);
  } else {
    ++skipped_steps_;
    scale_ *= options_.backoff;
    if (scale_ <= kLeastScale) {
      throw UserError(
          fmt::format("the loss scale fell to {} after {} skipped steps: training diverges; try a smaller optimizer.lr",
                      scale_, skipped_steps_));
    }
  }
  good_steps_ = 0;
}

void LossScaler::export_state(NamedState& state) const {
  state.scalars[kLossScale] = scale_;
  state.scalars[kGoodSteps] = good_steps_;
  state.scalars[kSkippedSteps] = skipped_steps_;
}

void LossScaler::import_state(const NamedState& state) {
  scale_ = state.real(kLossScale);
  good_steps_ = state.integer(kGoodSteps);
  skipped_steps_ = state.integer(kSkippedSteps);
}

}  // namespace mlbench::optim
