#pragma once

// Images made smaller or larger by a triangle filter that widens with the step between pixels (antialiased bilinear):
// bit for bit what Pillow's Image.resize(size, BILINEAR, box=box) gives. Pillow resizes by columns first, keeps
// that result in 8 bits, and has weights of 22 bits after the point (src/libImaging/Resample.c).

#include <cstdint>
#include <span>
#include <vector>

#include "mlbench/image/image.h"

namespace mlbench::image {

// Edges between pixels, in pixels from the left and the top. Pillow has them as C floats too.
struct Edges {
  float left = 0, top = 0, right = 0, bottom = 0;
};

// One direction: the pixels that each result takes part of, and how much of each.
struct AxisWeights {
  struct Reach {
    int64_t first = 0, count = 0;
  };
  std::vector<Reach> reach;      // [result]
  std::vector<int32_t> weights;  // [result][taps], 2^22 is one
  int64_t taps = 0;
};

// What a resize computes: the pixels `window` of the image of size `to` that the part of an image within `edges`
// becomes. Made once, used for one image. Preconditions: the edges lie in an image of size `from`, left < right and
// top < bottom; `window` is not empty and lies in `to`.
class Resize {
 public:
  Resize(const Size& from, const Edges& edges, const Size& to, const Box& window);

  // The pixels that the window takes part of: no more of the image has to be decoded.
  const Box& needed() const { return needed_; }
  const Box& window() const { return window_; }

  // Passes over the pixels needed() of the image, by columns. Afterwards row() may be called.
  void set_pixels(const Pixels& needed);
  // Row y of the window, window().width * 3 bytes. Safe on several threads.
  void row(int64_t y, std::span<uint8_t> out) const;

 private:
  Box window_, needed_;
  AxisWeights columns_, rows_;   // of the window; from needed_'s edge on
  std::vector<uint8_t> narrow_;  // needed_.height rows of window_.width pixels
};

// All rows of the window.
Pixels resample(Resize resize, const Pixels& needed);

}  // namespace mlbench::image
