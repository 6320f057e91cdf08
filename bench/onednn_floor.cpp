// The convolution-only floor of a task's model: what oneDNN's own primitives take for every convolution of a training
// step, forward, gradient of the input (but of the first layer, where nobody needs it) and gradient of the weights, on
// the whole batch, in the layouts that oneDNN prefers, with nothing in between. One line per different convolution,
// then a line of JSON; `samples_per_s` is the floor that docs/frameworks/native.md compares with.
//   onednn_floor [--threads N] [--batch N] [--precision float32|bf16] [--rounds N]

#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/models/model.h"
#include "mlbench/spec/task.h"

namespace mlbench {
namespace {

using dnnl::memory;
using mlbench::models::LayerSpec;

struct Shape {
  int64_t in, out, kernel, stride, padding, size;  // size: height = width of the input
  bool first;
  friend bool operator<(const Shape& a, const Shape& b) {
    const auto key = [](const Shape& shape) {
      return std::tie(shape.in, shape.out, shape.kernel, shape.stride, shape.padding, shape.size, shape.first);
    };
    return key(a) < key(b);
  }
  int64_t output_size() const { return (size + 2 * padding - kernel) / stride + 1; }
  double flops(int64_t batch) const {
    return 2.0 * static_cast<double>(batch * in * out * kernel * kernel * output_size() * output_size());
  }
};

// Follows the size of the image through a chain; counts what it meets.
int64_t collect(const std::vector<LayerSpec>& layers, int64_t size, bool first, std::map<Shape, int>& shapes) {
  for (const LayerSpec& layer : layers) {
    if (layer.kind == "conv2d") {
      const auto option = [&](const char* name) { return layer.options.at(name).get<int64_t>(); };
      const Shape shape{option("in"), option("out"), option("kernel"), option("stride"), option("padding"),
                        size,         first};
      ++shapes[shape];
      size = shape.output_size();
      first = false;
    } else if (layer.kind == "residual") {
      collect(layer.shortcut, size, false, shapes);
      size = collect(layer.body, size, false, shapes);
    } else if (layer.kind == "max_pool2d" || layer.kind == "avg_pool2d") {
      const auto option = [&](const char* name) { return layer.options.at(name).get<int64_t>(); };
      size = (size + 2 * option("padding") - option("kernel")) / option("stride") + 1;
    }
  }
  return size;
}

class Timed {
 public:
  Timed(const dnnl::engine& engine, dnnl::primitive primitive,
        const std::vector<std::pair<int, memory::desc>>& arguments)
      : primitive_(std::move(primitive)), stream_(engine) {
    for (const auto& [argument, desc] : arguments) {
      memory values(desc, engine);
      // Neither zeros nor denormals: 16-bit patterns of numbers around one, in both types.
      std::fill_n(static_cast<uint16_t*>(values.get_data_handle()), desc.get_size() / 2, uint16_t{0x3e80});
      arguments_.insert({argument, values});
    }
  }
  // Seconds of the fastest of `rounds`.
  double best(int rounds) {
    double best = INFINITY;
    for (int i = 0; i <= rounds; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      primitive_.execute(stream_, arguments_);
      stream_.wait();
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (i > 0) best = std::min(best, seconds);
    }
    return best;
  }

