#pragma once

// Threads that decode the samples of a batch together.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace mlbench::data {

class DecodingThreads {
 public:
  // `count` threads, of which one is the caller of each(). The others may run on `cores`; empty: on those of the thread
  // that makes the object.
  explicit DecodingThreads(int count = 1, const std::vector<int>& cores = {});
  ~DecodingThreads();
  DecodingThreads(const DecodingThreads&) = delete;
  DecodingThreads& operator=(const DecodingThreads&) = delete;

  // Calls work(i) once for each i in [0, count), on any of the threads, and returns when all calls have. Where a call
  // throws, no further one begins. What the lowest i threw is thrown then, which is the same for any number of threads.
  void each(int64_t count, const std::function<void(int64_t i)>& work);

 private:
  void take_part(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable work_comes_, work_ends_;
  const std::function<void(int64_t i)>* work_ = nullptr;  // that of the each() under way
  int64_t next_ = 0, end_ = 0;                            // the calls that nobody has begun
  int64_t under_way_ = 0;                                 // calls that were begun and have not ended
  int64_t failed_ = std::numeric_limits<int64_t>::max();  // the lowest i whose call threw
  std::exception_ptr error_;                              // what it threw
  bool stop_ = false;
  std::vector<std::thread> others_;
};

}  // namespace mlbench::data
