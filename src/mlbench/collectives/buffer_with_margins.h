#pragma once

// A buffer of the operations between two margins, which show whether something was written beside the buffer.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "mlbench/collectives/memory.h"
#include "mlbench/collectives/pattern.h"

namespace mlbench::collectives {

class BufferWithMargins {
 public:
  // Has room for `most_bytes` that begin at most `most_misaligned` bytes after an address that is a multiple of 64.
  // Collective, as Memory::allocate() is.
  BufferWithMargins(Memory& memory, size_t most_bytes, size_t most_misaligned);

  // From now on, the buffer begins so many bytes after such an address. Its contents are lost.
  void misalign(size_t bytes);
  std::byte* data() const { return data_; }

  // Sets the first `bytes`, and a margin on either side, to a value that no pattern has throughout.
  void clear(size_t bytes);
  // These access `count` elements of a pattern, from element `first` on, `at` bytes from the beginning of the buffer.
  void write(const Pattern& pattern, DType dtype, size_t at, int64_t first, int64_t count);
  int64_t differing(const Pattern& pattern, DType dtype, size_t at, int64_t first, int64_t count) const;
  // How many bytes of the margins have changed since the last clear(bytes).
  int64_t trespasses(size_t bytes) const;

 private:
  Memory& memory_;
  size_t most_bytes_, most_misaligned_;
  std::shared_ptr<std::byte> owner_;
  std::byte* data_;
};

}  // namespace mlbench::collectives
