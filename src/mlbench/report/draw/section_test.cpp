#include "mlbench/report/draw/section.h"

#include <gtest/gtest.h>

namespace mlbench::report {
namespace {

std::vector<Section> two_sections() {
  Table table({{"run", "", Align::kLeft}, {"time", "s", Align::kRight}});
  table.add_row({"r_1", "41.2"});
  return {{"Times of r_1", {"It is fast.", "50 % of it."}, table, {"note: a & b"}}, {"", {"The end."}}};
}

TEST(Section, AsText) {
  EXPECT_EQ(written(two_sections()),
            "Times of r_1\n"
            "It is fast.\n"
            "50 % of it.\n"
            "\n"
            "run  time\n"
            "        s\n"
            "r_1  41.2\n"
            "  note: a & b\n"
            "\n"
            "The end.\n");
}

TEST(Section, AsMarkdown) {
  EXPECT_EQ(written(two_sections(), {TableFormat::kMarkdown}),
            "## Times of r\\_1\n"
            "\n"
            "It is fast.\n"
            "50 % of it.\n"
            "\n"
            "| run | time, s |\n"
            "|---|---:|\n"
            "| r\\_1 | 41.2 |\n"
            "\n"
            "- note: a \\& b\n"
            "\n"
            "The end.\n");
}

TEST(Section, AsLatex) {
  EXPECT_EQ(written(two_sections(), {TableFormat::kLatex}),
            "% Needs \\usepackage{booktabs}.\n"
            "It is fast.\n"
            "50 \\% of it.\n"
            "\n"
            "\\begin{table}\n"
            "\\centering\n"
            "\\caption{Times of r\\_1}\n"
            "\\begin{tabular}{lr}\n"
            "\\toprule\n"
            "run & time \\\\\n"
            " & s \\\\\n"
            "\\midrule\n"
            "r\\_1 & 41.2 \\\\\n"
            "\\bottomrule\n"
            "\\end{tabular}\n"
            "\\par\\footnotesize note: a \\& b\n"
            "\\end{table}\n"
            "\n"
            "The end.\n");
}

TEST(Section, AsCsvHasTheTablesAlone) {
  EXPECT_EQ(written(two_sections(), {TableFormat::kCsv}), "run,\"time, s\"\nr_1,41.2\n");
}

TEST(Section, NamesDoNothingToATerminal) {
  EXPECT_EQ(written({{"\x1b[2J", {"one\x1b]0;x"}, {}, {"a\nb"}}}), "\\x1b[2J\none\\x1b]0;x\n  a\n  b\n");
}

}  // namespace
}  // namespace mlbench::report
