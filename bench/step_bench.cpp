// Training steps of framework/torch on one fixed batch in memory, without the harness around them: for profiling, and
// beside bench/torch_peer.py through bench/ratio.py. Verifies that the steps learn: the loss on the batch must fall.
//   torch_step_bench [--threads N] [--batch N] [--steps N]

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "mlbench/base/random.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/framework/torch/torch_framework.h"
#include "mlbench/models/model.h"
#include "mlbench/optim/factory.h"
#include "mlbench/spec/task.h"

namespace mlbench {
namespace {

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

int run(int threads, int64_t batch_size, int64_t steps) {
  constexpr int64_t kWarmUp = 5;
  const spec::TaskSpec task = spec::find_task("fashion-mnist", "", "", {}).task;
  framework::FrameworkOptions options;
  options.model = models::describe_model(task);
  options.loss = task.loss;
  options.threads = threads;
  const auto framework = framework::torch_framework::make(options);
  framework->initialise();
  const auto comm = std::move(comm::make_in_process_group(1, std::chrono::seconds(30)).front());
  const auto optimizer = optim::make_optimizer(task.optimizer, framework->layout(), *comm);
  optim::FlatTensors tensors{framework->parameters(), framework->gradients()};

  RandomSequence random(1);
  std::vector<float> features(static_cast<size_t>(batch_size * 784));
  for (float& value : features) value = static_cast<float>(random.uniform());
  std::vector<int64_t> labels(static_cast<size_t>(batch_size));
  for (int64_t& label : labels) label = static_cast<int64_t>(random.below(10));
  BatchView batch;
  batch.samples = batch_size;
  batch.sample_shape = {1, 28, 28};
  batch.features = {features.data(), batch_size * 784, DType::kFloat32};
  batch.labels = {labels.data(), batch_size, DType::kInt64};

  framework->forward(batch, framework::Mode::kEvaluate);
  const double first_loss = framework->loss();
  std::vector<double> forward_s, backward_s, update_s, step_s;
  for (int64_t step = 0; step < kWarmUp + steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    framework->begin_step(step);
    framework->forward(batch, framework::Mode::kTrain);
    framework->loss();
    const auto forward_end = std::chrono::steady_clock::now();
    framework->backward(1, false);
    const auto backward_end = std::chrono::steady_clock::now();
    optimizer->aggregate(tensors);
    optimizer->step(tensors, task.optimizer.lr);
    const auto end = std::chrono::steady_clock::now();
    if (step < kWarmUp) continue;
    const auto seconds = [](auto duration) { return std::chrono::duration<double>(duration).count(); };
    forward_s.push_back(seconds(forward_end - begin));
    backward_s.push_back(seconds(backward_end - forward_end));
    update_s.push_back(seconds(end - backward_end));
    step_s.push_back(seconds(end - begin));
  }
  framework->forward(batch, framework::Mode::kEvaluate);
  const double last_loss = framework->loss();
  const double step = median(step_s);
  fmt::print("{}\n", Json{{"threads", threads},
                          {"batch", batch_size},
                          {"steps", steps},
                          {"effective", framework->effective()},
                          {"first_loss", first_loss},
                          {"last_loss", last_loss},
                          {"forward_ms", median(forward_s) * 1e3},
                          {"backward_ms", median(backward_s) * 1e3},
                          {"update_ms", median(update_s) * 1e3},
                          {"median_step_ms", step * 1e3},
                          {"median_samples_per_s", static_cast<double>(batch_size) / step}}
                         .dump());
  if (last_loss < first_loss) return 0;
  fmt::print(stderr, "torch_step_bench: the loss did not fall: {} -> {}\n", first_loss, last_loss);
  return 1;
}

}  // namespace
}  // namespace mlbench

int main(int argc, char** argv) {
  CLI::App app("Training steps of framework/torch on one fixed batch", "torch_step_bench");
  int threads = 2;
  int64_t batch = 100, steps = 60;
  app.add_option("--threads", threads)->check(CLI::PositiveNumber);
  app.add_option("--batch", batch)->check(CLI::PositiveNumber);
  app.add_option("--steps", steps)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return mlbench::run(threads, batch, steps);
}