 private:
  dnnl::primitive primitive_;
  dnnl::stream stream_;
  std::unordered_map<int, memory> arguments_;
};

struct Times {
  double forward = 0, data = 0, weights = 0;
};

Times measure(const dnnl::engine& engine, const Shape& shape, int64_t batch, memory::data_type type, int rounds) {
  const auto any = [&](const memory::dims& dims, memory::data_type of) {
    return memory::desc(dims, of, memory::format_tag::any);
  };
  const int64_t size = shape.output_size();
  const memory::desc x = any({batch, shape.in, shape.size, shape.size}, type);
  const memory::desc w = any({shape.out, shape.in, shape.kernel, shape.kernel}, type);
  const memory::desc dw = any({shape.out, shape.in, shape.kernel, shape.kernel}, memory::data_type::f32);
  const memory::desc y = any({batch, shape.out, size, size}, type);
  const memory::dims stride = {shape.stride, shape.stride}, padding = {shape.padding, shape.padding};
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;

  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, kDirect, x, w, y, stride, padding, padding}, engine);
  const dnnl::convolution_backward_weights::primitive_desc weights({kDirect, x, dw, y, stride, padding, padding},
                                                                   engine, forward);
  Times times;
  times.forward = Timed(engine, dnnl::convolution_forward(forward),
                        {{DNNL_ARG_SRC, forward.src_desc()},
                         {DNNL_ARG_WEIGHTS, forward.weights_desc()},
                         {DNNL_ARG_DST, forward.dst_desc()}})
                      .best(rounds);
  times.weights = Timed(engine, dnnl::convolution_backward_weights(weights),
                        {{DNNL_ARG_SRC, weights.src_desc()},
                         {DNNL_ARG_DIFF_DST, weights.diff_dst_desc()},
                         {DNNL_ARG_DIFF_WEIGHTS, weights.diff_weights_desc()}})
                      .best(rounds);
  if (shape.first) return times;
  const dnnl::convolution_backward_data::primitive_desc data({kDirect, x, w, y, stride, padding, padding}, engine,
                                                             forward);
  times.data = Timed(engine, dnnl::convolution_backward_data(data),
                     {{DNNL_ARG_DIFF_DST, data.diff_dst_desc()},
                      {DNNL_ARG_WEIGHTS, data.weights_desc()},
                      {DNNL_ARG_DIFF_SRC, data.diff_src_desc()}})
                   .best(rounds);
  return times;
}

int run(int threads, int64_t batch, const std::string& precision, int rounds) {
  omp_set_num_threads(threads);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const auto type = precision == "bf16" ? memory::data_type::bf16 : memory::data_type::f32;
  const models::ModelDescription model = models::describe_model(spec::find_task("1a", "2021", "", {}).task);
  std::map<Shape, int> shapes;
  collect(model.layers, model.input_shape[1], true, shapes);
  double seconds = 0, flops = 0;
  fmt::print("{:32} {:>5}  {:>20} {:>20} {:>20}\n", "convolution", "times", "forward ms, GFLOP/s", "data", "weights");
  for (const auto& [shape, times] : shapes) {
    const Times of = measure(engine, shape, batch, type, rounds);
    const double work = shape.flops(batch);
    const auto cell = [&](double s) {
      return s > 0 ? fmt::format("{:.3f}, {:.0f}", s * 1e3, work / s * 1e-9) : std::string("-");
    };
    fmt::print("{:32} {:>5}  {:>20} {:>20} {:>20}\n",
               fmt::format("{}x{} {} -> {} @ {}, stride {}", shape.kernel, shape.kernel, shape.in, shape.out,
                           shape.size, shape.stride),
               times, cell(of.forward), cell(of.data), cell(of.weights));
    seconds += times * (of.forward + of.data + of.weights);
    flops += times * work * (shape.first ? 2 : 3);
  }
  fmt::print("{}\n", Json{{"model", model.name},
                          {"threads", threads},
                          {"batch", batch},
                          {"precision", precision},
                          {"step_ms", seconds * 1e3},
                          {"gflop_per_s", flops / seconds * 1e-9},
                          {"samples_per_s", static_cast<double>(batch) / seconds}}
                         .dump());
  return std::isfinite(seconds) && seconds > 0 ? 0 : 1;
}

}  // namespace
}  // namespace mlbench

int main(int argc, char** argv) {
  CLI::App app("What oneDNN's convolutions alone take of a training step of ResNet-20", "onednn_floor");
  int threads = 2, rounds = 10;
  int64_t batch = 128;
  std::string precision = "float32";
  app.add_option("--threads", threads)->check(CLI::PositiveNumber);
  app.add_option("--batch", batch)->check(CLI::PositiveNumber);
  app.add_option("--precision", precision)->check(CLI::IsMember({"float32", "bf16"}));
  app.add_option("--rounds", rounds)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return mlbench::run(threads, batch, precision, rounds);
}
