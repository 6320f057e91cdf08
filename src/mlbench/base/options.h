#pragma once

// Reads the free-form options of a part (a model, an optimizer) from JSON. The options that the part asks for are the
// valid ones. A value of the wrong type, a number outside of its range, and, at finish(), a key that the part did not
// ask for, are each a UserError that names the part and what is valid. The reader remembers what was asked for, so that
// lists show the same defaults and ranges.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/json.h"
#include "mlbench/base/numbers.h"

namespace mlbench {

// An option that a part asked for.
struct OptionRow {
  std::string name;
  Json otherwise;        // the default; null: none
  std::string expected;  // "a number from 0 to 1"
};

class OptionReader {
 public:
  // `owner` is for messages, e.g. "optimizer 'centralized_sgd'". `options` must outlive the reader.
  OptionReader(std::string owner, const Json& options) : owner_(std::move(owner)), options_(options) {}

  double number(const std::string& key, double otherwise, const Range& range) {
    const Json* value = find(key, otherwise, "a number " + to_text(range));
    if (value == nullptr) return otherwise;
    if (!is_number_in(*value, range)) refuse(*value);
    return value->get<double>();
  }
  int64_t integer(const std::string& key, int64_t otherwise, const Range& range) {
    const Json* value = find(key, otherwise, "a whole number " + to_text(range));
    if (value == nullptr) return otherwise;
    if (!value->is_number_integer() || !is_number_in(*value, range)) refuse(*value);
    return value->get<int64_t>();
  }
  // A list of as many numbers as `otherwise` has.
  std::vector<double> numbers(const std::string& key, const std::vector<double>& otherwise, const Range& range) {
    const Json* value =
        find(key, otherwise, "a list of " + std::to_string(otherwise.size()) + " numbers " + to_text(range));
    if (value == nullptr) return otherwise;
    bool right = value->is_array() && value->size() == otherwise.size();
    for (size_t i = 0; right && i < value->size(); ++i) right = is_number_in((*value)[i], range);
    if (!right) refuse(*value);
    return value->get<std::vector<double>>();
  }
  bool flag(const std::string& key, bool otherwise) {
    const Json* value = find(key, otherwise, "true or false");
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) refuse(*value);
    return value->get<bool>();
  }
  std::string text(const std::string& key, const std::string& otherwise) {
    const Json* value = find(key, otherwise, "a string");
    if (value == nullptr) return otherwise;
    if (!value->is_string()) refuse(*value);
    return value->get<std::string>();
  }
  // A text that is one of `valid`, as `otherwise` is. Any other is a UserError "OWNER has no KEY 'TEXT'".
  std::string choice(const std::string& key, const std::string& otherwise, const std::vector<std::string>& valid) {
    std::string expected;
    for (const std::string& one : valid) expected += (expected.empty() ? "" : ", ") + one;
    const Json* value = find(key, otherwise, "one of " + expected);
    if (value == nullptr) return otherwise;
    if (!value->is_string()) refuse(*value);
    auto text = value->get<std::string>();
    if (std::ranges::find(valid, text) != valid.end()) return text;
    throw UserError(owner_ + " has no " + key + " '" + shortened(text) + "'" + valid_text(text, valid));
  }
  std::vector<std::string> texts(const std::string& key) {
    const Json* value = find(key, Json::array(), "a list of strings");
    if (value == nullptr) return {};
    const bool right =
        value->is_array() && std::ranges::all_of(*value, [](const Json& one) { return one.is_string(); });
    if (!right) refuse(*value);
    return value->get<std::vector<std::string>>();
  }
  void finish() const {
    for (const auto& [key, value] : options_.items()) {
      if (std::ranges::count(asked_, key, &OptionRow::name) > 0) continue;
      throw UserError(owner_ + " has no option '" + key + "'" + valid_text(key, names_of(asked_)));
    }
  }
  // What was asked for so far, in that order.
  const std::vector<OptionRow>& asked() const { return asked_; }

 private:
  const Json* find(const std::string& key, Json otherwise, std::string expected) {
    asked_.push_back({key, std::move(otherwise), std::move(expected)});
    const auto found = options_.find(key);
    return found == options_.end() ? nullptr : &*found;
  }
  static bool is_number_in(const Json& value, const Range& range) {
    return value.is_number() && range.contains(value.get<double>());
  }
  // Refuses the value of the option that was asked for last.
  [[noreturn]] void refuse(const Json& value) const {
    const OptionRow& row = asked_.back();
    throw UserError("option '" + row.name + "' of " + owner_ + " is " + value.dump() + "; expected " + row.expected);
  }

  std::string owner_;
  const Json& options_;
  std::vector<OptionRow> asked_;
};

// The options that `read` asks for where none is given, as a list shows them: [{name, default, expected}].
template <typename Read>
Json options_asked_by(const Read& read) {
  const Json none = Json::object();
  OptionReader reader("", none);
  read(reader);
  Json rows = Json::array();
  for (const OptionRow& row : reader.asked()) {
    rows.push_back({{"name", row.name}, {"default", row.otherwise}, {"expected", row.expected}});
  }
  return rows;
}

}  // namespace mlbench
