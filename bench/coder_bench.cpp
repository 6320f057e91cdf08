// What coding a gradient costs: encode and absorb of one coder, on the layout of ResNet-50 (25.6 million weights), of a
// task's model, or on one vector. The payloads of k ranks are copies of this one. Prints JSON: the medians, the bytes
// that are sent, and the time in which as many threads copy the gradient, which is the floor of whatever reads and
// writes it once. Beside them stands how far the first step is from the gradient, which tells a coder of the same kind
// from another one.
//
//   coder_bench --coder NAME [--set OPTION=VALUE]... [--task TASK | --elements N] [--ranks K] [--threads T] [--steps N]
//     [--turns]
//
// --turns: prints a line when warm; then for each line of its input takes --steps steps and prints their medians, until
// the input ends. So two programs take turns (bench/coder_pairs.py).

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "measured.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/heap.h"
#include "mlbench/base/input.h"
#include "mlbench/base/json.h"
#include "mlbench/base/random.h"
#include "mlbench/compress/coder.h"
#include "mlbench/models/model.h"
#include "mlbench/spec/task.h"

namespace mlbench {
namespace {

constexpr int64_t kAlignment = 16;  // elements
constexpr int kWarmUp = 2;          // steps before the first turn

class Layout {
 public:
  void add(std::vector<int64_t> shape) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    const TensorUse use = shape.size() > 1 ? TensorUse::kMatrix : TensorUse::kVector;
    layout_.ranges.push_back(
        {fmt::format("t{}", layout_.ranges.size()), std::move(shape), layout_.parameter_elements, count, true, use});
    layout_.parameter_elements += (count + kAlignment - 1) / kAlignment * kAlignment;
  }
  // A convolution without bias, and the two vectors of its batch norm.
  void add_convolution(int64_t out, int64_t in, int64_t extent) {
    add({out, in, extent, extent});
    add({out});
    add({out});
  }
  const FlatLayout& layout() const { return layout_; }

