#pragma once

// For tests: sacreBLEU's results for the sentences in tests/sacrebleu.

#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/base/paths.h"
#include "mlbench/metrics/tokenizer.h"
#include "mlbench/metrics/translations.h"
#include "mlbench/unicode/unicode.h"

namespace mlbench::metrics {

inline std::filesystem::path sacrebleu_folder() {
  return std::filesystem::path(environment_variable("MLBENCH_TEST_SOURCE_DIR").value()) / "tests/sacrebleu";
}

inline const Json& sacrebleu() {
  static const Json expected = read_json_file(sacrebleu_folder() / "expected.json");
  return expected;
}

inline std::vector<std::string> sentences_of(const std::string& name) {
  return read_sentences(sacrebleu_folder() / name);
}

// The tokens of a line, with one blank between them.
inline std::string tokens_of(Tokenizer tokenizer, const std::string& line) {
  std::u32string joined;
  const std::u32string points = unicode::code_points(line);
  const std::u32string text = tokenize(tokenizer, unicode::without_trailing_space(points));
  for (const std::u32string_view word : unicode::words(text)) {
    if (!joined.empty()) joined += U' ';
    joined += word;
  }
  return unicode::to_utf8(joined);
}

}  // namespace mlbench::metrics
