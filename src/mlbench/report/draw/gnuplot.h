#pragma once

// Draws charts with the program gnuplot. Since gnuplot's language can run commands, every text that does not come from
// this program's code stands in a `$text` or `$data` block of the script, where nothing is evaluated. gnuplot reads the
// script from its standard input.

#include <string>

#include "mlbench/report/draw/charts.h"

namespace mlbench::report {

enum class ImageFormat { kPng, kSvg };

// A script that draws `chart` as an image, to standard output.
std::string gnuplot_script(const Chart& chart, ImageFormat format);
// A script that draws `chart` as text: 24 lines of `columns` characters.
std::string gnuplot_text_script(const Chart& chart, int columns);

// Whether gnuplot is found in PATH.
bool gnuplot_exists();

// Runs gnuplot with `script` and returns what it prints on standard output. Throws UserError, naming the package, when
// there is no gnuplot, and IoError with gnuplot's message when it fails.
std::string run_gnuplot(const std::string& script);

// The bytes of the chart's image. Throws as run_gnuplot() does.
std::string draw(const Chart& chart, ImageFormat format);
// The chart in characters, for a terminal with `columns` columns. Throws as run_gnuplot() does.
std::string draw_text(const Chart& chart, int columns);

}  // namespace mlbench::report
