#pragma once

// A few threads with a queue of limited length.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace mlbench::net::http {

// Of what unknown senders ask for, at most half of the threads do something at a time, and a quarter of the queue
// waits.
class Pool {
 public:
  // Gets false when the pool has stopped before the job's turn: it then only says so to whoever waits for it.
  using Job = std::function<void(bool run)>;

  Pool(size_t threads, size_t most_waiting);
  ~Pool();  // stop()
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // False, without the job, when the queue is full or the pool has stopped.
  bool offer(Job job, bool known);
  // The same without a limit, for what was begun before.
  bool go_on(Job job, bool known);
  // Waits for the running jobs; what waits is told.
  void stop();

 private:
  struct Waiting {
    Job job;
    bool known;
  };
  bool add(Job job, bool known, bool limited);
  std::deque<Waiting>::iterator next();
  void work();

  const size_t most_waiting_, most_unknown_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopped_ = false;
  size_t unknown_running_ = 0, unknown_waiting_ = 0;
  std::deque<Waiting> waiting_;
  std::vector<std::thread> threads_;
};

}  // namespace mlbench::net::http
