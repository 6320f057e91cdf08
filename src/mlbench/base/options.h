#pragma once

// Reads the free-form options of a part (a model, an optimizer) from JSON. The options that the part asks for are the
// valid ones. A value of the wrong type, a number outside of its range, and, at finish(), a key that the part did not
// ask for, are each a UserError that names the part and what is valid.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/json.h"
#include "mlbench/base/numbers.h"

namespace mlbench {

class OptionReader {
 public:
  // `owner` is for messages, e.g. "optimizer 'centralized_sgd'". `options` must outlive the reader.
  OptionReader(std::string owner, const Json& options) : owner_(std::move(owner)), options_(options) {}

  double number(const std::string& key, double otherwise, const Range& range) {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!is_number_in(*value, range)) refuse(key, *value, "a number " + to_text(range));
    return value->get<double>();
  }
  int64_t integer(const std::string& key, int64_t otherwise, const Range& range) {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_number_integer() || !is_number_in(*value, range)) {
      refuse(key, *value, "a whole number " + to_text(range));
    }
    return value->get<int64_t>();
  }
  // A list of as many numbers as `otherwise` has.
  std::vector<double> numbers(const std::string& key, const std::vector<double>& otherwise, const Range& range) {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    bool right = value->is_array() && value->size() == otherwise.size();
    for (size_t i = 0; right && i < value->size(); ++i) right = is_number_in((*value)[i], range);
    if (!right) refuse(key, *value, "a list of " + std::to_string(otherwise.size()) + " numbers " + to_text(range));
    return value->get<std::vector<double>>();
  }
  bool flag(const std::string& key, bool otherwise) {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) refuse(key, *value, "true or false");
    return value->get<bool>();
  }
  std::string text(const std::string& key, const std::string& otherwise) {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_string()) refuse(key, *value, "a string");
    return value->get<std::string>();
  }
  std::vector<std::string> texts(const std::string& key) {
    const Json* value = find(key);
    if (value == nullptr) return {};
    const bool right =
        value->is_array() && std::ranges::all_of(*value, [](const Json& one) { return one.is_string(); });
    if (!right) refuse(key, *value, "a list of strings");
    return value->get<std::vector<std::string>>();
  }
  void finish() const {
    for (const auto& [key, value] : options_.items()) {
      if (std::find(keys_.begin(), keys_.end(), key) != keys_.end()) continue;
      throw UserError(owner_ + " has no option '" + key + "'" + valid_text(key, keys_));
    }
  }

 private:
  const Json* find(const std::string& key) {
    keys_.push_back(key);
    const auto found = options_.find(key);
    return found == options_.end() ? nullptr : &*found;
  }
  static bool is_number_in(const Json& value, const Range& range) {
    return value.is_number() && range.contains(value.get<double>());
  }
  [[noreturn]] void refuse(const std::string& key, const Json& value, const std::string& expected) const {
    throw UserError("option '" + key + "' of " + owner_ + " is " + value.dump() + "; expected " + expected);
  }

  std::string owner_;
  const Json& options_;
  std::vector<std::string> keys_;
};

}  // namespace mlbench
