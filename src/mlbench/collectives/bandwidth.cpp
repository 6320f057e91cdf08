#include "mlbench/collectives/bandwidth.h"

namespace mlbench::collectives {

using spec::Collective;

double bus_factor(Collective operation, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (operation) {
    case Collective::kAllReduce:
      return 2 * others;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kAllToAll:
    case Collective::kAllToAllV:
    case Collective::kGather:
    case Collective::kScatter:
      return others;
    case Collective::kBarrier:
      return 0;
    default:
      return 1;
  }
}

double algorithm_bandwidth(Collective operation, int64_t bytes, double time_us) {
  if (time_us <= 0) return 0;
  const double both_ways = operation == Collective::kBidirectionalBandwidth ? 2 : 1;
  return both_ways * static_cast<double>(bytes) / (time_us * 1e-6) / 1e9;
}

}  // namespace mlbench::collectives
