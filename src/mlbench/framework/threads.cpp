#include "mlbench/framework/threads.h"

#include <omp.h>

#include "mlbench/base/environment.h"

namespace mlbench::framework {

bool bind_threads(std::span<const int> cores) {
  if (cores.empty()) return false;
  const int threads = static_cast<int>(cores.size());
  bool bound = true;
#pragma omp parallel num_threads(threads) reduction(&& : bound)
  bound = omp_get_num_threads() == threads && bind_thread(cores[static_cast<size_t>(omp_get_thread_num())]);
  return bound;
}

}  // namespace mlbench::framework
