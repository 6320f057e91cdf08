#include "mlbench/exec/linked.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/peer_words.h"
#include "mlbench/exec/test_executor.h"
#include "mlbench/exec/test_links.h"
#include "mlbench/guard/words.h"
#include "mlbench/net/link/link.h"

namespace mlbench::exec {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 30s;

// Ranks, two of them unless the test wants more, whose guards say what the test wants.
class LinkedTest : public testing::Test {
 protected:
  LinkedTest() {
    std::filesystem::create_directory(folder_ / "here");
    serve();
  }

  void serve(std::chrono::milliseconds patience = net::kLinkPatience) {
    group_.reset();
    guards_.clear();
    request_.workers = workers_;
    request_.in_image = true;  // no builds to compare
    request_.command = {"worker"};
    request_.log_dir = folder_ / "here/logs";
    request_.links.folder = folder_ / "here";
    request_.links.secret = "sesame";
    links_.emplace(request_, patience);
  }

  void connect(int rank) {
    net::LinkClientOptions options;
    options.address = "127.0.0.1";
    options.port = links_->port();
    options.rank = rank;
    options.size = workers_;
    options.run_id = "1";
    options.secret = "sesame";
    options.folder = folder_.path();
    guards_.push_back(std::make_unique<net::LinkClient>(options));
  }

  // Starts the ranks. `hosts` has what the guard of each rank says of its host.
  void start(const std::vector<std::string>& hosts) {
    auto start = start_linked(request_, {}, {});
    for (int rank = 0; rank < workers_; ++rank) {
      connect(rank);
      guards_.back()->send("rank", std::to_string(rank));
      guards_.back()->send("host", hosts[static_cast<size_t>(rank)]);
    }
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (start->poll(20ms).state != StartState::kStarted) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      for (const auto& guard : guards_) {
        net::LinkWord word;
        if (guard->receive(word) == net::LinkStatus::kWord && word.word == "start") guard->send("pid", "1");
      }
    }
    group_ = start->take();
  }

  // What is known of the usage of ranks after the guard of rank 0 said `text`, once it shows; a text that is not to
  // change it gets some time.
  GroupUsage after(const std::string& text, bool changes = true) {
    guards_[0]->send("usage", text);
    const auto deadline = std::chrono::steady_clock::now() + (changes ? std::chrono::milliseconds(kPatience) : 50ms);
    do {
      group_->poll(20ms);
    } while (std::chrono::steady_clock::now() < deadline && !(changes && group_->usage().ranks.at(0)));
    return group_->usage();
  }

  int workers_ = 2;
  TemporaryFolder folder_;
  LaunchRequest request_;
  std::optional<TestLinks> links_;
  std::vector<std::unique_ptr<net::LinkClient>> guards_;
  std::unique_ptr<RankGroup> group_;
};

TEST_F(LinkedTest, WhatRanksUseIsWhatTheirGuardsSaid) {
  start({R"({"host": {"cores": 4}})", R"({"host": {"cores": 4}})"});
  EXPECT_FALSE(group_->usage().ranks.at(0)) << "nothing was said yet";
  GroupUsage usage = after("1500000 4096");
  ASSERT_TRUE(usage.ranks.at(0));
  EXPECT_EQ(usage.ranks[0]->cpu_s, 1.5);
  EXPECT_EQ(usage.ranks[0]->memory_bytes, 4096);
  EXPECT_LT(usage.ranks[0]->age, kPatience);
  for (const char* wrong : {"", "-1 5", "1600000", "nan 1", "99999999999999999999 1", "1400000 5"}) {
    usage = after(wrong, false);
    ASSERT_TRUE(usage.ranks.at(0)) << wrong;
    EXPECT_EQ(usage.ranks[0]->cpu_s, 1.5) << wrong;
    EXPECT_EQ(usage.ranks[0]->memory_bytes, 4096) << wrong;
  }
}

// Waits until the energy of the ranks' hosts is as expected.
class EnergyOfHosts : public LinkedTest {
 protected:
  void say(size_t rank, const std::string& boot, const std::string& meter, int64_t microjoules) {
    guards_.at(rank)->send("energy", guard::EnergyWord{boot, meter, microjoules}.text());
  }
  void expect(const std::vector<HostEnergy>& expected) {
    const auto as_texts = [](const std::vector<HostEnergy>& energy) {
      std::vector<std::string> texts;
      for (const HostEnergy& one : energy) {
        texts.push_back(one.host + " " + one.meter + " " + (one.joules ? std::to_string(*one.joules) : "-"));
      }
      return texts;
    };
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (as_texts(group_->usage().energy) != as_texts(expected) && std::chrono::steady_clock::now() < deadline) {
      group_->poll(20ms);
    }
    EXPECT_EQ(as_texts(group_->usage().energy), as_texts(expected));
  }
};

