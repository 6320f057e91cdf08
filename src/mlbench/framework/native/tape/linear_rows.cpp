#include "mlbench/framework/native/tape/linear_rows.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "mlbench/base/errors.h"
#include "mlbench/framework/native/tape/tape.h"

namespace mlbench::framework::native_framework {

namespace {
// The distance in rows of the row that is prefetched: memory takes longer than the arithmetic of one row.
constexpr int64_t kAhead = 2;
}  // namespace

LinearRows::LinearRows(int64_t features, int threads, const RowKernels& kernels)
    : features_(features),
      kernels_(kernels),
      threads_(static_cast<size_t>(threads)),
      sum_(static_cast<size_t>(features)) {
  // Gradients of threads are a cache line apart, so that threads do not share lines.
  for (PerThread& mine : threads_) mine.gradient.resize(static_cast<size_t>(features) + 16);
}

void LinearRows::forward(const BatchView& batch, const float* weight, bool training) {
  const BatchTensor &features = batch.at("features"), &targets = batch.at("labels");
  MLBENCH_CHECK(
      features.values.dtype == DType::kFloat32 && targets.values.dtype == DType::kInt64 &&
          features.row_volume() == features_ &&
          (features.dense() || static_cast<int64_t>(features.rows.size()) == batch.samples),
      fmt::format("{} samples of {} values, {} rows", batch.samples, features.row_volume(), features.rows.size()));
  logits_.resize(static_cast<size_t>(batch.samples));
  const auto* base = static_cast<const float*>(features.values.data);
  const auto* labels = static_cast<const int64_t*>(targets.values.data);
  const bool dense = features.dense();
  const auto row_of = [&](int64_t i) { return base + (dense ? i : features.rows[static_cast<size_t>(i)]) * features_; };
  const int threads = static_cast<int>(threads_.size());
#pragma omp parallel num_threads(threads)
  {
    const int thread = omp_get_thread_num();
    if (thread == 0) team_ = static_cast<size_t>(omp_get_num_threads());
    PerThread& mine = threads_[static_cast<size_t>(thread)];
    const Share share = share_of(batch.samples, thread, omp_get_num_threads());
    double loss = 0;
    if (training) std::ranges::fill(mine.gradient, 0.0F);
    for (int64_t i = share.begin; i < share.end; ++i) {
      const float* next = i + kAhead < share.end ? row_of(i + kAhead) : nullptr;
      const float* row = row_of(i);
      const float logit = kernels_.dot(row, weight, features_, next);
      const double z = logit, y = labels[i] != 0 ? 1 : 0;
      // This form of the loss neither overflows nor computes log(0).
      const double decay = std::exp(-std::abs(z));
      loss += std::max(z, 0.0) - z * y + std::log1p(decay);
      logits_[static_cast<size_t>(i)] = logit;
      if (!training) continue;
      const double probability = z >= 0 ? 1 / (1 + decay) : decay / (1 + decay);
      kernels_.add_scaled(row, static_cast<float>(probability - y), features_, next, mine.gradient.data());
    }
    mine.loss = loss;
  }
  double sum = 0;
  for (const PerThread& part : std::span(threads_).first(team_)) sum += part.loss;
  mean_loss_ = sum / static_cast<double>(batch.samples);
}

void LinearRows::gradient(float scale, bool add, float* gradient) {
  // The columns of one thread after the other: the compiler makes vector instructions of such loops.
  const auto columns = static_cast<size_t>(features_);
  std::ranges::fill(sum_, 0.0F);
  float* const sum = sum_.data();
  for (const PerThread& part : std::span(threads_).first(team_)) {
    const float* const values = part.gradient.data();
    for (size_t j = 0; j < columns; ++j) sum[j] += values[j];
  }
  const float factor = scale / static_cast<float>(logits_.size());
  for (size_t j = 0; j < columns; ++j) gradient[j] = factor * sum[j] + (add ? gradient[j] : 0.0F);
}

}  // namespace mlbench::framework::native_framework
