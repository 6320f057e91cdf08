#include "mlbench/spec/engine.h"

#include <gmock/gmock.h>

#include "mlbench/base/test_error.h"
#include "mlbench/spec/run_options.h"

namespace mlbench::spec {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string refused(const std::string& hosts) {
  return error_of([&] { parse_hosts(hosts); });
}

TEST(Engine, HostsHaveSlots) {
  EXPECT_THAT(parse_hosts("h1:2,h2,10.0.0.3:1024,[fd00::7]:4,[::1]"),
              ElementsAre(HostSlots{"h1", 2}, HostSlots{"h2", 1}, HostSlots{"10.0.0.3", 1024}, HostSlots{"fd00::7", 4},
                          HostSlots{"::1", 1}));
  const std::string text = "h1:2,h2:1,[fd00::7]:4";
  EXPECT_EQ(to_text(parse_hosts(text)), text);
}

TEST(Engine, WhatIsNoHostIsNamed) {
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

TEST(Engine, UsersOfHostsAreToldToSsh) {
  EXPECT_THAT(refused("h1,me@h2:2"), HasSubstr("host h2: its user is told to ssh"));
}

TEST(Engine, AnImageIsNoOptionOfItsEngine) {
  for (const char* wrong : {"-v/:/host", "--privileged", "a\nb", "a\tb"}) {
    RunOptions options;
    options.image = wrong;
    EXPECT_THAT(error_of([&] { engine_of(options); }), HasSubstr("--image")) << wrong;
  }
}

TEST(Engine, HostFilesAreThoseOfOpenMpiAndMpich) {
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

TEST(Engine, AHostThatComesAgainInAFileHasNoMoreSlotsThanAHostTakes) {
  EXPECT_THAT(error_of([] { hosts_of_file("h1 slots=1024\nh1\n", "hosts"); }),
              AllOf(HasSubstr("hosts:2: host h1 has 1025 slots"), HasSubstr("at most 1024")));
}

TEST(Engine, RanksFillHostByHost) {
  const auto hosts = parse_hosts("h1:2,h2:2,h3");
  EXPECT_THAT(place_ranks(hosts, 0, 3), ElementsAre("h1", "h1", "h2"));
  EXPECT_THAT(place_ranks(hosts, 1, 3), ElementsAre("h1", "h2", "h3"));
  EXPECT_THAT(place_ranks(hosts, 3, 4), ElementsAre("h1", "h1", "h1", "h2"));
  EXPECT_THAT(error_of([&] { place_ranks(hosts, 0, 6); }), HasSubstr("6 ranks need 6 slots, and the hosts have 5"));
}

TEST(Engine, TheRecordSaysWhatWasAskedFor) {
  EXPECT_EQ(to_json(EngineOptions()), Json(nullptr));
  EngineOptions engine;
  engine.hosts = "h1:2";
  engine.slurm = {"partition=short"};
  EXPECT_THAT(names_of_given(engine), ElementsAre("hosts", "slurm"));
  const Json json = to_json(engine);
  EXPECT_EQ(json["hosts"], "h1:2");
  EXPECT_EQ(json["slurm"], Json({"partition=short"}));
  for (const char* name : {"ranks_per_host", "ssh_config", "setup", "scratch", "image", "memory"}) {
    EXPECT_TRUE(json.at(name).is_null());
  }
  EXPECT_EQ(json["host_network"], false);
  EXPECT_TRUE(json.at("requeue").is_null());
  engine.requeue = 3;
  EXPECT_THAT(names_of_given(engine), ElementsAre("hosts", "slurm", "requeue"));
  EXPECT_EQ(to_json(engine)["requeue"], 3);
}

TEST(Engine, WhatKubernetesIsToldIsNamedAsInARequest) {
  EngineOptions engine;
  engine.image = "worker:1";
  engine.kubernetes = {"lab", "team", "4Gi", "claim", "queue", true, "{}"};
  const Json json = to_json(engine);
  const std::vector<std::string> names = names_of_given(engine);
  EXPECT_THAT(names, ElementsAre("image", "kube_context", "namespace", "memory", "data_volume", "queue", "host_network",
                                 "pod_overlay"));
  Json request;
  for (const std::string& name : names) request[name] = json.at(name);
  EXPECT_EQ(engine_of(run_options_from_json(request)), engine);
}

TEST(Engine, OptionsBecomeWhatTheExecutorIsTold) {
  EXPECT_EQ(engine_of(RunOptions()), EngineOptions());
  RunOptions options;
  options.hosts = "h1:2,h2";
  options.ranks_per_host = "3";
  options.ssh_config = "/etc/ssh/other";
  options.slurm = {"exclusive"};
  options.setup = "module load mpi\n";
  options.scratch = "/scratch";
  options.requeue = "2";
  EXPECT_EQ(engine_of(options).requeue, 2);
  options.requeue.clear();
  EXPECT_EQ(engine_of(options),
            (EngineOptions{"h1:2,h2:1", 3, "/etc/ssh/other", {"exclusive"}, "module load mpi\n", "/scratch"}));
  options.scratch = "scratch";
  EXPECT_EQ(error_of([&] { engine_of(options); }), "--scratch 'scratch' is no absolute path");
  options.scratch.clear();
  options.ssh_config = "config";
  EXPECT_EQ(error_of([&] { engine_of(options); }), "--ssh-config 'config' is no absolute path");
  options.ssh_config.clear();
  options.setup = std::string(kLongestSetup + 1, 'x');
  EXPECT_THAT(error_of([&] { engine_of(options); }), HasSubstr("--setup has 65537 bytes"));
  options.setup = std::string("a\0b", 3);
  EXPECT_THAT(error_of([&] { engine_of(options); }), HasSubstr("zero byte"));
  options.setup.clear();
  options.pod_overlay = std::string(kLongestPodOverlay + 1, ' ');
  EXPECT_THAT(error_of([&] { engine_of(options); }), HasSubstr("--pod-overlay has 65537 bytes"));
}

}  // namespace
}  // namespace mlbench::spec
