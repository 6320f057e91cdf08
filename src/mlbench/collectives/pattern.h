#pragma once

// Data whose right outcome is a closed formula: small whole numbers that repeat with a prime period, chosen so that
// every sum, product and average of them is exact in its type, in whatever order the ranks are combined. So results are
// compared bit by bit, at the speed of memory, however long the buffer is.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/spec/collectives.h"

namespace mlbench::collectives {

// Prime, so that no slice boundary, chunk or block of a back end falls into step with it.
inline constexpr int64_t kPeriod = 251;

// An endless row of elements that repeats after kPeriod.
class Pattern {
 public:
  // `value` of each place from 0 to kPeriod - 1: a whole number that the type holds exactly, but for integers, which
  // wrap.
  Pattern(DType dtype, const std::function<int64_t(int64_t place)>& value);

  // Elements [first, first + count) of the row, to or from memory of this host at any address.
  void write(std::byte* to, int64_t first, int64_t count) const;
  // How many of them are another there, beyond what may be.
  int64_t differing(const std::byte* from, int64_t first, int64_t count) const;
  // From now on floats that differ by so much of the value are none.
  void allow(double relative_error) { relative_error_ = relative_error; }

 private:
  bool near(const std::byte* element, const std::byte* right) const;

  DType dtype_;
  size_t size_;  // of an element
  double relative_error_ = 0;
  std::vector<std::byte> bytes_;  // some periods, and one more
};

// What rank `source` has for rank `destination` (of operations where all ranks get the same: 0).
Pattern moved_pattern(DType dtype, int source, int destination, uint64_t seed);

// A reduction over so many ranks.
struct Reduced {
  DType dtype = DType::kFloat32;
  spec::Reduction reduction = spec::Reduction::kSum;
  int ranks = 1;
  uint64_t seed = 0;
  // Of an average of floats: each value may be multiplied by 1 / ranks before it is added, as NCCL does on a device.
  // That is at most ranks + 2 roundings, of values that are not negative, so the outcome may be off by as many units of
  // roundoff; of a power of two nothing is rounded.
  bool scaled_first = false;
};
// What a rank gives, and what comes of all ranks' together.
//   sum       0 to M - 1 with M so small that the sum of all ranks is exact: 127, in bfloat16 256 / ranks + 1; of more
//             ranks than that a part of them gives ones
//   prod      1, -1, 2, -2, at most six of them not 1 or -1: the product is at most 64
//   min, max  0 to 126
//   avg       as sum, where rank 0 adds what makes the sum a multiple of the number of ranks
Pattern given_pattern(const Reduced& what, int rank);
Pattern outcome_pattern(const Reduced& what);

}  // namespace mlbench::collectives
