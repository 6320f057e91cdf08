#include "mlbench/report/draw/gnuplot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <limits>

#include "mlbench/base/files.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/process.h"
#include "mlbench/base/system_error.h"

namespace mlbench::report {

namespace {

constexpr std::chrono::seconds kPatience{60};
constexpr const char* kEnd = "END_OF_BLOCK";

// The palette of Okabe and Ito, which people with colour blindness can tell apart; dark ones first.
constexpr const char* kColours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F",
                                    "#8C564B", "#B8A900", "#5E4FA2", "#C2185B", "#17A2B8", "#2F4F4F"};

constexpr const char* kImageStyle =
    "set border 3 lc rgb '#444444'\n"
    "set grid y lc rgb '#dddddd'\n"
    "set tics nomirror\n"
    "set key outside right top reverse Left noenhanced\n";

constexpr const char* kPaperStyle =
    "set border 3 lc rgb '#444444'\n"
    "set grid y lc rgb '#dddddd'\n"
    "set tics nomirror\n"
    "set key below Left reverse noenhanced\n";

constexpr int kTextLines = 24;
constexpr const char* kTextStyle = "set key outside top center horizontal noenhanced\n";

// One line of a block, with a mark in front, so that the text can neither end the block nor begin another one.
std::string cell(const std::string& text) { return "|" + printable(text); }

class Script {
  static constexpr size_t kFirstName = 6;  // of the series, in $text

 public:
  explicit Script(const Chart& chart) : chart_(chart) {}

  std::string make(const std::string& terminal, const char* style, bool titled = true) {
    texts();
    data();
    const bool bars = chart_.kind == ChartKind::kStackedBars;
    out_ += "set terminal " + terminal +
            "\n"
            "set datafile separator \"\\t\"\n"
            "set encoding utf8\n";
    out_ += style;
    if (titled) {
      out_ += "set title $text[1][2:*]";
      if (!chart_.subtitle.empty()) out_ += ".\"\\n\".$text[2][2:*]";
      if (!chart_.labels.empty()) out_ += ".\"\\n\".$text[3][2:*]";
      out_ += " noenhanced\n";
    }
    out_ +=
        "set xlabel $text[4][2:*] noenhanced\n"
        "set ylabel $text[5][2:*] noenhanced\n";
    if (chart_.log_x) out_ += "set logscale x 10\n";
    if (chart_.log_y) out_ += "set logscale y 10\n";
    if (!chart_.log_y) y_range();
    if (!chart_.ticks.empty()) ticks();
    if (bars) {
      out_ += "set style data histograms\nset style histogram rowstacked\nset style fill solid 0.9 noborder\n";
      out_ += "set boxwidth 0.7\nset key invert\n";  // as the bars: the last one on top
    }
    plot(bars);
    return out_;
  }

 private:
  void texts() {
    out_ += fmt::format("$text << {}\n", kEnd);
    const std::string labels = fmt::format("{}", fmt::join(chart_.labels, ", "));
    for (const std::string& text : {chart_.title, chart_.subtitle, labels, chart_.x_label, chart_.y_label}) {
      out_ += cell(text) + "\n";
    }
    for (const ChartSeries& series : chart_.series) out_ += cell(series.name) + "\n";
    for (const std::string& tick : chart_.ticks) out_ += cell(tick) + "\n";
    out_ += fmt::format("{}\n", kEnd);
  }

  void data() {
    for (size_t i = 0; i < chart_.series.size(); ++i) {
      out_ += fmt::format("$data{} << {}\n", i, kEnd);
      for (const ChartPoint& point : chart_.series[i].points) {
        // "NaN" is drawn as a gap. Without the point, a line would bridge the gap, and the bars behind would move.
        const bool finite = std::isfinite(point.x) && std::isfinite(point.y);
        out_ += finite ? fmt::format("{}\t{}", point.x, point.y) : fmt::format("{}\tNaN", point.x);
        if (has_bars(chart_.series[i])) {
          out_ += point.low && point.high ? fmt::format("\t{}\t{}", *point.low, *point.high) : "\tNaN\tNaN";
        }
        out_ += "\n";
      }
      out_ += fmt::format("{}\n", kEnd);
    }
  }

  // A goal may be the highest or the lowest value, and must not lie on the frame. Room below it goes to 0 at most.
  void y_range() {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (const ChartSeries& series : chart_.series) {
      for (const ChartPoint& point : series.points) {
        if (!std::isfinite(point.y)) continue;
        low = std::min({low, point.y, point.low.value_or(point.y)});
        high = std::max({high, point.y, point.high.value_or(point.y)});
      }
    }
    const bool guided = std::ranges::any_of(chart_.series, &ChartSeries::guide);
    if (guided) out_ += "set offsets graph 0, graph 0, graph 0.05, graph 0.05\n";
    if (chart_.from_zero) {
      out_ += fmt::format("set yrange [0:{}]\n", high > 0 ? "*" : "1");
    } else if (guided && low >= 0) {
      out_ += "set yrange [0<*:*]\n";
    }
  }

  void ticks() {
    out_ += "set xtics ()\n";
    for (size_t i = 0; i < chart_.ticks.size(); ++i) {
      out_ += fmt::format("set xtics add ($text[{}][2:*] {})\n", kFirstName + chart_.series.size() + i, i);
    }
    out_ += fmt::format("set xrange [-0.5:{}.5]\n", chart_.ticks.size() - 1);
  }

