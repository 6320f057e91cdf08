#pragma once

// Asking PyTorch: a folder of arrays and one JSON file goes to a script, and such a folder comes back.

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/process.h"
#include "mlbench/base/random.h"
#include "mlbench/base/text.h"

namespace mlbench::golden {

using Values = std::vector<double>;  // logical values of all tensors, back to back

// The bytes of the values, as numpy.fromfile reads them.
template <typename T>
void write_values(const std::filesystem::path& path, const std::vector<T>& values) {
  write_file_atomically(path, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
}

// float64.
inline Values read_values(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  Values values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(double));
  return values;
}

// Normal values, others for each key.
inline std::vector<float> drawn(int64_t count, uint64_t key) {
  RandomSequence random(key);
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(random.normal()));
  return values;
}

// The numbers of ranks to compare with: 2 and 3, or what MLBENCH_TEST_RANKS says, such as "1,2,3".
inline std::vector<int> rank_counts() {
  std::vector<int> counts;
  for (const std::string& word : split_at(environment_variable("MLBENCH_TEST_RANKS").value_or("2,3"), ',')) {
    counts.push_back(std::stoi(word));
  }
  return counts;
}

// The Python that imports torch; "": there is none.
inline std::string python() { return environment_variable("MLBENCH_TEST_PYTHON").value_or(""); }

// A test that asks.
class OracleTest : public testing::Test {
 protected:
  void SetUp() override {
    if (python().empty()) GTEST_SKIP() << "missing capability: a Python that imports torch (Debian: python3-torch)";
  }
};

// `python tests/golden/SCRIPT FOLDER`; throws IoError with its output when it fails.
inline void run_oracle(const std::string& script, const TemporaryFolder& folder) {
  const std::filesystem::path sources = environment_variable("MLBENCH_TEST_SOURCE_DIR").value();
  ProcessOptions options;
  options.arguments = {python(), (sources / "tests/golden" / script).string(), folder.path().string()};
  const ProcessOutput output = run_process(options, std::chrono::minutes(5));
  if (output.end.code != 0) throw IoError(output.standard_output + output.standard_error);
}

// What SCRIPT says of `cases`, where these are all that it is asked.
inline Json answer_of(const std::string& script, const Json& cases) {
  const TemporaryFolder folder;
  write_json_file(folder / "cases.json", cases);
  run_oracle(script, folder);
  return read_json_file(folder / "result.json");
}

}  // namespace mlbench::golden
