#include "mlbench/report/draw/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "mlbench/base/errors.h"
#include "mlbench/base/printable.h"
#include "mlbench/report/draw/escape.h"

namespace mlbench::report {

size_t display_width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  for (Column& column : columns_) {
    column.heading = printable(column.heading);
    column.unit = printable(column.unit);
  }
}

std::string heading_of(const Column& column) {
  return column.unit.empty() ? column.heading : column.heading + ", " + column.unit;
}

void Table::add_row(std::vector<std::string> cells, std::vector<Json> values) {
  MLBENCH_CHECK(cells.size() == columns_.size(), fmt::format("{} cells, {} columns", cells.size(), columns_.size()));
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
  values_.push_back(std::move(values));
}

std::string Table::render(const TableStyle& style) const {
  switch (style.format) {
    case TableFormat::kText:
      return as_text(style.width);
    case TableFormat::kMarkdown:
      return as_markdown();
    case TableFormat::kLatex:
      return as_latex();
    case TableFormat::kCsv:
      return as_csv();
  }
  return "";
}

namespace {

// Leaves out columns, as indices, until those of `widths` that remain fit into a line.
std::vector<size_t> left_out_of(const std::vector<Column>& columns, const std::vector<size_t>& widths, size_t line) {
  std::vector<size_t> out;
  size_t needed = 2 * (widths.size() - 1);
  for (const size_t width : widths) needed += width;
  while (needed > line) {
    std::optional<size_t> least;
    for (size_t i = 0; i < columns.size(); ++i) {
      const bool shown = std::ranges::find(out, i) == out.end();
      if (shown && columns[i].rank > 0 && (!least || columns[i].rank >= columns[*least].rank)) least = i;
    }
    if (!least) break;
    out.push_back(*least);
    needed -= widths[*least] + 2;
  }
  std::ranges::sort(out);
  return out;
}

}  // namespace

