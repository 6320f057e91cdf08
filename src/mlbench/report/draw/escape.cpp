#include "mlbench/report/draw/escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "mlbench/base/printable.h"

namespace mlbench::report {

namespace {

// '[' and '*' have a meaning behind "\\", which ends a row; some languages of babel change '"'.
constexpr std::pair<char, std::string_view> kLatexWords[] = {{'\\', "\\textbackslash{}"},
                                                             {'{', "\\{"},
                                                             {'}', "\\}"},
                                                             {'$', "\\$"},
                                                             {'&', "\\&"},
                                                             {'#', "\\#"},
                                                             {'_', "\\_"},
                                                             {'%', "\\%"},
                                                             {'~', "\\textasciitilde{}"},
                                                             {'^', "\\textasciicircum{}"},
                                                             {'<', "\\textless{}"},
                                                             {'>', "\\textgreater{}"},
                                                             {'|', "\\textbar{}"},
                                                             {'"', "\\char34{}"},
                                                             {'`', "\\textasciigrave{}"},
                                                             {'\'', "\\textquotesingle{}"},
                                                             {'[', "{[}"},
                                                             {']', "{]}"},
                                                             {'*', "{*}"}};

// The text as one line, whatever its length.
std::string one_line(std::string_view text) { return printable(text, text.size()); }

}  // namespace

std::string markdown_text(std::string_view text) {
  std::string safe;
  for (const char c : one_line(text)) {
    if (std::string_view("\\`*_{}[]<>#&|~$").find(c) != std::string_view::npos) safe += '\\';
    safe += c;
  }
  return safe;
}

std::string latex_text(std::string_view text) {
  std::string safe;
  for (const char c : one_line(text)) {
    if (c == '-' && safe.ends_with('-')) safe += "{}";  // two would become a dash
    const auto word = std::ranges::find(kLatexWords, c, [](const auto& row) { return row.first; });
    safe += word == std::end(kLatexWords) ? std::string(1, c) : std::string(word->second);
  }
  return safe;
}

std::string csv_text(std::string_view text) {
  std::string safe = one_line(text);
  if (!safe.empty() && std::string_view("=+-@\t\r").find(safe.front()) != std::string_view::npos) safe = "'" + safe;
  if (safe.find_first_of(",\"\n\r") == std::string::npos) return safe;
  std::string quoted = "\"";
  for (const char c : safe) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_cell_of(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return csv_text(value.get<std::string>());
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  return value.is_number_float() ? fmt::format("{}", value.get<double>()) : value.dump();
}

}  // namespace mlbench::report
