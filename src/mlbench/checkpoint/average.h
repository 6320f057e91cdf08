#pragma once

// The mean of a model's last checkpoints, which translates better than the last alone (Vaswani et al. 2017, section
// 6.1).

#include <cstdint>
#include <filesystem>
#include <vector>

#include "mlbench/base/flat_layout.h"
#include "mlbench/base/named_state.h"

namespace mlbench::checkpoint {

struct AveragedCheckpoints {
  NamedState state;            // scalars are the newest checkpoint's; tensors are those of the layout alone, float32
  std::vector<int64_t> steps;  // ascending
};

// Averages `newest` and the `count` - 1 (>= 0) checkpoints before it in its folder. Sums are made in float64; the mean
// of one checkpoint is that checkpoint, bit for bit. One checkpoint is in memory at a time. Throws UserError when there
// are fewer checkpoints, or when one is damaged, belongs to another task, or lacks a tensor of this shape.
AveragedCheckpoints read_average(const std::filesystem::path& newest, int64_t count, const FlatLayout& layout);

}  // namespace mlbench::checkpoint
