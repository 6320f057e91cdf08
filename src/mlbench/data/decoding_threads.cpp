#include "mlbench/data/decoding_threads.h"

#include <pthread.h>

#include <utility>

#include "mlbench/base/environment.h"

namespace mlbench::data {

DecodingThreads::DecodingThreads(int count, const std::vector<int>& cores) {
  for (int i = 1; i < count; ++i) {
    others_.emplace_back([this, cores] {
      pthread_setname_np(pthread_self(), "mlbench-data");
      if (!cores.empty()) bind_thread(cores);
      std::unique_lock lock(mutex_);
      while (!stop_) {
        take_part(lock);
        work_comes_.wait(lock, [this] { return stop_ || next_ < end_; });
      }
    });
  }
}

DecodingThreads::~DecodingThreads() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_comes_.notify_all();
  for (std::thread& other : others_) other.join();
}

void DecodingThreads::each(int64_t count, const std::function<void(int64_t)>& work) {
  if (others_.empty()) {
    for (int64_t i = 0; i < count; ++i) work(i);
    return;
  }
  std::unique_lock lock(mutex_);
  work_ = &work;
  next_ = 0;
  end_ = count;
  work_comes_.notify_all();
  take_part(lock);
  work_ends_.wait(lock, [this] { return under_way_ == 0; });
  failed_ = std::numeric_limits<int64_t>::max();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

// Calls begin in the order of i. So when one throws, those of lower i have begun, and the lowest that throws is known
// when they have ended.
void DecodingThreads::take_part(std::unique_lock<std::mutex>& lock) {
  while (next_ < end_) {
    const int64_t i = next_++;
    ++under_way_;
    lock.unlock();
    std::exception_ptr error;
    try {
      (*work_)(i);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error) end_ = next_;
    if (error && i < failed_) {
      failed_ = i;
      error_ = error;
    }
    if (--under_way_ == 0) work_ends_.notify_all();
  }
}

}  // namespace mlbench::data
