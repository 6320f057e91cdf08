#include "mlbench/report/collectives/stalls.h"

#include <gmock/gmock.h>

#include "mlbench/report/collectives/charts.h"
#include "mlbench/report/collectives/table.h"
#include "mlbench/report/collectives/test_collectives.h"

namespace mlbench::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// All-reduces of 8192, 16384, ... elements; in place they take one microsecond.
std::vector<record::CollectiveRow> rows_of(const std::vector<double>& times) {
  std::vector<record::CollectiveRow> rows;
  for (size_t i = 0; i < times.size(); ++i) {
    rows.push_back(
        make_row("all_reduce", int64_t{8192} << i, "float32", make_form(times[i], 1, 1), make_form(1, 1, 1)));
  }
  return rows;
}

TEST(Stalls, AreTenTimesBothNeighbours) {
  EXPECT_THAT(stalled_among({32, 43978, 181}), ElementsAre(1));
  EXPECT_THAT(stalled_among({10, 100, 10, 101, 9}), ElementsAre(1, 3));
  EXPECT_THAT(stalled_among({10, 99, 9}), IsEmpty());
  EXPECT_THAT(stalled_among({10, 1000, 5000}), IsEmpty()) << "the next one is as slow";
  EXPECT_THAT(stalled_among({1000, 10}), IsEmpty());
  EXPECT_THAT(stalled_among({0, 100, 0}), IsEmpty()) << "without a time";
}

TEST(Stalls, AreSoughtAmongRowsOfOneKind) {
  std::vector<record::CollectiveRow> rows = rows_of({32, 43978, 181});
  rows.insert(rows.begin() + 1, make_row("all_reduce", 10000, "float16", make_form(1, 1, 1)));
  rows.insert(rows.begin() + 1, make_row("broadcast", 10000, "float32", make_form(50000, 1, 1)));
  const std::vector<Stall> stalls = stalls_of(rows);
  ASSERT_EQ(stalls.size(), 1u);
  EXPECT_EQ(in_words(stalls[0]),
            "65536 B out of place took 1374 times as long as 32768 B and 243 times as long as 131072 B");
  for (record::CollectiveRow& row : rows) row.cycle = row.count == 16384 ? 1 : 0;
  EXPECT_THAT(stalls_of(rows), IsEmpty()) << "of another cycle";
}

TEST(Stalls, AreMarkedInTableDocumentAndChart) {
  const CollectivesResult stalled = make_result("r-2", "gloo", 2, rows_of({32, 43978, 181}));
  const std::string words = "# Stalled: 65536 B out of place took 1374 times as long as 32768 B and 243 times as long";
  EXPECT_THAT(collectives_table(stalled), HasSubstr(words));
  const Json json = to_json(stalled);
  ASSERT_EQ(json["stalled"].size(), 1u);
  EXPECT_EQ(json["stalled"][0]["size"], 65536);
  EXPECT_EQ(json["stalled"][0]["form"], "out_of_place");
  EXPECT_EQ(json["stalled"][0]["larger"]["size"], 131072);

  std::vector<record::CollectiveRow> rows = stalled.rows;
  for (record::CollectiveRow& row : rows) row.in_place.reset();
  const Chart time = collectives_charts({make_result("r-2", "gloo", 2, rows)}).at(0);
  ASSERT_EQ(time.series.size(), 2u);
  EXPECT_TRUE(time.series[1].rings);
  EXPECT_EQ(time.series[1].name, "stalled: ten times both neighbours");
  ASSERT_EQ(time.series[1].points.size(), 1u);
  EXPECT_EQ(time.series[1].points[0].x, 16384);
  EXPECT_DOUBLE_EQ(time.series[1].points[0].y, 43978);

  const CollectivesResult even = make_result("r-2", "gloo", 2, rows_of({32, 90, 181}));
  EXPECT_THAT(collectives_table(even), Not(HasSubstr("Stalled")));
  EXPECT_THAT(to_json(even)["stalled"], IsEmpty());
  EXPECT_EQ(collectives_charts({even}).at(0).series.size(), 1u);
}

}  // namespace
}  // namespace mlbench::report
