#include "mlbench/master/http/exposition.h"

#include <fmt/format.h>

#include <cmath>

#include "mlbench/base/errors.h"
#include "mlbench/base/printable.h"

namespace mlbench::master {

namespace {

// What names of metrics and of labels may be. The format's colons are left to the rules of operators.
bool is_exposition_name(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789";
  return !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789") == std::string_view::npos &&
         kDigits.find(name.front()) == std::string_view::npos;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

std::string exposed_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

void Exposition::metric(std::string_view name, Type type, std::string_view help) {
  const bool counter = type == Type::kCounter;
  MLBENCH_CHECK(is_exposition_name(name) && name.ends_with("_total") == counter, fmt::format("metric '{}'", name));
  name_ = name;
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, printable(help), name, counter ? "counter" : "gauge");
}

void Exposition::sample(const Labels& labels, double value) {
  std::string list;
  for (const auto& [name, text] : labels) {
    MLBENCH_CHECK(is_exposition_name(name), fmt::format("label '{}'", name));
    list += fmt::format("{}{}=\"{}\"", list.empty() ? "" : ",", name, escaped(printable(text)));
  }
  text_ += fmt::format("{}{} {}\n", name_, list.empty() ? "" : "{" + list + "}", exposed_number(value));
}

}  // namespace mlbench::master
