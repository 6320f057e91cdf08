#pragma once

// What the descriptions of a record's parts share (spec/fields.h), and how a part is written and read by them.

#include <string>
#include <type_traits>

#include "mlbench/base/errors.h"
#include "mlbench/base/json.h"
#include "mlbench/spec/fields.h"

namespace mlbench::record {

using spec::Either;

inline constexpr spec::Rule kOmitted{.omitted = true};

void text(auto& v, const char* name, auto& value) { v.field_or_null(name, value, std::string()); }
void text_or_nothing(auto& v, const char* name, auto& value) { v.field_or_null(name, value, std::string(), kOmitted); }

// A table of texts, left out where it is empty; what is no text in it is left out, too.
void texts_by_name(auto& v, const char* name, auto& texts) {
  if constexpr (std::is_const_v<std::remove_reference_t<decltype(texts)>>) {
    Json told = Json::object();
    for (const auto& [key, text] : texts) told[key] = text;
    if (!texts.empty()) v.any(name, told);
  } else {
    Json given = Json::object();
    v.free_table(name, given);
    for (const auto& [key, text] : given.items()) {
      if (text.is_string()) texts.emplace_back(key, text.template get<std::string>());
    }
  }
}

// Names the place where reader `v` is in a UserError of `check`.
void checked(auto& v, const auto& check) {
  try {
    check();
  } catch (const UserError& error) {
    v.fail("", error.what());
  }
}

// A structure with a describe() as JSON.
template <typename T>
Json written(const T& part) {
  Json json;
  spec::FieldWriter writer(json);
  describe(writer, part);
  return json;
}

// Its inverse. UserError "WHERE: ..." for members of other types; those of later programs are ignored.
template <typename T>
T read_part(const Json& json, const std::string& where) {
  if (!json.is_object()) throw UserError(where + ": expected an object, got " + spec::describe_value(json));
  spec::FieldReader reader(
      json, [&](const std::string&, spec::Part) { return where; }, spec::FieldReader::Unknown::kIgnore);
  T part;
  describe(reader, part);
  reader.finish();
  return part;
}

}  // namespace mlbench::record
