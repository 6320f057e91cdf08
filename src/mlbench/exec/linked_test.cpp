#include "mlbench/exec/linked.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/net/kv/kv.h"
#include "mlbench/net/link/link.h"

namespace mlbench::exec {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 30s;

// Two ranks whose guards say what the test wants.
class LinkedTest : public testing::Test {
 protected:
  LinkedTest() {
    std::filesystem::create_directory(folder_ / "here");
    links_.emplace(net::LinkServerOptions{
        .size = 2, .folder = folder_ / "here", .files = [](int) { return std::vector<std::string>{}; }});
    net::KvServerOptions options;
    options.size = 2;
    options.run_id = "1";
    options.secret = "sesame";
    options.take_link = [this](net::ProvedConnection link) { links_->take(std::move(link)); };
    rendezvous_.emplace(options);
    request_.workers = 2;
    request_.in_image = true;  // no builds to compare
    request_.command = {"worker"};
    request_.log_dir = folder_ / "here/logs";
    request_.links.server = &*links_;
    request_.links.folder = folder_ / "here";
    request_.links.rendezvous = "127.0.0.1:" + std::to_string(rendezvous_->port());
  }

  // `hosts`: what the guard of each rank says of it.
  void start(const std::vector<std::string>& hosts) {
    auto start = start_linked(request_, {}, {});
    for (int rank = 0; rank < 2; ++rank) {
      net::LinkClientOptions options;
      options.address = "127.0.0.1";
      options.port = rendezvous_->port();
      options.rank = rank;
      options.size = 2;
      options.run_id = "1";
      options.secret = "sesame";
      options.folder = folder_.path();
      guards_.push_back(std::make_unique<net::LinkClient>(options));
      guards_.back()->send("rank", std::to_string(rank));
      guards_.back()->send("host", hosts[static_cast<size_t>(rank)]);
      guards_.back()->send("pid", "1");
    }
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (start->poll(100ms).state != StartState::kStarted) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    group_ = start->take();
  }

  // What is known when `text` has come, or of what changes nothing, should have come.
  GroupUsage after(const std::string& text, bool changes = true) {
    guards_[0]->send("usage", text);
    const auto deadline = std::chrono::steady_clock::now() + (changes ? std::chrono::milliseconds(kPatience) : 50ms);
    do {
      group_->poll(20ms);
    } while (std::chrono::steady_clock::now() < deadline && !(changes && group_->usage().ranks.at(0)));
    return group_->usage();
  }

  TemporaryFolder folder_;
  LaunchRequest request_;
  std::optional<net::LinkServer> links_;
  std::optional<net::KvServer> rendezvous_;
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

TEST_F(LinkedTest, OfARankThatEndedNothingIsUsed) {
  start({"{}", "{}"});
  EXPECT_TRUE(after("1500000 4096").ranks.at(0));
  guards_[0]->send("end", "0 0");
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (group_->poll(100ms).empty()) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  EXPECT_FALSE(group_->usage().ranks.at(0));
}

// Both guards are of this host.
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
TEST_F(LinkedTest, CoresAreNoNonsense) {
  start({R"({"host": {"cores": -5}, "cores": ["a", -1, 1e99]})", R"({"host": 7, "cores": "x"})"});
  EXPECT_EQ(group_->usage().cores, 2);
}

}  // namespace
}  // namespace mlbench::exec
