// 3x3 convolutions of one layer in Winograd's order beside oneDNN's direct ones, as framework native calls both. Three
// passes (forward, gradient of the input, gradient of the weight) run on one chunk of samples per thread. The processor
// time of each is measured in pairs, in turns. Both sides are compared with float64: the norm of the error over that of
// the exact tensor, and the largest error over the root mean square. Prints JSON; exit code 1 where the error rule is
// broken (docs/rules.md). winograd.py makes a table of several layers.
//   winograd_bench --channels C --size S --samples N [--threads T] [--pairs P] [--seconds S]

#include <fmt/format.h>
#include <omp.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/base/random.h"
#include "mlbench/framework/native/tape/memory_plan.h"
#include "mlbench/framework/native/tape/vector_kernels.h"

namespace mlbench {
namespace {

using dnnl::memory;
using framework::native_framework::HugePages;
using framework::native_framework::InstructionSet;
using framework::native_framework::WinogradKernels;
using framework::native_framework::WinogradShape;

constexpr const char* kPasses[] = {"forward", "data", "weights"};

double processor_s() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Tensors {  // plain {samples, channels, height, width} and {out, in, 3, 3}
  std::vector<float> x, w, dy;
};

Tensors random_tensors(const WinogradShape& s) {
  RandomSequence random(1);
  const auto normal = [&](int64_t count, double scale) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = static_cast<float>(scale * random.normal());
    return values;
  };
  const int64_t pixels = s.samples * s.height * s.width;
  Tensors tensors{normal(pixels * s.in, 1), normal(9 * s.in * s.out, 0.1), normal(pixels * s.out, 1)};
  for (float& value : tensors.x) value = std::max(0.0F, value);  // as after ReLU
  return tensors;
}

std::vector<std::vector<double>> exact_results(const Tensors& t, const WinogradShape& s) {
  std::vector<double> y(t.dy.size()), dx(t.x.size()), dw(t.w.size());
  const int64_t pixels = s.height * s.width;
  for (int64_t map = 0; map < s.samples * s.out * s.in; ++map) {
    const int64_t n = map / (s.out * s.in), o = map / s.in % s.out, i = map % s.in;
    for (int64_t k = 0; k < 9; ++k) {
      const int64_t down = k / 3 - 1, right = k % 3 - 1;
      const auto at_w = static_cast<size_t>((o * s.in + i) * 9 + k);
      const double factor = t.w[at_w];
      const int64_t first = std::max<int64_t>(0, -right), last = std::min(s.width, s.width - right);
      for (int64_t row = std::max<int64_t>(0, -down); row < std::min(s.height, s.height - down); ++row) {
        const auto to = static_cast<size_t>((n * s.out + o) * pixels + row * s.width);
        const auto from = static_cast<size_t>((n * s.in + i) * pixels + (row + down) * s.width + right);
        double sum = 0;
        for (auto c = static_cast<size_t>(first); c < static_cast<size_t>(last); ++c) {
          y[to + c] += factor * t.x[from + c];
          dx[from + c] += factor * t.dy[to + c];
          sum += static_cast<double>(t.x[from + c]) * t.dy[to + c];
        }
        dw[at_w] += sum;
      }
    }
  }
  return {std::move(y), std::move(dx), std::move(dw)};
}

struct Error {
  double norm = 0, largest = 0;  // relative to the norm, and to the root mean square
};

Error error_of(const std::vector<float>& values, const std::vector<double>& exact) {
  double squares = 0, all = 0, largest = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double error = std::abs(values[i] - exact[i]);
    squares += error * error;
    all += exact[i] * exact[i];
    largest = std::max(largest, error);
  }
  return {std::sqrt(squares / all), largest / std::sqrt(all / static_cast<double>(exact.size()))};
}

