#include "mlbench/catalog/options/executors.h"

#include "mlbench/exec/kubernetes/kubernetes.h"
#include "mlbench/exec/local/local.h"
#include "mlbench/exec/mpirun/mpirun.h"
#include "mlbench/exec/slurm/slurm.h"

namespace mlbench::catalog {

std::span<const ExecutorRow> executors() {
  // clang-format off
  static constexpr ExecutorRow kRows[] = {
      exec::local::kExecutor,
      exec::mpirun::kExecutor,
      exec::slurm::kExecutor,
      exec::kubernetes::kExecutor,
  };
  // clang-format on
  return kRows;
}

}  // namespace mlbench::catalog
