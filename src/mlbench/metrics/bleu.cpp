#include "mlbench/metrics/bleu.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "mlbench/base/build_info.h"
#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/numbers.h"
#include "mlbench/metrics/ngrams.h"
#include "mlbench/unicode/unicode.h"

namespace mlbench::metrics {

namespace {

struct SmoothingRow {
  std::string_view name;
  Smoothing::Method method;
  double usual;  // NaN: the method takes no value
};
constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();
constexpr std::array<SmoothingRow, 4> kSmoothings = {{
    {"exp", Smoothing::Method::kExp, kNoValue},
    {"floor", Smoothing::Method::kFloor, 0.1},
    {"add-k", Smoothing::Method::kAddK, 1},
    {"none", Smoothing::Method::kNone, kNoValue},
}};

const SmoothingRow& row_of(Smoothing::Method method) {
  return *std::ranges::find(kSmoothings, method, &SmoothingRow::method);
}

// The length that is closest to the hypothesis's; of several equally close ones, the shortest.
size_t closest_length(size_t hypothesis, const std::vector<size_t>& references) {
  const auto distance = [&](size_t length) { return length < hypothesis ? hypothesis - length : length - hypothesis; };
  return *std::min_element(references.begin(), references.end(),
                           [&](size_t a, size_t b) { return std::pair(distance(a), a) < std::pair(distance(b), b); });
}

class Bleu final : public TextMetric {
 public:
  explicit Bleu(const TextMetricOptions& options) : options_(options) {}

  std::string name() const override { return "BLEU"; }
  size_t number_of_sums() const override { return BleuCounts::kSums; }

  void add(std::string_view hypothesis, std::span<const std::string> references,
           std::span<double> sums) const override {
    MLBENCH_CHECK(!references.empty() && sums.size() == BleuCounts::kSums, "a sentence without reference, or its sums");
    std::vector<std::u32string> texts;  // reserved, so that the vocabulary's views stay valid
    texts.reserve(references.size() + 1);
    Vocabulary vocabulary;
    const auto numbers_of = [&](std::string_view sentence) {
      const std::u32string points = unicode::code_points(options_.lowercase ? unicode::lower_case(sentence) : sentence);
      texts.push_back(tokenize(options_.tokenizer, unicode::without_trailing_space(points)));
      return vocabulary.numbers_of(unicode::words(texts.back()));
    };
    const std::vector<uint32_t> tokens = numbers_of(hypothesis);
    const Ngrams hypothesis_ngrams(tokens);
    std::vector<Ngrams> reference_ngrams;
    std::vector<size_t> lengths;
    for (const std::string& reference : references) {
      const std::vector<uint32_t> numbers = numbers_of(reference);
      lengths.push_back(numbers.size());
      reference_ngrams.emplace_back(numbers);
    }
    for (size_t n = 1; n <= kBleuOrder; ++n) {
      sums[n - 1] += static_cast<double>(clipped_matches(hypothesis_ngrams, reference_ngrams, n));
      sums[kBleuOrder + n - 1] += static_cast<double>(hypothesis_ngrams.count(n));
    }
    sums[2 * kBleuOrder] += static_cast<double>(tokens.size());
    sums[2 * kBleuOrder + 1] += static_cast<double>(closest_length(tokens.size(), lengths));
  }

  double score(std::span<const double> sums) const override { return score_of(BleuCounts::of(sums)).score; }

  std::string verbose(std::span<const double> sums) const override {
    const BleuCounts counts = BleuCounts::of(sums);
    const BleuScore result = score_of(counts);
    return fmt::format("{:.1f} (BP = {:.3f} ratio = {:.3f} hyp_len = {:.0f} ref_len = {:.0f})",
                       fmt::join(result.precisions, "/"), result.brevity_penalty, length_ratio(counts),
                       counts.hypothesis_length, counts.reference_length);
  }

