#pragma once

// Draws charts with the program gnuplot. Since gnuplot's language can run commands, every text that does not come from
// this program's code stands in a `$text` or `$data` block of the script, where nothing is evaluated. gnuplot reads the
// script from its standard input.

#include <string>

#include "mlbench/report/draw/charts.h"

namespace mlbench::report {

enum class ImageFormat { kPng, kSvg, kPdf };
// For a screen; or as wide as one or two columns of a paper, in letters of 8 points, without the title: it stands in
// the caption.
enum class FigureWidth { kScreen, kOneColumn, kTwoColumns };

struct ImageStyle {
  FigureWidth width = FigureWidth::kScreen;
  std::string font = "sans";  // letters, digits, blanks and '-' alone: it stands in the script
};

// A script that draws `chart` as an image, to standard output. Throws UserError for another font.
std::string gnuplot_script(const Chart& chart, ImageFormat format, const ImageStyle& style = {});
// A script that draws `chart` as text: 24 lines of `columns` characters.
std::string gnuplot_text_script(const Chart& chart, int columns);

// Whether gnuplot is found in PATH.
bool gnuplot_exists();

// Runs gnuplot with `script` and returns what it prints on standard output. Throws UserError, naming the package, when
// there is no gnuplot, and IoError with gnuplot's message when it fails.
std::string run_gnuplot(const std::string& script);

// The bytes of the chart's image. Throws as run_gnuplot() does.
std::string draw(const Chart& chart, ImageFormat format, const ImageStyle& style = {});
// The chart in characters, for a terminal with `columns` columns. Throws as run_gnuplot() does.
std::string draw_text(const Chart& chart, int columns);

}  // namespace mlbench::report
