#include "mlbench/store/series.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/store/journal.h"
#include "mlbench/store/sqlite.h"

namespace mlbench::store {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

const SeriesKey kLoss{"", "loss", 0};

std::vector<Point> line(int64_t from, int64_t to) {
  std::vector<Point> points;
  for (int64_t i = from; i < to; ++i) points.push_back({i * 1000, i, double(i)});
  return points;
}

// What every set of buckets of 0 .. count-1 must say.
void expect_whole(const std::vector<Bucket>& buckets, int64_t count) {
  int64_t next = 0;
  for (const Bucket& bucket : buckets) {
    EXPECT_EQ(bucket.first_step, next);
    EXPECT_EQ(bucket.min, double(next));
    next += bucket.count;
    EXPECT_EQ(bucket.last_step, next - 1);
    EXPECT_EQ(bucket.max, double(next - 1));
    EXPECT_DOUBLE_EQ(bucket.mean(), (bucket.min + bucket.max) / 2);
    EXPECT_EQ(bucket.first_time_us, bucket.first_step * 1000);
    EXPECT_EQ(bucket.last_time_us, bucket.last_step * 1000);
  }
  EXPECT_EQ(next, count);
}

class SeriesTest : public testing::Test {
 protected:
  SeriesStore& store() {
    if (!store_) store_ = std::make_unique<SeriesStore>(folder_.path() / "store/s.sqlite", true);
    return *store_;
  }
  TemporaryFolder folder_;
  std::unique_ptr<SeriesStore> store_;
};

TEST_F(SeriesTest, EveryLevelSaysTheSame) {
  int64_t have = 0;
  for (const int64_t count : {1, 7, 999, 1000, 1001, 5000, 70'003}) {
    store().append(1, {{kLoss, line(have, count)}});
    have = count;
    for (const size_t buckets : {1, 3, 100, 1000, 100'000}) {
      SCOPED_TRACE(testing::Message() << count << " points, " << buckets << " buckets");
      const auto read = store().read(1, kLoss, {.buckets = buckets});
      EXPECT_LE(read.size(), buckets);
      EXPECT_GE(read.size(), std::min<size_t>(buckets, size_t(count)) / 2);
      expect_whole(read, count);
    }
  }
  EXPECT_THAT(store().read_points(1, kLoss), SizeIs(70'003));
}

TEST_F(SeriesTest, ARangeIsReadAlone) {
  store().append(1, {{kLoss, line(0, 20'000)}});
  const auto few = store().read(1, kLoss, {.from_step = 5'000, .to_step = 5'009});
  EXPECT_THAT(few, SizeIs(10));
  EXPECT_EQ(few.front().first_step, 5'000);
  const auto by_time = store().read(1, kLoss, {.from_time_us = 19'999'000});
  ASSERT_THAT(by_time, SizeIs(1));
  EXPECT_EQ(by_time[0].first_step, 19'999);
  EXPECT_THAT(store().read(1, kLoss, {.from_step = 30'000}), IsEmpty());
}

// Points stay in the order in which they came, and a bucket says all times that it holds.
TEST_F(SeriesTest, AClockThatWentBackHidesNoPoint) {
  std::vector<Point> points = line(100, 103);
  for (const Point& point : line(3, 6)) points.push_back({point.time_us, point.step + 100, point.value + 100});
  store().append(1, {{kLoss, points}});
  const auto whole = store().read(1, kLoss, {.buckets = 1});
  ASSERT_THAT(whole, SizeIs(1));
  EXPECT_EQ(whole[0].first_time_us, 3'000);
  EXPECT_EQ(whole[0].last_time_us, 102'000);
  EXPECT_EQ(store().read(1, kLoss, {.from_time_us = 100'000}).size(), 3);
  const auto later = store().read(1, kLoss, {.to_time_us = 5'000});
  ASSERT_THAT(later, SizeIs(3));
  EXPECT_EQ(later[0].first_step, 103);
}

TEST_F(SeriesTest, SmallAppendsAreAsGoodAsOne) {
  for (int64_t i = 0; i < 2'500; i += 7) store().append(1, {{kLoss, line(i, std::min<int64_t>(i + 7, 2'500))}});
  expect_whole(store().read(1, kLoss, {.buckets = 10'000}), 2'500);
}

TEST_F(SeriesTest, NoNumberStaysNone) {
  store().append(1, {{kLoss, {{1, 1, NAN}, {2, 2, 1.0}}}});
  const auto points = store().read(1, kLoss, {});
  ASSERT_THAT(points, SizeIs(2));
  EXPECT_TRUE(std::isnan(points[0].mean()));
  EXPECT_EQ(points[1].mean(), 1.0);
  EXPECT_TRUE(std::isnan(store().read(1, kLoss, {.buckets = 1})[0].mean()));
}

TEST_F(SeriesTest, RunsAndRanksAreApart) {
  store().append(1, {{{"", "a", 0}, line(0, 3)}, {{"", "a", 1}, line(0, 2)}, {{"test", "a", 0}, line(0, 9)}},
                 {{"file", 100}});
  store().append(2, {{{"", "a", 0}, line(0, 1)}});
  const auto list = store().list(1);
  ASSERT_THAT(list, SizeIs(3));
  EXPECT_EQ(list[0].count, 3);
  EXPECT_EQ(list[0].last.value, 2.0);
  EXPECT_EQ(list[1].key, (SeriesKey{"", "a", 1}));
  EXPECT_EQ(list[2].key.split, "test");
  EXPECT_EQ(store().offset(1, "file"), 100);
  EXPECT_EQ(store().offset(2, "file"), 0);
  store().remove_run(1);
  EXPECT_THAT(store().list(1), IsEmpty());
  EXPECT_THAT(store().list(2), SizeIs(1));
  EXPECT_EQ(store().offset(1, "file"), 0);
}

TEST_F(SeriesTest, SurvivesAndIsReplacedOnlyWhenItMay) {
  store().append(1, {{kLoss, line(0, 5)}});
  store_.reset();
  EXPECT_THAT(store().list(1), SizeIs(1));
  store_.reset();
  std::ofstream(folder_.path() / "store/s.sqlite") << std::string(20'000, 'x');
  EXPECT_THROW(SeriesStore(folder_.path() / "store/s.sqlite", false), IoError);
  EXPECT_THAT(store().list(1), IsEmpty());
}

// ---- journal --------------------------------------------------------------------------------------------------------

ClientRecord record(int64_t rank, int64_t sequence, double value) {
  return {rank, sequence, sequence * 1000, sequence, {{"loss", value}, {"lr", 0.1}}};
}

TEST_F(SeriesTest, ABatchCountsOnce) {
  Journal journal(folder_.path());
  const std::vector<ClientRecord> batch = {record(0, 1, 1.0), record(0, 2, 2.0), record(1, 1, 3.0)};
  BatchResult result = journal.add_batch(7, batch);
  EXPECT_EQ(result.accepted, 3);
  EXPECT_EQ(result.points, 6);
  result = journal.add_batch(7, batch);
  EXPECT_EQ(result.accepted, 0);
  EXPECT_EQ(result.duplicates, 3);
  result = journal.add_batch(7, {record(0, 2, 9.0), record(0, 3, 4.0), record(0, 3, 5.0)});
  EXPECT_EQ(result.accepted, 1);
  EXPECT_EQ(result.duplicates, 2);
  EXPECT_THAT(journal.last_sequences(7), ElementsAre(Pair(0, 3), Pair(1, 1)));
  const auto points = journal.series().read_points(7, kLoss);
  ASSERT_THAT(points, SizeIs(3));
  EXPECT_EQ(points[2].value, 4.0);
}

TEST_F(SeriesTest, AJournalSurvivesBeforeAndAfterCompaction) {
  {
    Journal journal(folder_.path());
    for (int64_t i = 0; i < 50; ++i) journal.add_batch(1, {record(0, i, double(i))});
    EXPECT_TRUE(journal.compact(10));
  }
  Journal journal(folder_.path());
  EXPECT_THAT(journal.series().read_points(1, kLoss), SizeIs(50));
  EXPECT_EQ(journal.add_batch(1, {record(0, 49, 0.0)}).duplicates, 1);
  journal.flush();
  journal.remove_run(1);
  EXPECT_THAT(journal.series().list(1), IsEmpty());
  EXPECT_EQ(journal.add_batch(1, {record(0, 49, 0.0)}).accepted, 1);
}

TEST_F(SeriesTest, FlatNamesOfAJournalBecomeSeriesByKey) {
  Journal journal(folder_.path());
  journal.add_batch(1, {{0, 1, 1000, 1, {{"train_loss", 0.5}, {"val_global_loss", 0.75}, {"val_loss", 1.0}}},
                        {1, 1, 1000, 1, {{"train_loss", 0.25}}}});
  std::vector<SeriesKey> keys;
  for (const SeriesInfo& one : journal.series().list(1)) keys.push_back(one.key);
  EXPECT_THAT(keys, ElementsAre(SeriesKey{"test", "loss", record::kAllRanks}, SeriesKey{"test", "loss", 0},
                                SeriesKey{"train", "loss", 0}, SeriesKey{"train", "loss", 1}));
}

TEST_F(SeriesTest, AFileOfAnotherVersionIsRefusedOrBuiltAgain) {
  const std::filesystem::path file = folder_.path() / "store/s.sqlite";
  for (const int other : {1, 3}) {
    store().append(1, {{kLoss, line(0, 5)}}, {{"file", 100}});
    store_.reset();
    Database(file).execute(("PRAGMA user_version = " + std::to_string(other)).c_str());
    EXPECT_THAT([&] { SeriesStore(file, false); },
                testing::ThrowsMessage<IoError>(
                    file.string() + " is of version " + std::to_string(other) +
                    "; this program reads version 2: move it away, or use the mlbench that wrote it"));
    EXPECT_THAT(store().list(1), IsEmpty());
    EXPECT_EQ(store().offset(1, "file"), 0);
  }
}

TEST_F(SeriesTest, PostedValuesComeBackAsText) {
  Journal journal(folder_.path());
  journal.post(1, {"b @ 0", "0.50", "{rank: 0}", 2000, false});
  journal.post(1, {"b @ 0", "0.40", "", 1000, true});
  journal.post(1, {"TaskResult @ 0", "80% reached", "", 3000, false});
  EXPECT_THAT(journal.posted(1), SizeIs(3));
  const auto posted = journal.posted(1, {.name = "b @ 0"});
  ASSERT_THAT(posted, SizeIs(2));
  EXPECT_EQ(posted[0].value, "0.40");
  EXPECT_TRUE(posted[0].cumulative);
  EXPECT_EQ(posted[1].metadata, "{rank: 0}");
  EXPECT_THAT(journal.posted(1, {.from_time_us = 2000}), SizeIs(2));
  EXPECT_THAT(journal.posted(2), IsEmpty());
}

}  // namespace
}  // namespace mlbench::store
