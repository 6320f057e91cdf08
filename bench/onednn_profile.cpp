// Where a training step of framework/onednn spends its time, operation by operation, on one fixed batch in memory: the
// first thread's milliseconds per step, its GFLOP/s, and which implementation oneDNN took. Verifies that the steps
// learn: the loss on the batch must fall. The last line is JSON. The clock is read around every chunk of every
// operation, which costs about 1 %.
//   onednn_profile [--task NAME] [--threads N] [--batch N] [--steps N] [--precision float32|bf16]

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "mlbench/base/random.h"
#include "mlbench/framework/onednn/network.h"
#include "mlbench/models/model.h"
#include "mlbench/spec/task.h"

namespace {

using namespace mlbench;
using framework::onednn_framework::Network;
using framework::onednn_framework::NetworkOptions;
using framework::onednn_framework::OperationCost;

// Mean cross-entropy and its gradient.
double loss_of(std::span<const float> logits, const std::vector<int64_t>& labels, std::vector<float>& gradient) {
  const size_t outputs = logits.size() / labels.size();
  gradient.resize(logits.size());
  double total = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto row = logits.subspan(i * outputs, outputs);
    const double largest = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const float logit : row) sum += std::exp(logit - largest);
    const auto label = static_cast<size_t>(labels[i]);
    for (size_t j = 0; j < outputs; ++j) {
      gradient[i * outputs + j] = static_cast<float>((std::exp(row[j] - largest) / sum - (j == label ? 1 : 0)) /
                                                     static_cast<double>(labels.size()));
    }
    total += std::log(sum) + largest - row[label];
  }
  return total / static_cast<double>(labels.size());
}

struct Options {
  std::string task = "1a", precision = "float32";
  int threads = 2;
  int64_t samples = 128, steps = 20;
};

int run(const Options& o) {
  constexpr int64_t kWarmUp = 3;
  const spec::TaskSpec task = spec::find_task(o.task, "", "", {}).task;
  NetworkOptions options;
  options.model = models::describe_model(task);
  options.layout = models::lay_out(options.model);
  options.threads = o.threads;
  options.dropout = false;
  std::vector<float> parameters(static_cast<size_t>(options.layout.parameter_elements)), gradients(parameters.size());
  std::vector<float> buffers(static_cast<size_t>(options.layout.buffer_elements));
  options.parameters = parameters.data();
  options.gradients = gradients.data();
  options.buffers = buffers.data();
  models::initialise(options.model, options.layout, 42, parameters, buffers);
  const auto network = o.precision == "bf16" ? make_bfloat16_network(options)
                                             : framework::onednn_framework::make_float32_network(options);

  RandomSequence random(1);
  BatchView batch;
  batch.samples = o.samples;
  batch.sample_shape = task.data.sample_shape;
  std::vector<float> features(static_cast<size_t>(o.samples * batch.sample_volume()));
  for (float& value : features) value = static_cast<float>(random.normal());
  std::vector<int64_t> labels(static_cast<size_t>(o.samples));
  for (int64_t& label : labels)
    label = static_cast<int64_t>(random.below(static_cast<uint64_t>(options.model.outputs)));
  batch.features = {features.data(), static_cast<int64_t>(features.size()), DType::kFloat32};
  batch.labels = {labels.data(), o.samples, DType::kInt64};

  std::vector<double> seconds;
  std::vector<float> output_gradient;
  double first_loss = 0, last_loss = 0;
  for (int64_t step = 0; step < kWarmUp + o.steps; ++step) {
    if (step == kWarmUp) network->profile(true);
    const auto begin = std::chrono::steady_clock::now();
    network->forward(batch, true, step);
    last_loss = loss_of(network->outputs(), labels, output_gradient);
    network->backward(output_gradient, false, {});
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (step == 0) first_loss = last_loss;
    if (step >= kWarmUp) seconds.push_back(took);
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i] -= 0.02F * gradients[i];
  }

  const auto steps = static_cast<double>(o.steps);
  // This thread's share of the samples.
  const double share = static_cast<double>((o.samples + o.threads - 1) / o.threads);
  double forward = 0, backward = 0;
  fmt::print("{:32} {:>11} {:>9} {:>11} {:>9} {:>9}  {}\n", "operation", "forward ms", "GFLOP/s", "backward ms",
             "GFLOP/s", "MB", "implementation");
  for (const OperationCost& cost : network->costs()) {
    const auto rate = [&](double flops, double s) {
      return flops > 0 && s > 0 ? fmt::format("{:.0f}", flops * share * steps / s * 1e-9) : std::string("-");
    };
    fmt::print("{:32} {:>11.3f} {:>9} {:>11.3f} {:>9} {:>9.2f}  {}\n", cost.name, cost.forward_s / steps * 1e3,
               rate(cost.forward_flops, cost.forward_s), cost.backward_s / steps * 1e3,
               rate(cost.backward_flops, cost.backward_s), static_cast<double>(cost.bytes) * share * 1e-6,
               cost.explanation);
    forward += cost.forward_s / steps;
    backward += cost.backward_s / steps;
  }
  std::ranges::sort(seconds);
  const double median = seconds[seconds.size() / 2];
  fmt::print("{}\n", Json{{"task", o.task},
                          {"precision", o.precision},
                          {"threads", o.threads},
                          {"batch", o.samples},
                          {"layout", network->layout()},
                          {"instruction_set", network->instruction_set()},
                          {"kernels", network->fused()},
                          {"forward_ms", forward * 1e3},
                          {"backward_ms", backward * 1e3},
                          {"median_step_ms", median * 1e3},
                          {"best_step_ms", seconds[0] * 1e3},
                          {"samples_per_s", static_cast<double>(o.samples) / median},
                          {"first_loss", first_loss},
                          {"last_loss", last_loss}}
                         .dump());
  if (last_loss < first_loss) return 0;
  fmt::print(stderr, "onednn_profile: the loss did not fall: {} -> {}\n", first_loss, last_loss);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Where a training step of framework/onednn spends its time", "onednn_profile");
  Options options;
  app.add_option("--task", options.task);
  app.add_option("--precision", options.precision)->check(CLI::IsMember({"float32", "bf16"}));
  app.add_option("--threads", options.threads)->check(CLI::PositiveNumber);
  app.add_option("--batch", options.samples)->check(CLI::PositiveNumber);
  app.add_option("--steps", options.steps)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "onednn_profile: {}\n", error.what());
    return 1;
  }
}
