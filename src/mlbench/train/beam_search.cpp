#include "mlbench/train/beam_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "mlbench/base/errors.h"

namespace mlbench::train {

namespace {

constexpr double kLowest = -std::numeric_limits<double>::infinity();

// A hypothesis to which one more token is written.
struct LiveHypothesis {
  int64_t node = -1;  // index of the last token in SentenceSearch::written_; -1: there is none yet
  double log_probability = 0;
  std::vector<double> coverage;  // attention that each source token received; empty where it does not count
};

struct Continuation {
  double log_probability = kLowest;
  size_t row = 0;  // among the sentence's rows
  int64_t token = 0;
};

// The order of continuations, the best first. Equal ones are in the order of their rows, and then of their tokens.
bool comes_before(const Continuation& a, const Continuation& b) {
  if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
  return a.row != b.row ? a.row < b.row : a.token < b.token;
}

// Keeps the best `most` continuations of those that are added in rising order of row and token.
class BestContinuations {
 public:
  explicit BestContinuations(size_t most) : most_(most) { kept_.reserve(most + 1); }

  // Adds the continuations of one row. A single comparison of floats rejects a log-probability that cannot be among the
  // best.
  void add_row(size_t row, double before, std::span<const float> log_probabilities, int64_t pad, int64_t begin) {
    float limit = limit_for(before);
    for (size_t token = 0; token < log_probabilities.size(); ++token) {
      const float log_probability = log_probabilities[token];
      if (!(log_probability >= limit)) continue;
      const auto id = static_cast<int64_t>(token);
      if (id == pad || id == begin) continue;
      add({before + static_cast<double>(log_probability), row, id});
      limit = limit_for(before);
    }
  }

  void add(const Continuation& one) {
    if (!(one.log_probability > kLowest)) return;  // impossible, or NaN
    kept_.insert(std::ranges::upper_bound(kept_, one, comes_before), one);
    if (kept_.size() > most_) kept_.pop_back();
  }

  const std::vector<Continuation>& kept() const { return kept_; }

 private:
  // A bound that is not above what a log-probability needs to be among the best.
  float limit_for(double before) const {
    if (kept_.size() < most_) return -std::numeric_limits<float>::infinity();
    const auto needed = static_cast<float>(kept_.back().log_probability - before);
    return std::nextafter(needed, -std::numeric_limits<float>::infinity());
  }

  size_t most_;
  std::vector<Continuation> kept_;  // the best first
};

// The search for one sentence of the batch.
class SentenceSearch {
 public:
  SentenceSearch(const SearchOptions& options, int64_t source_length)
      : options_(options),
        beam_(static_cast<size_t>(options.decoding.beam)),
        most_tokens_(std::max(options.decoding.min_length,
                              static_cast<int64_t>(options.decoding.length_ratio * static_cast<double>(source_length)) +
                                  options.decoding.length_extra)),
        live_(1) {
    if (options.decoding.coverage_penalty > 0) live_[0].coverage.resize(static_cast<size_t>(source_length), 0);
  }

  bool done() const { return live_.empty(); }
  size_t rows() const { return live_.size(); }

  // Takes one step. `log_probabilities` are those of the sentence's rows, and `attention` is [rows, positions] or
  // empty. For each row of the next step, appends to `rows` the row of this step from which it goes on (from 0), and
  // its token to `tokens`.
  void step(std::span<const float> log_probabilities, std::span<const float> attention, std::vector<int64_t>& rows,
            std::vector<int64_t>& tokens) {
    const std::vector<Continuation> best = continuations(log_probabilities);
    std::vector<LiveHypothesis> next;
    for (size_t place = 0; place < best.size(); ++place) {
      const Continuation& one = best[place];
      if (one.token == options_.end) {
        const bool ends = length_ >= options_.decoding.min_length && place < beam_ && finished_.size() < beam_;
        if (ends) finish(one, covered(one.row, attention));
      } else if (next.size() < beam_) {
        written_.push_back({live_[one.row].node, one.token});
        next.push_back({std::ssize(written_) - 1, one.log_probability, covered(one.row, attention)});
        rows.push_back(static_cast<int64_t>(one.row));
        tokens.push_back(one.token);
      }
    }
    ++length_;
    live_ = std::move(next);
    if (finished_.size() < beam_) return;
    rows.resize(rows.size() - live_.size());
    tokens.resize(tokens.size() - live_.size());
    live_.clear();
  }

  std::vector<Hypothesis> result() {
    if (finished_.empty()) finished_.push_back({{}, kLowest, kLowest});
    std::ranges::stable_sort(finished_, std::ranges::greater(), &Hypothesis::score);
    return std::move(finished_);
  }

 private:
  struct Written {
    int64_t before;  // index of the token before it; -1: it is the first
    int64_t token;
  };

  std::vector<Continuation> continuations(std::span<const float> log_probabilities) const {
    const size_t vocabulary = log_probabilities.size() / live_.size();
    BestContinuations best(2 * beam_);
    for (size_t row = 0; row < live_.size(); ++row) {
      const std::span<const float> own = log_probabilities.subspan(row * vocabulary, vocabulary);
      const double before = live_[row].log_probability;
      if (length_ == most_tokens_) {
        best.add({before + static_cast<double>(own[static_cast<size_t>(options_.end)]), row, options_.end});
      } else {
        best.add_row(row, before, own, options_.pad, options_.begin);
      }
    }
    return best.kept();
  }

