#pragma once

// Tables for terminals, pages, papers and spreadsheets, and how figures are written in them. The output is an
// interface: tests compare it line by line.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::report {

enum class Align { kLeft, kRight };

struct Column {
  std::string heading;
  std::string unit;  // second heading line; "" for none
  Align align = Align::kRight;
  // Where a terminal is too narrow, columns of the highest rank are left out first, of equal ones the rightmost. 0:
  // always shown.
  int rank = 0;
  std::string key = "";  // its name in CSV; "": its heading
};
// The heading with its unit, in one line: "train, s".
std::string heading_of(const Column& column);

enum class TableFormat { kText, kMarkdown, kLatex, kCsv };

struct TableStyle {
  TableFormat format = TableFormat::kText;
  std::optional<int> width = {};  // characters of a terminal's line, which kText alone heeds; empty: no limit
};

// A table whose columns, as text, are as wide as their widest cell and two blanks apart. Lines have no trailing blanks.
// The line of units is left out when no column has a unit. LaTeX needs the package booktabs.
class Table {
 public:
  explicit Table(std::vector<Column> columns);
  // There must be as many cells as columns. Cells are made printable (base/printable.h). `values` holds what CSV has in
  // place of cells that show a number, text, truth value or null; empty: it has the cells.
  void add_row(std::vector<std::string> cells, std::vector<Json> values = {});
  bool empty() const { return rows_.empty(); }
  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }
  std::string render(const TableStyle& style = {}) const;  // every line ends in '\n'

 private:
  std::string as_text(std::optional<int> width) const;
  std::string as_markdown() const;
  std::string as_latex() const;
  std::string as_csv() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::vector<Json>> values_;  // by row
};

// How many characters a terminal shows for UTF-8 text: its code points, of which wide ones count once.
size_t display_width(std::string_view text);

inline constexpr std::string_view kNone = "-";  // a figure that does not exist

std::string format_seconds(std::optional<double> seconds);   // "0.012", "1.23", "41.2", "5895"
std::string format_rate(std::optional<double> per_second);   // "12,345", "95.3"
std::string format_count(int64_t count);                     // "60,000"
std::string format_percent(std::optional<double> fraction);  // 0.9425 -> "94 %"
// Shares of waiting and of transfer. Where these are not `exact`, they are bounds: ">= 5 %" and "<= 5 %".
std::string format_wait(std::optional<double> fraction, bool exact);
std::string format_transfer(std::optional<double> fraction, bool exact);
std::string format_ratio(std::optional<double> ratio);        // "1.88", "0.0042"
std::string format_metric(double value);                      // "84.21", "0.4312"
std::string format_kilojoules(std::optional<double> joules);  // 12345 -> "12.3"
std::string format_bytes(uint64_t bytes);                     // "3.2 GB" (powers of 1000)
std::string format_elapsed(double seconds);                   // "0:41", "12:03", "1:02:03"
std::string short_stamp(const std::string& utc);              // "2026-11-21 11:33:47"; "-" for ""

}  // namespace mlbench::report
