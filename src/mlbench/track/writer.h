#pragma once

// The half of a recorder that both recorders have: the thread that writes, and how it is flushed and ended.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

namespace mlbench::track {

// The thread takes `flushes_asked`, writes, and then says so in `flushes_done`; it ends behind its look at `closing`.
struct Writer {
  mutable std::mutex mutex;
  std::condition_variable wake_writer, flushed;

  // Under the mutex.
  uint64_t flushes_asked = 0, flushes_done = 0;
  bool closing = false;
  std::exception_ptr error;

  std::thread writer;

  // Returns when everything that came before is written. Nothing after close().
  void flush() {
    std::unique_lock lock(mutex);
    if (closing) return;
    const uint64_t ticket = ++flushes_asked;
    wake_writer.notify_one();
    flushed.wait(lock, [&] { return flushes_done >= ticket; });
  }

  void close() {
    {
      const std::lock_guard lock(mutex);
      if (closing) return;
      closing = true;
      wake_writer.notify_one();
    }
    writer.join();
  }
};

}  // namespace mlbench::track
