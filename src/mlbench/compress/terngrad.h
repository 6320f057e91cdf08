#pragma once

// "terngrad": ternary gradients (Wen et al. 2017, section 3), layer by layer. Of each tensor g of n_t elements, whose
// standard deviation about their mean is sigma:
//   g_i <- sign(g_i) min(|g_i|, clip_sigma sigma)
//   s = max |g_i|;   what is sent: s sign(g_i) b_i, where b_i is 1 with the probability |g_i| / s, else 0
// What comes out is the sum over ranks, each with its own s: without bias, but for what was clipped. Where sigma is 0,
// nothing is clipped. This is the coder "qsgd" with 2 bits and a bucket for each tensor, and draws as it does.
//
// Gathered: of each tensor 4 bytes, s, and ceil(n_t / 4).

#include <algorithm>

#include "mlbench/compress/qsgd.h"

namespace mlbench::compress {

class TernGradCoder final : public QsgdCoder {
 public:
  // The paper's choice of `clip_sigma`; 0: nothing is clipped.
  static constexpr double kClipSigma = 2.5;

  TernGradCoder(double clip_sigma, const CoderContext& context)
      : QsgdCoder({.bits = 2, .bucket = longest_tensor(context.layout), .clip = clip_sigma}, context) {}
  std::string name() const override { return "terngrad"; }

 private:
  static int64_t longest_tensor(const FlatLayout& layout) {
    int64_t longest = 1;
    for (const FlatRange& range : layout.ranges) longest = std::max(longest, range.count);
    return longest;
  }
};

}  // namespace mlbench::compress