// Both implementations with the memory of one thread.
class Sides {
 public:
  Sides(const WinogradShape& s, InstructionSet set, const Tensors& tensors) : s_(s), set_(set) {
    attributes_.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const auto blocked = lanes() == 16 ? memory::format_tag::nChw16c : memory::format_tag::nChw8c;
    const memory::desc x({s.samples, s.in, s.height, s.width}, memory::data_type::f32, blocked);
    const memory::desc y({s.samples, s.out, s.height, s.width}, memory::data_type::f32, blocked);
    const memory::desc w({s.out, s.in, 3, 3}, memory::data_type::f32, memory::format_tag::any);
    const memory::dims one = {1, 1};
    constexpr auto kDirect = dnnl::algorithm::convolution_direct;
    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, kDirect, x, w, y, one, one, one}, attributes_, engine_);
    const dnnl::convolution_backward_data::primitive_desc data({kDirect, x, w, y, one, one, one}, attributes_, engine_,
                                                               forward);
    const dnnl::convolution_backward_weights::primitive_desc weights({kDirect, x, w, y, one, one, one}, attributes_,
                                                                     engine_, forward);
    x_ = filled(x, tensors.x);
    dy_ = filled(y, tensors.dy);
    y_ = room(y);
    dx_ = room(x);
    dw_ = room(weights.diff_weights_desc());
    const auto plain_w = weight_format();
    memory given(plain_w, engine_, const_cast<float*>(tensors.w.data()));
    memory forward_w = reordered(given, forward.weights_desc()), data_w = reordered(given, data.weights_desc());
    direct_[0] = {dnnl::convolution_forward(forward),
                  {{DNNL_ARG_SRC, x_},
                   {DNNL_ARG_WEIGHTS, forward_w},
                   {DNNL_ARG_DST, y_},
                   {DNNL_ARG_SCRATCHPAD, room(forward.scratchpad_desc())}}};
    direct_[1] = {dnnl::convolution_backward_data(data),
                  {{DNNL_ARG_DIFF_SRC, dx_},
                   {DNNL_ARG_WEIGHTS, data_w},
                   {DNNL_ARG_DIFF_DST, dy_},
                   {DNNL_ARG_SCRATCHPAD, room(data.scratchpad_desc())}}};
    direct_[2] = {dnnl::convolution_backward_weights(weights),
                  {{DNNL_ARG_SRC, x_},
                   {DNNL_ARG_DIFF_DST, dy_},
                   {DNNL_ARG_DIFF_WEIGHTS, dw_},
                   {DNNL_ARG_SCRATCHPAD, room(weights.scratchpad_desc())}}};
    for (const bool for_input : {false, true}) {
      packed_[for_input ? 1 : 0] = floats(packed_elements());
      kernels_.pack_weight(tensors.w.data(), s.out, s.in, for_input, 0, s.in * s.out / lanes(),
                           packed_[for_input ? 1 : 0]);
    }
    sums_ = floats(packed_elements());
    scratch_ = floats(kernels_.scratch_elements(s));
  }

  void run_direct(int pass) { direct_[pass].first.execute(stream_, direct_[pass].second); }
  void run_winograd(int pass) {
    WinogradShape back = s_;
    std::swap(back.in, back.out);
    if (pass == 0) kernels_.convolve(at(x_), s_, packed_[0], nullptr, false, scratch_, at(y_));
    if (pass == 1) kernels_.convolve(at(dy_), back, packed_[1], nullptr, false, scratch_, at(dx_));
    if (pass == 2) kernels_.weight_sums(at(x_), at(dy_), s_, scratch_, sums_);
  }
  // What the last call of each left, in plain layouts.
  std::vector<float> direct_result(int pass) {
    memory result = pass == 0 ? y_ : pass == 1 ? dx_ : dw_;
    const memory::desc like = result.get_desc();
    std::vector<float> plain(
        static_cast<size_t>(pass == 2 ? 9 * s_.in * s_.out : s_.samples * (pass == 0 ? s_.out : s_.in) * pixels()));
    memory to(pass == 2 ? weight_format() : memory::desc(like.dims(), memory::data_type::f32, memory::format_tag::nchw),
              engine_, plain.data());
    dnnl::reorder(result, to).execute(stream_, result, to);
    return plain;
  }
  std::vector<float> winograd_result(int pass) {
    if (pass < 2) {
      run_winograd(pass);
      return direct_result(pass);
    }
    std::fill_n(sums_, packed_elements(), 0.0F);
    run_winograd(2);
    std::vector<float> plain(static_cast<size_t>(9 * s_.in * s_.out));
    const float* sums = sums_;
    kernels_.unpack_gradient(&sums, 1, s_.out, s_.in, 0, s_.in * s_.out / lanes(), false, plain.data());
    return plain;
  }

 private:
  int lanes() const { return set_ >= InstructionSet::kAvx512 ? 16 : 8; }
  int64_t pixels() const { return s_.height * s_.width; }
  int64_t packed_elements() const { return kernels_.points * s_.in * s_.out; }
  static float* at(const memory& values) { return static_cast<float*>(values.get_data_handle()); }
  memory::desc weight_format() const {
    return {{s_.out, s_.in, 3, 3}, memory::data_type::f32, memory::format_tag::oihw};
  }
  float* floats(int64_t count) {
    pages_.emplace_back(count * static_cast<int64_t>(sizeof(float)));
    return reinterpret_cast<float*>(pages_.back().get());
  }
  memory room(const memory::desc& desc) {
    pages_.emplace_back(static_cast<int64_t>(desc.get_size()));
    return {desc, engine_, pages_.back().get()};
  }
  memory reordered(memory from, const memory::desc& desc) {
    memory to = room(desc);
    dnnl::reorder(from, to).execute(stream_, from, to);
    return to;
  }
  memory filled(const memory::desc& desc, const std::vector<float>& plain) {
    return reordered(
        {{desc.dims(), memory::data_type::f32, memory::format_tag::nchw}, engine_, const_cast<float*>(plain.data())},
        desc);
  }

  WinogradShape s_;
  InstructionSet set_;
  const WinogradKernels& kernels_ = framework::native_framework::winograd_kernels(set_, lanes());
  dnnl::primitive_attr attributes_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::vector<HugePages> pages_;
  memory x_, y_, dx_, dy_, dw_;
  std::pair<dnnl::primitive, std::unordered_map<int, memory>> direct_[3];
  float *packed_[2] = {}, *sums_ = nullptr, *scratch_ = nullptr;
};

