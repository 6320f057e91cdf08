#include "mlbench/report/draw/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "mlbench/base/errors.h"
#include "mlbench/base/printable.h"

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

void Table::add_row(std::vector<std::string> cells) {
  MLBENCH_CHECK(cells.size() == columns_.size(), fmt::format("{} cells, {} columns", cells.size(), columns_.size()));
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::render() const {
  std::vector<size_t> widths;
  bool any_unit = false;
  for (size_t i = 0; i < columns_.size(); ++i) {
    size_t width = std::max(display_width(columns_[i].heading), display_width(columns_[i].unit));
    for (const auto& row : rows_) width = std::max(width, display_width(row[i]));
    widths.push_back(width);
    any_unit = any_unit || !columns_[i].unit.empty();
  }

  std::string text;
  const auto add_line = [&](const auto& cell_of) {
    std::string line;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const std::string& cell = cell_of(i);
      const std::string padding(widths[i] - display_width(cell), ' ');
      if (i > 0) line += "  ";
      line += columns_[i].align == Align::kLeft ? cell + padding : padding + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line([&](size_t i) -> const std::string& { return columns_[i].heading; });
  if (any_unit) add_line([&](size_t i) -> const std::string& { return columns_[i].unit; });
  for (const auto& row : rows_) add_line([&](size_t i) -> const std::string& { return row[i]; });
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
