#include "mlbench/train/profile_report.h"

#include <algorithm>
#include <cmath>

namespace mlbench::train {

namespace {

constexpr int64_t kProfileWarmUp = 3;  // steps

}  // namespace

void ProfileReport::begin_step(int64_t samples) {
  if (!timed() || ++steps_seen_ <= kProfileWarmUp) return;
  if (steps_ == 0) c_.framework.profile(true);
  ++steps_;
  samples_ += samples;
}

std::optional<Json> ProfileReport::operations() const {
  if (c_.run.profile == "off" || c_.comm.rank() != 0 || (timed() && steps_ == 0)) return std::nullopt;
  const auto steps = static_cast<double>(std::max<int64_t>(steps_, 1));
  const double samples = static_cast<double>(samples_) / steps / static_cast<double>(c_.run.threads_per_worker);
  const auto known = [&](double value) { return timed() && value > 0 ? Json(value) : Json(nullptr); };
  Json operations = Json::array();
  for (const framework::OperationCost& cost : c_.framework.costs()) {
    operations.push_back({{"name", cost.name},
                          {"implementation", cost.implementation},
                          {"forward_s", known(cost.forward_s / steps)},
                          {"backward_s", known(cost.backward_s / steps)},
                          {"forward_floor_s", known(cost.forward_floor_s * samples)},
                          {"backward_floor_s", known(cost.backward_floor_s * samples)},
                          {"forward_flops", known(cost.forward_flops * samples)},
                          {"backward_flops", known(cost.backward_flops * samples)},
                          {"bytes", timed() ? Json(std::llround(static_cast<double>(cost.bytes) * samples)) : Json()}});
  }
  return operations;
}

}  // namespace mlbench::train