TEST_F(EnergyOfHosts, IsWhatTheirGuardsSaid) {
  start({R"({"node": "n1"})", R"({"node": "n2"})"});
  expect({{"n1", "", {}}, {"n2", "", {}}});
  say(0, "boot-1", "RAPL: package-0", 0);
  say(0, "boot-1", "RAPL: package-0", 2'500'000);
  expect({{"n1", "RAPL: package-0", 2.5}, {"n2", "", {}}});
  say(1, "boot-2", "RAPL: package-0, dram", 4'000'000);
  expect({{"n1", "RAPL: package-0", 2.5}, {"n2", "RAPL: package-0, dram", 4.0}});
  say(0, "boot-1", "RAPL: package-0", 2'000'000);  // less than before
  say(0, "boot-3", "RAPL: package-0", 9'000'000);  // another host
  say(1, "boot-2", "RAPL: package-0, dram", 5'000'000);
  expect({{"n1", "RAPL: package-0", 2.5}, {"n2", "RAPL: package-0, dram", 5.0}});
  guards_[0]->send("end", "0 0");
  EXPECT_EQ(next_of<RankExit>(*group_, kPatience).size(), 1u);
  expect({{"n1", "RAPL: package-0", 2.5}, {"n2", "RAPL: package-0, dram", 5.0}});
}

TEST_F(EnergyOfHosts, IsNotKnownWithoutAMeter) {
  start({R"({"node": "n1"})", R"({"node": "n2"})"});
  say(0, "boot-1", "RAPL: package-0", 1'000'000);
  say(1, "boot-2", "", 0);
  expect({{"n1", "RAPL: package-0", 1.0}, {"n2", "", {}}});
}

// Two pods of a host read its meter, each from its own begin.
TEST_F(EnergyOfHosts, CountsAHostOnce) {
  start({R"({"node": "n1"})", R"({"node": "n1-too"})"});
  say(1, "boot-1", "RAPL: package-0", 7'000'000);
  expect({{"n1-too", "RAPL: package-0", 7.0}, {"n1", "", {}}});
  say(0, "boot-1", "RAPL: package-0", 8'000'000);
  expect({{"n1", "RAPL: package-0", 8.0}});
}

TEST_F(EnergyOfHosts, ARankWhoseGuardSaysNoEnergyIsLost) {
  start({"{}", "{}"});
  guards_[1]->send("energy", guard::as_one({"$(touch evil)", "RAPL", "1"}));
  const auto exits = next_of<RankExit>(*group_, kPatience);
  ASSERT_EQ(exits.size(), 1u);
  EXPECT_EQ(exits[0].rank, 1);
  EXPECT_TRUE(exits[0].lost);
  EXPECT_NE(exits[0].why, "");
}

TEST_F(LinkedTest, OfARankThatEndedNothingIsUsed) {
  start({"{}", "{}"});
  EXPECT_TRUE(after("1500000 4096").ranks.at(0));
  guards_[0]->send("end", "0 0");
  EXPECT_EQ(next_of<RankExit>(*group_, kPatience).size(), 1u);
  EXPECT_FALSE(group_->usage().ranks.at(0));
}

TEST_F(LinkedTest, AHostIsSilentBeforeItIsLost) {
  serve(2s);
  start({"{}", "{}"});
  guards_[1].reset();
  const auto silence = next_of<RankSilence>(*group_, kPatience);
  ASSERT_EQ(silence.size(), 1u);
  EXPECT_EQ(silence[0].rank, 1);
  EXPECT_FALSE(silence[0].over);
  const auto exits = next_of<RankExit>(*group_, kPatience);
  ASSERT_EQ(exits.size(), 1u);
  EXPECT_EQ(exits[0].rank, 1);
  EXPECT_TRUE(exits[0].lost);
  EXPECT_EQ(exits[0].why, "") << "it said nothing wrong";
}

