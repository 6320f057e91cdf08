#pragma once

// A TOML document as JSON, which a FieldReader (fields.h) reads, with the place of every key and value for its errors.

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
  std::map<std::string, Places> places;  // by dotted path; the parts for elements of a list are their numbers

  // "FILE:LINE:COLUMN" of a path, or of the nearest enclosing path that has a place, as for a missing key.
  std::string locate(std::string path, Part part) const;
};

// Reads a text. Throws UserError as parse_toml() (toml_text.h) does, and for a date or time, which JSON lacks.
TomlDocument read_toml(const std::string& file, std::string_view text, const Input& input);

// Writes an object of texts, numbers, booleans, lists and objects as TOML, with keys in alphabetical order.
std::string to_toml(const Json& root);

// Joins a dotted path and a name: "optimizer.lr", or `name` where `path` is empty.
std::string join_path(const std::string& path, std::string_view name);

}  // namespace mlbench::spec
