#include "mlbench/objects/measure.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/test_error.h"

namespace mlbench::objects {
namespace {

using testing::HasSubstr;

// Notes what was read, and sends nothing.
class NotingStore final : public ObjectStore {
 public:
  std::vector<Object> list() override { return {{"a", 10}, {"empty", 0}, {"b", 4}}; }
  void read(const Object& object, int64_t offset, std::span<std::byte> into) override {
    if (fails) throw CommError("cut");
    const std::lock_guard lock(mutex);
    ++read_of[{object.key, offset, std::ssize(into)}];
  }
  Counters counters() const override { return {}; }
  std::string kind() const override { return "noting"; }
  std::string endpoint() const override { return ""; }
  std::string place() const override { return "here"; }

  bool fails = false;
  std::mutex mutex;
  std::map<std::tuple<std::string, int64_t, int64_t>, int> read_of;
};

TEST(Measure, EachRangeIsReadOnce) {
  NotingStore store;
  const Measured measured = measure(store, {.threads = 3, .range_bytes = 4});
  const std::map<std::tuple<std::string, int64_t, int64_t>, int> expected = {
      {{"a", 0, 4}, 1}, {{"a", 4, 4}, 1}, {{"a", 8, 2}, 1}, {{"b", 0, 4}, 1}};
  EXPECT_EQ(store.read_of, expected);
  EXPECT_EQ(measured.ranges, 4);
  EXPECT_EQ(measured.bytes, 14);
  EXPECT_EQ(measured.objects, 3);
  EXPECT_EQ(measured.object_bytes, 14);
  EXPECT_TRUE(measured.complete);
  EXPECT_EQ(measured.read_s.size(), 4U);
  EXPECT_TRUE(std::ranges::is_sorted(measured.read_s));
}

TEST(Measure, WholeObjectsAndTheEndOfTime) {
  NotingStore store;
  const Measured whole = measure(store, {.threads = 1, .range_bytes = 0});
  EXPECT_EQ(whole.ranges, 2);
  EXPECT_EQ(store.read_of.count({"a", 0, 10}), 1U);
  const Measured none = measure(store, {.threads = 2, .range_bytes = 0, .most_time = std::chrono::milliseconds(0)});
  EXPECT_EQ(none.ranges, 0);
  EXPECT_FALSE(none.complete);
}

TEST(Measure, AFailingReadEndsIt) {
  NotingStore store;
  store.fails = true;
  EXPECT_THROW(measure(store, {.threads = 4, .range_bytes = 1}), CommError);
}

TEST(Measure, NothingToReadIsSaid) {
  const TemporaryFolder folder;
  std::ofstream(folder / "empty").flush();
  const auto store = open_store(folder.path().string(), {});
  EXPECT_THAT(error_of([&] { measure(*store, {}); }), HasSubstr("no objects with bytes to read"));
}

}  // namespace
}  // namespace mlbench::objects