  void plot(bool bars) {
    out_ += "plot ";
    size_t colour = 0;
    for (size_t i = 0; i < chart_.series.size(); ++i) {
      const ChartSeries& series = chart_.series[i];
      if (i > 0) out_ += ", \\\n  ";
      const size_t title = kFirstName + i;
      if (bars) {
        out_ += fmt::format("$data{} using 2 title $text[{}][2:*] lc rgb '{}'", i, title,
                            series.colour ? kColours[*series.colour % std::size(kColours)] : next(colour));
      } else if (series.guide) {
        out_ += fmt::format("$data{} using 1:2 with lines dashtype 2 lc rgb '#555555' title $text[{}][2:*]", i, title);
      } else if (series.rings) {
        out_ += fmt::format("$data{} using 1:2 with points pt 6 ps 1.8 lw 2 lc rgb '#333333' title $text[{}][2:*]", i,
                            title);
      } else {
        // Many points are drawn as a curve; few points are measurements, whose marks a reader wants to see.
        const bool marks = series.points.size() <= 40;
        const char* const rgb = next(colour);
        if (has_bars(series)) {  // first: their marks are empty, and would cover others
          out_ += fmt::format("$data{} using 1:2:3:4 with yerrorbars pt 0 lw 1 lc rgb '{}' notitle, \\\n  ", i, rgb);
        }
        out_ += fmt::format("$data{} using 1:2 with {} lw 2 {}lc rgb '{}' title $text[{}][2:*]", i,
                            marks ? "linespoints" : "lines", marks ? "pt 7 ps 0.7 " : "", rgb, title);
      }
    }
    out_ += "\n";
  }

  static const char* next(size_t& colour) { return kColours[colour++ % std::size(kColours)]; }

  const Chart& chart_;
  std::string out_;
};

std::string screen_terminal(ImageFormat format, const std::string& font) {
  switch (format) {
    case ImageFormat::kPng:
      return fmt::format("pngcairo noenhanced size 900,560 font '{},11'", font);
    case ImageFormat::kSvg:
      return fmt::format("svg noenhanced size 900,560 font '{}' background '#ffffff'", font);
    case ImageFormat::kPdf:
      return fmt::format("pdfcairo noenhanced size 9in,5.6in font '{},11'", font);
  }
  return "";
}

std::string paper_terminal(ImageFormat format, const ImageStyle& style) {
  const bool one = style.width == FigureWidth::kOneColumn;
  const double wide = one ? 3.33 : 7, high = one ? 2.4 : 3.2;  // inches
  constexpr double kPointsPerInch = 72, kPixelsPerInch = 300;
  switch (format) {
    case ImageFormat::kPng:
      return fmt::format("pngcairo noenhanced size {:.0f},{:.0f} font '{},8' fontscale 4 linewidth 3 pointscale 3",
                         wide * kPixelsPerInch, high * kPixelsPerInch, style.font);
    case ImageFormat::kSvg:
      return fmt::format("svg noenhanced size {:.0f},{:.0f} font '{},8' linewidth 0.6 background '#ffffff'",
                         wide * kPointsPerInch, high * kPointsPerInch, style.font);
    case ImageFormat::kPdf:
      return fmt::format("pdfcairo noenhanced size {}in,{}in font '{},8' linewidth 0.8", wide, high, style.font);
  }
  return "";
}

}  // namespace

std::string gnuplot_script(const Chart& chart, ImageFormat format, const ImageStyle& style) {
  const bool plain =
      std::ranges::all_of(style.font, [](unsigned char c) { return std::isalnum(c) != 0 || c == ' ' || c == '-'; });
  if (!plain || style.font.empty() || style.font.size() > 60) {
    throw UserError(
        fmt::format("the font is '{}'; expected a name such as 'Latin Modern Roman', of letters, digits, "
                    "blanks and '-', at most 60",
                    style.font));
  }
  if (style.width == FigureWidth::kScreen) {
    return Script(chart).make(screen_terminal(format, style.font), kImageStyle);
  }
  return Script(chart).make(paper_terminal(format, style), kPaperStyle, false);
}

std::string gnuplot_text_script(const Chart& chart, int columns) {
  return Script(chart).make(fmt::format("dumb noenhanced size {},{}", columns, kTextLines), kTextStyle);
}

bool gnuplot_exists() { return program_exists("gnuplot"); }

std::string run_gnuplot(const std::string& script) {
  if (!gnuplot_exists()) {
    throw UserError("this needs the program gnuplot, which is not installed: apt-get install gnuplot-nox");
  }
  const FileDescriptor input(memfd_create("gnuplot", MFD_CLOEXEC));
  if (!input) throw_system_error("cannot make the input of gnuplot", errno);
  write_all(input.get(), script, "the input of gnuplot");
  lseek(input.get(), 0, SEEK_SET);
  ProcessOptions options;
  options.arguments = {"gnuplot", "-d", "-"};  // -d: no file of the user's that changes how charts look
  options.standard_input = input.get();
  ProcessOutput output = run_process(options, kPatience);
  if (output.end.code != 0) {
    throw IoError(
        fmt::format("gnuplot failed (exit code {}): {}", output.end.code, output.standard_error.substr(0, 500)));
  }
  return std::move(output.standard_output);
}

std::string draw(const Chart& chart, ImageFormat format, const ImageStyle& style) {
  return run_gnuplot(gnuplot_script(chart, format, style));
}

std::string draw_text(const Chart& chart, int columns) { return run_gnuplot(gnuplot_text_script(chart, columns)); }

}  // namespace mlbench::report
