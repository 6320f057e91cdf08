// Dion against NumPy as the paper has it (dion_oracle.py, run at test time): 50 steps of a matrix, a convolution and a
// vector from one state, the learning rate changing from step to step.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/optim/factory.h"
#include "tests/golden/oracle.h"

namespace mlbench {
namespace {

constexpr int kDionSteps = 50;
constexpr double kDionMomentum = 0.9, kDionDecay = 0.1;

FlatLayout dion_layout() {
  return {.ranges = {{"wide", {6, 16}, 0, 96, true, TensorUse::kMatrix},
                     {"convolution", {12, 3, 3}, 96, 108, true, TensorUse::kMatrix},
                     {"bias", {7}, 208, 7, true, TensorUse::kVector}},
          .parameter_elements = 224};
}

struct DionProblem {
  std::vector<double> lr;
  Json tensors = Json::array();  // as dion_oracle.py reads them
};

DionProblem dion_problem(const optim::Optimizer& optimizer) {
  DionProblem problem;
  for (int step = 0; step < kDionSteps; ++step) problem.lr.push_back(0.05 / (1 + 0.1 * step));
  NamedState state;
  optimizer.export_state(state);
  uint64_t key = 0;
  for (const FlatRange& range : dion_layout().ranges) {
    Json tensor = {{"rows", 0}, {"start", golden::drawn(range.count, ++key)}, {"gradients", Json::array()}};
    for (int step = 0; step < kDionSteps; ++step) tensor["gradients"].push_back(golden::drawn(range.count, ++key));
    const auto basis = state.tensors.find("optimizer/basis/" + range.name);
    if (basis != state.tensors.end()) {
      std::vector<float> values(basis->second.bytes.size() / sizeof(float));
      std::memcpy(values.data(), basis->second.bytes.data(), basis->second.bytes.size());
      tensor["rows"] = range.shape[0];
      tensor["basis"] = values;
    }
    problem.tensors.push_back(tensor);
  }
  return problem;
}

Json ask_numpy(const DionProblem& problem) {
  return golden::answer_of(
      "dion_oracle.py",
      {{"tensors", problem.tensors}, {"lr", problem.lr}, {"momentum", kDionMomentum}, {"weight_decay", kDionDecay}});
}

double distance_of(const float* values, const std::vector<double>& exact) {
  double squares = 0;
  for (size_t i = 0; i < exact.size(); ++i) squares += std::pow(static_cast<double>(values[i]) - exact[i], 2);
  return std::sqrt(squares);
}

double length_of(const std::vector<double>& exact) {
  return distance_of(std::vector<float>(exact.size()).data(), exact);
}

using DionGolden = golden::OracleTest;

// The fractions give the ranks 1, 3 and 6 where the smaller extent is 6, and 1, 5 and 9 where it is 9.
TEST_F(DionGolden, FiftyStepsEqualThoseOfThePaper) {
  const FlatLayout layout = dion_layout();
  for (const double fraction : {0.1, 0.5, 1.0}) {
    SCOPED_TRACE(fraction);
    const auto comm = std::move(comm::make_in_process_group(1, std::chrono::seconds(20)).front());
    spec::OptimizerSpec spec;
    spec.name = "dion";
    spec.options = {{"momentum", kDionMomentum}, {"weight_decay", kDionDecay}, {"rank_fraction", fraction}};
    const auto optimizer = optim::make_optimizer(spec, layout, *comm);
    const DionProblem problem = dion_problem(*optimizer);
    const Json golden = ask_numpy(problem);
    optim::FlatTensors tensors{at::zeros({layout.parameter_elements}), at::zeros({layout.parameter_elements})};
    const auto put = [&](at::Tensor& flat, const FlatRange& range, const Json& values) {
      flat.narrow(0, range.offset, range.count).copy_(at::tensor(values.get<std::vector<float>>()));
    };
    for (size_t i = 0; i < layout.ranges.size(); ++i) {
      put(tensors.parameters, layout.ranges[i], problem.tensors[i]["start"]);
    }
    std::vector<double> peers_worst(layout.ranges.size(), 0);
    for (size_t step = 0; step < kDionSteps; ++step) {
      for (size_t i = 0; i < layout.ranges.size(); ++i) {
        put(tensors.gradients, layout.ranges[i], problem.tensors[i]["gradients"][step]);
      }
      optimizer->begin({static_cast<int64_t>(step), problem.lr[step]}, tensors);
      optimizer->finish();
      optimizer->step(tensors, problem.lr[step]);
      optimizer->after_update(tensors);
      for (size_t i = 0; i < layout.ranges.size(); ++i) {
        const FlatRange& range = layout.ranges[i];
        const auto exact = golden["float64"][i][step].get<std::vector<double>>();
        const auto peer = golden["float32"][i][step].get<std::vector<float>>();
        // One power iteration amplifies what rounding did in earlier steps, on both sides by some random factor.
        peers_worst[i] = std::max({peers_worst[i], distance_of(peer.data(), exact), 1e-7 * length_of(exact)});
        ASSERT_LE(distance_of(tensors.parameters.const_data_ptr<float>() + range.offset, exact), 10 * peers_worst[i])
            << range.name << ", step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace mlbench
