#include "mlbench/collectives/bandwidth.h"

#include <gtest/gtest.h>

namespace mlbench::collectives {
namespace {

using spec::Collective;

TEST(Bandwidth, FactorsAreThoseOfNcclTests) {
  EXPECT_EQ(bus_factor(Collective::kAllReduce, 2), 1);
  EXPECT_EQ(bus_factor(Collective::kAllReduce, 4), 1.5);
  EXPECT_EQ(bus_factor(Collective::kAllReduce, 8), 1.75);
  for (const Collective operation : {Collective::kReduceScatter, Collective::kAllGather, Collective::kAllToAll,
                                     Collective::kAllToAllV, Collective::kGather, Collective::kScatter}) {
    EXPECT_EQ(bus_factor(operation, 4), 0.75) << spec::traits_of(operation).name;
    EXPECT_EQ(bus_factor(operation, 8), 0.875);
    EXPECT_EQ(bus_factor(operation, 1), 0) << "nothing leaves the rank";
  }
  for (const Collective operation :
       {Collective::kBroadcast, Collective::kReduce, Collective::kSendRecv, Collective::kBandwidth}) {
    EXPECT_EQ(bus_factor(operation, 8), 1) << spec::traits_of(operation).name;
  }
  EXPECT_EQ(bus_factor(Collective::kBarrier, 8), 0);
}

// 128 MiB = 134,217,728 bytes in 1 ms.
TEST(Bandwidth, ByHand) {
  EXPECT_DOUBLE_EQ(algorithm_bandwidth(Collective::kAllReduce, 128 << 20, 1000), 134.217728);
  EXPECT_DOUBLE_EQ(algorithm_bandwidth(Collective::kAllGather, 1000, 1), 1);
  EXPECT_DOUBLE_EQ(algorithm_bandwidth(Collective::kBidirectionalBandwidth, 1000, 1), 2) << "both directions count";
  EXPECT_EQ(algorithm_bandwidth(Collective::kAllReduce, 1000, 0), 0);
  EXPECT_EQ(algorithm_bandwidth(Collective::kBarrier, 0, 5), 0);
}

}  // namespace
}  // namespace mlbench::collectives
