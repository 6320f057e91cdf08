#pragma once

// For tests: steps of several ranks with an optimizer of the table, on one parameter.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/test_layout.h"
#include "mlbench/optim/factory.h"
#include "mlbench/optim/test_ranks.h"

namespace mlbench::optim {

inline void expect_refusal(const spec::OptimizerSpec& spec, const std::string& text) {
  const auto comm = one_rank();
  EXPECT_THAT([&] { make_optimizer(spec, layout_with_buffer({1}), *comm); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr(text)));
}

// A step with this gradient, which is weighted already. Returns the bytes.
inline uint64_t step_with(Optimizer& optimizer, FlatTensors& tensors, const at::Tensor& gradient,
                          const compress::StepContext& step) {
  optimizer.begin(step, tensors);
  tensors.gradients.copy_(gradient);
  const uint64_t bytes = optimizer.finish();
  optimizer.step(tensors, step.lr);
  return bytes + optimizer.after_update(tensors);
}

// One parameter, from 0; rank r has the gradient r + 1 (as the mean of its own samples) in each step, and the rate 1.
// What each rank has behind each step.
inline std::vector<std::vector<float>> weights_behind_steps(const spec::OptimizerSpec& spec, int size, int steps,
                                                            const std::vector<double>& shares = {}) {
  std::vector<std::vector<float>> weights(static_cast<size_t>(size));
  const FlatLayout layout = layout_with_buffer({1});
  on_ranks(size, [&](int rank, comm::Communicator& comm) {
    const auto optimizer = make_optimizer(spec, layout, comm);
    FlatTensors tensors{at::zeros({layout.parameter_elements}), at::zeros({layout.parameter_elements})};
    const double share = shares.empty() ? 1.0 / size : shares[static_cast<size_t>(rank)];
    for (int step = 0; step < steps; ++step) {
      tensors.gradients.zero_();
      tensors.gradients[0] = share * (rank + 1);
      step_with(*optimizer, tensors, tensors.gradients, {step, 1, share});
      weights[static_cast<size_t>(rank)].push_back(tensors.parameters[0].item<float>());
    }
  });
  return weights;
}

}  // namespace mlbench::optim
