#pragma once

// Reads and writes structures as JSON by one description of their fields:
//   template <typename V, typename T> void describe(V& v, T& value) { v.field("epochs", value.epochs, kEpochs); ... }
// With a FieldReader, the description reads JSON into the structure and checks every key and value. With a FieldWriter,
// it makes the JSON. Both are exact inverses.

#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/base/numbers.h"

namespace mlbench::spec {

// Numbers by name, in the order in which they were written; JSON's null is NaN.
using NamedNumbers = std::vector<std::pair<std::string, double>>;
// The number `name`; empty where `numbers` has none.
std::optional<double> find_number(const NamedNumbers& numbers, std::string_view name);

// The type of a described value: Structure where it is read, const Structure where it is written.
template <typename T, typename Structure>
concept Either = std::same_as<std::remove_const_t<T>, Structure>;

// What a field must satisfy beside its type.
struct Rule {
  bool required = false;  // false: an absent field keeps the structure's default
  bool omitted = false;   // an empty optional or list is not written; false: an empty optional is written as null
  std::optional<Range> range = {};                 // of a number, or of each number in a list or table
  std::span<const std::string_view> choices = {};  // for texts
  bool filled = false;                             // a text or list must not be empty
};
inline const Rule kRequired{.required = true};

// Says where an error is: "FILE:LINE:COLUMN" for the key or the value at a dotted path.
enum class Part { kKey, kValue };
using Locator = std::function<std::string(const std::string& path, Part part)>;

// A value as error messages show it: "nesterov" in quotes, 0.1, or "a table"; long ones are cut.
std::string describe_value(const Json& value);

// Reads the fields of a JSON object. Its functions throw UserError, by fail(), for a value of a wrong type, or one that
// breaks its rule.
class FieldReader {
 public:
  enum class Unknown { kError, kIgnore };  // unknown keys; kIgnore: for files of a program, perhaps a later one
  // Absent fields. kError: each field that is not `omitted` is required.
  enum class Absent { kDefault, kError };

  FieldReader(const Json& object, Locator locate, Unknown unknown = Unknown::kError, Absent absent = Absent::kDefault)
      : locate_(std::move(locate)), unknown_(unknown), absent_(absent), levels_{Level{&object, "", {}, {}}} {}

  template <typename T>
  void field(const char* name, T& value, const Rule& rule = {}) {
    if (const Json* found = find(name, rule)) {
      read(path_of(name), *found, value);
      check(path_of(name), *found, rule);
    }
  }

  // Sets `value` to `empty` where the field is null or absent.
  template <typename T>
  void field_or_null(const char* name, T& value, const T& empty, const Rule& rule = {}) {
    const Json* found = find(name, rule);
    if (found == nullptr || found->is_null()) {
      value = empty;
    } else {
      read(path_of(name), *found, value);
    }
  }

  // Reads a structure by the describe() of its type. An optional structure may be null or absent.
  template <typename T>
  void structure(const char* name, T& value) {
    table(name, [&] { describe(*this, value); });
  }
  template <typename T>
  void structure(const char* name, std::optional<T>& value, const Rule& rule = {}) {
    const Json* found = find(name, rule);
    value.reset();
    if (found == nullptr || found->is_null()) return;
    enter(name, *found);
    describe(*this, value.emplace());
    leave();
  }
  template <typename T>
  void structures(const char* name, std::vector<T>& values) {
    const Json* found = find(name, {});
    values.clear();
    if (found != nullptr && !found->is_null()) list(name, values, [this](T& value) { describe(*this, value); });
  }
  template <typename T>
  void structures(const char* name, std::optional<std::vector<T>>& values) {
    const Json* found = find(name, {});
    values.reset();
    if (found != nullptr && !found->is_null()) structures(name, values.emplace());
  }

  // Reads a table, in which body() describes the fields. An absent table counts as an empty one.
  template <typename Body>
  void table(const char* name, Body&& body) {
    static const Json kEmpty = Json::object();
    const Json* found = find(name, {});
    enter(name, found == nullptr ? kEmpty : *found);
    body();
    leave();
  }

  // Reads a table as table() does, but does not call body() where the table is absent.
  template <typename Body>
  void optional_table(const char* name, Body&& body) {
    const Json* found = find(name, {});
    if (found == nullptr) return;
    enter(name, *found);
    body();
    leave();
  }

  // Reads a list of structures, each of which body(element) describes.
  template <typename T, typename Body>
  void list(const char* name, std::vector<T>& values, Body&& body, const Rule& rule = kRequired) {
    const Json* found = find(name, rule);
    if (found == nullptr) return;
    expect(path_of(name), *found, found->is_array(), "a list");
    check(path_of(name), *found, rule);
    values.clear();
    levels_.push_back({found, path_of(name), {}, {}});
    for (size_t i = 0; i < found->size(); ++i) {
      enter(std::to_string(i), (*found)[i]);
      body(values.emplace_back());
      leave();
    }
    levels_.pop_back();
  }

  // Takes every key of the current table that was not described so far. Values must be numbers, texts, booleans or flat
  // lists of these.
  void rest(Json& options);
  // Takes every key of the current table that was not described so far, with any value: keys of later programs.
  void others(Json& values);
  // Takes a value of any form.
  void any(const char* name, Json& value, const Rule& rule = kRequired) {
    if (const Json* found = find(name, rule)) value = *found;
  }
  // Take a table, and a list, with any content; null or absent: null.
  void free_table(const char* name, Json& value) {
    any(name, value, {});
    expect(path_of(name), value, value.is_object() || value.is_null(), "a table");
  }
  void free_list(const char* name, Json& value) {
    any(name, value, {});
    expect(path_of(name), value, value.is_array() || value.is_null(), "a list");
  }

