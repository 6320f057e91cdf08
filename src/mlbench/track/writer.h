#pragma once

// What both recorders share: the thread that writes, and how it is flushed and ended.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

namespace mlbench::track {

// The thread reads `flushes_asked`, writes, and then stores it into `flushes_done`; it ends after it has seen
// `closing`.
struct Writer {
  mutable std::mutex mutex;
  std::condition_variable wake_writer, flushed;

  // The mutex guards these.
  uint64_t flushes_asked = 0, flushes_done = 0;
  bool closing = false;
  std::exception_ptr error;

  std::thread writer;

  // Returns when everything that came before is written. After close() it does nothing.
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
