#include "mlbench/framework/tensors/host_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace mlbench::framework {

namespace {

// Sentences differ in length from step to step, and so do blocks. So sizes are rounded, and a block serves requests
// that are up to a fifth smaller.
size_t rounded_bytes(size_t bytes) {
  const size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}
bool serves(size_t block, size_t bytes) { return block >= bytes && block - bytes <= bytes / 4; }

class HostMemory final : public c10::Allocator {
 public:
  // LibTorch uses the object until the process ends, as tensors may outlive all static objects here.
  static HostMemory& instance() {
    static auto* const memory = new HostMemory;
    return *memory;
  }

  c10::DataPtr allocate(size_t bytes) override {
    if (bytes < kLeastKeptBlock) return c10::GetDefaultCPUAllocator()->allocate(bytes);
    void* const data = take(rounded_bytes(bytes));
    return {data, data, &HostMemory::release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &HostMemory::release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

  LargeBlocks blocks() {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

 private:
  struct Block {
    void* data = nullptr;
    size_t bytes = 0;
  };

  static void release(void* data) { instance().give_back(data); }

  void* take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    Block block = take_kept(bytes);
    if (block.data == nullptr) block = {allocated(bytes), bytes};
    used_.emplace(block.data, block.bytes);
    counts_.used_bytes += block.bytes;
    counts_.most_used_bytes = std::max(counts_.most_used_bytes, counts_.used_bytes);
    return block.data;
  }

  // Takes the smallest kept block that serves, and of equal ones the last that was freed, whose values may still be in
  // a cache. An empty block: none serves.
  Block take_kept(size_t bytes) {
    auto best = kept_.end();
    for (auto one = kept_.begin(); one != kept_.end(); ++one) {
      if (serves(one->bytes, bytes) && (best == kept_.end() || one->bytes <= best->bytes)) best = one;
    }
    if (best == kept_.end()) return {};
    const Block block = *best;
    kept_.erase(best);
    counts_.kept_bytes -= block.bytes;
    return block;
  }

  void* allocated(size_t bytes) {
    if (kept_.empty()) return c10::alloc_cpu(bytes);
    try {
      return c10::alloc_cpu(bytes);
    } catch (const c10::Error&) {
      drop_until(0);
      return c10::alloc_cpu(bytes);
    }
  }

  void give_back(void* data) {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(data);
    if (found == used_.end()) return c10::free_cpu(data);  // a small block, from LibTorch's own allocator
    const size_t bytes = found->second;
    used_.erase(found);
    counts_.used_bytes -= bytes;
    kept_.push_back({data, bytes});
    counts_.kept_bytes += bytes;
    drop_until(counts_.most_used_bytes);
  }

  void drop_until(size_t most_bytes) {
    auto first = kept_.begin();
    for (; counts_.kept_bytes > most_bytes; ++first) {
      c10::free_cpu(first->data);
      counts_.kept_bytes -= first->bytes;
    }
    kept_.erase(kept_.begin(), first);
  }

  std::mutex mutex_;
  std::unordered_map<void*, size_t> used_;
  std::vector<Block> kept_;  // in the order in which they were freed
  LargeBlocks counts_;
};

}  // namespace

void keep_large_blocks() {
  if (c10::GetCPUAllocator() != &HostMemory::instance()) c10::SetCPUAllocator(&HostMemory::instance());
}

LargeBlocks large_blocks() { return HostMemory::instance().blocks(); }

}  // namespace mlbench::framework