// The processor time of one call, over enough calls to last `seconds`; all threads measure at the same time.
double time_of(std::vector<Sides>& sides, void (Sides::*run)(int), int pass, double seconds) {
  double sum = 0;
#pragma omp parallel num_threads(static_cast <int>(sides.size())) reduction(+ : sum)
  {
    Sides& mine = sides[static_cast<size_t>(omp_get_thread_num())];
    omp_set_num_threads(1);  // oneDNN, called from here, takes one thread
    (mine.*run)(pass);
#pragma omp barrier
    const double begin = processor_s();
    int calls = 0;
    do {
      (mine.*run)(pass);
      ++calls;
    } while (processor_s() - begin < seconds);
    sum += (processor_s() - begin) / calls;
  }
  return sum / static_cast<double>(sides.size());
}

int run(const WinogradShape& shape, int threads, int pairs, double seconds) {
  omp_set_num_threads(1);  // primitives are made for one thread
  const InstructionSet set = framework::native_framework::instruction_sets().back();
  const Tensors tensors = random_tensors(shape);
  std::vector<Sides> sides;
  sides.reserve(static_cast<size_t>(threads));
  for (int thread = 0; thread < threads; ++thread) sides.emplace_back(shape, set, tensors);
  const std::vector<std::vector<double>> exact = exact_results(tensors, shape);
  bool kept = true;
  Json passes = Json::object();
  for (int pass = 0; pass < 3; ++pass) {
    sides[0].run_direct(pass);
    const auto p = static_cast<size_t>(pass);
    const Error direct = error_of(sides[0].direct_result(pass), exact[p]);
    const Error ours = error_of(sides[0].winograd_result(pass), exact[p]);
    kept = kept && ours.norm <= 1e-5 && ours.norm <= 16 * direct.norm;
    std::vector<double> direct_s, winograd_s;
    for (int pair = 0; pair < pairs; ++pair) {
      const auto measure = [&](bool winograd) {
        (winograd ? winograd_s : direct_s)
            .push_back(time_of(sides, winograd ? &Sides::run_winograd : &Sides::run_direct, pass, seconds));
      };
      measure(pair % 2 != 0);
      measure(pair % 2 == 0);
    }
    passes[kPasses[p]] = {{"direct_s", direct_s},
                          {"winograd_s", winograd_s},
                          {"direct_error", direct.norm},
                          {"winograd_error", ours.norm},
                          {"direct_largest_error", direct.largest},
                          {"winograd_largest_error", ours.largest}};
  }
  fmt::print("{}\n", Json{{"channels", shape.in},
                          {"size", shape.height},
                          {"samples", shape.samples},
                          {"threads", threads},
                          {"instruction_set", name_of(set)},
                          {"passes", passes}}
                         .dump());
  if (kept) return 0;
  fmt::print(stderr, "winograd_bench: an error is above 16 times the direct one, or above 1e-5 of the norm\n");
  return 1;
}

}  // namespace
}  // namespace mlbench

int main(int argc, char** argv) {
  CLI::App app("3x3 convolutions in Winograd's order beside oneDNN's direct ones", "winograd_bench");
  int64_t channels = 64, size = 8, samples = 16;
  int threads = 1, pairs = 21;
  double seconds = 0.02;
  app.add_option("--channels", channels)->check(CLI::Range(16, 4096));
  app.add_option("--size", size)->check(CLI::PositiveNumber);
  app.add_option("--samples", samples)->check(CLI::PositiveNumber);
  app.add_option("--threads", threads)->check(CLI::PositiveNumber);
  app.add_option("--pairs", pairs)->check(CLI::NonNegativeNumber);
  app.add_option("--seconds", seconds)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return mlbench::run({samples, size, size, channels, channels}, threads, pairs, seconds);
}
