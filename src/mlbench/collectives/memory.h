#pragma once

// Memory of this host for the buffers of the operations.

#include <cstddef>
#include <memory>

#include "mlbench/comm/communicator.h"
#include "mlbench/comm/memory.h"

namespace mlbench::collectives {

using comm::Memory;

// Takes buffers from the heap, or from the communicator (Communicator::allocate()).
class HostMemory final : public Memory {
 public:
  HostMemory(comm::Communicator& comm, bool of_communicator) : comm_(comm), of_communicator_(of_communicator) {}

  Stream stream() const override { return {}; }
  std::shared_ptr<std::byte> allocate(size_t bytes) override;
  void fill(std::byte* to, std::byte value, size_t bytes) override;
  void write(std::byte* to, const std::byte* host, size_t bytes) override;
  void read(std::byte* host, const std::byte* from, size_t bytes) override;
  void copy(std::byte* to, const std::byte* from, size_t bytes) override;
  void synchronize() override {}

 private:
  comm::Communicator& comm_;
  bool of_communicator_;
};

}  // namespace mlbench::collectives
