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

// At any time, jobs of unknown senders use at most half of the threads and a quarter of the queue.
class Pool {
 public:
  // `run` is false when the pool stopped before the job's turn. The job then only tells whoever waits for it.
  using Job = std::function<void(bool run)>;

  Pool(size_t threads, size_t most_waiting);
  ~Pool();  // stop()
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Takes the job. Returns false, and drops the job, when the queue is full or the pool has stopped.
  bool offer(Job job, bool known);
  // Takes the next part of a job that was begun before, without the limit of offer(). False when the pool has stopped.
  bool go_on(Job job, bool known);
  // Waits for the running jobs; calls the waiting ones with `run` false.
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
