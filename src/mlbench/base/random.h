#pragma once

// Counter-based random numbers: every value is a pure function of (key, counter). Streams therefore never depend on the
// order of calls, on threads or on the number of workers. The generator is Philox4x32-10 (Salmon et al., "Parallel
// Random Numbers: As Easy as 1, 2, 3", SC 2011).

#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace mlbench {

// 128 random bits for a 64-bit key and a 128-bit counter.
std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_low, uint64_t counter_high);

// Derives a new key from a key and labels, e.g. derive_key(seed, {kShuffleStream, epoch}).
uint64_t derive_key(uint64_t seed, std::initializer_list<uint64_t> labels);

// What a derived key is for: the first label given to derive_key(), so that two streams never share a key.
enum RandomStream : uint64_t {
  kInitStream = 1,
  kShuffleStream = 2,
  kAugmentStream = 3,
  kDropoutStream = 4,
  kSyntheticStream = 5,
  kBootstrapStream = 7,
  kLengthStream = 8,
  kCoderStream = 9,
  kHoldoutStream = 10,
  kTuneStream = 11,
};

// Reads one stream from its beginning.
class RandomSequence {
 public:
  explicit RandomSequence(uint64_t key) : key_(key) {}
  uint32_t next_u32();
  uint64_t next_u64();
  double uniform();                // [0, 1), 53 bits
  double normal();                 // mean 0, standard deviation 1 (Box-Muller)
  uint64_t below(uint64_t bound);  // uniform in [0, bound), unbiased (Lemire)

 private:
  uint64_t key_;
  uint64_t counter_ = 0;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
  bool has_spare_ = false;
  double spare_ = 0;
};

// A permutation of [0, n) by Fisher and Yates: the same for the same key on every machine.
std::vector<int64_t> permutation(int64_t n, uint64_t key);

}  // namespace mlbench