 private:
  FlatLayout layout_;
};

// He et al. 2015, table 1.
FlatLayout resnet_50() {
  Layout net;
  net.add_convolution(64, 3, 7);
  int64_t in = 64;
  for (const auto& [width, blocks] : {std::pair<int64_t, int>{64, 3}, {128, 4}, {256, 6}, {512, 3}}) {
    for (int block = 0; block < blocks; ++block) {
      net.add_convolution(width, in, 1);
      net.add_convolution(width, width, 3);
      net.add_convolution(4 * width, width, 1);
      if (block == 0) net.add_convolution(4 * width, in, 1);
      in = 4 * width;
    }
  }
  net.add({1000, in});
  net.add({1000});
  return net.layout();
}

FlatLayout layout_of_task(const std::string& name) {
  const bool own = name.ends_with(".toml");
  const spec::FrozenTask task =
      own ? spec::parse_task({name, read_file(name, inputs::kTaskFile)}, "", {}) : spec::find_task(name, "", "", {});
  return models::lay_out(models::describe_model(task.task));
}

FlatLayout one_vector(int64_t elements) {
  Layout vector;
  vector.add({elements});
  return vector.layout();
}

template <typename Body>
double milliseconds(const Body& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

// "0.01" is a number, "true" a truth value; all else is text.
Json value_of(const std::string& text) {
  Json value = Json::parse(text, nullptr, false);
  return value.is_discarded() ? Json(text) : value;
}

struct Request {
  std::string coder, task;
  Json options = Json::object();
  int64_t elements = 0;  // 0, without a task: ResNet-50
  int ranks = 2, threads = 1, steps = 21;
  bool turns = false;
};

void measure(const Request& request) {
  at::set_num_threads(request.threads);
  const FlatLayout layout = !request.task.empty()  ? layout_of_task(request.task)
                            : request.elements > 0 ? one_vector(request.elements)
                                                   : resnet_50();
  OptionReader options("coder '" + request.coder + "'", request.options);
  const compress::MakeCoder make = compress::read_coder(request.coder, options);
  options.finish();
  const auto coder = make({layout, 42, 0, request.ranks});
  at::Tensor drawn = at::zeros({layout.parameter_elements});
  RandomSequence random(7);
  for (const FlatRange& range : layout.ranges) {
    auto* values = drawn.data_ptr<float>() + range.offset;
    for (int64_t i = 0; i < range.count; ++i) values[i] = static_cast<float>(random.normal());
  }
  at::Tensor gradient = drawn.clone();
  std::vector<double> encode_ms, absorb_ms, copy_ms;
  uint64_t bytes = 0;
  double error = 0;
  int step = 0;
  const auto take_steps = [&](int count) {
    for (auto* times : {&encode_ms, &absorb_ms, &copy_ms}) times->clear();
    for (const int end = step + count; step < end; ++step) {
      copy_ms.push_back(milliseconds([&] { gradient.copy_(drawn); }));
      coder->begin({.step = step, .lr = 0.1, .share = 1.0 / request.ranks});
      double encode = 0, absorb = 0;
      size_t results = 1;
      bytes = 0;
      for (int round = 0; round < coder->rounds(); ++round) {
        compress::Payload payload;
        encode += milliseconds([&] { payload = coder->encode(round, gradient); });
        bytes += payload.bytes;
        results = payload.kind == compress::PayloadKind::kSum ? 1 : static_cast<size_t>(request.ranks);
        const std::vector<at::Tensor> gathered(results, payload.data);
        absorb += milliseconds([&] { coder->absorb(round, gathered, gradient); });
      }
      encode_ms.push_back(encode);
      absorb_ms.push_back(absorb);
      if (step == 0) {
        const at::Tensor one = gradient / static_cast<double>(results);
        error = ((one - drawn).norm() / drawn.norm()).item<double>();
      }
    }
  };
  const auto medians = [&] {
    const double encode = median(encode_ms), absorb = median(absorb_ms);
    return Json{{"encode_ms", encode},
                {"absorb_ms", absorb},
                {"copy_ms", median(copy_ms)},
                {"median_steps_per_s", 1e3 / (encode + absorb)}};
  };
  if (request.turns) {
    take_steps(kWarmUp);
    take_turns([&] {
      take_steps(request.steps);
      return medians();
    });
  } else {
    take_steps(request.steps);
  }
  Json said = {{"coder", request.coder},
               {"options", request.options},
               {"elements", layout.parameter_count()},
               {"ranks", request.ranks},
               {"threads", request.threads},
               {"steps", request.steps},
               {"bytes", bytes},
               {"error_per_mille", std::lround(error * 1e3)}};
  said.update(medians());
  fmt::print("{}\n", said.dump());
}

}  // namespace
}  // namespace mlbench

int main(int argc, char** argv) {
  mlbench::keep_freed_memory();
  CLI::App app("What coding a gradient costs");
  mlbench::Request request;
  std::vector<std::string> settings;
  app.add_option("--coder", request.coder, "see 'mlbench list coders'")->required();
  app.add_option("--set", settings, "an option of the coder (repeatable)")->allow_extra_args(false);
  auto* elements =
      app.add_option("--elements", request.elements, "one vector of so many (default: ResNet-50's tensors)");
  app.add_option("--task", request.task, "the tensors of this task's model: a name, or a .toml file")
      ->excludes(elements);
  app.add_option("--ranks", request.ranks, "payloads that are absorbed (default: 2)")->check(CLI::PositiveNumber);
  app.add_option("--threads", request.threads, "threads (default: 1)")->check(CLI::PositiveNumber);
  app.add_option("--steps", request.steps, "steps (default: 21)")->check(CLI::PositiveNumber);
  app.add_flag("--turns", request.turns, "steps for each line of the input");
  CLI11_PARSE(app, argc, argv);
  try {
    for (const std::string& setting : settings) {
      const size_t equals = setting.find('=');
      if (equals == std::string::npos) throw mlbench::UserError("--set " + setting + ": expected OPTION=VALUE");
      request.options[setting.substr(0, equals)] = mlbench::value_of(setting.substr(equals + 1));
    }
    mlbench::measure(request);
  } catch (const mlbench::UserError& error) {
    fmt::print(stderr, "coder_bench: error: {}\n", error.what());
    return 2;
  }
  return 0;
}