// Both guards are on one host.
TEST_F(LinkedTest, CoresCountOnce) {
  start({R"({"host": {"cores": 4}, "cores": [0, 1, 2, 3]})", R"({"host": {"cores": 4}, "cores": [0, 1, 2, 3]})"});
  EXPECT_EQ(group_->usage().cores, 4);
}
TEST_F(LinkedTest, RanksHaveCoresOfTheirOwn) {
  start({R"({"host": {"cores": 2}, "cores": [0, 1]})", R"({"host": {"cores": 2}, "cores": [2, 3]})"});
  EXPECT_EQ(group_->usage().cores, 4);
}
TEST_F(LinkedTest, ContainersMayHaveFewerThanTheySee) {
  start({R"({"host": {"cores": 1}, "cores": [0, 1, 2, 3]})", R"({"host": {"cores": 1}, "cores": [0, 1, 2, 3]})"});
  EXPECT_EQ(group_->usage().cores, 2);
}

// What hosts say takes more room in the record than on its way here: each of these numbers has a line of its own there.
TEST_F(LinkedTest, BeyondWhatHostsMaySayTheRecordHasTheirNamesAlone) {
  workers_ = 24;
  serve();
  std::vector<std::string> hosts;
  for (int rank = 0; rank < workers_; ++rank) {
    const Json numbers(std::vector<int>(20'000, 7));
    Json cores = Json::array();
    for (int core = 0; core < 1'000; ++core) cores.push_back(2 * core);
    hosts.push_back(Json{{"node", "n" + std::to_string(rank)},
                         {"host", {{"cores", 4}, {"numbers", numbers}}},
                         {"cores", cores},
                         {"environment", {{"numbers", numbers}}}}
                        .dump());
  }
  start(hosts);
  ASSERT_NE(group_, nullptr);
  const std::vector<HostCapture> captures = group_->captures();
  const std::vector<Placement> placement = group_->placement();
  ASSERT_EQ(captures.size(), 24u);
  std::set<std::string> names;
  size_t whole = 0;
  for (const HostCapture& capture : captures) {
    names.insert(capture.name);
    EXPECT_EQ(capture.host.empty(), capture.environment.empty());
    whole += capture.host.empty() ? 0 : 1;
  }
  EXPECT_EQ(names.size(), 24u);
  EXPECT_GT(whole, 0u);
  EXPECT_LT(whole, 24u);
  const auto with_cores = std::ranges::count_if(placement, [](const Placement& place) { return !place.cores.empty(); });
  EXPECT_GT(with_cores, 0);
  EXPECT_LT(with_cores, 24);
  const Json kept = {{"hosts", hosts_of(placement, captures, {})}, {"placement", to_json(placement)}};
  EXPECT_LT(kept.dump(2).size(), peer_words::kMostCaptures + (size_t{64} << 10));
}

// ---- a host that is broken, or not what it says ---------------------------------------------------------------------

using Words = std::vector<std::pair<std::string, std::string>>;

class HostileGuard : public LinkedTest {
 protected:
  // What becomes of a start in which the guard of rank 1 says these words, and that of rank 0 is well.
  std::string start_with(const Words& said) {
    serve();
    request_.rank_words = true;
    auto start = start_linked(request_, {}, {});
    connect(0);
    guards_[0]->send("rank", "0");
    guards_[0]->send("host", "{}");
    connect(1);
    for (const auto& [word, text] : said) guards_[1]->send(word, text);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (start->poll(100ms).state == StartState::kStarting && !was_told(0)) {
      if (std::chrono::steady_clock::now() >= deadline) return "nothing came of it";
    }
    const StartStatus status = start->poll(0ms);
    return status.state == StartState::kFailed ? status.words : "rank 0 was told of it";
  }

  bool was_told(size_t rank) {
    net::LinkWord word;
    return guards_.at(rank)->receive(word) == net::LinkStatus::kWord;
  }

  static Words placed(const std::string& host) { return {{"rank", "1"}, {"host", host}}; }
};

// Among them are words with which a host would set variables of the other ranks, or have their shells run something.
TEST_F(HostileGuard, IsNamedForWhatNoHostSays) {
  std::vector<Words> bad = {{{"rank", "0"}},  // rank 0 has another guard
                            {{"rank", "x"}},
                            {{"host", "{}"}},
                            placed("no JSON"),
                            placed("7"),
                            {{"rank", "1"}, {"host", "{}"}, {"host", "{}"}},
                            {{"rank", "1"}, {"pid", "x"}},
                            {{"rank", "1"}, {"end", "0 0"}},
                            {{"rank", "1"}, {"pid", "1"}, {"drained", ""}},
                            {{"rank", "1"}, {"pid", "1"}, {"pid", "1"}}};
  for (const char* host : {R"({"address": "h1\u0000BASH_ENV\u0000/tmp/evil"})",
                           "{\"address\": \"$(touch /tmp/evil)\"}",
                           R"({"address": "h1;touch evil"})",
                           R"({"address": "h1 h2"})",
                           R"({"address": "-oProxyCommand=evil"})",
                           R"({"address": 7})",
                           R"({"node": "n1\n#!/bin/sh"})",
                           R"({"node": "n1`evil`"})",
                           R"({"port": 65536})",
                           R"({"port": -1})",
                           R"({"port": "4711"})",
                           R"({"port": 1e3})",
                           R"({"local_rank": 99999999999999999999})",
                           R"({"local_rank": -1})",
                           R"({"local_size": 0})",
                           R"({"folder": "../evil"})",
                           R"({"folder": ["a"]})",
                           R"({"build_id": "\u001b[2J"})",
                           R"({"cores": "x"})",
                           R"({"cores": [-1]})",
                           R"({"gpu": -1})",
                           R"({"gpu": "0"})",
                           R"({"cores": [1e99]})",
                           R"({"host": 7})",
                           R"({"host": {"cores": -5}})",
                           R"({"host": {"a": {"b": {"c": {"d": {"e": {"f": {}}}}}}}})",
                           R"({"environment": []})",
                           R"({"environment": {"build_id": 7}})"}) {
    bad.push_back(placed(host));
  }
  bad.push_back(placed(Json{{"host", {{"name", std::string(1 << 20, 'a')}}}}.dump()));
  for (const Words& words : bad) {
    const std::string what = start_with(words);
    EXPECT_TRUE(what.starts_with("rank 1")) << words.back().second.substr(0, 100) << ": " << what;
    EXPECT_LT(what.size(), 5000u);
  }
}

TEST_F(HostileGuard, IsNamedForItsSilence) {
  auto start = start_linked(request_, {}, {});
  const auto missing = [&] {
    start->poll(100ms);
    const auto missing = start->missing();
    return missing ? missing->words : "";
  };
  const auto in_time = [&](const std::string& words) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (missing() != words && std::chrono::steady_clock::now() < deadline) {
    }
    return missing();
  };
  EXPECT_EQ(missing(), "the guard of rank 0 has not come");
  connect(0);
  guards_[0]->send("rank", "0");
  const std::string silent = "the guard of rank 0 has not said where it is";
  EXPECT_EQ(in_time(silent), silent);
  guards_[0]->send("host", "{}");
  const std::string absent = "the guard of rank 1 has not come";
  EXPECT_EQ(in_time(absent), absent);
  EXPECT_EQ(start->missing()->rank, 1);
  connect(1);
  guards_[1]->send("rank", "1");
  guards_[1]->send("host", R"({"node": "n2"})");
  const std::string idle = "the guard of rank 0 on " + links_->links().host(0) + " has not said that its rank runs";
  EXPECT_EQ(in_time(idle), idle);
}

TEST_F(HostileGuard, IsGivenUpForWhatNoRankSays) {
  for (const auto& [word, text] : Words{{"end", ""},
                                        {"end", "0"},
                                        {"end", "256 0"},
                                        {"end", "-1 0"},
                                        {"end", "0 65"},
                                        {"end", "0 0 oom oom"},
                                        {"end", "99999999999999999999 0"},
                                        {"pid", "1"},
                                        {"host", "{}"},
                                        {"drained", ""}}) {
    serve();
    start({"{}", "{}"});
    guards_[0]->send(word, text);
    const auto exits = next_of<RankExit>(*group_, kPatience);
    ASSERT_EQ(exits.size(), 1u) << word << " " << text;
    EXPECT_EQ(exits[0].rank, 0);
    EXPECT_TRUE(exits[0].lost) << word << " " << text;
    EXPECT_NE(exits[0].why, "");
    EXPECT_TRUE(group_->running()) << "of the other nothing is wrong";
  }
}

}  // namespace
}  // namespace mlbench::exec
