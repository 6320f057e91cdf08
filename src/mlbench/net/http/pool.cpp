#include "mlbench/net/http/pool.h"

#include <algorithm>

namespace mlbench::net::http {

Pool::Pool(size_t threads, size_t most_waiting)
    : most_waiting_(most_waiting), most_unknown_(std::max<size_t>(1, threads / 2)) {
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

Pool::~Pool() { stop(); }

bool Pool::offer(Job job, bool known) { return add(std::move(job), known, true); }
bool Pool::go_on(Job job, bool known) { return add(std::move(job), known, false); }

bool Pool::add(Job job, bool known, bool limited) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return false;
    const bool full = waiting_.size() >= most_waiting_ || (!known && unknown_waiting_ >= most_waiting_ / 4);
    if (limited && full) return false;
    waiting_.push_back({std::move(job), known});
    if (!known) ++unknown_waiting_;
  }
  wake_.notify_one();
  return true;
}

std::deque<Pool::Waiting>::iterator Pool::next() {
  return std::find_if(waiting_.begin(), waiting_.end(),
                      [&](const Waiting& one) { return one.known || stopped_ || unknown_running_ < most_unknown_; });
}

void Pool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto found = next();
    if (found == waiting_.end()) {
      if (stopped_) return;
      wake_.wait(lock);
      continue;
    }
    const Waiting one = std::move(*found);
    waiting_.erase(found);
    if (!one.known) --unknown_waiting_, ++unknown_running_;
    const bool run = !stopped_;
    lock.unlock();
    one.job(run);
    lock.lock();
    if (one.known) continue;
    --unknown_running_;
    wake_.notify_one();  // another job of an unknown sender may have waited for this
  }
}

void Pool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace mlbench::net::http
