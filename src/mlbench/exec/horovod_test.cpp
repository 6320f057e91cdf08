#include "mlbench/exec/horovod.h"

#include <gmock/gmock.h>

#include "mlbench/exec/local/local.h"

namespace mlbench::exec {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;
using testing::UnorderedElementsAre;

LaunchRequest custom_request(const std::string& backend) {
  LaunchRequest request;
  request.by_mpirun = backend == "mpi";
  request.command = {"python3", "train.py"};
  request.rank_words = true;
  request.workers = 2;
  request.environment = {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "4711"}};
  return request;
}

TEST(Horovod, GlooIsToldWhereTheRendezvousIs) {
  LaunchRequest request = custom_request("gloo");
  add_horovod(request);
  EXPECT_THAT(request.environment,
              UnorderedElementsAre(Pair("MASTER_ADDR", "127.0.0.1"), Pair("MASTER_PORT", "4711"),
                                   Pair("HOROVOD_CONTROLLER", "gloo"), Pair("HOROVOD_CPU_OPERATIONS", "gloo"),
                                   Pair("HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1"),
                                   Pair("HOROVOD_GLOO_RENDEZVOUS_PORT", "4711"), Pair("HOROVOD_GLOO_IFACE", "lo")));
  LaunchRequest elsewhere = custom_request("gloo");
  elsewhere.environment["MASTER_ADDR"] = "node-1";
  add_horovod(elsewhere);
  EXPECT_FALSE(elsewhere.environment.contains("HOROVOD_GLOO_IFACE")) << "which one it is, Horovod finds out";
}

TEST(Horovod, MpiFindsItsRanksItself) {
  LaunchRequest request = custom_request("mpi");
  add_horovod(request);
  EXPECT_EQ(request.environment.at("HOROVOD_CONTROLLER"), "mpi");
  EXPECT_FALSE(request.environment.contains("HOROVOD_GLOO_RENDEZVOUS_ADDR"));
}

TEST(Horovod, WhatTheUserGaveStays) {
  LaunchRequest request = custom_request("gloo");
  request.environment["HOROVOD_CONTROLLER"] = "mpi";
  request.environment["HOROVOD_GLOO_IFACE"] = "eth1";
  add_horovod(request);
  EXPECT_EQ(request.environment["HOROVOD_CONTROLLER"], "mpi");
  EXPECT_EQ(request.environment["HOROVOD_GLOO_IFACE"], "eth1");
}

TEST(Horovod, ARankKnowsItsPlace) {
  std::map<std::string, std::string> environment;
  add_horovod(environment, {5, 8, 1, 4, 1, 2});
  EXPECT_THAT(environment, UnorderedElementsAre(Pair("HOROVOD_RANK", "5"), Pair("HOROVOD_SIZE", "8"),
                                                Pair("HOROVOD_LOCAL_RANK", "1"), Pair("HOROVOD_LOCAL_SIZE", "4"),
                                                Pair("HOROVOD_CROSS_RANK", "1"), Pair("HOROVOD_CROSS_SIZE", "2")));
}

TEST(Horovod, RanksAreCountedOnTheirHostsAndAcross) {
  // Three ranks are on the first host, one on the second, and two on the third.
  const std::vector<LocalPlace> on_hosts = {{0, 3}, {1, 3}, {2, 3}, {0, 1}, {0, 2}, {1, 2}};
  const std::vector<HorovodPlace> places = horovod_places(on_hosts);
  const std::vector<std::pair<int, int>> across = {{0, 3}, {0, 2}, {0, 1}, {1, 3}, {2, 3}, {1, 2}};
  ASSERT_EQ(places.size(), on_hosts.size());
  for (size_t rank = 0; rank < places.size(); ++rank) {
    EXPECT_EQ(places[rank].rank, static_cast<int>(rank));
    EXPECT_EQ(places[rank].size, 6);
    EXPECT_EQ(std::pair(places[rank].local_rank, places[rank].local_size),
              std::pair(on_hosts[rank].rank, on_hosts[rank].size));
    EXPECT_EQ(std::pair(places[rank].cross_rank, places[rank].cross_size), across[rank]) << "rank " << rank;
  }
}

TEST(Horovod, RanksOfCustomRunsAloneHaveThem) {
  LaunchRequest request = custom_request("gloo");
  const auto lines = local::make()->describe(request);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[1], AllOf(HasSubstr("HOROVOD_RANK=1 "), HasSubstr("HOROVOD_SIZE=2 "),
                              HasSubstr("HOROVOD_LOCAL_SIZE=2 "), HasSubstr("HOROVOD_CROSS_SIZE=1 ")));
  request.rank_words = false;
  EXPECT_THAT(local::make()->describe(request)[1], Not(HasSubstr("HOROVOD")));
}

}  // namespace
}  // namespace mlbench::exec
