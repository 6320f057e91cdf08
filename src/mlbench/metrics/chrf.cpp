#include "mlbench/metrics/chrf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "mlbench/base/build_info.h"
#include "mlbench/base/errors.h"
#include "mlbench/metrics/ngrams.h"
#include "mlbench/unicode/unicode.h"

namespace mlbench::metrics {

namespace {

constexpr size_t kCharacterOrder = 6;
constexpr size_t kMostWordOrder = 2;
constexpr double kBeta = 2;

// The sums of one n: the n-grams of the hypotheses (where the reference has some, too), of the references, and of both.
constexpr size_t kSumsOfOrder = 3;

bool is_ascii_punctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

// Words, from which one punctuation mark is split at the end, or else at the beginning.
std::vector<std::u32string_view> words_and_marks(std::u32string_view sentence) {
  std::vector<std::u32string_view> result;
  for (const std::u32string_view word : unicode::words(sentence)) {
    size_t cut = 0;
    if (word.size() > 1 && is_ascii_punctuation(word.back())) {
      cut = word.size() - 1;
    } else if (word.size() > 1 && is_ascii_punctuation(word.front())) {
      cut = 1;
    }
    if (cut > 0) result.push_back(word.substr(0, cut));
    result.push_back(word.substr(cut));
  }
  return result;
}

std::vector<uint32_t> characters(std::u32string_view sentence) {
  std::vector<uint32_t> result;
  result.reserve(sentence.size());
  for (const char32_t c : sentence) {
    if (!unicode::is_space(c)) result.push_back(static_cast<uint32_t>(c) + 1);
  }
  return result;
}

class Chrf final : public TextMetric {
 public:
  Chrf(size_t word_order, bool lowercase) : word_order_(word_order), lowercase_(lowercase) {
    MLBENCH_CHECK(word_order <= kMostWordOrder, "chrF with longer n-grams of words");
  }

  std::string name() const override { return fmt::format("chrF{:g}{}", kBeta, std::string(word_order_, '+')); }
  size_t number_of_sums() const override { return kSumsOfOrder * (kCharacterOrder + word_order_); }

  void add(std::string_view hypothesis, std::span<const std::string> references,
           std::span<double> sums) const override {
    MLBENCH_CHECK(!references.empty() && sums.size() == number_of_sums(), "a sentence without reference, or its sums");
    std::vector<std::u32string> texts;  // reserved, so that the vocabulary's views stay valid
    texts.reserve(references.size() + 1);
    Vocabulary vocabulary;
    const auto ngrams_of = [&](std::string_view sentence) {
      texts.push_back(unicode::code_points(lowercase_ ? unicode::lower_case(sentence) : sentence));
      const auto numbers =
          word_order_ > 0 ? vocabulary.numbers_of(words_and_marks(texts.back())) : std::vector<uint32_t>();
      return SentenceNgrams{Ngrams(characters(texts.back())), Ngrams(numbers)};
    };
    const SentenceNgrams of_hypothesis = ngrams_of(hypothesis);
    Sums best = {};
    double best_score = -1;
    for (const std::string& reference : references) {
      const Sums counted = count(of_hypothesis, ngrams_of(reference));
      const double reached = score(std::span(counted).first(sums.size()));
      if (reached > best_score) {
        best = counted;
        best_score = reached;
      }
    }
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += best[i];
  }

  // Combines the mean precision and the mean recall over those n that both sides have.
  double score(std::span<const double> sums) const override {
    double precision = 0, recall = 0, orders = 0;
    for (size_t at = 0; at < sums.size(); at += kSumsOfOrder) {
      const double hypothesis = sums[at], reference = sums[at + 1], both = sums[at + 2];
      if (hypothesis == 0 || reference == 0) continue;
      precision += both / hypothesis;
      recall += both / reference;
      ++orders;
    }
    if (precision + recall == 0) return 0;
    precision /= orders;
    recall /= orders;
    constexpr double kFactor = kBeta * kBeta;
    return 100 * (1 + kFactor) * precision * recall / (kFactor * precision + recall);
  }

  std::string verbose(std::span<const double> /*sums*/) const override { return ""; }
  Json parts(std::span<const double> /*sums*/) const override { return Json::object(); }

  std::string signature(size_t references) const override {
    return fmt::format("nrefs:{}|case:{}|eff:yes|nc:{}|nw:{}|space:no|version:mlbench-{}", references,
                       lowercase_ ? "lc" : "mixed", kCharacterOrder, word_order_, build_info().version);
  }

 private:
  using Sums = std::array<double, kSumsOfOrder*(kCharacterOrder + kMostWordOrder)>;
  struct SentenceNgrams {
    Ngrams characters, words;
  };

  Sums count(const SentenceNgrams& hypothesis, const SentenceNgrams& reference) const {
    Sums sums = {};
    size_t at = 0;
    const auto add_order = [&](const Ngrams& own, const Ngrams& other, size_t n) {
      sums[at++] = other.count(n) > 0 ? static_cast<double>(own.count(n)) : 0;
      sums[at++] = static_cast<double>(other.count(n));
      sums[at++] = static_cast<double>(clipped_matches(own, std::span(&other, 1), n));
    };
    for (size_t n = 1; n <= kCharacterOrder; ++n) add_order(hypothesis.characters, reference.characters, n);
    for (size_t n = 1; n <= word_order_; ++n) add_order(hypothesis.words, reference.words, n);
    return sums;
  }

  size_t word_order_;
  bool lowercase_;
};

}  // namespace

std::unique_ptr<TextMetric> make_chrf(size_t word_order, const TextMetricOptions& options) {
  return std::make_unique<Chrf>(word_order, options.lowercase);
}

}  // namespace mlbench::metrics
