#include "mlbench/framework/native/tape/team.h"

#include <fmt/format.h>
#include <omp.h>

#include <atomic>
#include <exception>
#include <mutex>

#include "mlbench/base/errors.h"

namespace mlbench::framework::native_framework {

SingleThreaded::SingleThreaded() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
SingleThreaded::~SingleThreaded() { omp_set_num_threads(before_); }

class FirstError {
 public:
  bool is_kept() const { return kept_.load(std::memory_order_relaxed); }
  void keep() {
    const std::lock_guard lock(mutex_);
    if (error_) return;
    error_ = std::current_exception();
    kept_ = true;
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::atomic<bool> kept_ = false;
  std::mutex mutex_;
  std::exception_ptr error_;
};

void TeamMember::guard(const std::function<void()>& work) {
  if (error_.is_kept()) return;
  try {
    work();
  } catch (...) {
    error_.keep();
  }
}

void TeamMember::meet() {
#pragma omp barrier
}

void run_team(int threads, const std::function<void(TeamMember& member)>& body) {
  FirstError error;
  std::atomic<int> given = threads;
#pragma omp parallel num_threads(threads)
  {
    if (omp_get_num_threads() == threads) {
      TeamMember member(omp_get_thread_num(), error);
      body(member);
    } else {
      given = omp_get_num_threads();
    }
  }
  error.rethrow();
  if (given != threads) {
    throw UserError(
        fmt::format("framework 'native' asked OpenMP for {} threads and got {}: ask for as many, or lift OMP_DYNAMIC, "
                    "OMP_THREAD_LIMIT or what else limits them",
                    threads, given.load()));
  }
}

}  // namespace mlbench::framework::native_framework
