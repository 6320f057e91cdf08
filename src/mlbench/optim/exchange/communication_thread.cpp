#include "mlbench/optim/exchange/communication_thread.h"

#include <pthread.h>

#include <utility>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"

namespace mlbench::optim {

CommunicationThread::CommunicationThread(const std::vector<int>& cores) : thread_([this, cores] { run(cores); }) {}

CommunicationThread::~CommunicationThread() {
  abandon();
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  to_do_.notify_one();
  thread_.join();
}

void CommunicationThread::submit(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (error_ || abandoned_) return;
    jobs_.push_back(std::move(job));
  }
  to_do_.notify_one();
}

void CommunicationThread::finish() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return jobs_.empty() && !working_; });
  if (error_) std::rethrow_exception(error_);
  MLBENCH_CHECK(!abandoned_, "jobs were dropped: there is nothing to finish");
}

void CommunicationThread::abandon() noexcept {
  std::unique_lock lock(mutex_);
  abandoned_ = true;
  jobs_.clear();
  done_.wait(lock, [&] { return !working_; });
}

void CommunicationThread::run(const std::vector<int>& cores) {
  pthread_setname_np(pthread_self(), "mlbench-comm");
  // If the system refuses, the thread stays where its maker is: slower, not wrong.
  if (!cores.empty()) bind_thread(cores);
  std::unique_lock lock(mutex_);
  for (;;) {
    to_do_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    working_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      job();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    working_ = false;
    if (error) {
      error_ = error;
      jobs_.clear();
    }
    if (jobs_.empty()) done_.notify_one();
  }
}

}  // namespace mlbench::optim
