// Converts options to a request to a master and back, and makes the schema of requests.

#include <fmt/format.h>

#include <limits>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/spec/fields.h"
#include "mlbench/spec/run_option_members.h"
#include "mlbench/spec/run_options.h"

namespace mlbench::spec {

namespace {

using Kind = OptionKind;

std::string text_of(const Json& value, const RunOption& option) {
  if (value.is_string()) return value.get<std::string>();
  const bool number = option.kind != Kind::kText && option.kind != Kind::kTexts;
  if (value.is_number() && number) return value.dump();
  throw UserError(
      fmt::format("{} is {}; expected {}", option.name, describe_value(value), number ? "a number, or text" : "text"));
}

Json number_schema(const RunOption& option) {
  const bool real = option.kind == Kind::kReal || option.kind == Kind::kCpus || option.kind == Kind::kDuration;
  const auto end = [&](double value) { return real ? Json(value) : Json(static_cast<int64_t>(value)); };
  Json schema = {{"type", {"string", real ? "number" : "integer"}}};
  schema["minimum"] = option.kind == Kind::kSeed ? Json(0) : end(option.range.least);
  schema["maximum"] = option.kind == Kind::kSeed ? Json(std::numeric_limits<uint64_t>::max()) : end(option.range.most);
  if (option.usual.empty()) return schema;
  const std::string usual(option.usual);
  schema["default"] = option.kind == Kind::kDuration ? Json(parse_duration(usual, option.name, option.range))
                                                     : Json(parse_seed(usual, option.name));
  return schema;
}

Json schema_of(const RunOption& option) {
  switch (option.kind) {
    case Kind::kText: {
      Json schema = {{"type", "string"}};
      for (const std::string_view choice : option.choices) schema["enum"].push_back(choice);
      if (!option.usual.empty()) schema["default"] = option.usual;
      return schema;
    }
    case Kind::kTexts:
      return {
          {"type", "array"}, {"items", {{"type", "string"}}}, {"maxItems", static_cast<int64_t>(option.range.most)}};
    case Kind::kFlag:
      return {{"type", "boolean"}, {"default", false}};
    case Kind::kCounts:
      return {{"type", "array"}, {"items", number_schema(option)}, {"minItems", 1}, {"maxItems", kMostRunsPerRequest}};
    case Kind::kObject:
      return {{"type", "object"}};
    default:
      return number_schema(option);
  }
}

}  // namespace

Json to_json(const RunOptions& options) {
  Json request = Json::object();
  for (const RunOption& option : run_options()) {
    const std::string name(option.name);
    visit_member(
        option, options,
        [&](const std::string& value) {
          if (!value.empty()) request[name] = value;
        },
        [&](const std::vector<std::string>& values) {
          if (!values.empty()) request[name] = values;
        },
        [&](bool value) {
          if (value) request[name] = true;
        },
        [&](const Json& value) {
          if (!value.is_null()) request[name] = value;
        });
  }
  request.update(options.engine);
  return request;
}

namespace {

std::vector<std::string> texts_in(const Json& value, const RunOption& option) {
  if (!value.is_array()) {
    throw UserError(fmt::format("{} is {}; expected a list", option.name, describe_value(value)));
  }
  std::vector<std::string> texts;
  for (const Json& one : value) texts.push_back(text_of(one, option));
  return texts;
}

bool flag_of(const Json& value, const RunOption& option) {
  if (!value.is_boolean()) {
    throw UserError(fmt::format("{} is {}; expected true or false", option.name, describe_value(value)));
  }
  return value.get<bool>();
}

// Sets an option of an executor in `engine`, unless the value is empty or false.
void read_engine_option(const Json& value, const RunOption& option, Json& engine) {
  Json given;
  if (option.kind == Kind::kTexts) {
    given = texts_in(value, option);
  } else if (option.kind == Kind::kFlag) {
    given = flag_of(value, option);
  } else {
    given = text_of(value, option);
  }
  if (given != Json("") && given != Json(false) && given != Json::array()) engine[std::string(option.name)] = given;
}

}  // namespace

RunOptions run_options_from_json(const Json& request, RunOptionRows rows) {
  RunOptions options;
  const std::vector<std::string> names = names_of(rows);
  for (const auto& [name, value] : request.items()) check_choice("field", name, names);
  for (const RunOption& option : rows) {
    const auto found = request.find(option.name);
    if (found == request.end() || found->is_null()) continue;
    if (option.of_executor()) {
      read_engine_option(*found, option, options.engine);
      continue;
    }
    visit_member(
        option, options, [&](std::string& value) { value = text_of(*found, option); },
        [&](std::vector<std::string>& values) { values = texts_in(*found, option); },
        [&](bool& value) { value = flag_of(*found, option); },
        [&](Json& value) {
          if (!found->is_object()) {
            throw UserError(fmt::format("{} is {}; expected an object", option.name, describe_value(*found)));
          }
          value = *found;
        });
  }
  return options;
}

Json run_request_properties(RunOptionRows rows) {
  Json properties = Json::object();
  for (const RunOption& option : rows) {
    Json schema = schema_of(option);
    if (!option.unit.empty()) schema["x-unit"] = option.unit;
    if (option.applies == AppliesTo::kTasks) schema["x-applies-to"] = "tasks";
    if (option.applies == AppliesTo::kTraining) schema["x-applies-to"] = "training";
    if (option.applies == AppliesTo::kCommands) schema["x-applies-to"] = "commands";
    properties[std::string(option.name)] = std::move(schema);
  }
  return properties;
}

}  // namespace mlbench::spec
