#pragma once

// Compares translations of any solver with references: text files with one sentence per line.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/metrics/bootstrap.h"
#include "mlbench/metrics/text_metric.h"

namespace mlbench::metrics {

// Lines end in \n; white space at a line's end, which includes \r, does not belong to the sentence. Throws what
// TextBlocks throws; UserError with file and line for bytes that are not UTF-8, a line above 1 MiB, and a file without
// lines; and IoError.
std::vector<std::string> read_sentences(const std::filesystem::path& file);

struct TranslationOptions {
  std::vector<std::string> metrics = {"bleu", "chrf"};  // names of text_metric.h
  TextMetricOptions metric = {};
  BootstrapOptions bootstrap = {};
};

// The scores of all `systems`, and the differences of all but the first from the first. Throws UserError for files that
// do not have the same number of lines, and what read_sentences() and make_text_metric() throw.
struct TranslationScores {
  struct Score {
    std::string metric, name, signature;
    double score = 0;
    std::string verbose;
    Json parts;
  };
  struct System {
    std::filesystem::path file;
    std::vector<Score> scores;                  // one per metric
    std::vector<PairedDifference> differences;  // one per metric, none for the first system
  };
  size_t sentences = 0;
  std::vector<System> systems;
};
TranslationScores score_translations(const std::vector<std::filesystem::path>& systems,
                                     const std::vector<std::filesystem::path>& references,
                                     const TranslationOptions& options);

}  // namespace mlbench::metrics
