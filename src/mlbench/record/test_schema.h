#pragma once

// For tests: whether JSON documents meet a schema of api/, as python3-jsonschema judges.

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/process.h"

namespace mlbench::record {

class SchemaValidator {
 public:
  // `schema` is the name of the schema's file, "run.schema.json".
  explicit SchemaValidator(const std::string& schema)
      : schema_(std::filesystem::path(environment_variable("MLBENCH_TEST_SOURCE_DIR").value()) / "api" / schema) {}

  const std::filesystem::path& schema() const { return schema_; }

  // Why nothing can be validated here, for GTEST_SKIP; "" where it can.
  static std::string missing() {
    if (std::filesystem::exists(kPython) && run({"-c", "import jsonschema"}).end.code == 0) return "";
    return std::string("missing capability: a Python with jsonschema; ") + kPython +
           " has none (Debian: python3-jsonschema)";
  }

  // What is wrong with the document; "": nothing.
  std::string complaint(const Json& document) const {
    const std::filesystem::path file = folder_.path() / "document.json";
    write_json_file(file, document);
    const ProcessOutput output = run({"-W", "ignore", "-m", "jsonschema", "-i", file, schema_});
    return output.end.code == 0 ? "" : "refused: " + output.standard_output + output.standard_error;
  }

 private:
  static constexpr const char* kPython = "/usr/bin/python3";  // the one that sees Debian's packages

  static ProcessOutput run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), kPython);
    ProcessOptions options;
    options.arguments = std::move(arguments);
    return run_process(options, std::chrono::seconds(60));
  }

  std::filesystem::path schema_;
  TemporaryFolder folder_;
};

}  // namespace mlbench::record
