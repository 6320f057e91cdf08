// Training steps of a framework on one fixed batch in memory, without the harness around them: for profiling, and
// beside bench/torch_peer.py through bench/ratio.py. Verifies that the steps learn: the loss on the batch must fall.
//   step_bench [--framework NAME] [--precision float32|bf16] [--model fashion-mnist|lstm|attention] [--threads N]
//     [--batch N] [--steps N]

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/heap.h"
#include "mlbench/base/random.h"
#include "mlbench/base/shape.h"
#include "mlbench/catalog/worker/catalog.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/framework/sample_batch_test.h"
#include "mlbench/models/chain.h"
#include "mlbench/models/model.h"
#include "mlbench/optim/factory.h"
#include "mlbench/spec/task.h"

namespace mlbench {
namespace {

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

struct Model {
  const char* name;
  int64_t batch;
  double lr;
  models::ModelDescription (*make)();
};
constexpr Model kModels[] = {
    {"fashion-mnist", 100, 0.05,
     [] { return models::describe_model(spec::find_task("fashion-mnist", "", "", {}).task); }},
    // The first layer of AWD-LSTM, a self-attention of Transformer big.
    {"lstm", 20, 0.001,
     [] {
       return models::Chain({70, 400}).lstm("rnn", 1150).flatten().linear("fc", 10).finish();
     }},
    {"attention", 16, 0.001,
     [] {
       return models::Chain({50, 1024}).attention("att", 16, true).flatten().linear("fc", 10).finish();
     }},
};

struct Options {
  std::string framework = "torch", precision = "float32", model = "fashion-mnist";
  int threads = 2;
  int64_t batch = 0, steps = 60;
};

int run(const Options& chosen) {
  constexpr int64_t kWarmUp = 5;
  const Model& model = *std::ranges::find(kModels, chosen.model, &Model::name);
  const int64_t batch_size = chosen.batch == 0 ? model.batch : chosen.batch;
  const spec::TaskSpec task = spec::find_task("fashion-mnist", "", "", {}).task;
  framework::FrameworkOptions options;
  options.model = model.make();
  options.threads = chosen.threads;
  if (auto cores = allowed_cores(); std::ssize(cores) >= chosen.threads) {
    options.cores.assign(cores.begin(), cores.begin() + chosen.threads);
  }
  options.precision = chosen.precision;
  const auto framework = catalog::make_framework(chosen.framework, options);
  framework->initialise();
  const auto comm = std::move(comm::make_in_process_group(1, std::chrono::seconds(30)).front());
  const auto optimizer = optim::make_optimizer(task.optimizer, framework->layout(), *comm);
  optim::FlatTensors tensors{framework->parameters(), framework->gradients()};

  RandomSequence random(1);
  std::vector<float> features(static_cast<size_t>(batch_size * volume_of(options.model.input_shape)));
  for (float& value : features) value = static_cast<float>(random.uniform());
  std::vector<int64_t> labels(static_cast<size_t>(batch_size));
  for (int64_t& label : labels) label = static_cast<int64_t>(random.below(10));
  const BatchView batch =
      framework::samples_view(features.data(), labels.data(), options.model.input_shape, batch_size);

  framework->forward(batch, framework::Mode::kEvaluate);
  const double first_loss = framework->loss();
  std::vector<double> forward_s, backward_s, update_s, step_s;
  for (int64_t step = 0; step < kWarmUp + chosen.steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    optimizer->begin(step, tensors);
    framework->begin_step(step);
    framework->forward(batch, framework::Mode::kTrain);
    framework->loss();
    const auto forward_end = std::chrono::steady_clock::now();
    framework->backward({});
    const auto backward_end = std::chrono::steady_clock::now();
    optimizer->finish();
    optimizer->step(tensors, model.lr);
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
  fmt::print("{}\n", Json{{"model", model.name},
                          {"threads", chosen.threads},
                          {"batch", batch_size},
                          {"steps", chosen.steps},
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
  fmt::print(stderr, "step_bench: the loss did not fall: {} -> {}\n", first_loss, last_loss);
  return 1;
}

}  // namespace
}  // namespace mlbench

int main(int argc, char** argv) {
  mlbench::keep_freed_memory();
  CLI::App app("Training steps of a framework on one fixed batch", "step_bench");
  mlbench::Options options;
  std::vector<std::string> models;
  for (const mlbench::Model& one : mlbench::kModels) models.emplace_back(one.name);
  app.add_option("--framework", options.framework);
  app.add_option("--precision", options.precision, "float32, bf16");
  app.add_option("--model", options.model)->check(CLI::IsMember(models));
  app.add_option("--threads", options.threads)->check(CLI::PositiveNumber);
  app.add_option("--batch", options.batch, "default: the model's")->check(CLI::PositiveNumber);
  app.add_option("--steps", options.steps)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    return mlbench::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "step_bench: {}\n", error.what());
    return static_cast<int>(mlbench::exit_code_of(error));
  }
}
