#pragma once

// For tests: memory that host code must not touch, as that of a GPU.

#include <sys/mman.h>

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"

namespace mlbench {

// Pages that are closed except while somebody works on them: whoever reads or writes there then ends the process.
class FarPages {
 public:
  // Zeros. The pages stay until the process ends, so that no other mapping gets their address.
  std::byte* allocate(size_t bytes) {
    void* pages = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MLBENCH_CHECK(pages != MAP_FAILED, "mmap");
    const std::lock_guard lock(mutex_);
    buffers_.emplace_back(pages, bytes);
    protect(buffers_.back());
    return static_cast<std::byte*>(pages);
  }

  void open() { change(+1); }
  void close() { change(-1); }
  template <typename Action>
  void while_open(Action&& action) {
    open();
    action();
    close();
  }

 private:
  void change(int by) {
    const std::lock_guard lock(mutex_);
    const bool was_open = users_ > 0;
    users_ += by;
    if (was_open == (users_ > 0)) return;
    for (const auto& buffer : buffers_) protect(buffer);
  }
  void protect(const std::pair<void*, size_t>& buffer) const {
    MLBENCH_CHECK(mprotect(buffer.first, buffer.second, users_ > 0 ? PROT_READ | PROT_WRITE : PROT_NONE) == 0,
                  "mprotect");
  }

  std::mutex mutex_;
  int users_ = 0;
  std::vector<std::pair<void*, size_t>> buffers_;
};

}  // namespace mlbench
