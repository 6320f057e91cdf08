#include "mlbench/optim/weight_average.h"

#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/optim/rules/arithmetic.h"
#include "mlbench/optim/rules/flat_state.h"

namespace mlbench::optim {

namespace {

const std::string kBest = "optimizer/averaging_best";
const std::string kBad = "optimizer/averaging_bad";
const std::string kAveraging = "optimizer/averaging";
const std::string kAveragedSteps = "optimizer/averaged_steps";
const std::string kWeights = "optimizer/weights";

}  // namespace

WeightAverage::WeightAverage(int64_t patience, FlatLayout layout, SeparateMemory* memory)
    : patience_(patience), layout_(std::move(layout)), memory_(memory) {
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
  arithmetic_for(memory_).blend(average_, parameters, 1.0F / static_cast<float>(steps_ - 1));
}

void WeightAverage::swap(at::Tensor& parameters) {
  if (steps_ == 0) return;
  arithmetic_for(memory_).swap(parameters, average_);
  swapped_ = !swapped_;
}

void WeightAverage::export_state(NamedState& state) const {
  MLBENCH_CHECK(swapped_ == (steps_ > 0), "the model that is stored is not the average");
  state.scalars[kBest] = best_;
  state.scalars[kBad] = bad_;
  state.scalars[kAveraging] = static_cast<int64_t>(begun_);
  state.scalars[kAveragedSteps] = steps_;
  if (steps_ > 0) export_flat(kWeights, layout_, average_, memory_, state);
}

void WeightAverage::import_state(const NamedState& state) {
  best_ = state.real(kBest);
  bad_ = state.integer(kBad);
  begun_ = state.integer(kAveraging) != 0;
  steps_ = state.integer(kAveragedSteps);
  swapped_ = steps_ > 0;
  if (steps_ == 0) return;
  average_ = at::zeros({layout_.parameter_elements}, options_beside(memory_));
  import_flat(kWeights, layout_, state, memory_, average_);
}

}  // namespace mlbench::optim
