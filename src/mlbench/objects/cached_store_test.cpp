#include "mlbench/objects/cached_store.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/random.h"
#include "mlbench/base/test_error.h"
#include "mlbench/objects/fake_store_test.h"

namespace mlbench::objects {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr int64_t kBlock = 1000;

// Content that follows from key and place, and a count of what was asked for.
class MadeStore final : public ObjectStore {
 public:
  std::vector<Object> list() override { return {}; }
  void read(const Object& object, int64_t offset, std::span<std::byte> into) override {
    ++requests;
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    const std::string content = content_of(static_cast<size_t>(object.bytes), static_cast<uint32_t>(object.key.size()));
    std::memcpy(into.data(), content.data() + offset, into.size());
  }
  Counters counters() const override { return {.requests = requests}; }
  std::string kind() const override { return "s3"; }
  std::string endpoint() const override { return "http://made"; }
  std::string place() const override { return "s3://made"; }

  std::atomic<int> requests{0};
  std::chrono::milliseconds pause{0};
};

class CachedStoreTest : public testing::Test {
 protected:
  struct Opened {
    MadeStore* made;
    std::unique_ptr<CachedStore> store;
  };
  Opened open(int64_t most_bytes = 1'000'000) const {
    StoreOptions options;
    options.cache = folder_ / "cache";
    options.cache_bytes = most_bytes;
    options.block_bytes = kBlock;
    auto made = std::make_unique<MadeStore>();
    MadeStore* seen = made.get();
    return {seen, std::make_unique<CachedStore>(std::move(made), options)};
  }

  static bool is_right(ObjectStore& store, const Object& object, int64_t offset, int64_t bytes) {
    std::string text(static_cast<size_t>(bytes), '?');
    store.read(object, offset, std::as_writable_bytes(std::span(text)));
    return text == content_of(static_cast<size_t>(object.bytes), static_cast<uint32_t>(object.key.size()))
                       .substr(static_cast<size_t>(offset), static_cast<size_t>(bytes));
  }

  std::vector<fs::path> blocks() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_ / "cache")) {
      if (entry.path().filename().string().size() == 64) found.push_back(entry.path());
    }
    return found;
  }

  int64_t bytes_of_blocks() const {
    int64_t bytes = 0;
    for (const fs::path& path : blocks()) bytes += static_cast<int64_t>(fs::file_size(path));
    return bytes;
  }

  TemporaryFolder folder_;
  Object shard_{"shard", 2500, "etag"};
};

TEST_F(CachedStoreTest, BlocksAreFetchedOnceAlsoForALaterProcess) {
  Opened first = open();
  EXPECT_TRUE(is_right(*first.store, shard_, 900, 1300)) << "of three blocks";
  EXPECT_EQ(first.made->requests, 3);
  EXPECT_TRUE(is_right(*first.store, shard_, 0, 2500));
  EXPECT_EQ(first.made->requests, 3);
  EXPECT_EQ(first.store->counters().cache_hits, 3);
  EXPECT_EQ(first.store->counters().cache_misses, 3);
  EXPECT_EQ(first.store->counters().reads, 2);
  Opened second = open();
  EXPECT_TRUE(is_right(*second.store, shard_, 10, 2400));
  EXPECT_EQ(second.made->requests, 0);
  Object changed = shard_;
  changed.etag = "other";
  EXPECT_TRUE(is_right(*second.store, changed, 10, 10));
  EXPECT_EQ(second.made->requests, 1) << "another ETag is another content";
}

TEST_F(CachedStoreTest, WhatItGaveAndWhatItsChecksumsCostIsCounted) {
  Opened first = open();
  EXPECT_TRUE(is_right(*first.store, shard_, 900, 1300));
  Counters counters = first.store->counters();
  EXPECT_EQ(counters.cache_bytes, 0) << "all came from the store";
  EXPECT_EQ(counters.cache_checked.bytes, 2500) << "three blocks were kept";
  EXPECT_GT(counters.cache_checked.ns, 0);
  EXPECT_TRUE(is_right(*first.store, shard_, 10, 500));
  counters = first.store->counters();
  EXPECT_EQ(counters.cache_bytes, 500);
  EXPECT_EQ(counters.cache_checked.bytes, 3500) << "the block's first use";
  EXPECT_TRUE(is_right(*first.store, shard_, 20, 500));
  EXPECT_EQ(first.store->counters().cache_checked.bytes, 3500);
  const Json told = to_json(first.store->counters());
  EXPECT_EQ(told["cache_bytes"], 1000);
  EXPECT_EQ(told["cache_checked_bytes"], 3500);
  EXPECT_GT(told["cache_check_s"].get<double>(), 0);
}

TEST_F(CachedStoreTest, WholeBlocksComeWithoutASecondCopy) {
  Opened opened = open();
  const Object image{"image", 700, "etag"};
  EXPECT_TRUE(is_right(*opened.store, image, 0, 700));
  EXPECT_EQ(opened.store->counters().copied_bytes, 0) << "beside what the store itself copies";
  EXPECT_TRUE(is_right(*opened.store, image, 0, 700));
  EXPECT_EQ(opened.store->counters().copied_bytes, 700) << "the block was compared in memory of its own";
  EXPECT_TRUE(is_right(*opened.store, image, 0, 700));
  EXPECT_EQ(opened.store->counters().copied_bytes, 700);
}

