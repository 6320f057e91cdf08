// The contract of a rendezvous store, run for every row of the table below. A new store is one row.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/comm/contract_test.h"
#include "mlbench/comm/kv_store.h"

namespace mlbench::comm {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
constexpr std::chrono::milliseconds kPatience{60'000};

using Stores = std::vector<std::shared_ptr<RendezvousStore>>;

struct StoreRow {
  const char* name;
  // What each of `size` ranks sees of one store.
  std::function<Stores(int size)> make;
};

Stores in_memory(int size) { return Stores(static_cast<size_t>(size), std::make_shared<MemoryStore>()); }

// A server that lives as long as the last of its ranks' stores.
class ServedStore final : public RendezvousStore {
 public:
  ServedStore(std::shared_ptr<net::KvServer> server, std::shared_ptr<RendezvousStore> store)
      : server_(std::move(server)), store_(std::move(store)) {}
  void set(const std::string& key, const std::string& value) override { store_->set(key, value); }
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    return store_->get(key, timeout);
  }

 private:
  std::shared_ptr<net::KvServer> server_;
  std::shared_ptr<RendezvousStore> store_;
};

Stores over_tcp(int size) {
  net::KvServerOptions server_options;
  server_options.size = size;
  server_options.secret = "of this run";
  const auto server = std::make_shared<net::KvServer>(server_options);
  Stores stores;
  for (int rank = 0; rank < size; ++rank) {
    net::KvClientOptions options;
    options.port = server->port();
    options.rank = rank;
    options.size = size;
    options.secret = server_options.secret;
    stores.push_back(
        std::make_shared<ServedStore>(server, make_kv_store(std::make_shared<net::KvClient>(options), "segment1/")));
  }
  return stores;
}

class StoreContractTest : public testing::TestWithParam<StoreRow> {
 protected:
  Stores make(int size) const { return GetParam().make(size); }
};

TEST_P(StoreContractTest, WhatOneRankWritesAllRead) {
  const Stores ranks = make(3);
  ranks[1]->set("address/1", "127.0.0.1:4711");
  for (const auto& rank : ranks) EXPECT_EQ(rank->get("address/1", kPatience), "127.0.0.1:4711");
  EXPECT_EQ(ranks[0]->get("address/1", 0ms), "127.0.0.1:4711") << "reading takes nothing away";
}

TEST_P(StoreContractTest, AKeyIsWrittenOnce) {
  const Stores ranks = make(2);
  ranks[0]->set("key", "first");
  EXPECT_THROW(ranks[0]->set("key", "second"), CommError);
  EXPECT_THROW(ranks[1]->set("key", "first"), CommError) << "also with the same value";
  EXPECT_EQ(ranks[1]->get("key", kPatience), "first");
}

TEST_P(StoreContractTest, KeysAreApart) {
  const Stores ranks = make(1);
  const std::vector<std::string> keys = {"a", "a/", "a/b", "A", "a b", "\u00e4"};
  for (const std::string& key : keys) ranks[0]->set(key, "of " + key);
  for (const std::string& key : keys) EXPECT_EQ(ranks[0]->get(key, kPatience), "of " + key);
}

TEST_P(StoreContractTest, ATimeoutNamesTheKey) {
  const Stores ranks = make(1);
  EXPECT_THAT([&] { ranks[0]->get("never/written", 20ms); },
              testing::ThrowsMessage<CommError>(HasSubstr("never/written")));
  ranks[0]->set("never/written", "after all");
  EXPECT_EQ(ranks[0]->get("never/written", kPatience), "after all") << "a get that timed out leaves nothing behind";
}

TEST_P(StoreContractTest, AWaitingGetWakesWithTheValue) {
  const Stores ranks = make(3);
  std::vector<std::future<std::string>> waiting;
  for (const auto& rank : ranks) {
    waiting.push_back(std::async(std::launch::async, [&rank] { return rank->get("late", kPatience); }));
  }
  for (auto& one : waiting) EXPECT_EQ(one.wait_for(20ms), std::future_status::timeout);
  ranks[0]->set("other", "wakes nobody");
  ranks[2]->set("late", "now");
  for (auto& one : waiting) EXPECT_EQ(one.get(), "now");
}

TEST_P(StoreContractTest, ValuesAreBytes) {
  const Stores ranks = make(2);
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  ranks[0]->set("bytes", all);
  ranks[0]->set("empty", "");
  EXPECT_EQ(ranks[1]->get("bytes", kPatience), all);
  EXPECT_EQ(ranks[1]->get("empty", kPatience), "");
}

TEST_P(StoreContractTest, ALargeValueArrivesWhole) {
  const Stores ranks = make(2);
  std::string large(size_t{8} << 20, '\0');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 2654435761U >> 24);
  ranks[0]->set("large", large);
  EXPECT_TRUE(ranks[1]->get("large", kPatience) == large);
}

TEST_P(StoreContractTest, ManyRanksExchangeAtOnce) {
  constexpr int kRanks = 16;
  const Stores ranks = make(kRanks);
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      ranks[static_cast<size_t>(rank)]->set("from/" + std::to_string(rank), std::to_string(rank * rank));
      for (int peer = kRanks; peer-- > 0;) {
        const auto value = ranks[static_cast<size_t>(rank)]->get("from/" + std::to_string(peer), kPatience);
        right += value == std::to_string(peer * peer);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kRanks * kRanks);
}

TEST_P(StoreContractTest, OfRanksThatWriteOneKeyOneWins) {
  constexpr int kRanks = 8;
  const Stores ranks = make(kRanks);
  std::atomic<int> written{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        ranks[static_cast<size_t>(rank)]->set("contended", std::to_string(rank));
        ++written;
      } catch (const CommError&) {
        // Somebody was faster.
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(written, 1);
  const std::string winner = ranks[0]->get("contended", kPatience);
  for (const auto& rank : ranks) EXPECT_EQ(rank->get("contended", kPatience), winner);
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreContractTest,
                         testing::Values(StoreRow{"memory", in_memory}, StoreRow{"tcp", over_tcp}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace mlbench::comm