  Json parts(std::span<const double> sums) const override {
    const BleuCounts counts = BleuCounts::of(sums);
    const BleuScore result = score_of(counts);
    const auto whole = [](const std::array<double, kBleuOrder>& numbers) {
      return std::vector<int64_t>(numbers.begin(), numbers.end());
    };
    return {{"precisions", result.precisions},
            {"correct", whole(counts.correct)},
            {"total", whole(counts.total)},
            {"brevity_penalty", result.brevity_penalty},
            {"length_ratio", length_ratio(counts)},
            {"hypothesis_length", static_cast<int64_t>(counts.hypothesis_length)},
            {"reference_length", static_cast<int64_t>(counts.reference_length)}};
  }

  std::string signature(size_t references) const override {
    const SmoothingRow& row = row_of(options_.smoothing.method);
    const std::string value = std::isnan(row.usual) ? "" : fmt::format("[{:.2f}]", options_.smoothing.value);
    return fmt::format("nrefs:{}|case:{}|eff:{}|tok:{}|smooth:{}{}|version:mlbench-{}", references,
                       options_.lowercase ? "lc" : "mixed", options_.effective_order ? "yes" : "no",
                       name_of(options_.tokenizer), row.name, value, build_info().version);
  }

 private:
  BleuScore score_of(const BleuCounts& counts) const {
    return bleu_score(counts, options_.smoothing, options_.effective_order);
  }
  static double length_ratio(const BleuCounts& counts) {
    return counts.reference_length > 0 ? counts.hypothesis_length / counts.reference_length : 0;
  }

  TextMetricOptions options_;
};

}  // namespace

Smoothing smoothing_of(const std::string& text) {
  const size_t sign = std::min(text.find('='), text.size());
  const auto row = std::ranges::find(kSmoothings, text.substr(0, sign), &SmoothingRow::name);
  if (row == kSmoothings.end()) {
    refuse_unknown("smoothing", text, {"exp", "floor[=VALUE]", "add-k[=VALUE]", "none"});
  }
  if (sign == text.size()) return {row->method, std::isnan(row->usual) ? 0 : row->usual};
  if (std::isnan(row->usual)) {
    throw UserError(fmt::format("smoothing '{}': {} takes no value", shortened(text), row->name));
  }
  return {row->method, parse_real(text.substr(sign + 1), fmt::format("the value of {}", row->name), {1e-9, 1e9})};
}

BleuCounts BleuCounts::of(std::span<const double> sums) {
  MLBENCH_CHECK(sums.size() == kSums, "sums of another metric");
  BleuCounts counts;
  std::copy_n(sums.begin(), kBleuOrder, counts.correct.begin());
  std::copy_n(sums.begin() + kBleuOrder, kBleuOrder, counts.total.begin());
  counts.hypothesis_length = sums[2 * kBleuOrder];
  counts.reference_length = sums[2 * kBleuOrder + 1];
  return counts;
}

BleuScore bleu_score(const BleuCounts& counts, const Smoothing& smoothing, bool effective_order) {
  BleuScore result;
  const double length = counts.hypothesis_length;
  result.brevity_penalty = length >= counts.reference_length ? 1
                           : length > 0                      ? std::exp(1 - counts.reference_length / length)
                                                             : 0;
  if (std::ranges::all_of(counts.correct, [](double correct) { return correct == 0; })) return result;

  size_t order = effective_order ? 0 : kBleuOrder;
  double halved = 1;
  for (size_t n = 1; n <= kBleuOrder; ++n) {
    const double added = smoothing.method == Smoothing::Method::kAddK && n > 1 ? smoothing.value : 0;
    const double correct = counts.correct[n - 1] + added;
    const double total = counts.total[n - 1] + added;
    if (total == 0) break;
    if (effective_order) order = n;
    double right = correct;
    if (correct == 0 && smoothing.method == Smoothing::Method::kExp) right = 1 / (halved *= 2);
    if (correct == 0 && smoothing.method == Smoothing::Method::kFloor) right = smoothing.value;
    result.precisions[n - 1] = 100 * right / total;
  }
  double log_sum = 0;
  for (size_t n = 0; n < order; ++n) log_sum += std::log(result.precisions[n]);  // minus infinity gives a score of 0
  result.score = result.brevity_penalty * std::exp(log_sum / static_cast<double>(order));
  return result;
}

std::unique_ptr<TextMetric> make_bleu(const TextMetricOptions& options) { return std::make_unique<Bleu>(options); }

}  // namespace mlbench::metrics