  // Throws UserError for unknown and missing keys of the outermost table. Call it last.
  void finish() { report(levels_.front()); }

  // Throws UserError "WHERE: TEXT".

  [[noreturn]] void fail(const std::string& path, const std::string& text, Part part = Part::kValue) const;

 private:
  struct Level {
    const Json* object;
    std::string path;
    std::vector<std::string> known, missing;
  };

  std::string path_of(const std::string& name) const;
  const Json* find(const char* name, const Rule& rule);
  void enter(const std::string& name, const Json& object);
  void leave();
  void report(const Level& level) const;
  void expect(const std::string& path, const Json& given, bool right, const char* expected) const;
  void check(const std::string& path, const Json& given, const Rule& rule) const;

  void read(const std::string& path, const Json& given, bool& value) const;
  void read(const std::string& path, const Json& given, int64_t& value) const;
  void read(const std::string& path, const Json& given, uint64_t& value) const;
  void read(const std::string& path, const Json& given, double& value) const;
  void read(const std::string& path, const Json& given, std::string& value) const;
  void read(const std::string& path, const Json& given, std::map<int64_t, double>& value) const;
  void read(const std::string& path, const Json& given, NamedNumbers& value) const;
  template <typename T>
  void read(const std::string& path, const Json& given, std::optional<T>& value) const {
    value.reset();
    if (!given.is_null()) read(path, given, value.emplace());
  }
  template <typename T>
  void read(const std::string& path, const Json& given, std::vector<T>& value) const {
    expect(path, given, given.is_array(), "a list");
    value.assign(given.size(), T{});
    for (size_t i = 0; i < given.size(); ++i) read(path + "." + std::to_string(i), given[i], value[i]);
  }

  Locator locate_;
  Unknown unknown_;
  Absent absent_;
  std::vector<Level> levels_;
};

// Writes fields into a JSON object, by the functions that FieldReader has.
class FieldWriter {
 public:
  explicit FieldWriter(Json& object) : levels_{&object} { object = Json::object(); }

  template <typename T>
  void field(const char* name, const T& value, const Rule& rule = {}) {
    if (!rule.omitted || !is_empty(value)) current()[name] = json_of(value);
  }
  template <typename T>
  void field_or_null(const char* name, const T& value, const T& empty, const Rule& rule = {}) {
    if (!rule.omitted || value != empty) current()[name] = value == empty ? Json(nullptr) : json_of(value);
  }
  template <typename T>
  void structure(const char* name, const T& value) {
    table(name, [&] { describe(*this, value); });
  }
  template <typename T>
  void structure(const char* name, const std::optional<T>& value, const Rule& rule = {}) {
    if (value) {
      structure(name, *value);
    } else if (!rule.omitted) {
      current()[name] = nullptr;
    }
  }
  template <typename T>
  void structures(const char* name, const std::vector<T>& values) {
    list(name, values, [this](const T& value) { describe(*this, value); });
  }
  template <typename T>
  void structures(const char* name, const std::optional<std::vector<T>>& values) {
    if (values) {
      structures(name, *values);
    } else {
      current()[name] = nullptr;
    }
  }
  void field(const char* name, const std::map<int64_t, double>& value, const Rule& = {}) {
    Json& object = current()[name] = Json::object();
    for (const auto& [key, number] : value) object[std::to_string(key)] = number;
  }
  template <typename Body>
  void table(const char* name, Body&& body) {
    levels_.push_back(&(current()[name] = Json::object()));
    body();
    levels_.pop_back();
  }
  template <typename T, typename Body>
  void list(const char* name, const std::vector<T>& values, Body&& body, const Rule& = {}) {
    Json elements = Json::array();
    for (const T& value : values) {
      levels_.push_back(&elements.emplace_back(Json::object()));
      body(value);
      levels_.pop_back();
    }
    current()[name] = std::move(elements);
  }
  void rest(const Json& options) { current().update(options); }
  void others(const Json& values) {
    if (values.is_object()) current().update(values);
  }
  void any(const char* name, const Json& value, const Rule& = {}) { current()[name] = value; }
  void free_table(const char* name, const Json& value) { current()[name] = value; }
  void free_list(const char* name, const Json& value) { current()[name] = value; }

 private:
  template <typename T>
  static bool is_empty(const T&) {
    return false;
  }
  template <typename T>
  static bool is_empty(const std::optional<T>& value) {
    return !value;
  }
  template <typename T>
  static bool is_empty(const std::vector<T>& values) {
    return values.empty();
  }

  template <typename T>
  static Json json_of(const T& value) {
    return value;
  }
  static Json json_of(double value) { return std::isnan(value) ? Json(nullptr) : Json(value); }
  template <typename T>
  static Json json_of(const std::optional<T>& value) {
    return value ? json_of(*value) : Json(nullptr);
  }
  template <typename T>
  static Json json_of(const std::vector<T>& values) {
    Json list = Json::array();
    for (const T& value : values) list.push_back(json_of(value));
    return list;
  }
  static Json json_of(const NamedNumbers& numbers) {
    Json object = Json::object();
    for (const auto& [name, number] : numbers) object[name] = json_of(number);
    return object;
  }
  static Json json_of(const std::map<int64_t, double>& numbers) {
    Json object = Json::object();
    for (const auto& [key, number] : numbers) object[std::to_string(key)] = json_of(number);
    return object;
  }

  Json& current() { return *levels_.back(); }
  std::vector<Json*> levels_;
};

}  // namespace mlbench::spec
