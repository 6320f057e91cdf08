#include "mlbench/report/draw/figure.h"

#include <fmt/format.h>

namespace mlbench::report {

namespace {

std::optional<double> as_number(const Json& value) {
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

std::string plain_text(const Json& value) { return value.is_string() ? value.get<std::string>() : std::string(); }

std::string list_text(const Json& value) {
  std::string words;
  for (const Json& one : value) words += (words.empty() ? "" : ", ") + plain_text(one);
  return words;
}

std::string number_text(const Json& value) {
  if (value.is_string()) return plain_text(value);
  return value.is_null() ? std::string(kNone) : value.dump();
}

std::string count_text(const Json& value) {
  return value.is_number_integer() ? format_count(value.get<int64_t>()) : std::string(kNone);
}

template <int decimals>
std::string fixed_text(const Json& value) {
  return value.is_number() ? fmt::format("{:.{}f}", value.get<double>(), decimals) : std::string(kNone);
}

std::string short_text(const Json& value) {
  return value.is_number() ? fmt::format("{:g}", value.get<double>()) : std::string(kNone);
}

std::string metric_text(const Json& value) {
  return value.is_number() ? format_metric(value.get<double>()) : std::string(kNone);
}

}  // namespace

namespace forms {
const Form kText{"text", plain_text, Align::kLeft};
const Form kList{"list", list_text, Align::kLeft};
const Form kNumber{"number", number_text};
const Form kCount{"count", count_text};
const Form kFixed1{"fixed1", fixed_text<1>}, kFixed2{"fixed2", fixed_text<2>}, kFixed4{"fixed4", fixed_text<4>};
const Form kShort{"short", short_text};
const Form kSeconds{"seconds", [](const Json& value) { return format_seconds(as_number(value)); }};
const Form kRate{"rate", [](const Json& value) { return format_rate(as_number(value)); }};
const Form kPercent{"percent", [](const Json& value) { return format_percent(as_number(value)); }};
const Form kRatio{"ratio", [](const Json& value) { return format_ratio(as_number(value)); }};
const Form kMetric{"metric", metric_text};
const Form kKilojoules{"kilojoules", [](const Json& value) { return format_kilojoules(as_number(value)); }};
const Form kStamp{"stamp", [](const Json& value) { return short_stamp(plain_text(value)); }, Align::kLeft};
}  // namespace forms

}  // namespace mlbench::report
