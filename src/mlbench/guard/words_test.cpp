#include "mlbench/guard/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/peer_words.h"

namespace mlbench::guard {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(GuardWords, TextsAreTakenApartAsTheyWere) {
  const std::vector<std::string> texts = {"", "a b\n", "c", ""};
  EXPECT_EQ(taken_apart(as_one(texts)), texts);
  EXPECT_TRUE(taken_apart("").empty());
  EXPECT_THAT(taken_apart(std::string("a\0cut", 5)), ElementsAre("a"));
  EXPECT_THROW(as_one({"a", std::string("b\0BASH_ENV", 10)}), IoError) << "two words of one";
}

TEST(GuardWords, EachIsUnderstoodAsItWasSaid) {
  EXPECT_EQ(RankWord::parse(RankWord{7}.text()).rank, 7);
  EXPECT_EQ(PidWord::parse(PidWord{4711}.text()).pid, 4711);
  EXPECT_EQ(ErrorWord::parse(ErrorWord{"no such program"}.text()).why, "no such program");
  EXPECT_EQ(SignalWord::parse(SignalWord{SIGTERM}.text()).number, SIGTERM);
  const StartWord start = StartWord::parse(StartWord{"logs/a b", "logs/c"}.text());
  EXPECT_EQ(start.output, "logs/a b");
  EXPECT_EQ(start.errors, "logs/c");
  EXPECT_THROW(StartWord::parse("logs/a"), PeerFault);
  const AgentWord agent = AgentWord::parse(AgentWord{"rank-1", "orted -mca x '1 2'"}.text());
  EXPECT_EQ(agent.host, "rank-1");
  EXPECT_EQ(agent.command, "orted -mca x '1 2'");
  const LaunchWord launch = LaunchWord::parse(LaunchWord{"mpirun", {"mpirun", "", "a b"}}.text());
  EXPECT_EQ(launch.name, "mpirun");
  EXPECT_THAT(launch.command, ElementsAre("mpirun", "", "a b"));
  const LaunchedEndWord ended = LaunchedEndWord::parse(LaunchedEndWord{SIGKILL, "mpirun was killed"}.text());
  EXPECT_EQ(ended.signal, SIGKILL);
  EXPECT_EQ(ended.how, "mpirun was killed");
  const EnergyWord energy = EnergyWord::parse(EnergyWord{"b00t-1", "RAPL: package-0, dram", 12'500'000}.text());
  EXPECT_EQ(energy.boot, "b00t-1");
  EXPECT_EQ(energy.meter, "RAPL: package-0, dram");
  EXPECT_EQ(energy.microjoules, 12'500'000);
  EXPECT_EQ(EnergyWord::parse(EnergyWord{"b00t-1", "", 0}.text()).meter, "") << "it has no meter";
  const PeersWord peers = PeersWord::parse(PeersWord{"h1,h2", {{"MASTER_ADDR", "fe80::1%eth0"}}}.text());
  EXPECT_EQ(peers.hosts, "h1,h2");
  EXPECT_THAT(peers.variables, ElementsAre(Pair("MASTER_ADDR", "fe80::1%eth0")));
}

TEST(GuardWords, AnEndIsACodeAndASignal) {
  for (const EndWord& word : {EndWord{{0, {}}, false}, EndWord{{137, SIGKILL}, true}, EndWord{{3, {}}, false}}) {
    const EndWord heard = EndWord::parse(word.text());
    EXPECT_EQ(heard.end, word.end);
    EXPECT_EQ(heard.out_of_memory, word.out_of_memory);
  }
  EXPECT_EQ((EndWord{{137, SIGKILL}, true}.text()), "137 9 oom");
}

TEST(GuardWords, AHostSaysWhatItKnows) {
  HostWord word;
  word.address = "10.0.0.1";
  word.port = 4711;
  word.node = "n1";
  word.folder = "boot:1:2";
  word.local_rank = 1;
  word.local_size = 2;
  word.cores = {0, 3};
  word.gpu = 1;
  word.host = {{"cores", 4}};
  word.environment = {{"build_id", "ab12"}};
  const HostWord heard = HostWord::parse(word.text());
  EXPECT_EQ(heard.text(), word.text());
  EXPECT_EQ(heard.cores_at_a_time(), 4);
  EXPECT_EQ(heard.guard_build_id(), "ab12");
  EXPECT_EQ(heard.build_id, "");
  EXPECT_FALSE(HostWord::parse("{}").gpu);
}

TEST(GuardWords, APieceOfAFileIsOneOfAFile) {
  const std::string text = "checkpoints/a b\n10 12\nx\n";
  const PutWord word = PutWord::parse(text);
  EXPECT_EQ(word.name, "checkpoints/a b");
  EXPECT_EQ(word.offset, 10);
  EXPECT_EQ(word.size, 12);
  EXPECT_EQ(word.bytes, "x\n");
  for (const char* wrong : {"", "name", "name\n", "name\n1\nx", "name\nx 1\n", "../name\n0 1\nx"}) {
    EXPECT_THROW(PutWord::parse(wrong), PeerFault) << wrong;
  }
}

TEST(GuardWords, WhatIsNoneIsAFault) {
  for (const char* wrong : {"", "x", "-1", "1 2"}) EXPECT_THROW(RankWord::parse(wrong), PeerFault) << wrong;
  for (const char* wrong : {"", "65", "TERM"}) EXPECT_THROW(SignalWord::parse(wrong), PeerFault) << wrong;
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"b00t", "RAPL"},
                                                {"", "RAPL", "1"},
                                                {"b00t;evil", "RAPL", "1"},
                                                {"b00t", "RA\nPL", "1"},
                                                {"b00t", std::string(5000, 'm'), "1"},
                                                {"b00t", "RAPL", ""},
                                                {"b00t", "RAPL", "-1"},
                                                {"b00t", "RAPL", "1.5"},
                                                {"b00t", "RAPL", "1000000000000000001"},
                                                {"b00t", "RAPL", "1", ""}}) {
    EXPECT_THROW(EnergyWord::parse(as_one(wrong)), PeerFault) << as_one(wrong);
  }
  EXPECT_THROW(LaunchWord::parse(as_one({"mpirun"})), PeerFault);
  EXPECT_THROW(AgentWord::parse(as_one({"rank-1"})), PeerFault);
  EXPECT_THROW(PeersWord::parse(""), PeerFault);
}

}  // namespace
}  // namespace mlbench::guard
