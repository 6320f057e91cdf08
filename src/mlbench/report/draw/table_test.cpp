#include "mlbench/report/draw/table.h"

#include <gtest/gtest.h>

#include <limits>

#include "mlbench/base/errors.h"

namespace mlbench::report {
namespace {

TEST(Table, AlignsColumnsAndTrimsLines) {
  Table table({{"run", "", Align::kLeft}, {"time", "s", Align::kRight}, {"notes", "", Align::kLeft}});
  table.add_row({"r-1", "41.2", ""});
  table.add_row({"long-name-16", "5", "light"});
  EXPECT_EQ(table.render(),
            "run           time  notes\n"
            "                 s\n"
            "r-1           41.2\n"
            "long-name-16     5  light\n");
}

TEST(Table, CellsAreOneLineThatDoesNothingToATerminal) {
  Table table({{"run", "", Align::kLeft}});
  table.add_row({"a\x1b[2J\nb"});
  EXPECT_EQ(table.render(), "run\na\\x1b[2J\\nb\n");
}

TEST(Table, LeavesOutAnEmptyUnitLine) {
  Table table({{"a", "", Align::kRight}, {"b", "", Align::kLeft}});
  table.add_row({"1", "x"});
  EXPECT_EQ(table.render(), "a  b\n1  x\n");
}

TEST(Table, CountsCharactersNotBytes) {
  Table table({{"ä", "", Align::kLeft}, {"b", "", Align::kLeft}});
  table.add_row({"µs", "1"});
  EXPECT_EQ(table.render(), "ä   b\nµs  1\n");
}

TEST(Table, RefusesRowsOfAnotherLength) {
  Table table({{"a", "", Align::kLeft}});
  EXPECT_THROW(table.add_row({"1", "2"}), InternalError);
}

Table three_columns() {
  Table table({{"run", "", Align::kLeft},
               {"time", "s", Align::kRight, 1},
               {"notes", "", Align::kLeft, 2, "labels"},
               {"goal", "", Align::kLeft, 2}});
  table.add_row({"r_1", "41.2", "light", "reached"}, {"r_1", 41.234, Json::array({"light"}), true});
  table.add_row({"r-2", "-", "a | b, c", "-"}, {"r-2", nullptr, Json::array({"a | b", "c"}), nullptr});
  return table;
}

TEST(Table, LeavesOutColumnsOfTheHighestRankFromTheRightAndNamesThem) {
  const std::string whole =
      "run  time  notes     goal\n"
      "        s\n"
      "r_1  41.2  light     reached\n"
      "r-2     -  a | b, c  -\n";
  EXPECT_EQ(three_columns().render({TableFormat::kText, 28}), whole);
  EXPECT_EQ(three_columns().render({TableFormat::kText, 27}),
            "run  time  notes\n"
            "        s\n"
            "r_1  41.2  light\n"
            "r-2     -  a | b, c\n"
            "  left out at a width of 27: goal (--wide shows all)\n");
  EXPECT_EQ(three_columns().render({TableFormat::kText, 1}),
            "run\n"
            "r_1\n"
            "r-2\n"
            "  left out at a width of 1: time, s; notes; goal (--wide shows all)\n");
}

TEST(Table, ForAPageForAPaperAndForASpreadsheet) {
  const int narrow = 10;  // which text alone heeds
  EXPECT_EQ(three_columns().render({TableFormat::kMarkdown, narrow}),
            "| run | time, s | notes | goal |\n"
            "|---|---:|---|---|\n"
            "| r\\_1 | 41.2 | light | reached |\n"
            "| r-2 | - | a \\| b, c | - |\n");
  EXPECT_EQ(three_columns().render({TableFormat::kLatex, narrow}),
            "\\begin{tabular}{lrll}\n"
            "\\toprule\n"
            "run & time & notes & goal \\\\\n"
            " & s &  &  \\\\\n"
            "\\midrule\n"
            "r\\_1 & 41.2 & light & reached \\\\\n"
            "r-2 & - & a \\textbar{} b, c & - \\\\\n"
            "\\bottomrule\n"
            "\\end{tabular}\n");
  EXPECT_EQ(three_columns().render({TableFormat::kCsv, narrow}),
            "run,\"time, s\",labels,goal\n"
            "r_1,41.234,light,1\n"
            "r-2,,\"a | b, c\",\n");
}

TEST(Format, Figures) {
  EXPECT_EQ(format_seconds(0.0123), "0.012");
  EXPECT_EQ(format_seconds(0.9996), "1.00");
  EXPECT_EQ(format_seconds(9.996), "10.0");
  EXPECT_EQ(format_seconds(41.25), "41.2");
  EXPECT_EQ(format_seconds(99.96), "100");
  EXPECT_EQ(format_seconds(5895.4), "5895");
  EXPECT_EQ(format_seconds(std::nullopt), "-");
  EXPECT_EQ(format_rate(12345.4), "12,345");
  EXPECT_EQ(format_rate(95.34), "95.3");
  EXPECT_EQ(format_rate(std::numeric_limits<double>::infinity()), "-");
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(-1234567), "-1,234,567");
  EXPECT_EQ(format_percent(0.9425), "94 %");
  EXPECT_EQ(format_percent(std::nullopt), "-");
  EXPECT_EQ(format_ratio(1.8847), "1.88");
  EXPECT_EQ(format_metric(84.213), "84.21");
  EXPECT_EQ(format_metric(0.43119), "0.4312");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1200), "1.2 kB");
  EXPECT_EQ(format_bytes(512'000'000), "512 MB");
  EXPECT_EQ(format_bytes(999'999), "1.0 MB");
  EXPECT_EQ(format_elapsed(41.9), "0:41");
  EXPECT_EQ(format_elapsed(723), "12:03");
  EXPECT_EQ(format_elapsed(3723), "1:02:03");
}

// Names of metrics come from records, which are not trusted.
TEST(Table, HeadingsAndCellsDoNothingToATerminal) {
  Table table({{"Prec\xE2\x80\xAE@1", "\x1b[2J", Align::kLeft}});
  table.add_row({"\xE2\x81\xA6 1"});
  EXPECT_EQ(table.render(), "Prec\\u202e@1\n\\x1b[2J\n\\u2066 1\n");
}

}  // namespace
}  // namespace mlbench::report
