#include "mlbench/metrics/translations.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/system_error.h"
#include "mlbench/base/text_blocks.h"
#include "mlbench/unicode/unicode.h"

namespace mlbench::metrics {

namespace {

// The references of a set, sentence by sentence.
using References = std::vector<std::vector<std::string>>;  // [sentences][references]

void check_lines(const std::filesystem::path& file, size_t lines, const std::filesystem::path& first, size_t expected) {
  if (lines == expected) return;
  throw UserError(
      fmt::format("{} has {} lines, {} has {}: line i of each is the same sentence, so all files need as many lines",
                  file.string(), lines, first.string(), expected));
}

References read_references(const std::vector<std::filesystem::path>& files) {
  References references;
  for (const auto& file : files) {
    std::vector<std::string> sentences = read_sentences(file);
    if (references.empty()) references.resize(sentences.size());
    check_lines(file, sentences.size(), files.front(), references.size());
    for (size_t i = 0; i < sentences.size(); ++i) references[i].push_back(std::move(sentences[i]));
  }
  return references;
}

SentenceSums sums_of(const TextMetric& metric, const std::vector<std::string>& hypotheses,
                     const References& references) {
  SentenceSums sums{metric.number_of_sums(), std::vector<double>(metric.number_of_sums() * hypotheses.size(), 0)};
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    metric.add(hypotheses[i], references[i], std::span(sums.values).subspan(i * sums.width, sums.width));
  }
  return sums;
}

}  // namespace

std::vector<std::string> read_sentences(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw_system_error(fmt::format("cannot read {}", file.string()), errno);
  std::vector<std::string> sentences;
  const auto fail = [&](const std::string& text) {
    throw UserError(fmt::format("{}:{}: {}", file.string(), sentences.size() + 1, text));
  };
  TextBlocks blocks(file.string());
  std::vector<char> buffer(inputs::kPredictionLine.most_bytes + 1);
  while (in.getline(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0) {
    if (in.fail()) fail(fmt::format("the line is longer than {} bytes", inputs::kPredictionLine.most_bytes));
    const auto counted = static_cast<size_t>(in.gcount());
    const std::string_view line = blocks.take({buffer.data(), in.eof() ? counted : counted - 1}, 1);
    if (const auto bad = unicode::first_bad_byte(line)) {
      fail(
          fmt::format("byte {} of the line, 0x{:02x}, is no UTF-8; a Latin-1 file becomes UTF-8 by "
                      "iconv -f latin1 -t utf-8",
                      *bad + 1, static_cast<unsigned char>(line[*bad])));
    }
    sentences.push_back(unicode::to_utf8(unicode::without_trailing_space(unicode::code_points(line))));
  }
  if (in.bad()) throw_system_error(fmt::format("cannot read {}", file.string()), errno);
  if (sentences.empty()) throw UserError(fmt::format("{} is empty: expected one sentence per line", file.string()));
  return sentences;
}

TranslationScores score_translations(const std::vector<std::filesystem::path>& systems,
                                     const std::vector<std::filesystem::path>& references,
                                     const TranslationOptions& options) {
  MLBENCH_CHECK(!systems.empty() && !references.empty(), "no translations, or no references");
  std::vector<std::unique_ptr<TextMetric>> metrics;
  for (const std::string& name : options.metrics) metrics.push_back(make_text_metric(name, options.metric));
  const References sentences = read_references(references);
  TranslationScores result{sentences.size(), {}};
  std::vector<SentenceSums> baseline;  // sums of the first system, by metric
  for (const auto& file : systems) {
    const std::vector<std::string> hypotheses = read_sentences(file);
    check_lines(file, hypotheses.size(), references.front(), sentences.size());
    TranslationScores::System& system = result.systems.emplace_back();
    system.file = file;
    for (size_t m = 0; m < metrics.size(); ++m) {
      const TextMetric& metric = *metrics[m];
      SentenceSums sums = sums_of(metric, hypotheses, sentences);
      const std::vector<double> total = sums.total();
      system.scores.push_back({options.metrics[m], metric.name(), metric.signature(references.size()),
                               metric.score(total), metric.verbose(total), metric.parts(total)});
      if (result.systems.size() == 1) {
        baseline.push_back(std::move(sums));
      } else {
        const auto score = [&](std::span<const double> of_any) { return metric.score(of_any); };
        system.differences.push_back(paired_bootstrap(baseline[m], sums, score, options.bootstrap));
      }
    }
  }
  return result;
}

}  // namespace mlbench::metrics
