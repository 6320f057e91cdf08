#include "mlbench/metrics/text_metric.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "mlbench/base/build_info.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/sha256.h"
#include "mlbench/metrics/bleu.h"
#include "mlbench/metrics/ngrams.h"
#include "mlbench/metrics/test_sacrebleu.h"

namespace mlbench::metrics {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr double kTolerance = 1e-9;  // of scores up to 100

using Sentences = std::vector<std::string>;

// Sums over sentences [first, end) of a system against sets of references.
std::vector<double> sums_of(const TextMetric& metric, const Sentences& system, const std::vector<Sentences>& references,
                            size_t first, size_t end) {
  std::vector<double> sums(metric.number_of_sums(), 0);
  for (size_t i = first; i < end; ++i) {
    Sentences here;
    for (const Sentences& one : references) here.push_back(one[i]);
    metric.add(system[i], here, sums);
  }
  return sums;
}

std::vector<double> sums_of(const TextMetric& metric, const Sentences& system,
                            const std::vector<Sentences>& references) {
  return sums_of(metric, system, references, 0, system.size());
}

std::unique_ptr<TextMetric> metric_of(const Json& row) {
  TextMetricOptions options;
  options.lowercase = row["lowercase"];
  options.tokenizer = tokenizer_named(row.value("tokenize", "13a"));
  options.smoothing = smoothing_of(row.value("smooth", "exp"));
  return make_text_metric(row["metric"], options);
}

TEST(TextMetric, CorpusScoresAreThoseOfSacrebleu) {
  const Json& scores = sacrebleu()["scores"];
  for (const Json& row : scores["rows"]) {
    const bool few = row["system"] == "few";
    const Sentences system = few ? scores["few"]["system"].get<Sentences>() : sentences_of(row["system"]);
    std::vector<Sentences> references = {few ? scores["few"]["reference"].get<Sentences>()
                                             : sentences_of("reference.txt")};
    if (row["references"] == 2) references.push_back(sentences_of("second_reference.txt"));
    const auto metric = metric_of(row);
    const std::vector<double> sums = sums_of(*metric, system, references);
    EXPECT_NEAR(metric->score(sums), row["score"].get<double>(), kTolerance) << row;
    EXPECT_EQ(metric->name(), row["name"]);
    auto signature = row["signature"].get<std::string>();
    const std::string version = "version:2.6.0";
    ASSERT_TRUE(signature.ends_with(version));
    signature.replace(signature.size() - version.size(), version.size(), "version:mlbench-" + build_info().version);
    EXPECT_EQ(metric->signature(references.size()), signature);
    EXPECT_EQ(metric->verbose(sums), row.value("verbose", "")) << row;
    if (row["metric"] != "bleu") continue;
    const Json parts = metric->parts(sums);
    for (size_t n = 0; n < kBleuOrder; ++n) {
      EXPECT_NEAR(parts["precisions"][n].get<double>(), row["precisions"][n].get<double>(), kTolerance) << row;
    }
    EXPECT_NEAR(parts["brevity_penalty"].get<double>(), row["brevity_penalty"].get<double>(), kTolerance);
    EXPECT_EQ(parts["hypothesis_length"], row["hypothesis_length"]);
    EXPECT_EQ(parts["reference_length"], row["reference_length"]);
  }
}

TEST(TextMetric, SentenceScoresAreThoseOfSacrebleu) {
  const Json& sentences = sacrebleu()["sentences"];
  const Sentences system = sentences_of("system.txt");
  const std::vector<Sentences> references = {sentences_of("reference.txt"), sentences_of("second_reference.txt")};
  for (const auto& [name, expected] : sentences.items()) {
    const size_t comma = name.find(", ");
    TextMetricOptions options;
    options.effective_order = true;
    if (comma != std::string::npos) options.smoothing = smoothing_of(name.substr(comma + 2));
    const auto metric = make_text_metric(name.substr(0, comma), options);
    ASSERT_EQ(expected.size(), system.size());
    for (size_t i = 0; i < system.size(); ++i) {
      EXPECT_NEAR(metric->score(sums_of(*metric, system, references, i, i + 1)), expected[i].get<double>(), kTolerance)
          << name << ": " << system[i];
    }
  }
  EXPECT_THAT(make_text_metric("bleu", {.effective_order = true})->signature(2),
              HasSubstr("nrefs:2|case:mixed|eff:yes"));
}

TEST(TextMetric, SumsOfShardsMergeExactly) {
  const Sentences system = sentences_of("system.txt");
  const std::vector<Sentences> references = {sentences_of("reference.txt"), sentences_of("second_reference.txt")};
  for (const std::string& name : text_metric_names()) {
    const auto metric = make_text_metric(name, {});
    const std::vector<double> whole = sums_of(*metric, system, references);
    std::vector<double> merged(whole.size(), 0);
    for (const auto& [first, end] : {std::pair<size_t, size_t>{0, 1}, {1, 18}, {18, 18}, {18, system.size()}}) {
      const std::vector<double> part = sums_of(*metric, system, references, first, end);
      for (size_t i = 0; i < part.size(); ++i) {
        EXPECT_EQ(part[i], std::floor(part[i])) << name;
        merged[i] += part[i];
      }
    }
    EXPECT_EQ(merged, whole) << name;
    EXPECT_EQ(metric->score(merged), metric->score(whole)) << name;
  }
}

TEST(TextMetric, NothingAndEmptyTextsScoreNothing) {
  for (const std::string& name : text_metric_names()) {
    const auto metric = make_text_metric(name, {});
    std::vector<double> sums(metric->number_of_sums(), 0);
    EXPECT_EQ(metric->score(sums), 0) << name;
    for (const auto& [hypothesis, reference] : {std::pair("", "a b c"), {"a b c", ""}, {"", ""}, {" ", "\t"}}) {
      metric->add(hypothesis, Sentences{reference}, sums);
      EXPECT_EQ(metric->score(sums), 0) << name;
    }
    std::ranges::fill(sums, 0);
    metric->add("Ein ganzer Satz steht da.", Sentences{"Ein ganzer Satz steht da."}, sums);
    EXPECT_NEAR(metric->score(sums), 100, kTolerance) << name;
  }
}

TEST(TextMetric, UnknownNamesListTheValidOnes) {
  EXPECT_THAT([] { make_text_metric("ter", {}); },
              ThrowsMessage<UserError>("unknown metric 'ter'; valid: bleu, chrf, chrf++"));
}

TEST(Bleu, CountedByHand) {
  // the: 2 of 3 clipped to 2; cat, mat, on: right; "dog" wrong. Bigrams: "the cat", "on the", "the mat" right of 5.
  const auto metric = make_bleu({.tokenizer = Tokenizer::kNone, .smoothing = smoothing_of("none")});
  std::vector<double> sums(BleuCounts::kSums, 0);
  metric->add("the cat the on the mat", Sentences{"the cat sat on the mat"}, sums);
  EXPECT_THAT(sums, ElementsAre(5, 3, 1, 0, 6, 5, 4, 3, 6, 6));
  EXPECT_EQ(metric->score(sums), 0);
  // The references have lengths 4 and 6, which differ from 5 by one each: the shorter one counts. Only the second
  // reference has the bigram "c d".
  std::ranges::fill(sums, 0);
  metric->add("a b c d e", Sentences{"a b x y", "c d x y z z"}, sums);
  EXPECT_THAT(sums, ElementsAre(4, 2, 0, 0, 5, 4, 3, 2, 5, 4));
}

TEST(Bleu, ScoreOfCounts) {
  const BleuCounts counts{{4, 2, 1, 0}, {5, 4, 3, 2}, 5, 10};
  const auto score = [&](const std::string& smoothing) {
    return bleu_score(counts, smoothing_of(smoothing), false).score;
  };
  const double penalty = std::exp(1 - 2.0);
  const double base = 4.0 / 5 * 2 / 4 * 1 / 3;
  EXPECT_EQ(score("none"), 0);
  EXPECT_NEAR(score("exp"), 100 * penalty * std::pow(base * 0.5 / 2, 0.25), kTolerance);
  EXPECT_NEAR(score("floor"), 100 * penalty * std::pow(base * 0.1 / 2, 0.25), kTolerance);
  EXPECT_NEAR(score("floor=0.2"), 100 * penalty * std::pow(base * 0.2 / 2, 0.25), kTolerance);
  EXPECT_NEAR(score("add-k"), 100 * penalty * std::pow(4.0 / 5 * 3 / 5 * 2 / 4 * 1 / 3, 0.25), kTolerance);
}

TEST(Bleu, SmoothingIsReadFromText) {
  EXPECT_EQ(smoothing_of("floor").value, 0.1);
  EXPECT_EQ(smoothing_of("add-k").value, 1);
  EXPECT_EQ(smoothing_of("add-k=2").value, 2);
  EXPECT_THAT([] { smoothing_of("laplace"); }, ThrowsMessage<UserError>(HasSubstr("valid: exp, floor[=VALUE]")));
  EXPECT_THAT([] { smoothing_of("exp=1"); }, ThrowsMessage<UserError>(HasSubstr("exp takes no value")));
  for (const char* wrong : {"floor=", "floor=x", "floor=-1", "floor=0", "floor=nan"}) {
    EXPECT_THAT([&] { smoothing_of(wrong); }, ThrowsMessage<UserError>(HasSubstr("the value of floor"))) << wrong;
  }
}

TEST(Ngrams, AreCountedAndClipped) {
  const std::vector<uint32_t> text = {1, 2, 1, 2, 1}, other = {1, 2, 3}, third = {2, 1, 2, 1};
  const Ngrams of_text(text);
  const std::vector<Ngrams> others = {Ngrams(other), Ngrams(third)};
  EXPECT_EQ(of_text.count(1), 5);
  EXPECT_EQ(of_text.count(5), 1);
  EXPECT_EQ(of_text.count(6), 0);
  EXPECT_EQ(clipped_matches(of_text, std::span(others).first(1), 1), 2);
  EXPECT_EQ(clipped_matches(of_text, others, 1), 4);
  EXPECT_EQ(clipped_matches(of_text, others, 2), 3);  // "1 2" once, "2 1" twice
  EXPECT_EQ(clipped_matches(of_text, others, 3), 2);
  EXPECT_EQ(clipped_matches(of_text, others, 6), 0);
}

// ---- the test set of WMT14 ------------------------------------------------------------------------------------------

std::string gunzipped(const fs::path& path) {
  std::string text;
  const gzFile file = gzopen(path.c_str(), "rb");
  for (std::array<char, 1 << 16> buffer;;) {
    const int count = gzread(file, buffer.data(), buffer.size());
    if (count <= 0) break;
    text.append(buffer.data(), static_cast<size_t>(count));
  }
  gzclose(file);
  return text;
}

TEST(Newstest2014, TokensAndScoresAreThoseOfSacrebleu) {
  const auto folder = environment_variable("MLBENCH_DATA_DIR");
  if (!folder) GTEST_SKIP() << "missing capability: real data (MLBENCH_DATA_DIR)";
  const fs::path packed = fs::path(*folder) / "en-de/newstest/newstest2014.de.gz";
  if (!fs::exists(packed)) GTEST_SKIP() << "missing capability: newstest2014.de.gz in MLBENCH_DATA_DIR";
  const Json& expected = sacrebleu()["newstest2014_de"];
  const TemporaryFolder scratch;
  write_file_atomically(scratch / "de", gunzipped(packed));
  const Sentences lines = read_sentences(scratch / "de");
  ASSERT_EQ(lines.size(), expected["lines"].get<size_t>());
  for (const auto& [name, hash] : expected["tokens_sha256"].items()) {
    const bool lower = name.ends_with(" lc");
    Sha256 sha256;
    for (const std::string& line : lines) {
      sha256.update(
          tokens_of(tokenizer_named(name.substr(0, name.find(' '))), lower ? unicode::lower_case(line) : line) + "\n");
    }
    EXPECT_EQ(sha256.hex(), hash) << name;
  }
  Sentences system;
  for (const std::string& line : lines) {
    std::string shorter;
    const std::u32string points = unicode::code_points(line);
    size_t place = 0;
    for (const std::u32string_view word : unicode::words(points)) {
      if (++place != 5) shorter += (shorter.empty() ? "" : " ") + unicode::to_utf8(word);
    }
    system.push_back(shorter);
  }
  for (const auto& [name, score] : expected["without_fifth_words"].items()) {
    const auto metric = make_text_metric(name, {});
    EXPECT_NEAR(metric->score(sums_of(*metric, system, {lines})), score.get<double>(), kTolerance) << name;
  }
}

}  // namespace
}  // namespace mlbench::metrics
