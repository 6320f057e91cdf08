#pragma once

// The mean of a model's last checkpoints, which translates better than the last one alone (Vaswani et al. 2017, section
// 6.1).

#include <cstdint>
#include <filesystem>
#include <vector>

#include "mlbench/base/flat_layout.h"
#include "mlbench/base/named_state.h"

namespace mlbench::checkpoint {

struct AveragedCheckpoints {
  NamedState state;            // scalars are the newest one's; tensors those of the layout alone, float32
  std::vector<int64_t> steps;  // rising
};

// `newest` and the `count` - 1 (>= 0) checkpoints before it in its folder. Sums are made in float64; of one checkpoint
// the mean is itself, bit for bit. One checkpoint is in memory at a time. UserError: there are fewer, one is damaged,
// of another task or lacks a tensor of this shape.
AveragedCheckpoints read_average(const std::filesystem::path& newest, int64_t count, const FlatLayout& layout);

}  // namespace mlbench::checkpoint
