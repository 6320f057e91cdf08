#pragma once

// Data whose right result is a closed formula: small whole numbers that repeat with a prime period, chosen so that
// every sum, product and average of them is exact in its type, in whatever order ranks are combined. So results are
// compared bit by bit, at the speed of memory, however long the buffer is.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/spec/collectives.h"

namespace mlbench::collectives {

// The period is prime, so that no slice boundary, chunk or block of a back end coincides with it.
inline constexpr int64_t kPeriod = 251;

// An endless row of elements that repeats after kPeriod elements.
class Pattern {
 public:
  // `value` gives the element at each place from 0 to kPeriod - 1: a whole number that the type holds exactly, except
  // that integers wrap.
  Pattern(DType dtype, const std::function<int64_t(int64_t place)>& value);

  // These access elements [first, first + count) of the row, in memory of this host at any address.
  void write(std::byte* to, int64_t first, int64_t count) const;
  // How many of these elements differ by more than is allowed.
  int64_t differing(const std::byte* from, int64_t first, int64_t count) const;
  // From now on, floats that differ by at most this part of the value do not count as different.
  void allow(double relative_error) { relative_error_ = relative_error; }

 private:
  bool near(const std::byte* element, const std::byte* right) const;

  DType dtype_;
  size_t size_;  // size of an element
  double relative_error_ = 0;
  std::vector<std::byte> bytes_;  // the bytes of some periods, and one more period
};

// The data that rank `source` has for rank `destination` (0 in operations where all ranks get the same data).
Pattern moved_pattern(DType dtype, int source, int destination, uint64_t seed);

// A reduction over a number of ranks.
struct Reduced {
  DType dtype = DType::kFloat32;
  spec::Reduction reduction = spec::Reduction::kSum;
  int ranks = 1;
  uint64_t seed = 0;
  // For averages of floats: each value may be multiplied by 1 / ranks before it is added, as NCCL does on a device.
  // That is at most ranks + 2 roundings of values that are not negative, so the result may be wrong by as many units of
  // roundoff. Nothing is rounded where the number of ranks is a power of two.
  bool scaled_first = false;
};
// The data that a rank gives, and the result of all ranks' data together.
//   sum       0 to M - 1 with M so small that the sum of all ranks is exact: 127, in bfloat16 256 / ranks + 1; of more
//             ranks than that allows, some give ones
//   prod      1, -1, 2, -2, at most six of them not 1 or -1: the product is at most 64
//   min, max  0 to 126
//   avg       as sum, where rank 0 adds what makes the sum a multiple of the number of ranks
Pattern given_pattern(const Reduced& what, int rank);
Pattern outcome_pattern(const Reduced& what);

}  // namespace mlbench::collectives
