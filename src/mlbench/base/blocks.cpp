#include "mlbench/base/blocks.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace mlbench {

void for_blocks(size_t count, size_t block, int threads,
                const std::function<void(int thread, size_t begin, size_t end)>& work) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;
  const auto take = [&](int thread) {
    try {
      for (size_t begin = 0; (begin = next.fetch_add(block)) < count;) {
        work(thread, begin, std::min(begin + block, count));
      }
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (int thread = 1; thread < threads; ++thread) others.emplace_back(take, thread);
    take(0);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace mlbench
