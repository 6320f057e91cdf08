#include "mlbench/exec/nodes.h"

#include <gtest/gtest.h>

namespace mlbench::exec {
namespace {

TEST(ClusterNodes, OfferWhatThoseOfThemThatTakeRanksHave) {
  ClusterNodes nodes{.nodes = {{.name = "n1", .cpus = 3.92, .gpus = 2},
                               {.name = "n2", .ready = true, .cpus = 64, .gpus = 1},
                               {.name = "n3", .ready = false, .cpus = 96, .gpus = 8}}};
  const HostsOffer offer = offer_of(nodes);
  EXPECT_EQ(offer.gpus, 3);
  EXPECT_EQ(offer.cores, 67);
  EXPECT_EQ(offer.cores_on_host, 64);
  nodes.nodes.push_back({.name = "n4"});
  EXPECT_FALSE(offer_of(nodes).gpus) << "nobody knows what n4 has";
  EXPECT_FALSE(offer_of(nodes).cores || offer_of(nodes).cores_on_host);
}

TEST(ClusterNodes, OfferNothingForCertainWhereTheyAreNotAllKnown) {
  ClusterNodes nodes{.nodes = {{.name = "n1", .cpus = 8, .gpus = 0}}};
  EXPECT_EQ(offer_of(nodes).gpus, 0);
  nodes.problem = "only the first 1 nodes are shown";
  EXPECT_FALSE(offer_of(nodes).gpus || offer_of(nodes).cores);
  EXPECT_FALSE(offer_of({}).gpus);
}

}  // namespace
}  // namespace mlbench::exec
