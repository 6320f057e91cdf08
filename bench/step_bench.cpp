// Training steps of a framework on one fixed batch in memory, without the harness around them: for profiling, and
// beside bench/torch_peer.py and bench/text_peer.py through bench/ratio.py. Verifies that the steps learn: the loss on
// the batch must fall.
//   step_bench [--framework NAME] [--precision float32|bf16] [--device cpu|cuda] [--threads N] [--batch N] [--steps N]
//     [--model fashion-mnist|resnet50|vgg16|awd-lstm|gnmt|transformer] [--pixels N] [--size full|small|tiny]
//     [--no-dropout] [--start FILE] [--warm-up N]
// --start FILE: writes the parameters before the first step, from which the peer begins for a comparison of losses.
// --turns: prints a line when warm; then for each line of its input takes --steps steps and prints what they took,
// until the input ends. So two programs take turns (bench/ratio.py --turns).

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "fixed_batches.h"
#include "measured.h"
#include "mlbench/base/build_info.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/heap.h"
#include "mlbench/base/named_state.h"
#include "mlbench/catalog/worker/frameworks.h"
#include "mlbench/checkpoint/checkpoint.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/framework/host_values.h"
#include "mlbench/models/model.h"
#include "mlbench/optim/factory.h"
#include "mlbench/spec/task.h"

