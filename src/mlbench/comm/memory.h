#pragma once

// Where the buffers of operations lie, and how this host writes and reads them.

#include <cstddef>
#include <memory>

#include "mlbench/base/buffer.h"

namespace mlbench::comm {

class Memory {
 public:
  virtual ~Memory() = default;

  // The order in which operations access the buffers.
  virtual Stream stream() const = 0;
  // Memory aligned to 64 bytes. Collective: every rank asks for the same number of bytes.
  virtual std::shared_ptr<std::byte> allocate(size_t bytes) = 0;

  // These copies must happen between operations, and are done on return. `host` is memory of this host.
  virtual void fill(std::byte* to, std::byte value, size_t bytes) = 0;
  virtual void write(std::byte* to, const std::byte* host, size_t bytes) = 0;
  virtual void read(std::byte* host, const std::byte* from, size_t bytes) = 0;
  // Copies one buffer into another that does not overlap it, in the order of stream().
  virtual void copy(std::byte* to, const std::byte* from, size_t bytes) = 0;
  // The host waits for all that was begun in stream().
  virtual void synchronize() = 0;
};

}  // namespace mlbench::comm
