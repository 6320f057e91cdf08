#include "mlbench/framework/tensors/dropout.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "mlbench/base/random.h"
#include "mlbench/base/vector_clones.h"

namespace mlbench::framework {

namespace {

struct Dropout {
  explicit Dropout(double p)
      : threshold(static_cast<uint64_t>(std::ceil(p * 0x1.0p32))), scale(static_cast<float>(1 / (1 - p))) {}
  float operator()(uint32_t word) const { return word >= threshold ? scale : 0; }
  uint64_t threshold;
  float scale;
};

constexpr int64_t kBlocks = 64;
constexpr int64_t kElements = 4 * kBlocks;
constexpr int64_t kGroups = 64;  // of kElements: fewer are not shared out to threads

// Writes the mask of kBlocks blocks of Philox4x32-10 (base/random.h), from counter `first` on. `largest` is the largest
// random word for which an element is dropped.
MLBENCH_VECTOR_CLONES
void mask_of_blocks(uint64_t key, uint64_t first, uint32_t largest, float scale, float* __restrict mask) {
  alignas(64) uint32_t words[4][kBlocks];
  for (int64_t b = 0; b < kBlocks; ++b) {
    const uint64_t counter = first + static_cast<uint64_t>(b);
    auto c0 = static_cast<uint32_t>(counter);
    auto c1 = static_cast<uint32_t>(counter >> 32);
    uint32_t c2 = 0, c3 = 0;
    auto k0 = static_cast<uint32_t>(key);
    auto k1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53} * c0;
      const uint64_t p1 = uint64_t{0xCD9E8D57} * c2;
      c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
      c1 = static_cast<uint32_t>(p1);
      c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c3 = static_cast<uint32_t>(p0);
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    words[0][b] = c0, words[1][b] = c1, words[2][b] = c2, words[3][b] = c3;
  }
  for (int64_t b = 0; b < kBlocks; ++b) {
    for (int64_t word = 0; word < 4; ++word) mask[4 * b + word] = words[word][b] > largest ? scale : 0;
  }
}

}  // namespace

void dropout_mask_part(uint64_t key, double p, int64_t first, std::span<float> mask) {
  const Dropout dropout(p);
  if (dropout.threshold == 0) {
    std::ranges::fill(mask, dropout.scale);
    return;
  }
  const auto largest = static_cast<uint32_t>(dropout.threshold - 1);
  const auto count = static_cast<int64_t>(mask.size());
  alignas(64) float group[kElements];
  for (int64_t done = 0; done < count;) {
    const int64_t skipped = (first + done) % 4, take = std::min(kElements - skipped, count - done);
    const auto counter = static_cast<uint64_t>((first + done) / 4);
    if (take == kElements) {
      mask_of_blocks(key, counter, largest, dropout.scale, mask.data() + done);
    } else {
      mask_of_blocks(key, counter, largest, dropout.scale, group);
      std::copy_n(group + skipped, take, mask.data() + done);
    }
    done += take;
  }
}

void dropout_mask(uint64_t key, double p, std::span<float> mask) {
  const auto count = static_cast<int64_t>(mask.size());
  at::parallel_for(0, (count + kElements - 1) / kElements, kGroups, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kElements, last = std::min(end * kElements, count);
    dropout_mask_part(key, p, first, mask.subspan(static_cast<size_t>(first), static_cast<size_t>(last - first)));
  });
}

void dropout_mask_rows(uint64_t key, double p, std::span<const int64_t> places, int64_t features,
                       std::span<float> mask) {
  const int64_t least = kGroups * kElements / std::max<int64_t>(features, 1) + 1;
  at::parallel_for(0, static_cast<int64_t>(places.size()), least, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      dropout_mask_part(key, p, places[static_cast<size_t>(row)] * features,
                        mask.subspan(static_cast<size_t>(row * features), static_cast<size_t>(features)));
    }
  });
}

void dropout_mask_reference(uint64_t key, double p, std::span<float> mask) {
  const Dropout dropout(p);
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = dropout(philox(key, i / 4, 0)[i % 4]);
}

}  // namespace mlbench::framework
