#include "mlbench/spec/communication.h"

#include <gmock/gmock.h>

#include "mlbench/base/errors.h"

namespace mlbench::spec {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Communication, ANetworkIsReadInItsUnits) {
  EXPECT_EQ(parse_netem("latency=0.25ms,bandwidth=1Gbit"), (Netem{{0.25e-3, 1e9}, {}}));
  EXPECT_EQ(parse_netem("bandwidth=100Mbit"), (Netem{{0, 1e8}, {}}));
  EXPECT_EQ(parse_netem("latency=0s"), Netem());
  const Netem netem = parse_netem("latency=2us,bandwidth=8kbit;0>1:latency=1s;1>0:bandwidth=16000bit,latency=4ns");
  EXPECT_EQ(netem.all, (NetemLink{2e-6, 8000}));
  ASSERT_EQ(netem.links.size(), 2U);
  EXPECT_EQ(netem.links.at({0, 1}), (NetemLink{1, 8000})) << "what is left out is that of all links";
  EXPECT_EQ(netem.links.at({1, 0}), (NetemLink{4e-9, 16000}));
  EXPECT_EQ(parse_netem("2>0:bandwidth=1Mbit").all, NetemLink());
}

TEST(Communication, AWrongNetworkIsRefusedWithWhatCanBe) {
  const auto refused = [](const std::string& text, const auto& reason) {
    EXPECT_THAT([&] { parse_netem(text); }, ThrowsMessage<UserError>(AllOf(HasSubstr("--netem"), reason))) << text;
  };
  refused("", HasSubstr("latency"));
  refused("latncy=1ms", HasSubstr("unknown property 'latncy': did you mean 'latency'?"));
  for (const char* wrong : {"latency", "latency=", "latency=1", "latency=1m", "latency=-1ms", "latency=61s",
                            "latency=nans", "latency=1e3ms", "latency= 1ms"}) {
    refused(wrong, HasSubstr("is not a time from 0s to 60s, such as 0.2ms"));
  }
  for (const char* wrong : {"bandwidth=1", "bandwidth=0bit", "bandwidth=1GB", "bandwidth=1gbit"}) {
    refused(wrong, HasSubstr("is not a rate from 1kbit"));
  }
  refused("latency=1ms;bandwidth=1Gbit", HasSubstr("'bandwidth=1Gbit' names no link"));
  refused("latency=1ms;0-1:latency=2ms", HasSubstr("'0-1' is no link: expected SENDER>RECEIVER"));
  refused("latency=1ms;1>1:latency=2ms", HasSubstr("with itself"));
  refused("latency=1ms;x>1:latency=2ms", HasSubstr("rank 'x'"));
  refused("0>1:latency=1ms;0>1:latency=2ms", HasSubstr("0>1 is given twice"));
}

TEST(Communication, LinksAreBetweenRanksThatAreThere) {
  const Netem netem = parse_netem("0>3:latency=1ms");
  check_netem(netem, 4);
  EXPECT_THAT([&] { check_netem(netem, 3); }, ThrowsMessage<UserError>(HasSubstr("0>3, but with 3 workers the ranks "
                                                                                 "are 0 to 2")));
}

TEST(Communication, ABackEndIsTunedAsItCanBe) {
  const Json row = {{"name", "mpi"}, {"algorithms", {"auto", "ring"}}, {"tunables", {"links"}}};
  check_tuning({}, "null", Json::object());
  check_tuning({.algorithm = "ring", .links = 2}, "mpi", row);
  const auto refused = [&](const Communication& one, const Json& of) {
    try {
      check_tuning(one, "mpi", of);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(refused({.algorithm = "bcube"}, row),
            "--algorithm: the back end mpi has no all_reduce 'bcube'; valid: auto, ring");
  EXPECT_EQ(refused({.socket_buffer_bytes = 65536}, row),
            "--socket-buffer: the back end mpi has no such setting; valid: links");
  const Json gloo = {{"name", "gloo"}, {"algorithms", {"auto", "library"}}, {"tunables", {"links"}}};
  EXPECT_EQ(refused({.algorithm = "library"}, gloo), "no error");
  EXPECT_EQ(refused({.algorithm = "library", .links = 2}, gloo),
            "--links 2: with --algorithm library the collectives of mpi use 1 connection; leave out --links, or choose "
            "another algorithm");
  EXPECT_EQ(refused({.network_interface = "lo"}, Json::object()),
            "--interface: the back end mpi has no such setting; there is none");
}

TEST(Communication, WhatChangesTheMeasurementOpensIt) {
  EXPECT_FALSE(opens({}));
  EXPECT_FALSE(opens({.check = true, .algorithm = "ring", .links = 2, .socket_buffer_bytes = 1 << 20}));
  EXPECT_TRUE(opens({.wire_dtype = "float16"}));
  EXPECT_TRUE(opens({.netem = "latency=1ms"}));
}

TEST(Communication, AMadeNetworkShowsInTheStack) {
  EXPECT_TRUE(on_made_network("check(netem(ring(gloo)))"));
  EXPECT_FALSE(on_made_network("check(gloo)"));
}

}  // namespace
}  // namespace mlbench::spec