TEST_F(CachedStoreTest, DamagedAndHalfWrittenBlocksAreFetchedAgain) {
  const auto spoil = [&](const std::function<void(const fs::path&)>& how) {
    Opened writes = open();
    EXPECT_TRUE(is_right(*writes.store, shard_, 0, 1000));
    ASSERT_EQ(blocks().size(), 1U);
    how(blocks().front());
    Opened reads = open();
    EXPECT_TRUE(is_right(*reads.store, shard_, 100, 50));
    EXPECT_EQ(reads.made->requests, 1);
    Opened again = open();
    EXPECT_TRUE(is_right(*again.store, shard_, 100, 50));
    EXPECT_EQ(again.made->requests, 0) << "the block is whole again";
  };
  spoil([](const fs::path& path) { fs::resize_file(path, 500); });
  spoil([](const fs::path& path) { fs::resize_file(path, 0); });
  spoil([](const fs::path& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(400);
    file.put('!');
  });
  spoil([](const fs::path& path) { std::ofstream(path, std::ios::app) << "more"; });
  spoil([](const fs::path& path) {  // a block under another's name
    std::string bytes = read_file(path);
    bytes[1000] = bytes[1000] == 'a' ? 'b' : 'a';
    write_file_atomically(path, bytes);
  });
}

TEST_F(CachedStoreTest, TheLimitHoldsAndTheLeastRecentlyUsedGoes) {
  const int64_t most = 3 * (kBlock + 68);
  Opened opened = open(most);
  const auto object = [](int number) { return Object{"same size " + std::to_string(number), kBlock, "etag"}; };
  const auto read = [&](int number) {
    std::this_thread::sleep_for(20ms);  // the file system's times have steps
    EXPECT_TRUE(is_right(*opened.store, object(number), 0, kBlock));
    EXPECT_LE(bytes_of_blocks(), most);
    return opened.made->requests.load();
  };
  EXPECT_EQ(read(1), 1);
  EXPECT_EQ(read(2), 2);
  EXPECT_EQ(read(3), 3);
  EXPECT_EQ(read(1), 3) << "used again, so the second is the oldest";
  EXPECT_EQ(read(4), 4);
  EXPECT_EQ(read(1), 4);
  EXPECT_EQ(read(3), 4);
  EXPECT_EQ(read(2), 5);
  EXPECT_EQ(blocks().size(), 3U);
  std::ofstream(folder_ / "cache" / ".lock") << "nonsense";
  EXPECT_EQ(read(5), 6);
  EXPECT_EQ(blocks().size(), 3U);
  EXPECT_THAT(error_of([&] { open(kBlock); }), HasSubstr("expected room for a block"));
}

TEST_F(CachedStoreTest, ThreadsThatWantTheSameBlockFetchItOnce) {
  Opened opened = open();
  opened.made->pause = 50ms;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] { wrong += is_right(*opened.store, shard_, 10 * i, 100) ? 0 : 1; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(opened.made->requests, 1);
}

TEST_F(CachedStoreTest, SeveralProcessesShareAFolder) {
  const int64_t most = 20 * (kBlock + 68);
  std::vector<pid_t> children;
  for (uint64_t child = 0; child < 4; ++child) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      bool right = true;
      Opened opened = open(most);
      RandomSequence random(child);
      for (int i = 0; i < 100; ++i) {
        const Object object{std::string(random.below(10) + 1, 'k'), 5000, "etag"};
        right = right && is_right(*opened.store, object, static_cast<int64_t>(random.below(4000)), 1000);
      }
      _exit(right && bytes_of_blocks() <= most ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
  EXPECT_LE(bytes_of_blocks(), most);
  EXPECT_GT(bytes_of_blocks(), most / 2);
}

TEST_F(CachedStoreTest, WorksOverAStoreThatFails) {
  FakeStore fake;
  const std::string content = content_of(10'000);
  fake.put("shard", content);
  fake.faults = [](int count, const net::http::Request&) -> FakeStore::Fault {
    if (count == 1) return {.cut_after = 500};
    return {.wrong_byte = count == 3};
  };
  StoreOptions options = fake.options();
  options.cache = folder_ / "cache";
  const auto store = open_store("s3://bucket", options);
  const Object shard = store->list().at(0);
  std::string text(100, '?');
  store->read(shard, 5000, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, content.substr(5000, 100));
  const Counters counters = store->counters();
  EXPECT_EQ(counters.cache_misses, 1);
  EXPECT_EQ(counters.reads, 1);
  EXPECT_EQ(counters.bytes, 10'000) << "the whole block";
  EXPECT_EQ(counters.copied_bytes, 10'100);
  store->read(shard, 7000, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, content.substr(7000, 100));
  EXPECT_EQ(fake.requests(), 3);
  EXPECT_EQ(store->counters().cache_hits, 1);
}

}  // namespace
}  // namespace mlbench::objects