namespace mlbench {
namespace {

struct Options {
  std::string framework = "torch", precision = "float32", device = "cpu", model = "fashion-mnist", size = "full", start;
  int threads = 2;
  int64_t batch = 0, steps = 0, warm_up = 5, pixels = 224;
  bool no_dropout = false, turns = false;
};

// A task's model, its fixed batch and learning rate.
struct Model {
  const char* name;
  const char* task;
  int64_t batch;  // samples, columns or sentences
  int64_t steps;
  double lr;
  FixedBatch (*make_batch)(const models::ModelDescription& model, const spec::TaskSpec& task, int64_t batch);
  bool of_imagenet = false;  // the model has the name, and takes images of --pixels, of 1000 classes
  // In which the loss is to fall. Running statistics of batch norms hardly move in a few steps.
  framework::Mode judged = framework::Mode::kEvaluate;
};
constexpr Model kModels[] = {
    {"fashion-mnist", "fashion-mnist", 100, 60, 0.05, random_images},
    {"resnet50", "1a", 16, 10, 0.005, random_images, true, framework::Mode::kTrain},
    {"vgg16", "1a", 16, 6, 0.005, random_images, true},
    {"awd-lstm", "3a", 20, 12, 10, columns_of_text},
    {"gnmt", "4a", 16, 12, 1e-4, pairs_of_sentences},
    {"transformer", "4b", 16, 12, 1e-4, pairs_of_sentences},
};

spec::TaskSpec task_of(const Model& model, const Options& chosen) {
  std::vector<spec::Override> overrides;
  if (chosen.size != "full") overrides.push_back({"model.size", chosen.size});
  spec::TaskSpec task = spec::find_task(model.task, "", "", overrides).task;
  if (model.of_imagenet) {
    task.model = {model.name, Json::object()};
    task.data.sample_shape = {3, chosen.pixels, chosen.pixels};
    task.data.classes = 1000;
  }
  // There is no 16-bit gradient here that could vanish.
  for (const char* key : {"", "_growth", "_interval", "_maximum", "_backoff"}) {
    task.optimizer.options.erase(std::string("loss_scale") + key);
  }
  return task;
}

void write_start(framework::Framework& framework, const std::string& file) {
  const framework::HostValues parameters(framework, framework.parameters());
  std::map<std::string, HostTensor> tensors;
  for (const FlatRange& range : framework.layout().ranges) {
    if (!range.trainable) continue;
    const auto values =
        std::as_bytes(parameters.values().subspan(static_cast<size_t>(range.offset), static_cast<size_t>(range.count)));
    tensors[range.name] = {DType::kFloat32, range.shape, {values.begin(), values.end()}};
  }
  checkpoint::write_safetensors(file, tensors);
}

int run(const Options& chosen) {
  const int64_t warm_up = chosen.turns ? 2 : chosen.warm_up;
  const Model& model = *std::ranges::find(kModels, chosen.model, &Model::name);
  const int64_t batch_size = chosen.batch == 0 ? model.batch : chosen.batch;
  const int64_t steps = chosen.steps == 0 ? model.steps : chosen.steps;
  const spec::TaskSpec task = task_of(model, chosen);
  framework::FrameworkOptions options;
  options.model = models::describe_model(task);
  options.threads = chosen.threads;
  if (auto cores = allowed_cores(); std::ssize(cores) >= chosen.threads) {
    options.cores.assign(cores.begin(), cores.begin() + chosen.threads);
  }
  options.precision = chosen.precision;
  options.device = chosen.device;
  options.dropout = !chosen.no_dropout;
  const auto framework = catalog::make_framework({"step_bench", catalog::frameworks()}, chosen.framework, options);
  framework->initialise();
  if (!chosen.start.empty()) write_start(*framework, chosen.start);
  const auto comm = std::move(comm::make_in_process_group(1, std::chrono::seconds(30)).front());
  const auto optimizer =
      optim::make_optimizer(task.optimizer, framework->layout(), *comm, {.memory = framework->separate_memory()});
  optim::FlatTensors tensors = optim::flat_tensors(framework->parameters(), framework->gradients());
  const FixedBatch batch = model.make_batch(options.model, task, batch_size);

  framework->begin_step(0);
  framework->forward(batch.view, model.judged);
  const double first_loss = framework->loss();
  std::vector<double> forward_s, backward_s, update_s, step_s;
  int64_t step_index = 0;
  const auto take_steps = [&](int64_t count) {
    for (auto* seconds : {&forward_s, &backward_s, &update_s, &step_s}) seconds->clear();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t step = step_index++;
      const auto begin = std::chrono::steady_clock::now();
      optimizer->begin({step}, tensors);
      framework->begin_step(step);
      framework->forward(batch.view, framework::Mode::kTrain);
      framework->loss();
      const auto forward_end = std::chrono::steady_clock::now();
      framework->backward({});
      const auto backward_end = std::chrono::steady_clock::now();
      optimizer->finish();
      optimizer->step(tensors, model.lr);
      framework->synchronize();
      const auto end = std::chrono::steady_clock::now();
      const auto seconds = [](auto duration) { return std::chrono::duration<double>(duration).count(); };
      forward_s.push_back(seconds(forward_end - begin));
      backward_s.push_back(seconds(backward_end - forward_end));
      update_s.push_back(seconds(end - backward_end));
      step_s.push_back(seconds(end - begin));
    }
  };
  // Target tokens count without padding; an image is one.
  const auto tokens_per_s = [&] { return static_cast<double>(batch.view.weight) / median(step_s); };
  take_steps(warm_up);
  if (chosen.turns) {
    take_turns([&] {
      take_steps(steps);
      return Json{{"median_step_ms", median(step_s) * 1e3}, {"median_tokens_per_s", tokens_per_s()}};
    });
  } else {
    take_steps(steps);
  }
  framework->forward(batch.view, model.judged);
  const double last_loss = framework->loss();
  const double step = median(step_s);
  fmt::print("{}\n", Json{{"commit", build_info().git_describe},
                          {"model", model.name},
                          {"size", chosen.size},
                          {"parameters", options.model.parameter_count()},
                          {"threads", chosen.threads},
                          {"batch", batch_size},
                          {"weight", batch.view.weight},
                          {"steps", steps},
                          {"dropout", !chosen.no_dropout},
                          {"effective", framework->effective()},
                          {"first_loss", first_loss},
                          {"last_loss", last_loss},
                          {"forward_ms", median(forward_s) * 1e3},
                          {"backward_ms", median(backward_s) * 1e3},
                          {"update_ms", median(update_s) * 1e3},
                          {"median_step_ms", step * 1e3},
                          {"median_samples_per_s", static_cast<double>(batch_size) / step},
                          {"median_tokens_per_s", tokens_per_s()}}
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
  app.add_option("--device", options.device, "cpu, cuda (torch)");
  app.add_option("--model", options.model)->check(CLI::IsMember(models));
  app.add_option("--pixels", options.pixels, "height and width of images of resnet50 and vgg16")
      ->check(CLI::PositiveNumber);
  app.add_option("--warm-up", options.warm_up, "steps before the clock starts")->check(CLI::PositiveNumber);
  app.add_option("--size", options.size, "of a model of text")->check(CLI::IsMember({"full", "small", "tiny"}));
  app.add_option("--start", options.start, "safetensors file to write the first parameters to");
  app.add_flag("--no-dropout", options.no_dropout);
  app.add_flag("--turns", options.turns, "steps for each line of the input");
  app.add_option("--threads", options.threads)->check(CLI::PositiveNumber);
  app.add_option("--batch", options.batch, "default: the model's")->check(CLI::PositiveNumber);
  app.add_option("--steps", options.steps, "default: the model's")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    return mlbench::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "step_bench: {}\n", error.what());
    return static_cast<int>(mlbench::exit_code_of(error));
  }
}
