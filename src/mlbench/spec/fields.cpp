#include "mlbench/spec/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/to_number.h"

namespace mlbench::spec {

std::string describe_value(const Json& value) {
  if (value.is_object()) return "a table";
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());  // JSON has no infinity
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr size_t kMost = 60;
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

std::optional<double> find_number(const NamedNumbers& numbers, std::string_view name) {
  const auto found =
      std::ranges::find(numbers, name, [](const auto& number) -> std::string_view { return number.first; });
  return found == numbers.end() ? std::nullopt : std::optional(found->second);
}

void FieldReader::fail(const std::string& path, const std::string& text, Part part) const {
  throw UserError(locate_(path, part) + ": " + text);
}

std::string FieldReader::path_of(const std::string& name) const {
  const std::string& outer = levels_.back().path;
  return outer.empty() ? name : outer + "." + name;
}

const Json* FieldReader::find(const char* name, const Rule& rule) {
  Level& level = levels_.back();
  level.known.push_back(name);
  const auto found = level.object->find(name);
  if (found != level.object->end()) return &*found;
  if (rule.required || (absent_ == Absent::kError && !rule.omitted)) level.missing.push_back(name);
  return nullptr;
}

void FieldReader::enter(const std::string& name, const Json& object) {
  const std::string path = path_of(name);
  expect(path, object, object.is_object(), "a table");
  levels_.push_back({&object, path, {}, {}});
}

void FieldReader::leave() {
  report(levels_.back());
  levels_.pop_back();
}

void FieldReader::report(const Level& level) const {
  const std::string prefix = level.path.empty() ? "" : level.path + ".";
  if (unknown_ == Unknown::kError) {
    for (const auto& [key, value] : level.object->items()) {
      if (std::find(level.known.begin(), level.known.end(), key) == level.known.end()) {
        std::vector<std::string> valid = level.known;
        std::ranges::sort(valid);
        fail(prefix + key, fmt::format("unknown key '{}{}'{}", prefix, key, valid_text(key, valid)), Part::kKey);
      }
    }
  }
  if (!level.missing.empty()) {
    fail(level.path,
         fmt::format("missing key{} '{}{}'{}", level.missing.size() > 1 ? "s" : "", prefix,
                     fmt::join(level.missing, "', '" + prefix),
                     unknown_ == Unknown::kIgnore ? ": use the mlbench that wrote it, or make it anew" : ""),
         Part::kKey);
  }
}

void FieldReader::expect(const std::string& path, const Json& given, bool right, const char* expected) const {
  if (!right) fail(path, fmt::format("'{}' is {}; expected {}", path, describe_value(given), expected));
}

void FieldReader::check(const std::string& path, const Json& given, const Rule& rule) const {
  if (rule.filled) {
    const bool empty = given.is_string() ? given.get_ref<const std::string&>().empty() : given.empty();
    expect(path, given, !empty, given.is_string() ? "a text that is not empty" : "a list that is not empty");
  }
  if (rule.range && given.is_array()) {
    for (size_t i = 0; i < given.size(); ++i) check(path + "." + std::to_string(i), given[i], rule);
  } else if (rule.range && given.is_object()) {
    for (const auto& [key, value] : given.items()) check(path + "." + key, value, rule);
  } else if (rule.range && !rule.range->contains(given.get<double>())) {
    fail(path, fmt::format("'{}' is {}; expected a number {}", path, describe_value(given), to_text(*rule.range)));
  }
  if (!rule.choices.empty()) {
    const auto text = given.get<std::string>();
    if (std::find(rule.choices.begin(), rule.choices.end(), text) == rule.choices.end()) {
      fail(path, fmt::format("'{}' is {}{}", path, describe_value(given), valid_text(text, texts_of(rule.choices))));
    }
  }
}

void FieldReader::rest(Json& options) {
  Level& level = levels_.back();
  options = Json::object();
  const auto finite = [](const Json& value) { return !value.is_number() || std::isfinite(value.get<double>()); };
  const auto scalar = [&](const Json& value) { return value.is_primitive() && !value.is_null() && finite(value); };
  for (const auto& [key, value] : level.object->items()) {
    if (std::find(level.known.begin(), level.known.end(), key) != level.known.end()) continue;
    level.known.push_back(key);
    expect(path_of(key), value, scalar(value) || (value.is_array() && std::all_of(value.begin(), value.end(), scalar)),
           "a number, text, true or false, or a list of them");
    options[key] = value;
  }
}

void FieldReader::others(Json& values) {
  Level& level = levels_.back();
  values = Json::object();
  for (const auto& [key, value] : level.object->items()) {
    if (std::ranges::count(level.known, key) == 0) values[key] = value;
  }
  for (const auto& [key, value] : values.items()) level.known.push_back(key);
}

void FieldReader::read(const std::string& path, const Json& given, bool& value) const {
  expect(path, given, given.is_boolean(), "true or false");
  value = given.get<bool>();
}

void FieldReader::read(const std::string& path, const Json& given, int64_t& value) const {
  const bool fits = given.is_number_integer() &&
                    !(given.is_number_unsigned() &&
                      given.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  expect(path, given, fits, "an integer");
  value = given.get<int64_t>();
}

void FieldReader::read(const std::string& path, const Json& given, uint64_t& value) const {
  const bool fits = given.is_number_unsigned() || (given.is_number_integer() && given.get<int64_t>() >= 0);
  expect(path, given, fits, "an integer of at least 0");
  value = given.get<uint64_t>();
}

void FieldReader::read(const std::string& path, const Json& given, double& value) const {
  expect(path, given, given.is_number() && std::isfinite(given.get<double>()), "a finite number");
  value = given.get<double>();
}

void FieldReader::read(const std::string& path, const Json& given, std::string& value) const {
  expect(path, given, given.is_string(), "a text");
  value = given.get<std::string>();
}

void FieldReader::read(const std::string& path, const Json& given, std::map<int64_t, double>& value) const {
  expect(path, given, given.is_object(), "a table of integers to numbers");
  value.clear();
  for (const auto& [key, number] : given.items()) {
    const auto integer = to_number<int64_t>(key);
    if (!integer) fail(path + "." + key, fmt::format("key '{}' of '{}' is not an integer", key, path), Part::kKey);
    read(path + "." + key, number, value[*integer]);
  }
}

void FieldReader::read(const std::string& path, const Json& given, NamedNumbers& value) const {
  expect(path, given, given.is_object(), "a table of numbers");
  value.clear();
  for (const auto& [key, number] : given.items()) {
    double read_number = std::numeric_limits<double>::quiet_NaN();
    if (!number.is_null()) read(path + "." + key, number, read_number);
    value.emplace_back(key, read_number);
  }
}

}  // namespace mlbench::spec