std::string Table::as_text(std::optional<int> line_width) const {
  std::vector<size_t> widths;
  for (size_t i = 0; i < columns_.size(); ++i) {
    size_t width = std::max(display_width(columns_[i].heading), display_width(columns_[i].unit));
    for (const auto& row : rows_) width = std::max(width, display_width(row[i]));
    widths.push_back(width);
  }
  std::vector<size_t> left_out;
  if (line_width) left_out = left_out_of(columns_, widths, static_cast<size_t>(*line_width));
  const auto shown = [&](size_t i) { return std::ranges::find(left_out, i) == left_out.end(); };

  std::string text;
  const auto add_line = [&](const auto& cell_of) {
    std::string line;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (!shown(i)) continue;
      const std::string& cell = cell_of(i);
      const std::string padding(widths[i] - display_width(cell), ' ');
      line += columns_[i].align == Align::kLeft ? cell + padding : padding + cell;
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line([&](size_t i) -> const std::string& { return columns_[i].heading; });
  bool any_unit = false;
  for (size_t i = 0; i < columns_.size(); ++i) any_unit = any_unit || (shown(i) && !columns_[i].unit.empty());
  if (any_unit) add_line([&](size_t i) -> const std::string& { return columns_[i].unit; });
  for (const auto& row : rows_) add_line([&](size_t i) -> const std::string& { return row[i]; });
  if (left_out.empty()) return text;
  std::string names;
  for (const size_t i : left_out) names += (names.empty() ? "" : "; ") + heading_of(columns_[i]);
  return text + fmt::format("  left out at a width of {}: {} (--wide shows all)\n", *line_width, names);
}

std::string Table::as_markdown() const {
  std::string text = "|";
  for (const Column& column : columns_) text += fmt::format(" {} |", markdown_text(heading_of(column)));
  text += "\n|";
  for (const Column& column : columns_) text += column.align == Align::kRight ? "---:|" : "---|";
  text += "\n";
  for (const auto& row : rows_) {
    text += "|";
    for (const std::string& cell : row) text += fmt::format(" {} |", markdown_text(cell));
    text += "\n";
  }
  return text;
}

std::string Table::as_latex() const {
  std::string text = "\\begin{tabular}{";
  for (const Column& column : columns_) text += column.align == Align::kRight ? "r" : "l";
  text += "}\n\\toprule\n";
  const auto add_line = [&](const auto& cells, const auto& text_of_cell) {
    std::string line;
    for (const auto& cell : cells) line += (&cell == cells.data() ? "" : " & ") + latex_text(text_of_cell(cell));
    text += line + " \\\\\n";
  };
  add_line(columns_, [](const Column& column) { return column.heading; });
  const bool any_unit = std::ranges::any_of(columns_, [](const Column& column) { return !column.unit.empty(); });
  if (any_unit) add_line(columns_, [](const Column& column) { return column.unit; });
  text += "\\midrule\n";
  for (const auto& row : rows_) add_line(row, [](const std::string& cell) { return cell; });
  return text + "\\bottomrule\n\\end{tabular}\n";
}

std::string Table::as_csv() const {
  std::string text;
  const auto add_cell = [&](size_t i, const std::string& cell) { text += (i == 0 ? "" : ",") + cell; };
  for (size_t i = 0; i < columns_.size(); ++i) {
    add_cell(i, csv_text(columns_[i].key.empty() ? heading_of(columns_[i]) : columns_[i].key));
  }
  text += "\n";
  for (size_t row = 0; row < rows_.size(); ++row) {
    for (size_t i = 0; i < columns_.size(); ++i) {
      const bool has_value = i < values_[row].size() && values_[row][i].is_primitive();
      const std::string& cell = rows_[row][i];
      add_cell(i, has_value ? csv_cell_of(values_[row][i]) : csv_text(cell == kNone ? "" : cell));
    }
    text += "\n";
  }
  return text;
}

namespace {
// Three significant digits (below 1, three decimals) without an exponent; from 1000 on the whole number.
std::string three_digits(double value) {
  const double size = std::abs(value);
  const int decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3;
  return fmt::format("{:.{}f}", value, decimals);
}
}  // namespace

std::string format_seconds(std::optional<double> seconds) {
  return seconds && std::isfinite(*seconds) ? three_digits(*seconds) : std::string(kNone);
}

std::string format_count(int64_t count) {
  std::string digits = std::to_string(count);
  const auto first = static_cast<std::ptrdiff_t>(count < 0 ? 1 : 0);
  for (auto i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > first; i -= 3) {
    digits.insert(static_cast<size_t>(i), 1, ',');
  }
  return digits;
}

std::string format_rate(std::optional<double> per_second) {
  if (!per_second || !std::isfinite(*per_second)) return std::string(kNone);
  return *per_second >= 99.95 ? format_count(std::llround(*per_second)) : three_digits(*per_second);
}

std::string format_percent(std::optional<double> fraction) {
  return fraction && std::isfinite(*fraction) ? fmt::format("{:.0f} %", *fraction * 100) : std::string(kNone);
}

namespace {
std::string format_bound(std::string_view bound, std::optional<double> fraction, bool exact) {
  const std::string percent = format_percent(fraction);
  return exact || percent == kNone ? percent : fmt::format("{} {}", bound, percent);
}
}  // namespace

std::string format_wait(std::optional<double> fraction, bool exact) { return format_bound(">=", fraction, exact); }
std::string format_transfer(std::optional<double> fraction, bool exact) { return format_bound("<=", fraction, exact); }

std::string format_ratio(std::optional<double> ratio) {
  if (!ratio || !std::isfinite(*ratio)) return std::string(kNone);
  return *ratio > 0 && *ratio < 0.0995 ? fmt::format("{:.2g}", *ratio) : fmt::format("{:.2f}", *ratio);
}

std::string format_metric(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  return fmt::format("{:.{}f}", value, std::abs(value) >= 9.995 ? 2 : 4);
}

std::string format_kilojoules(std::optional<double> joules) {
  return joules ? format_seconds(*joules / 1000) : std::string(kNone);
}

std::string format_bytes(uint64_t bytes) {
  static constexpr std::array<std::string_view, 5> kUnits = {"kB", "MB", "GB", "TB", "PB"};
  if (bytes < 1000) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return fmt::format("{:.{}f} {}", value, value < 9.95 ? 1 : 0, kUnits[unit]);
}

std::string short_stamp(const std::string& utc) {
  if (utc.size() < 19) return utc.empty() ? std::string(kNone) : utc;
  return utc.substr(0, 10) + " " + utc.substr(11, 8);
}

std::string format_elapsed(double seconds) {
  const auto whole = static_cast<int64_t>(std::max(0.0, seconds));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace mlbench::report