  std::vector<double> covered(size_t row, std::span<const float> attention) const {
    std::vector<double> coverage = live_[row].coverage;
    const size_t positions = attention.size() / live_.size();
    for (size_t i = 0; i < coverage.size(); ++i) coverage[i] += static_cast<double>(attention[row * positions + i]);
    return coverage;
  }

  void finish(const Continuation& one, const std::vector<double>& coverage) {
    Hypothesis hypothesis;
    for (int64_t node = live_[one.row].node; node >= 0; node = written_[static_cast<size_t>(node)].before) {
      hypothesis.tokens.push_back(written_[static_cast<size_t>(node)].token);
    }
    std::ranges::reverse(hypothesis.tokens);
    hypothesis.log_probability = one.log_probability;
    hypothesis.score = one.log_probability / length_penalty(options_.decoding, length_ + 1);
    if (!coverage.empty()) hypothesis.score += coverage_penalty(options_.decoding.coverage_penalty, coverage);
    finished_.push_back(std::move(hypothesis));
  }

  const SearchOptions& options_;
  size_t beam_;
  int64_t most_tokens_;
  int64_t length_ = 0;  // tokens of each live hypothesis
  std::vector<LiveHypothesis> live_;
  std::vector<Written> written_;
  std::vector<Hypothesis> finished_;
};

// Tells the decoder from which of its `before` rows the next rows go on, unless all rows go on in their places.
void reorder(framework::Decoder& decoder, const std::vector<int64_t>& rows, size_t before) {
  bool same = rows.size() == before;
  for (size_t i = 0; same && i < rows.size(); ++i) same = rows[i] == static_cast<int64_t>(i);
  if (!same) decoder.reorder(rows);
}

}  // namespace

double length_penalty(const spec::DecodingSpec& decoding, int64_t length) {
  const auto tokens = static_cast<double>(length);
  return std::pow(decoding.length_penalty == "wu" ? (5 + tokens) / 6 : tokens, decoding.length_exponent);
}

double coverage_penalty(double beta, const std::vector<double>& coverage) {
  return beta * std::transform_reduce(coverage.begin(), coverage.end(), 0.0, std::plus<>(), [](double received) {
           return std::log(std::clamp(received, kLeastCoverage, 1.0));
         });
}

std::vector<std::vector<Hypothesis>> search(framework::Decoder& decoder, const BatchView& sources,
                                            const SearchOptions& options) {
  MLBENCH_CHECK(options.decoding.beam >= 1, "a search without a beam");
  const auto* lengths = static_cast<const int64_t*>(sources.at("source_lengths").values.data);
  std::vector<SentenceSearch> sentences;
  for (int64_t i = 0; i < sources.samples; ++i) sentences.emplace_back(options, lengths[i]);

  if (sources.samples > 0) decoder.start(sources, 1);
  std::vector<int64_t> tokens(static_cast<size_t>(sources.samples), options.begin), next_tokens, rows;
  while (!tokens.empty()) {
    const std::span<const float> log_probabilities = decoder.step(tokens);
    const std::span<const float> attention =
        options.decoding.coverage_penalty > 0 ? decoder.attention() : std::span<const float>();
    if (options.decoding.coverage_penalty > 0 && attention.empty()) {
      throw UserError(
          fmt::format("'decoding.coverage_penalty' is {}, but the model has no attention that it could take; "
                      "expected 0",
                      options.decoding.coverage_penalty));
    }
    const size_t vocabulary = log_probabilities.size() / tokens.size();
    const size_t positions = attention.size() / tokens.size();
    rows.clear();
    next_tokens.clear();
    size_t first = 0;  // the sentence's first row
    for (SentenceSearch& sentence : sentences) {
      if (sentence.done()) continue;
      const size_t count = sentence.rows(), begin = rows.size();
      sentence.step(log_probabilities.subspan(first * vocabulary, count * vocabulary),
                    attention.subspan(first * positions, count * positions), rows, next_tokens);
      for (size_t i = begin; i < rows.size(); ++i) rows[i] += static_cast<int64_t>(first);
      first += count;
    }
    if (!rows.empty()) reorder(decoder, rows, tokens.size());
    tokens.swap(next_tokens);
  }

  std::vector<std::vector<Hypothesis>> results;
  for (SentenceSearch& sentence : sentences) results.push_back(sentence.result());
  return results;
}

std::vector<std::vector<std::vector<Hypothesis>>> search(framework::Framework& framework,
                                                         std::span<const BatchView> batches,
                                                         const SearchOptions& options) {
  std::vector<std::vector<std::vector<Hypothesis>>> results(batches.size());
  if (batches.empty()) return results;
  std::atomic<size_t> next = 0;
  framework.decode(std::ssize(batches), [&](framework::Decoder& decoder) {
    try {
      for (size_t i = next++; i < batches.size(); i = next++) results[i] = search(decoder, batches[i], options);
    } catch (...) {
      next = batches.size();  // the other threads begin no more
      throw;
    }
  });
  return results;
}

}  // namespace mlbench::train
