#include "mlbench/spec/toml_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/spec/toml_text.h"

namespace mlbench::spec {

namespace {

std::string at(const std::string& file, const TomlDocument::Place& place) {
  return fmt::format("{}:{}:{}", file, place.line, place.column);
}

TomlDocument::Place place_of(const toml::source_position& position) {
  return {std::max(position.line, 1U), std::max(position.column, 1U)};
}

Json convert(const toml::node& node, const std::string& path, toml::source_position key, TomlDocument& document) {
  const toml::source_position here = node.source().begin;
  document.places[path] = {place_of(key.line > 0 ? key : here), place_of(here.line > 0 ? here : key)};
  if (const auto* table = node.as_table()) {
    Json object = Json::object();
    for (const auto& [name, value] : *table) {
      object[std::string(name.str())] = convert(value, join_path(path, name.str()), name.source().begin, document);
    }
    return object;
  }
  if (const auto* array = node.as_array()) {
    Json list = Json::array();
    for (const auto& value : *array) {
      list.push_back(convert(value, join_path(path, std::to_string(list.size())), {}, document));
    }
    return list;
  }
  if (const auto value = node.value_exact<std::string>()) return *value;
  if (const auto value = node.value_exact<int64_t>()) return *value;
  if (const auto value = node.value_exact<double>()) return *value;
  if (const auto value = node.value_exact<bool>()) return *value;
  throw UserError(fmt::format("{}: '{}' is a date or time; expected a number, text, true or false",
                              at(document.file, place_of(here)), path));
}

toml::table table_of(const Json& object);
toml::array array_of(const Json& list);

// Gives the value to `take` as the type that TOML has for it.
template <typename Take>
void convert_back(const Json& value, const Take& take) {
  if (value.is_object()) return take(table_of(value));
  if (value.is_array()) return take(array_of(value));
  if (value.is_boolean()) return take(value.get<bool>());
  if (value.is_number_integer()) return take(value.get<int64_t>());
  if (value.is_number()) return take(value.get<double>());
  take(value.get<std::string>());
}

toml::array array_of(const Json& list) {
  toml::array array;
  for (const Json& one : list) {
    convert_back(one, [&](auto&& value) { array.push_back(std::forward<decltype(value)>(value)); });
  }
  return array;
}

toml::table table_of(const Json& object) {
  toml::table table;
  for (const auto& [name, value] : object.items()) {
    const std::string& key = name;
    convert_back(value, [&](auto&& one) { table.insert_or_assign(key, std::forward<decltype(one)>(one)); });
  }
  return table;
}

}  // namespace

std::string TomlDocument::locate(std::string path, Part part) const {
  for (;;) {
    if (const auto found = places.find(path); found != places.end()) {
      return at(file, part == Part::kKey ? found->second.key : found->second.value);
    }
    if (path.empty()) return at(file, {});
    const size_t dot = path.rfind('.');
    path = dot == std::string::npos ? "" : path.substr(0, dot);
  }
}

TomlDocument read_toml(const std::string& file, std::string_view text, const Input& input) {
  TomlDocument document{file, Json::object(), {}};
  document.root = convert(parse_toml(text, file, input), "", {}, document);
  return document;
}

std::string to_toml(const Json& root) {
  std::ostringstream out;
  out << toml::toml_formatter(table_of(root)) << "\n";
  return out.str();
}

std::string join_path(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

}  // namespace mlbench::spec
