// What an update of the weights costs beside a triad with as many streams: one pass over the same arrays that adds to
// each array that the update writes a multiple of the gradient, and does nothing else. Verifies that the update has the
// bits of its reference. Prints JSON: the medians of --passes passes of each.
//
//   update_bench --rule sgd|momentum|lion|adam [--elements N] [--threads T] [--passes N] [--turns]
//
// --turns: prints a line when warm; then for each line of its input measures both anew and prints their medians, until
// the input ends. Which of both begins alternates (bench/coder_pairs.py).

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "measured.h"
#include "mlbench/base/json.h"
#include "mlbench/base/random.h"
#include "mlbench/base/vector_clones.h"
#include "mlbench/optim/rules/adam_kernel.h"
#include "mlbench/optim/rules/lion.h"
#include "mlbench/optim/rules/sgd_kernel.h"

namespace mlbench::optim {
namespace {

constexpr int64_t kGrain = 32768;
constexpr int64_t kVerified = 100'003;  // elements
constexpr float kSmall = 1e-6F;         // sums over all passes stay finite

// What an update writes, at most: the parameters and two moments.
using Arrays = std::array<float*, 3>;

struct Rule {
  const char* name;
  size_t written;  // arrays; the update reads these and the gradient
  void (*update)(const Arrays& of, const float* gradient, int64_t count);
  void (*reference)(const Arrays& of, const float* gradient, int64_t count);
};

constexpr SgdCoefficients kSgd{.lr = 1e-3F, .weight_decay = 1e-4F, .first = false};
constexpr SgdCoefficients kMomentum{
    .lr = 1e-3F, .momentum = 0.9F, .weight_decay = 1e-4F, .nesterov = true, .first = false};
constexpr LionCoefficients kLion{
    .lr = 1e-3F, .beta1 = 0.9F, .new_share1 = 0.1F, .beta2 = 0.99F, .new_share2 = 0.01F, .shrink = 0.999F};
constexpr AdamCoefficients kAdam{.step_size = 1e-3F,
                                 .beta1 = 0.9F,
                                 .new_share1 = 0.1F,
                                 .beta2 = 0.999F,
                                 .new_share2 = 1e-3F,
                                 .eps = 1e-8F,
                                 .weight_decay = 1e-4F};

constexpr Rule kRules[] = {
    {"sgd", 1, [](const Arrays& of, const float* g, int64_t n) { sgd_update(of[0], g, nullptr, n, kSgd); },
     [](const Arrays& of, const float* g, int64_t n) { sgd_update_reference(of[0], g, nullptr, n, kSgd); }},
    {"momentum", 2, [](const Arrays& of, const float* g, int64_t n) { sgd_update(of[0], g, of[1], n, kMomentum); },
     [](const Arrays& of, const float* g, int64_t n) { sgd_update_reference(of[0], g, of[1], n, kMomentum); }},
    {"lion", 2, [](const Arrays& of, const float* g, int64_t n) { lion_update(of[0], g, of[1], n, kLion); },
     [](const Arrays& of, const float* g, int64_t n) { lion_update_reference(of[0], g, of[1], n, kLion); }},
    {"adam", 3,
     [](const Arrays& of, const float* g, int64_t n) {
       adam_update(of[0], g, {of[1], of[2]}, n, kAdam);
     },
     [](const Arrays& of, const float* g, int64_t n) {
       adam_update_reference(of[0], g, {of[1], of[2]}, n, kAdam);
     }},
};

MLBENCH_VECTOR_CLONES void add_to_one(float* __restrict a, const float* __restrict g, int64_t count) {
  for (int64_t i = 0; i < count; ++i) a[i] += kSmall * g[i];
}

MLBENCH_VECTOR_CLONES void add_to_two(float* __restrict a, float* __restrict b, const float* __restrict g,
                                      int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    a[i] += kSmall * g[i];
    b[i] += kSmall * g[i];
  }
}

MLBENCH_VECTOR_CLONES void add_to_three(float* __restrict a, float* __restrict b, float* __restrict c,
                                        const float* __restrict g, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    a[i] += kSmall * g[i];
    b[i] += kSmall * g[i];
    c[i] += kSmall * g[i];
  }
}

