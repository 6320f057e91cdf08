#include "mlbench/report/draw/gnuplot.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>

#include "mlbench/base/errors.h"
#include "mlbench/report/test_records.h"

namespace mlbench::report {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Chart chart_named(const std::string& name) {
  return {.id = "c",
          .title = name,
          .subtitle = name,
          .x_label = name,
          .y_label = name,
          .labels = {name, name},
          .ticks = {"1", name},
          .series = {{name, {{0, 1}, {1, 2.5}}, false}, {"linear", {{0, 1}, {1, 2}}, true}}};
}

TEST(Gnuplot, Script) {
  EXPECT_EQ(gnuplot_script({.id = "loss",
                            .title = "t",
                            .subtitle = "s",
                            .x_label = "x",
                            .y_label = "y",
                            .labels = {"light", "open"},
                            .ticks = {},
                            .series = {{"a", {{0.5, 1}}, false}},
                            .from_zero = false},
                           ImageFormat::kSvg),
            "$text << END_OF_BLOCK\n|t\n|s\n|light, open\n|x\n|y\n|a\nEND_OF_BLOCK\n"
            "$data0 << END_OF_BLOCK\n0.5\t1\nEND_OF_BLOCK\n"
            "set terminal svg noenhanced size 900,560 font 'sans' background '#ffffff'\n"
            "set datafile separator \"\\t\"\n"
            "set encoding utf8\n"
            "set border 3 lc rgb '#444444'\n"
            "set grid y lc rgb '#dddddd'\n"
            "set tics nomirror\n"
            "set key outside right top reverse Left noenhanced\n"
            "set title $text[1][2:*].\"\\n\".$text[2][2:*].\"\\n\".$text[3][2:*] noenhanced\n"
            "set xlabel $text[4][2:*] noenhanced\n"
            "set ylabel $text[5][2:*] noenhanced\n"
            "plot $data0 using 1:2 with linespoints lw 2 pt 7 ps 0.7 lc rgb '#0072B2' title $text[6][2:*]\n");
}

TEST(Gnuplot, LeavesAGapWhereThereIsNoNumber) {
  Chart chart = chart_named("task");
  chart.series[0].points = {{0, 1}, {1, NAN}, {2, INFINITY}, {3, 2}};
  const std::string script = gnuplot_script(chart, ImageFormat::kSvg);
  EXPECT_THAT(script, HasSubstr("0\t1\n1\tNaN\n2\tNaN\n3\t2\n"));
  EXPECT_THAT(script, HasSubstr("set yrange [0:*]"));
  if (!gnuplot_exists()) GTEST_SKIP() << "missing capability: gnuplot";
  for (const ChartKind kind : {ChartKind::kLines, ChartKind::kStackedBars}) {
    chart.kind = kind;
    EXPECT_THAT(draw(chart, ImageFormat::kSvg), HasSubstr("</svg>"));
  }
}

// A goal that is the lowest value would be drawn on the axis, one that is the highest on the frame.
TEST(Gnuplot, AGuideNeverLiesOnTheFrame) {
  Chart chart = chart_named("task");
  const std::string room = "set offsets graph 0, graph 0, graph 0.05, graph 0.05\n";
  EXPECT_THAT(gnuplot_script(chart, ImageFormat::kSvg), HasSubstr(room));
  chart.series.pop_back();
  EXPECT_THAT(gnuplot_script(chart, ImageFormat::kSvg), Not(HasSubstr("set offsets")));
  if (!gnuplot_exists()) GTEST_SKIP() << "missing capability: gnuplot";
  chart.from_zero = false;
  chart.series = {{"perplexity", {{0, 90}, {1, 70}}, false}, {"goal 70", {{0, 70}, {1, 70}}, true}};
  // gnuplot's own variable of where the axis ends, which the goal must be above.
  const std::string script = gnuplot_script(chart, ImageFormat::kSvg) + "set print '-'\nprint GPVAL_Y_MIN\n";
  const std::string drawn = run_gnuplot(script);
  EXPECT_LT(std::stod(drawn.substr(drawn.rfind("</svg>") + 6)), 70);
  chart.series = {{"BLEU", {{0, 1}, {1, 26}}, false}, {"goal 25", {{0, 25}, {1, 25}}, true}};
  const std::string small =
      run_gnuplot(gnuplot_script(chart, ImageFormat::kSvg) + "set print '-'\nprint GPVAL_Y_MIN\n");
  EXPECT_EQ(std::stod(small.substr(small.rfind("</svg>") + 6)), 0) << "no value is below it";
}

TEST(Gnuplot, DrawsBarsOverRepeats) {
  Chart chart = chart_named("task");
  chart.series[0].points[1].low = 2;
  chart.series[0].points[1].high = 4;
  const std::string script = gnuplot_script(chart, ImageFormat::kPdf);
  EXPECT_THAT(script, HasSubstr("0\t1\tNaN\tNaN\n1\t2.5\t2\t4\n"));
  EXPECT_THAT(script, HasSubstr("$data0 using 1:2:3:4 with yerrorbars"));
  EXPECT_THAT(script, testing::Not(HasSubstr("$data1 using 1:2:3:4"))) << "a guide has none";
}

TEST(Gnuplot, FiguresForPapersHaveNoTitleAndTheirFont) {
  const Chart chart = chart_named("task");
  const std::string script = gnuplot_script(chart, ImageFormat::kPdf, {FigureWidth::kOneColumn, "Latin Modern Roman"});
  EXPECT_THAT(script, HasSubstr("set terminal pdfcairo noenhanced size 3.33in,2.4in font 'Latin Modern Roman,8'"));
  EXPECT_THAT(script, testing::Not(HasSubstr("set title")));
  EXPECT_THROW(gnuplot_script(chart, ImageFormat::kPdf, {FigureWidth::kScreen, "a' ; system('x"}), UserError);
  if (!gnuplot_exists()) GTEST_SKIP() << "missing capability: gnuplot";
  for (const FigureWidth width : {FigureWidth::kScreen, FigureWidth::kOneColumn, FigureWidth::kTwoColumns}) {
    EXPECT_THAT(draw(chart, ImageFormat::kPdf, {width, "sans"}), StartsWith("%PDF"));
  }
}

TEST(Gnuplot, DrawsBothFormats) {
  if (!gnuplot_exists()) GTEST_SKIP() << "missing capability: gnuplot";
  for (const ChartKind kind : {ChartKind::kLines, ChartKind::kStackedBars}) {
    Chart chart = chart_named("task");
    chart.kind = kind;
    EXPECT_THAT(draw(chart, ImageFormat::kPng), StartsWith("\x89PNG"));
    EXPECT_THAT(draw(chart, ImageFormat::kSvg), HasSubstr("</svg>"));
  }
}

TEST(Gnuplot, DrawsInCharacters) {
  if (!gnuplot_exists()) GTEST_SKIP() << "missing capability: gnuplot";
  const std::string text = draw_text({.id = "lr",
                                      .title = "the title",
                                      .subtitle = "",
                                      .x_label = "epoch",
                                      .y_label = "y",
                                      .labels = {},
                                      .ticks = {},
                                      .series = {{"1 worker", {{0, 0}, {1, 2}}, false}}},
                                     70);
  EXPECT_THAT(text, HasSubstr("1 worker ***"));
  EXPECT_THAT(text, HasSubstr(" the title "));
  EXPECT_THAT(text, HasSubstr(" epoch "));
}

TEST(Gnuplot, DrawsAPointAndNothingButZeros) {
  if (!gnuplot_exists()) GTEST_SKIP() << "missing capability: gnuplot";
  Chart chart = chart_named("x");
  chart.ticks = {"1"};
  chart.series = {{"a", {{0, 0}}, false}};
  EXPECT_THAT(draw(chart, ImageFormat::kPng), StartsWith("\x89PNG"));
}

// Names that would run a command, end a block, or make markup where they were not mere text.
TEST(Gnuplot, NamesAreTextAlone) {
  if (!gnuplot_exists()) GTEST_SKIP() << "missing capability: gnuplot";
  TemporaryFolder folder;
  const std::string owned = (folder.path() / "owned").string();
  for (const std::string& name :
       {"`touch " + owned + "`", "$(touch " + owned + ")", "END_OF_BLOCK\nsystem('touch " + owned + "')",
        "'; system('touch " + owned + "'); '", "\"; !touch " + owned + "\n", std::string("@x {/Bold y} \\n # %s"),
        std::string("END_OF_BLOCK"), std::string("\x1b[2J"), std::string()}) {
    const std::string svg = draw(chart_named(name), ImageFormat::kSvg);
    EXPECT_THAT(svg, HasSubstr("</svg>")) << name;
    EXPECT_FALSE(std::filesystem::exists(owned)) << name;
  }
  EXPECT_THAT(draw(chart_named("<script>alert(1)</script>"), ImageFormat::kSvg), Not(HasSubstr("<script>alert")));
  EXPECT_THAT(draw(chart_named("\xE2\x80\xAE right to left"), ImageFormat::kSvg),
              testing::AllOf(Not(HasSubstr("\xE2\x80\xAE")), HasSubstr("u202e right to left")));
}

TEST(Gnuplot, AnAbsentOneIsNamedWithItsPackage) {
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  try {
    draw(chart_named("x"), ImageFormat::kPng);
    ADD_FAILURE() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("apt-get install gnuplot-nox"));
  }
  setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace mlbench::report
