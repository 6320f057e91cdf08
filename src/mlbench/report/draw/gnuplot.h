#pragma once

// Draws charts with gnuplot, which runs as a program. Its language can run commands: the script goes by standard input,
// and every word that is not this program's own stands in a `$text` or `$data` block, where nothing is evaluated.

#include <string>

#include "mlbench/report/draw/charts.h"

namespace mlbench::report {

enum class ImageFormat { kPng, kSvg };

// The script; its output goes to standard output.
std::string gnuplot_script(const Chart& chart, ImageFormat format);
// The same for 24 lines of so many characters.
std::string gnuplot_text_script(const Chart& chart, int columns);

// Whether gnuplot is found in PATH.
bool gnuplot_exists();

// What a script prints on standard output. UserError naming the package when there is no gnuplot; IoError with its
// message when it fails.
std::string run_gnuplot(const std::string& script);

// The image's bytes.
std::string draw(const Chart& chart, ImageFormat format);
// The chart in characters, for a terminal.
std::string draw_text(const Chart& chart, int columns);

}  // namespace mlbench::report
