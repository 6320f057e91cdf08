#include "mlbench/exec/placement.h"

#include <gtest/gtest.h>

namespace mlbench::exec {
namespace {

TEST(Placement, CoresAreWrittenAsTheKernelDoes) {
  EXPECT_EQ(core_list(std::vector<int>{}), "");
  EXPECT_EQ(core_list(std::vector<int>{3}), "3");
  EXPECT_EQ(core_list(std::vector<int>{0, 1, 2, 3}), "0-3");
  EXPECT_EQ(core_list(std::vector<int>{0, 2, 3, 5, 8, 9, 10}), "0,2-3,5,8-10");
}

TEST(Placement, WhatIsNotKnownIsNull) {
  const std::vector<Placement> places = {{.host = "a", .rank = 0, .local_rank = 0, .cores = {0, 1}, .gpu = 3},
                                         {.host = "b", .rank = 1}};
  EXPECT_EQ(to_json(places),
            Json({{{"rank", 0}, {"host", "a"}, {"local_rank", 0}, {"cores", "0-1"}, {"gpu", 3}},
                  {{"rank", 1}, {"host", "b"}, {"local_rank", 0}, {"cores", nullptr}, {"gpu", nullptr}}}));
}

const HostCapture kOwn{"a", {{"name", "a"}, {"cores", 2}}, {{"kernel", "6.1"}}};

// In a record of one host, the environment of that host is the record's own.
TEST(Hosts, ASingleHostOfTheSupervisorStandsAsItWas) {
  const std::vector<Placement> places = {{.host = "a", .rank = 0}, {.host = "a", .rank = 1, .local_rank = 1}};
  EXPECT_EQ(hosts_of(places, {}, kOwn), Json::array({kOwn.host}));
}

TEST(Hosts, EachSaysItsEnvironmentInTheOrderOfRanks) {
  const std::vector<Placement> places = {{.host = "c", .rank = 0},
                                         {.host = "a", .rank = 1},
                                         {.host = "c", .rank = 2, .local_rank = 1},
                                         {.host = "d", .rank = 3}};
  // A host that calls itself otherwise (a pod) goes by the name of its place.
  const std::vector<HostCapture> captures = {{"c", {{"name", "c.local"}, {"cores", 8}}, {{"kernel", "5.10"}}}};
  EXPECT_EQ(hosts_of(places, captures, kOwn),
            Json({{{"name", "c"}, {"cores", 8}, {"environment", {{"kernel", "5.10"}}}},
                  {{"name", "a"}, {"cores", 2}, {"environment", {{"kernel", "6.1"}}}},
                  {{"name", "d"}}}));
}

TEST(Hosts, TheSupervisorsIsNoneOfThemWithoutARank) {
  const std::vector<Placement> places = {{.host = "c", .rank = 0}};
  const std::vector<HostCapture> captures = {{"c", {{"name", "c"}, {"cores", 8}}, {{"kernel", "5.10"}}}};
  EXPECT_EQ(hosts_of(places, captures, kOwn),
            Json::array({{{"name", "c"}, {"cores", 8}, {"environment", {{"kernel", "5.10"}}}}}));
}

}  // namespace
}  // namespace mlbench::exec
