#include "mlbench/image/resample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "mlbench/base/errors.h"
#include "mlbench/base/vector_clones.h"

namespace mlbench::image {

namespace {

constexpr int kPrecisionBits = 32 - 8 - 2;
constexpr int32_t kHalf = int32_t{1} << (kPrecisionBits - 1);

// The weights of results `first` to `first + count` of `results`, with Pillow's order of operations and its types.
AxisWeights weights_of(int64_t pixels, float begin, float end, int64_t results, int64_t first, int64_t count) {
  const double scale = static_cast<double>(end - begin) / static_cast<double>(results);
  const double support = std::max(scale, 1.0);
  AxisWeights axis;
  axis.taps = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  axis.weights.assign(static_cast<size_t>(count * axis.taps), 0);
  std::vector<double> exact(static_cast<size_t>(axis.taps));
  for (int64_t result = first; result < first + count; ++result) {
    const double centre = begin + (static_cast<double>(result) + 0.5) * scale;
    const double factor = 1.0 / support;
    const int64_t low = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
    const int64_t high = std::min(static_cast<int64_t>(centre + support + 0.5), pixels);
    double sum = 0;
    for (int64_t i = 0; i < high - low; ++i) {
      const double distance = std::abs((static_cast<double>(i + low) - centre + 0.5) * factor);
      const double weight = distance < 1.0 ? 1.0 - distance : 0.0;
      exact[static_cast<size_t>(i)] = weight;
      sum += weight;
    }
    int32_t* const out = axis.weights.data() + (result - first) * axis.taps;
    for (int64_t i = 0; i < high - low; ++i) {
      double weight = exact[static_cast<size_t>(i)];
      if (sum != 0.0) weight /= sum;
      out[i] = static_cast<int32_t>(0.5 + weight * (1 << kPrecisionBits));
    }
    axis.reach.push_back({low, high - low});
  }
  return axis;
}

// The pixels that some result takes part of, from the first on; `axis` counts from there afterwards.
AxisWeights::Reach taken_by(AxisWeights& axis) {
  const auto end = [](const AxisWeights::Reach& reach) { return reach.first + reach.count; };
  const AxisWeights::Reach taken{axis.reach.front().first, end(axis.reach.back()) - axis.reach.front().first};
  for (AxisWeights::Reach& reach : axis.reach) reach.first -= taken.first;
  return taken;
}

uint8_t rounded(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kPrecisionBits, 0, 255)); }

// One row of pixels to one of fewer or more.
void narrow_row(const AxisWeights& columns, const uint8_t* from, uint8_t* to) {
  const int32_t* weights = columns.weights.data();
  for (const AxisWeights::Reach& reach : columns.reach) {
    int32_t red = kHalf, green = kHalf, blue = kHalf;
    const uint8_t* pixel = from + reach.first * 3;
    for (int64_t i = 0; i < reach.count; ++i, pixel += 3) {
      red += pixel[0] * weights[i];
      green += pixel[1] * weights[i];
      blue += pixel[2] * weights[i];
    }
    to[0] = rounded(red);
    to[1] = rounded(green);
    to[2] = rounded(blue);
    to += 3;
    weights += columns.taps;
  }
}

// The weighted sum of rows, `bytes` long each and one behind the other. In blocks, whose sums stay in registers.
MLBENCH_VECTOR_CLONES void sum_rows(const uint8_t* from, const int32_t* weights, int64_t rows, int64_t bytes,
                                    uint8_t* to) {
  constexpr int64_t kBlock = 64;
  int64_t x = 0;
  for (; x + kBlock <= bytes; x += kBlock) {
    int32_t sums[kBlock];
    std::fill_n(sums, kBlock, kHalf);
    for (int64_t i = 0; i < rows; ++i) {
      const uint8_t* row = from + i * bytes + x;
      for (int64_t lane = 0; lane < kBlock; ++lane) sums[lane] += row[lane] * weights[i];
    }
    for (int64_t lane = 0; lane < kBlock; ++lane) {
      to[x + lane] = static_cast<uint8_t>(std::min(sums[lane] >> kPrecisionBits, 255));
    }
  }
  for (; x < bytes; ++x) {
    int32_t sum = kHalf;
    for (int64_t i = 0; i < rows; ++i) sum += from[i * bytes + x] * weights[i];
    to[x] = rounded(sum);
  }
}

}  // namespace

Resize::Resize(const Size& from, const Edges& edges, const Size& to, const Box& window) : window_(window) {
  MLBENCH_CHECK(0 <= edges.left && edges.left < edges.right && edges.right <= static_cast<float>(from.width) &&
                    0 <= edges.top && edges.top < edges.bottom && edges.bottom <= static_cast<float>(from.height),
                fmt::format("edges {} {} {} {} of an image of {}x{}", edges.left, edges.top, edges.right, edges.bottom,
                            from.width, from.height));
  MLBENCH_CHECK(window.left >= 0 && window.top >= 0 && window.width > 0 && window.height > 0 &&
                    window.left + window.width <= to.width && window.top + window.height <= to.height,
                "a window in the result");
  columns_ = weights_of(from.width, edges.left, edges.right, to.width, window.left, window.width);
  rows_ = weights_of(from.height, edges.top, edges.bottom, to.height, window.top, window.height);
  const AxisWeights::Reach across = taken_by(columns_), down = taken_by(rows_);
  needed_ = {across.first, down.first, across.count, down.count};
}

void Resize::set_pixels(const Pixels& needed) {
  MLBENCH_CHECK(needed.size == (Size{needed_.width, needed_.height}), "the pixels that are needed");
  narrow_.resize(static_cast<size_t>(needed_.height * window_.width * 3));
  for (int64_t y = 0; y < needed_.height; ++y) {
    narrow_row(columns_, needed.row(y).data(), narrow_.data() + y * window_.width * 3);
  }
}

void Resize::row(int64_t y, std::span<uint8_t> out) const {
  const int64_t bytes = window_.width * 3;
  MLBENCH_CHECK(!narrow_.empty() && y >= 0 && y < window_.height && std::ssize(out) == bytes, "a row of the window");
  const AxisWeights::Reach& reach = rows_.reach[static_cast<size_t>(y)];
  sum_rows(narrow_.data() + reach.first * bytes, rows_.weights.data() + y * rows_.taps, reach.count, bytes, out.data());
}

Pixels resample(Resize resize, const Pixels& needed) {
  resize.set_pixels(needed);
  const Box& window = resize.window();
  Pixels pixels{{window.width, window.height}, {}};
  pixels.values.resize(static_cast<size_t>(window.width * window.height * 3));
  for (int64_t y = 0; y < window.height; ++y) {
    resize.row(y, std::span(pixels.values)
                      .subspan(static_cast<size_t>(y * window.width * 3), static_cast<size_t>(window.width * 3)));
  }
  return pixels;
}

}  // namespace mlbench::image
