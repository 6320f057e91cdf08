#pragma once

// A buffer of the operations between two margins, so that what is written beside it is found.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "mlbench/collectives/memory.h"
#include "mlbench/collectives/pattern.h"

namespace mlbench::collectives {

class BufferWithMargins {
 public:
  // Room for `most_bytes` that begin at most `most_misaligned` behind an address that is a multiple of 64. Collective,
  // as Memory::allocate.
  BufferWithMargins(Memory& memory, size_t most_bytes, size_t most_misaligned);

  // From now on it begins so many bytes behind such an address. Its contents are lost.
  void misalign(size_t bytes);
  std::byte* data() const { return data_; }

  // Gives the first `bytes`, and a margin on either side of them, a value that no pattern has throughout.
  void clear(size_t bytes);
  // Elements of a pattern, `at` bytes from the beginning.
  void write(const Pattern& pattern, DType dtype, size_t at, int64_t first, int64_t count);
  int64_t differing(const Pattern& pattern, DType dtype, size_t at, int64_t first, int64_t count) const;
  // Bytes of the margins of the last clear(bytes) that have changed.
  int64_t trespasses(size_t bytes) const;

 private:
  Memory& memory_;
  size_t most_bytes_, most_misaligned_;
  std::shared_ptr<std::byte> owner_;
  std::byte* data_;
};

}  // namespace mlbench::collectives
