#include "mlbench/spec/hosts.h"

#include <gmock/gmock.h>

#include "mlbench/base/test_error.h"

namespace mlbench::spec {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string refused(const std::string& hosts) {
  return error_of([&] { parse_hosts(hosts); });
}

TEST(Hosts, HostsHaveSlots) {
  EXPECT_THAT(parse_hosts("h1:2,h2,10.0.0.3:1024,[fd00::7]:4,[::1]"),
              ElementsAre(HostSlots{"h1", 2}, HostSlots{"h2", 1}, HostSlots{"10.0.0.3", 1024}, HostSlots{"fd00::7", 4},
                          HostSlots{"::1", 1}));
  const std::string text = "h1:2,h2:1,[fd00::7]:4";
  EXPECT_EQ(to_text(parse_hosts(text)), text);
}

TEST(Hosts, WhatIsNoHostIsNamed) {
  EXPECT_EQ(refused(""), "no hosts: give them as h1:2,h2:2");
  for (const char* wrong : {"-oProxyCommand=x", "h1,", ",h1", "h1,,h2", "h 1", "h1;h2", "$(id)", "[h1]", "[::1", "[]",
                            "[::1]2", "fd00::7"}) {
    EXPECT_NE(refused(wrong), "no error") << wrong;
  }
  EXPECT_THAT(refused("h1,-x"), AllOf(HasSubstr("'-x' is no host"), HasSubstr("as in h1:2,h2:2")));
  EXPECT_THAT(refused("h1:0"), AllOf(HasSubstr("the slots of host h1 '0'"), HasSubstr("from 1 to 1024")));
  EXPECT_THAT(refused("h1:1025"), HasSubstr("from 1 to 1024"));
  EXPECT_THAT(refused("h1:"), HasSubstr("the slots of host h1"));
  EXPECT_EQ(refused("h1:2,h2,h1"), "host h1 is given twice: say how many ranks it takes as h1:N");
}

TEST(Hosts, UsersOfHostsAreToldToSsh) {
  EXPECT_THAT(refused("h1,me@h2:2"), HasSubstr("host h2: its user is told to ssh"));
}

TEST(Hosts, HostFilesAreThoseOfOpenMpiAndMpich) {
  EXPECT_EQ(hosts_of_file("# ours\n\nh1 slots=2 max_slots=4\n h2:3 # the big one\nh3\r\nh1\n", "hosts"),
            "h1:3,h2:3,h3:1");
  EXPECT_EQ(hosts_of_file("h1 slots = 2 max-slots= 4 // ours\nh2 max_slots =2\n// none\nh3 count=3\nh4\tcpu\t=\t2\n",
                          "hosts"),
            "h1:2,h2:1,h3:3,h4:2");
  EXPECT_EQ(error_of([] { hosts_of_file("# none\n", "hosts"); }),
            "hosts: names no host: expected lines like 'h1 slots=2'");
  EXPECT_EQ(error_of([] { hosts_of_file("h1\nh2 cores=3\n", "hosts"); }),
            "hosts:2: 'cores' is not expected behind a host: slots=N is, and max_slots=N");
  for (const char* wrong : {"h1 slots", "h1 slots=", "h1 slots 2", "h1 slots = = 2", "h1 = 2", "h1 2", "^h1", "+n1"}) {
    EXPECT_NE(error_of([&] { hosts_of_file(wrong, "hosts"); }), "no error") << wrong;
  }
  EXPECT_EQ(error_of([] { hosts_of_file("h1 slots=4 max_slots=2\n", "hosts"); }),
            "hosts:1: host h1 has 4 slots and max_slots=2");
  for (const char* with_user : {"me@h1", "me@h1 slots=2", "h1 username=me", "h1 user = me"}) {
    EXPECT_THAT(error_of([&] { hosts_of_file(with_user, "hosts"); }),
                AllOf(HasSubstr("hosts:1: host h1: its user is told to ssh"), HasSubstr("'Host h1' and 'User NAME'")))
        << with_user;
  }
  EXPECT_THAT(error_of([] { hosts_of_file("h1 slots=x\n", "hosts"); }), HasSubstr("hosts:1: the slots of host h1"));
}

TEST(Hosts, AHostThatComesAgainInAFileHasNoMoreSlotsThanAHostTakes) {
  EXPECT_THAT(error_of([] { hosts_of_file("h1 slots=1024\nh1\n", "hosts"); }),
              AllOf(HasSubstr("hosts:2: host h1 has 1025 slots"), HasSubstr("at most 1024")));
}

TEST(Hosts, RanksFillHostByHost) {
  const auto hosts = parse_hosts("h1:2,h2:2,h3");
  EXPECT_THAT(place_ranks(hosts, 0, 3), ElementsAre("h1", "h1", "h2"));
  EXPECT_THAT(place_ranks(hosts, 1, 3), ElementsAre("h1", "h2", "h3"));
  EXPECT_THAT(place_ranks(hosts, 3, 4), ElementsAre("h1", "h1", "h1", "h2"));
  EXPECT_THAT(error_of([&] { place_ranks(hosts, 0, 6); }), HasSubstr("6 ranks need 6 slots, and the hosts have 5"));
}

TEST(Hosts, OfWhatAnExecutorIsTold) {
  const Json engine = {{"hosts", "h1:2,h2"}, {"ranks_per_host", 1}};
  EXPECT_THAT(*named_places(engine, 2), ElementsAre("h1", "h2"));
  EXPECT_FALSE(named_places({{"ranks_per_host", 1}}, 2));
  EXPECT_EQ(engine_text(engine, "image"), "");
  EXPECT_EQ(engine_text({{"hosts", 1}}, "hosts"), "");
  EXPECT_EQ(engine_count({{"requeue", "1"}}, "requeue"), 0);
}

}  // namespace
}  // namespace mlbench::spec
