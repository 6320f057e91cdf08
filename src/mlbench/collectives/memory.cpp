#include "mlbench/collectives/memory.h"

#include <cstring>
#include <new>

namespace mlbench::collectives {

namespace {
constexpr std::align_val_t kBufferAlignment{64};
}  // namespace

std::shared_ptr<std::byte> HostMemory::allocate(size_t bytes) {
  if (of_communicator_) return comm_.allocate(bytes);
  auto* memory = static_cast<std::byte*>(::operator new(bytes, kBufferAlignment));
  return {memory, [](std::byte* address) { ::operator delete(address, kBufferAlignment); }};
}

void HostMemory::fill(std::byte* to, std::byte value, size_t bytes) {
  if (bytes > 0) std::memset(to, static_cast<int>(value), bytes);
}

void HostMemory::write(std::byte* to, const std::byte* host, size_t bytes) {
  if (bytes > 0) std::memcpy(to, host, bytes);
}

void HostMemory::read(std::byte* host, const std::byte* from, size_t bytes) {
  if (bytes > 0) std::memcpy(host, from, bytes);
}

void HostMemory::copy(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace mlbench::collectives
