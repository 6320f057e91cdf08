#include "mlbench/base/random.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace mlbench {

namespace {
__extension__ using uint128 = unsigned __int128;
}

std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
                               static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

uint64_t derive_key(uint64_t seed, std::initializer_list<uint64_t> labels) {
  uint64_t key = seed;
  uint64_t position = 0;
  for (const uint64_t label : labels) {
    const auto block = philox(key, label, ++position);
    key = uint64_t{block[1]} << 32 | block[0];
  }
  return key;
}

uint32_t RandomSequence::next_u32() {
  if (used_ == 4) {
    block_ = philox(key_, counter_++, 0);
    used_ = 0;
  }
  return block_[static_cast<size_t>(used_++)];
}

uint64_t RandomSequence::next_u64() {
  const uint64_t low = next_u32();
  return uint64_t{next_u32()} << 32 | low;
}

double RandomSequence::uniform() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }

double RandomSequence::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  const double angle = 2.0 * std::numbers::pi * uniform();
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

uint64_t RandomSequence::below(uint64_t bound) {
  uint128 product = static_cast<uint128>(next_u64()) * bound;
  if (static_cast<uint64_t>(product) < bound) {
    const uint64_t threshold = (0 - bound) % bound;
    while (static_cast<uint64_t>(product) < threshold) product = static_cast<uint128>(next_u64()) * bound;
  }
  return static_cast<uint64_t>(product >> 64);
}

std::vector<int64_t> permutation(int64_t n, uint64_t key) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  RandomSequence random(key);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

}  // namespace mlbench
