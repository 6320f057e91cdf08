#pragma once

// One description of a structure's fields serves both directions.
//   template <typename V, typename T> void describe(V& v, T& value) { v.field("epochs", value.epochs, kEpochs); ... }
// With a FieldReader it reads JSON into the structure and checks every key and value; with a FieldWriter it makes the
// JSON, so that the two are exact inverses.

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/base/numbers.h"

namespace mlbench::spec {

// What a value must satisfy beside its type. An absent field keeps the structure's default unless `required`.
struct Rule {
  bool required = false;
  std::optional<Range> range = {};                 // of a number, or of each in a list or table
  std::span<const std::string_view> choices = {};  // for texts
  bool filled = false;                             // a text or list must not be empty
};
inline const Rule kRequired{.required = true};

// The part of an error that says where: "FILE:LINE:COLUMN" of a dotted path, of its key or of its value.
enum class Part { kKey, kValue };
using Locator = std::function<std::string(const std::string& path, Part part)>;

// "'nesterov'": texts of error messages.
std::string describe_value(const Json& value);

class FieldReader {
 public:
  enum class Unknown { kError, kIgnore };  // kIgnore: of files that a program wrote, perhaps a later one

  FieldReader(const Json& object, Locator locate, Unknown unknown = Unknown::kError)
      : locate_(std::move(locate)), unknown_(unknown), levels_{Level{&object, "", {}, {}}} {}

  template <typename T>
  void field(const char* name, T& value, const Rule& rule = {}) {
    if (const Json* found = find(name, rule)) {
      read(path_of(name), *found, value);
      check(path_of(name), *found, rule);
    }
  }

  template <typename Body>
  void table(const char* name, Body&& body) {
    static const Json kEmpty = Json::object();
    const Json* found = find(name, {});
    enter(name, found == nullptr ? kEmpty : *found);
    body();
    leave();
  }

  // Like table(), but body() is left out where the table is.
  template <typename Body>
  void optional_table(const char* name, Body&& body) {
    const Json* found = find(name, {});
    if (found == nullptr) return;
    enter(name, *found);
    body();
    leave();
  }

  // A list of structures, each described by body(element).
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

  // Every key of the current table that was not described so far: numbers, texts, booleans and flat lists of them.
  void rest(Json& options);
  // A value of any form.
  void any(const char* name, Json& value) {
    if (const Json* found = find(name, kRequired)) value = *found;
  }

  // Reports unknown and missing keys of the outermost table. Call last.
  void finish() { report(levels_.front()); }

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
  template <typename T>
  void read(const std::string& path, const Json& given, std::vector<T>& value) const {
    expect(path, given, given.is_array(), "a list");
    value.assign(given.size(), T{});
    for (size_t i = 0; i < given.size(); ++i) read(path + "." + std::to_string(i), given[i], value[i]);
  }

  Locator locate_;
  Unknown unknown_;
  std::vector<Level> levels_;
};

class FieldWriter {
 public:
  explicit FieldWriter(Json& object) : levels_{&object} { object = Json::object(); }

  template <typename T>
  void field(const char* name, const T& value, const Rule& = {}) {
    current()[name] = value;
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
  void list(const char* name, const std::vector<T>& values, Body&& body) {
    Json elements = Json::array();
    for (const T& value : values) {
      levels_.push_back(&elements.emplace_back(Json::object()));
      body(value);
      levels_.pop_back();
    }
    current()[name] = std::move(elements);
  }
  void rest(const Json& options) { current().update(options); }
  void any(const char* name, const Json& value) { current()[name] = value; }

 private:
  Json& current() { return *levels_.back(); }
  std::vector<Json*> levels_;
};

}  // namespace mlbench::spec
