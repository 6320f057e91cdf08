#pragma once

// A TOML document as JSON with the place of every key and value: what a FieldReader (fields.h) reads, and how its
// errors say where.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "mlbench/base/input.h"
#include "mlbench/base/json.h"
#include "mlbench/spec/fields.h"

namespace mlbench::spec {

struct TomlDocument {
  struct Place {
    uint32_t line = 1, column = 1;
  };
  struct Places {
    Place key, value;
  };

  std::string file;
  Json root;
  std::map<std::string, Places> places;  // by dotted path; elements of a list by their number

  // "FILE:LINE:COLUMN". The nearest enclosing path has a place: a missing key is reported at its table.
  std::string locate(std::string path, Part part) const;
};

// UserError as parse_toml() (toml_text.h) gives it; also for a date or time, which JSON lacks.
TomlDocument read_toml(const std::string& file, std::string_view text, const Input& input);

// The inverse, keys in the order of the alphabet: an object of texts, numbers, true and false, lists and objects.
std::string to_toml(const Json& root);

// "optimizer.lr"; the name alone where `path` is empty.
std::string join_path(const std::string& path, std::string_view name);

}  // namespace mlbench::spec
