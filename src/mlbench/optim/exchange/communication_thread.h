#pragma once

// The thread that communicates while its rank computes: it calls the blocking collectives, one after the other, so that
// one class serves every back end.

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace mlbench::optim {

// Where a communication thread runs.
struct CommunicationPlace {
  // Cores that it may run on; empty: those of the thread that makes it. A maker that is bound to a core names others,
  // or the two would take turns.
  std::vector<int> cores;
  // Why it would take time from the threads that compute: its back end spins while it waits, and no core is left for
  // that. "": it would not.
  std::string crowded;
};

// Used by one thread, which owns it.
class CommunicationThread {
 public:
  explicit CommunicationThread(const std::vector<int>& cores);
  // As abandon().
  ~CommunicationThread();
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;

  // Is done when all that were submitted before are. Behind one that threw, and behind abandon(), none is begun.
  void submit(std::function<void()> job);
  // Returns when all jobs are done, and what they wrote is seen. Throws what the first threw that did, ever after.
  void finish();
  // Drops the jobs that are not begun and returns when the one that is has ended.
  void abandon() noexcept;

 private:
  void run(const std::vector<int>& cores);

  std::mutex mutex_;
  std::condition_variable to_do_, done_;
  std::deque<std::function<void()>> jobs_;
  bool working_ = false;
  bool abandoned_ = false;
  bool stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace mlbench::optim
