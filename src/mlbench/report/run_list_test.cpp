#include "mlbench/report/run_list.h"

#include <gmock/gmock.h>

#include "mlbench/report/test_records.h"

namespace mlbench::report {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(StatusTable, LineByLine) {
  RecordJson queued = make_record("s-4", 4, 1, 1, false);
  queued["state"] = "queued";
  queued["clocks"] = {{"train_s", nullptr}};
  queued["evaluations"] = Json::array();
  EXPECT_EQ(
      status_table({{"r-1", {make_record("r-1", 1, 60, 3000, true)}}, {"q", {queued}}}),
      "id  name  state     task           workers    created              train  evaluation    goal         notes\n"
      "                                   x threads  UTC                      s\n"
      " 1  r-1   finished  fashion-mnist  1 x 1      2026-01-31 12:00:00   60.0  Prec@1 85.25  reached      light\n"
      " 4  s-4   queued    fashion-mnist  4 x 1      2026-01-31 12:00:00      -                not reached  light\n");
}

TEST(StatusTable, IsAsWideAsTheTerminal) {
  const std::string table = status_table({{"r-1", {make_record("r-1", 1, 60, 3000, true)}}}, {TableFormat::kText, 80});
  EXPECT_THAT(table, HasSubstr("  left out at a width of 80: created, UTC"));
  EXPECT_THAT(table.substr(0, table.find('\n')), testing::EndsWith("  notes")) << "labels stand in every table";
  EXPECT_THAT(status_table({{"r-1", {make_record("r-1", 1, 60, 3000, true)}}}, {TableFormat::kCsv}),
              HasSubstr("\n1,r-1,finished,fashion-mnist,1,1,2026-01-31T12:00:00.000000Z,60,"));
}

std::vector<record::Record> three_repeats() {
  return {make_record("r-2", 2, 40, 3000, true), make_record("r-2.2", 2, 41, 3000, true),
          make_record("r-2.3", 2, 39, 3000, false)};
}

// The interval is interval_of({40, 41, 39}).
TEST(StatusTable, RepeatsStandAsOneRow) {
  std::vector<record::Record> repeats = three_repeats();
  repeats[2].goal->reached = false;
  const std::string table = status_table({{"a-1", {make_record("a-1", 1, 60, 3000, true)}}, {"r-2", repeats}});
  EXPECT_THAT(table, HasSubstr("\n 1  a-1              finished  "));
  EXPECT_THAT(table, HasSubstr("\n 2  r-2 (3 repeats)  finished  "));
  EXPECT_THAT(table, HasSubstr("  40.0 [37.6, 42.6]  Prec@1 85.25 [85.25, 85.25]  2 of 3 reached  light\n"));
  EXPECT_THAT(table, HasSubstr("--all shows each run\n"));
  EXPECT_THAT(table, Not(HasSubstr("r-2.2")));
}

TEST(StatusTable, TimesAreThoseOfRepeatsThatFinished) {
  std::vector<record::Record> repeats = three_repeats();
  repeats[1].state = "failed";
  repeats[1].clocks.train_s = 1;
  const std::string table = status_table({{"r-2", repeats}});
  EXPECT_THAT(table, HasSubstr("r-2 (3 repeats)  1 failed, 2 finished  "));
  EXPECT_THAT(table, HasSubstr("  39.5 ["));
  EXPECT_THAT(status_table({{"r-2", repeats}}, {TableFormat::kCsv}), HasSubstr("\n2,r-2,\"1 failed, 2 finished\","));
}

TEST(StatusTable, IntervalsOfAccuraciesStayWithinTheirBounds) {
  std::vector<record::Record> repeats = three_repeats();
  repeats.pop_back();
  repeats[0].evaluations.back().metrics = {{"Prec@1", 79}};
  repeats[1].evaluations.back().metrics = {{"Prec@1", 83}};
  EXPECT_THAT(status_table({{"r-2", repeats}}), HasSubstr("Prec@1 81.00 [55.59, 100.00]"));
}

TEST(StatusTable, OtherConfigurationsAreNoRepeats) {
  std::vector<record::Record> repeats = three_repeats();
  repeats[2].backend = "mpi";
  const std::string table = status_table({{"r-2", repeats}});
  EXPECT_THAT(table, HasSubstr("r-2 (2 repeats)"));
  EXPECT_THAT(table, HasSubstr("\n 2  r-2.3            finished"));
}

}  // namespace
}  // namespace mlbench::report
