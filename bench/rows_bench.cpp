// Task 2a's step beside a plain reader of the same rows: epochs over a shuffled matrix in memory, batch by batch. The
// reader only adds up what it reads, with the same threads; ours computes losses, gradient and the update of the
// weights. Verifies that the loss falls. Prints JSON; `share_of_reader` is the ratio of the medians.
//   rows_bench [--threads N] [--rows N] [--batch N] [--epochs N]

#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "measured.h"
#include "mlbench/base/json.h"
#include "mlbench/base/random.h"
#include "mlbench/base/vector_clones.h"
#include "mlbench/framework/native/tape/linear_rows.h"

namespace mlbench {
namespace {

using framework::native_framework::instruction_sets;
using framework::native_framework::LinearRows;

constexpr int64_t kFeatures = 2000;

MLBENCH_VECTOR_CLONES float sum_of(const float* row, int64_t count) {
  constexpr int64_t kLanes = 64;
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += row[i + lane];
  }
  float sum = 0;
  for (const float part : sums) sum += part;
  for (; i < count; ++i) sum += row[i];
  return sum;
}

int run(int threads, int64_t rows, int64_t batch_size, int64_t epochs) {
  const std::unique_ptr<float, decltype(&std::free)> matrix(
      static_cast<float*>(std::aligned_alloc(64, static_cast<size_t>(rows * kFeatures) * sizeof(float))), std::free);
  std::vector<int64_t> labels(static_cast<size_t>(rows));
#pragma omp parallel for num_threads(threads)
  for (int64_t i = 0; i < rows; ++i) {
    // Cheap noise; the label is the sign of the first feature, which a linear model learns.
    uint64_t state = derive_key(7, {static_cast<uint64_t>(i)});
    for (int64_t j = 0; j < kFeatures; ++j) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      matrix.get()[i * kFeatures + j] = static_cast<float>(static_cast<int32_t>(state >> 33)) * 0x1p-36F;
    }
    labels[static_cast<size_t>(i)] = matrix.get()[i * kFeatures] > 0.015F ? 1 : 0;
  }
  const std::vector<int64_t> order = permutation(rows, 3);
  std::vector<int64_t> batch_labels(static_cast<size_t>(batch_size));

  LinearRows model(kFeatures, threads, row_kernels(instruction_sets().back()));
  std::vector<float> weight(kFeatures, 0.0F), gradient(kFeatures);
  std::vector<double> reader_s, ours_s, losses;
  float kept = 0;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    auto begin = std::chrono::steady_clock::now();
    const auto lap = [&](std::vector<double>& seconds) {
      const auto now = std::chrono::steady_clock::now();
      seconds.push_back(std::chrono::duration<double>(now - begin).count());
      begin = now;
    };
    for (int64_t first = 0; first + batch_size <= rows; first += batch_size) {
      float sum = 0;
#pragma omp parallel for num_threads(threads) reduction(+ : sum) schedule(static)
      for (int64_t i = 0; i < batch_size; ++i) {
        sum += sum_of(matrix.get() + order[static_cast<size_t>(first + i)] * kFeatures, kFeatures);
      }
      kept += sum;
    }
    lap(reader_s);
    double loss = 0;
    for (int64_t first = 0; first + batch_size <= rows; first += batch_size) {
      const auto wanted =
          std::span<const int64_t>(order).subspan(static_cast<size_t>(first), static_cast<size_t>(batch_size));
      for (size_t i = 0; i < batch_labels.size(); ++i) batch_labels[i] = labels[static_cast<size_t>(wanted[i])];
      BatchView batch;
      batch.samples = batch.weight = batch_size;
      batch.tensors = {
          {"features", {batch_size, kFeatures}, {matrix.get(), rows * kFeatures, DType::kFloat32}, wanted},
          {"labels", {batch_size}, {batch_labels.data(), batch_size, DType::kInt64}, {}},
      };
      model.forward(batch, weight.data(), true);
      model.gradient(1, false, gradient.data());
      for (size_t j = 0; j < weight.size(); ++j) weight[j] -= 40.0F * gradient[j];
      loss += model.mean_loss();
    }
    lap(ours_s);
    losses.push_back(loss);
  }
  const int64_t used = rows / batch_size * batch_size;
  const auto samples = static_cast<double>(used);
  const double reader = samples / median(reader_s), ours = samples / median(ours_s);
  fmt::print("{}\n", Json{{"threads", threads},
                          {"rows", rows},
                          {"batch", batch_size},
                          {"reader_samples_per_s", reader},
                          {"reader_bytes_per_s", reader * kFeatures * sizeof(float)},
                          {"samples_per_s", ours},
                          {"share_of_reader", ours / reader},
                          {"first_loss", losses.front()},
                          {"last_loss", losses.back()},
                          {"checksum", kept}}
                         .dump());
  if (losses.back() < losses.front()) return 0;
  fmt::print(stderr, "rows_bench: the loss did not fall\n");
  return 1;
}

}  // namespace
}  // namespace mlbench

int main(int argc, char** argv) {
  CLI::App app("Task 2a's step beside a plain reader of the same rows", "rows_bench");
  int threads = 2;
  int64_t rows = 400000, batch = 128, epochs = 5;
  app.add_option("--threads", threads)->check(CLI::PositiveNumber);
  app.add_option("--rows", rows)->check(CLI::PositiveNumber);
  app.add_option("--batch", batch)->check(CLI::PositiveNumber);
  app.add_option("--epochs", epochs)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return mlbench::run(threads, rows, batch, epochs);
}