void triad(size_t written, const Arrays& of, const float* gradient, int64_t count) {
  at::parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    const int64_t n = end - begin;
    const float* g = gradient + begin;
    if (written == 1) return add_to_one(of[0] + begin, g, n);
    if (written == 2) return add_to_two(of[0] + begin, of[1] + begin, g, n);
    add_to_three(of[0] + begin, of[1] + begin, of[2] + begin, g, n);
  });
}

// Random values; the last array holds squares where there are three (Adam's second moment).
struct Memory {
  Memory(const Rule& rule, int64_t elements) : gradient(at::empty({elements})) {
    RandomSequence random(7);
    const auto fill = [&](at::Tensor& tensor, bool square) {
      auto* values = tensor.data_ptr<float>();
      for (int64_t i = 0; i < elements; ++i) {
        const auto value = static_cast<float>(random.normal());
        values[i] = square ? value * value : value;
      }
    };
    fill(gradient, false);
    for (size_t i = 0; i < rule.written; ++i) {
      tensors.push_back(at::empty({elements}));
      fill(tensors.back(), i == 2);
      arrays[i] = tensors.back().data_ptr<float>();
    }
  }

  at::Tensor gradient;
  std::vector<at::Tensor> tensors;
  Arrays arrays{};
};

bool has_bits_of_reference(const Rule& rule) {
  const Memory one(rule, kVerified), other(rule, kVerified);
  for (int pass = 0; pass < 2; ++pass) {
    rule.update(one.arrays, one.gradient.const_data_ptr<float>(), kVerified);
    rule.reference(other.arrays, other.gradient.const_data_ptr<float>(), kVerified);
  }
  return std::ranges::equal(one.tensors, other.tensors, [](const at::Tensor& a, const at::Tensor& b) {
    return std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
  });
}

template <typename Body>
double median_ms(int passes, const Body& body) {
  std::vector<double> times;
  for (int pass = 0; pass < passes; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  return median(times);
}

int run(const std::string& name, int64_t elements, int threads, int passes, bool turns) {
  at::set_num_threads(threads);
  const Rule& rule = *std::ranges::find(kRules, name, &Rule::name);
  if (!has_bits_of_reference(rule)) {
    fmt::print(stderr, "update_bench: {} has other bits than its reference\n", name);
    return 1;
  }
  const Memory memory(rule, elements);
  const float* gradient = memory.gradient.const_data_ptr<float>();
  double update_ms = 0, triad_ms = 0;
  const auto measure = [&](bool update) {
    (update ? update_ms : triad_ms) = median_ms(passes, [&] {
      if (update) return rule.update(memory.arrays, gradient, elements);
      triad(rule.written, memory.arrays, gradient, elements);
    });
  };
  bool first = true;
  const auto measure_both = [&] {
    measure(first);
    measure(!first);
    first = !first;
  };
  measure_both();
  if (turns) {
    take_turns([&] {
      measure_both();
      return Json{{"update_ms", update_ms}, {"triad_ms", triad_ms}};
    });
  }
  // Each array that is written is read, too.
  const size_t bytes = (2 * rule.written + 1) * static_cast<size_t>(elements) * sizeof(float);
  const Json said = {{"rule", name},   {"elements", elements},   {"threads", threads},  {"passes", passes},
                     {"bytes", bytes}, {"update_ms", update_ms}, {"triad_ms", triad_ms}};
  fmt::print("{}\n", said.dump());
  return 0;
}

}  // namespace
}  // namespace mlbench::optim

int main(int argc, char** argv) {
  CLI::App app("What an update of the weights costs beside a triad");
  std::string rule;
  int64_t elements = 25'557'032;
  int threads = 1, passes = 9;
  bool turns = false;
  std::vector<std::string> names;
  for (const mlbench::optim::Rule& one : mlbench::optim::kRules) names.emplace_back(one.name);
  app.add_option("--rule", rule)->required()->check(CLI::IsMember(names));
  app.add_option("--elements", elements, "default: those of ResNet-50")->check(CLI::PositiveNumber);
  app.add_option("--threads", threads, "threads (default: 1)")->check(CLI::PositiveNumber);
  app.add_option("--passes", passes, "of a turn (default: 9)")->check(CLI::PositiveNumber);
  app.add_flag("--turns", turns, "measure for each line of the input");
  CLI11_PARSE(app, argc, argv);
  return mlbench::optim::run(rule, elements, threads, passes, turns);
}
