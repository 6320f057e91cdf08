#include "mlbench/optim/weight_average.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/optim/rules/flat_state.h"

namespace mlbench::optim {

namespace {

const std::string kBest = "optimizer/averaging_best";
const std::string kBad = "optimizer/averaging_bad";
const std::string kAveraging = "optimizer/averaging";
const std::string kAveragedSteps = "optimizer/averaged_steps";
const std::string kWeights = "optimizer/weights";

constexpr int64_t kAverageGrain = 32768;

}  // namespace

WeightAverage::WeightAverage(int64_t patience, FlatLayout layout) : patience_(patience), layout_(std::move(layout)) {
  MLBENCH_CHECK(patience >= 1, "a trigger without patience");
}

void WeightAverage::on_evaluation(double loss) {
  if (begun_) return;
  if (loss < best_) {
    best_ = loss;
    bad_ = 0;
  } else if (++bad_ >= patience_) {
    begun_ = true;
  }
}

void WeightAverage::add(const at::Tensor& parameters) {
  if (!begun_) return;
  MLBENCH_CHECK(!swapped_, "an update of averaged weights");
  ++steps_;
  if (!average_.defined()) average_ = at::empty_like(parameters);
  if (steps_ <= 2) {
    average_.copy_(parameters);
    return;
  }
  const float share = 1.0F / static_cast<float>(steps_ - 1);
  const float* from = parameters.const_data_ptr<float>();
  float* to = average_.data_ptr<float>();
  at::parallel_for(0, parameters.numel(), kAverageGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] += (from[i] - to[i]) * share;
  });
}

void WeightAverage::swap(at::Tensor& parameters) {
  if (steps_ == 0) return;
  float* one = parameters.data_ptr<float>();
  float* other = average_.data_ptr<float>();
  at::parallel_for(0, parameters.numel(), kAverageGrain,
                   [&](int64_t begin, int64_t end) { std::swap_ranges(one + begin, one + end, other + begin); });
  swapped_ = !swapped_;
}

void WeightAverage::export_state(NamedState& state) const {
  MLBENCH_CHECK(swapped_ == (steps_ > 0), "the model that is stored is not the average");
  state.scalars[kBest] = best_;
  state.scalars[kBad] = bad_;
  state.scalars[kAveraging] = static_cast<int64_t>(begun_);
  state.scalars[kAveragedSteps] = steps_;
  if (steps_ > 0) export_flat(kWeights, layout_, average_, state);
}

void WeightAverage::import_state(const NamedState& state) {
  best_ = state.real(kBest);
  bad_ = state.integer(kBad);
  begun_ = state.integer(kAveraging) != 0;
  steps_ = state.integer(kAveragedSteps);
  swapped_ = steps_ > 0;
  if (steps_ == 0) return;
  average_ = at::zeros({layout_.parameter_elements}, at::kFloat);
  import_flat(kWeights, layout_, state, average_);
}

}  // namespace mlbench::optim
