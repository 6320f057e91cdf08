#pragma once

// A thread that communicates while its rank computes. The thread calls the blocking collectives one after the other, so
// that one class serves every back end.

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
  // The cores on which it may run; empty: those of the thread that makes it. A maker that is bound to a core must name
  // others, or the two would take turns.
  std::vector<int> cores;
  // Why it would take time from the threads that compute: its back end spins while it waits, and no core is left for
  // that. "": it would not.
  std::string crowded;
};

// Only the thread that owns the object may use it.
class CommunicationThread {
 public:
  explicit CommunicationThread(const std::vector<int>& cores);
  // Does what abandon() does.
  ~CommunicationThread();
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;

  // Adds a job, which is done when all earlier jobs are. After a job that threw, and after abandon(), no job is begun.
  void submit(std::function<void()> job);
  // Returns when all jobs are done; what they wrote is then visible. Throws the error of the first job that threw;
  // later calls throw it again.
  void finish();
  // Drops the jobs that have not begun, and returns when the current job has ended.
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
