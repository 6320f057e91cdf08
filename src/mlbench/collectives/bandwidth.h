#pragma once

// Bandwidths as nccl-tests defines them (its doc PERFORMANCE, "Performance reported by NCCL tests"), so that figures
// can be compared. With S the bytes of a row and t its time, the algorithm bandwidth is S / t. The bus bandwidth is the
// algorithm bandwidth times a factor, with which it is the speed at which each rank's link must move data for any
// number n of ranks:
//
//   all_reduce                                                       2 (n - 1) / n
//   reduce_scatter, all_gather, all_to_all(_v), gather, scatter      (n - 1) / n
//   broadcast, reduce, sendrecv, latency, bandwidth                  1
//   bidirectional_bandwidth                                          1, of 2 S / t
//   barrier                                                          no bandwidth

#include <cstdint>

#include "mlbench/spec/collectives.h"

namespace mlbench::collectives {

double bus_factor(spec::Collective operation, int ranks);

// The algorithm bandwidth in GB/s (10^9 bytes); 0 where the time is 0.
double algorithm_bandwidth(spec::Collective operation, int64_t bytes, double time_us);

}  // namespace mlbench::collectives
