#pragma once

// Describes a figure once: key, title, heading, unit, form and getter are one row, from which a table's column, a
// member of JSON, a cell of CSV and what pages show are made.

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/report/draw/escape.h"
#include "mlbench/report/draw/table.h"

namespace mlbench::report {

// How a JSON value is written for people, and how a column is aligned. null becomes kNone for numbers, "" for texts.
struct Form {
  const char* name = "text";  // by which a page chooses how it writes the value
  std::string (*write)(const Json& value) = nullptr;
  Align align = Align::kRight;
};
namespace forms {
extern const Form kText;                                       // the text as it is
extern const Form kList;                                       // "a, b"
extern const Form kNumber;                                     // a text or whole number, aligned right
extern const Form kCount;                                      // "60,000"
extern const Form kFixed1, kFixed2, kFixed4;                   // "1.2", "1.25", "1.2500"
extern const Form kShort;                                      // "0.0016"
extern const Form kSeconds, kRate, kPercent, kRatio, kMetric;  // as table.h formats them
extern const Form kKilojoules, kStamp;                         // the same, of joules and of a UTC text
}  // namespace forms

// What a getter returns, as JSON: an empty optional is null.
template <typename Value>
Json figure_value(const Value& value) {
  return Json(value);
}
template <typename Value>
Json figure_value(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

struct Named {
  std::string key;    // the name in JSON and CSV; "" for a figure that only tables show
  std::string title;  // the name on pages; "" for a figure that these do not offer
  template <std::convertible_to<std::string> Key>
  Named(Key key_, std::string title_ = "")  // NOLINT: keys without a title are plain texts
      : key(std::move(key_)), title(std::move(title_)) {}
};

template <typename Row>
struct Figure {
  std::string key, title;     // Named's
  std::string heading, unit;  // the column's
  std::function<Json(const Row& row)> value;
  std::function<std::string(const Row& row)> cell;  // as people read it; empty: the figure has no column
  Align align = Align::kRight;
  int rank = 0;    // Column::rank
  Form form = {};  // how the value is written, where `cell` needs nothing else of the row

  // `get` is a member of the row, or a function of the row. `form_` writes the value that it gives; `shown` writes the
  // cell from the whole row.
  template <typename Get>
  Figure(Named name, Get get, Form form_ = {})
      : key(std::move(name.key)),
        title(std::move(name.title)),
        value([get](const Row& row) { return figure_value(std::invoke(get, row)); }),
        form(form_) {}
  template <typename Get>
  Figure(Named name, std::string heading_, std::string unit_, Get get, Form form_)
      : Figure(std::move(name), get, form_) {
    heading = std::move(heading_);
    unit = std::move(unit_);
    align = form_.align;
    cell = [value = value, write = form_.write](const Row& row) { return write(value(row)); };
  }
  template <typename Get, typename Shown>
  requires std::is_invocable_v<Shown, const Row&> Figure(Named name, std::string heading_, std::string unit_, Get get,
                                                         Shown shown, Align align_ = Align::kRight, Form form_ = {})
      : Figure(std::move(name), get, form_) {
    heading = std::move(heading_);
    unit = std::move(unit_);
    align = align_;
    cell = shown;
  }
};
template <typename Row>
using Figures = std::vector<Figure<Row>>;

// Names a figure for a table, with its rank there (Column::rank).
struct ShownKey {
  std::string_view key;
  int rank = 0;
  ShownKey(const char* key_, int rank_ = 0) : key(key_), rank(rank_) {}  // NOLINT: keys without a rank are plain texts
};
// The figures named by `keys`, in that order: the columns of a table. A key that no figure has is left out.
template <typename Row>
Figures<Row> chosen(const Figures<Row>& figures, const std::vector<ShownKey>& keys) {
  Figures<Row> found;
  for (const ShownKey& shown : keys) {
    for (const Figure<Row>& figure : figures) {
      if (shown.key.empty() || figure.key != shown.key) continue;
      found.push_back(figure);
      found.back().rank = shown.rank;
    }
  }
  return found;
}

template <typename Row>
std::vector<Column> columns_of(const Figures<Row>& figures) {
  std::vector<Column> columns;
  for (const Figure<Row>& figure : figures) {
    if (figure.cell) columns.push_back({figure.heading, figure.unit, figure.align, figure.rank, figure.key});
  }
  return columns;
}
template <typename Row>
std::vector<std::string> cells_of(const Figures<Row>& figures, const Row& row) {
  std::vector<std::string> cells;
  for (const Figure<Row>& figure : figures) {
    if (figure.cell) cells.push_back(figure.cell(row));
  }
  return cells;
}
template <typename Row>
std::vector<Json> values_of(const Figures<Row>& figures, const Row& row) {
  std::vector<Json> values;
  for (const Figure<Row>& figure : figures) {
    if (figure.cell) values.push_back(figure.value(row));
  }
  return values;
}
template <typename Row>
Table table_of(const Figures<Row>& figures, const auto& rows) {
  Table table(columns_of(figures));
  for (const Row& row : rows) table.add_row(cells_of(figures, row), values_of(figures, row));
  return table;
}

// An object with a member for each figure that has a key.
template <typename Row>
Json json_of(const Figures<Row>& figures, const Row& row) {
  Json object = Json::object();
  for (const Figure<Row>& figure : figures) {
    if (!figure.key.empty()) object[figure.key] = figure.value(row);
  }
  return object;
}

// What a page needs to draw the figures that have a title: key, title, unit and form of each, in their order.
template <typename Row>
Json described(const Figures<Row>& figures) {
  Json rows = Json::array();
  for (const Figure<Row>& one : figures) {
    if (one.title.empty()) continue;
    rows.push_back({{"key", one.key}, {"title", one.title}, {"unit", one.unit}, {"form", one.form.name}});
  }
  return rows;
}

// The keys of the figures, and the cells of a row, with commas between them and a line end.
template <typename Row>
std::string csv_heading(const Figures<Row>& figures) {
  std::string line;
  for (const Figure<Row>& figure : figures) line += (line.empty() ? "" : ",") + figure.key;
  return line + "\n";
}
template <typename Row>
std::string csv_line(const Figures<Row>& figures, const Row& row) {
  std::string line;
  for (size_t i = 0; i < figures.size(); ++i) line += (i == 0 ? "" : ",") + csv_cell_of(figures[i].value(row));
  return line + "\n";
}

}  // namespace mlbench::report
