#include "mlbench/plan/tune_plan.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "mlbench/base/errors.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/random.h"
#include "mlbench/base/text.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::plan {

namespace {

constexpr std::array<uint64_t, 8> kPrimes = {2, 3, 5, 7, 11, 13, 17, 19};
constexpr int64_t kMostPoints = 10'000;
constexpr Range kEnds{1e-30, 1e30};
constexpr Range kCounts{2, 1000};
// No fewer than Halton's sequence needs to leave the diagonal of two large primes.
constexpr uint64_t kFirstOfSequence = 20;

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw UserError(
      fmt::format("'{}': {}; expected KEY=VALUES such as optimizer.lr=0.1,0.2, optimizer.lr=0.001..10 or "
                  "optimizer.lr=0.001..10/7",
                  text, why));
}

// As few digits as tell the value to 12 of them.
std::string text_of(double value) { return fmt::format("{:.12g}", value); }

std::vector<std::string> grid_values(const TuneAxis& axis) {
  if (!axis.values.empty()) return axis.values;
  std::vector<std::string> values;
  const double decades = std::log10(axis.most / axis.least);
  if (axis.count == 0 && std::abs(decades - std::round(decades)) > 1e-9) {
    refuse(fmt::format("{}={:g}..{:g}", axis.key, axis.least, axis.most),
           "its end is no power of ten times its begin, so the grid needs /COUNT");
  }
  const int64_t count = axis.count > 0 ? axis.count : static_cast<int64_t>(std::lround(decades)) + 1;
  for (int64_t i = 0; i < count; ++i) {
    const double part = static_cast<double>(i) / static_cast<double>(count - 1);
    values.push_back(text_of(axis.least * std::pow(10, decades * part)));
  }
  return values;
}

// The digits of `number` in this base, mirrored behind the point (van der Corput).
double radical_inverse(uint64_t number, uint64_t base) {
  double value = 0, digit = 1;
  for (; number > 0; number /= base) {
    digit /= static_cast<double>(base);
    value += digit * static_cast<double>(number % base);
  }
  return value;
}

std::string drawn_value(const TuneAxis& axis, double unit) {
  if (!axis.values.empty()) return axis.values[static_cast<size_t>(unit * static_cast<double>(axis.values.size()))];
  return text_of(axis.least * std::pow(axis.most / axis.least, unit));
}

uint64_t first_seed(const TuneOptions& options) { return spec::seed_of(options.run, spec::RunSpec().seed); }

}  // namespace

TuneAxis parse_axis(const std::string& text) {
  const auto [key, value] = spec::parse_override(text);
  TuneAxis axis{.key = key, .values = {}};
  const size_t dots = value.find("..");
  if (dots == std::string::npos) {
    axis.values = split_at(value, ',');
    for (const std::string& one : axis.values) {
      if (one.empty()) refuse(text, "one of its values is empty");
    }
    return axis;
  }
  const size_t slash = value.find('/', dots);
  const std::string end = value.substr(dots + 2, slash == std::string::npos ? slash : slash - dots - 2);
  axis.least = parse_real(value.substr(0, dots), fmt::format("the begin of '{}'", text), kEnds);
  axis.most = parse_real(end, fmt::format("the end of '{}'", text), kEnds);
  if (slash != std::string::npos) {
    axis.count = parse_count(value.substr(slash + 1), fmt::format("the number of values of '{}'", text), kCounts);
  }
  if (axis.most <= axis.least) refuse(text, "the end of the range is not above its begin");
  return axis;
}

std::vector<TunePoint> tune_points(const TuneOptions& options) {
  if (options.space.size() > kPrimes.size()) {
    throw UserError(fmt::format("{} axes of a space; expected at most {}", options.space.size(), kPrimes.size()));
  }
  int64_t of_study = options.space.empty() ? 1 : options.trials;
  std::vector<std::vector<std::string>> values;
  for (const TuneAxis& axis : options.grid) {
    values.push_back(grid_values(axis));
    of_study = of_study > kMostPoints ? of_study : of_study * std::ssize(values.back());
  }
  if (of_study * options.studies > kMostPoints) {
    throw UserError(fmt::format("more than {} points to try", kMostPoints));
  }
  std::vector<TunePoint> points;
  for (int64_t study = 0; study < options.studies; ++study) {
    RandomSequence random(derive_key(first_seed(options), {kTuneStream, static_cast<uint64_t>(study)}));
    std::vector<double> shifts;
    for (size_t axis = 0; axis < options.space.size(); ++axis) shifts.push_back(random.uniform());
    for (int64_t trial = 0; trial < of_study; ++trial) {
      TunePoint point{.study = study, .trial = trial, .settings = {}};
      int64_t rest = trial;  // the last axis of a grid changes first
      for (size_t i = values.size(); i-- > 0; rest /= std::ssize(values[i])) {
        const auto number = static_cast<size_t>(rest % std::ssize(values[i]));
        point.settings.insert(point.settings.begin(), {options.grid[i].key, values[i][number]});
      }
      for (size_t i = 0; i < options.space.size(); ++i) {
        double unit = radical_inverse(kFirstOfSequence + static_cast<uint64_t>(trial), kPrimes[i]) + shifts[i];
        unit -= std::floor(unit);
        point.settings.push_back({options.space[i].key, drawn_value(options.space[i], unit)});
      }
      points.push_back(std::move(point));
    }
  }
  return points;
}

spec::RunOptions trial_options(const TuneOptions& options, const TunePoint& point, int64_t repeat, int64_t repeats) {
  spec::RunOptions run = options.run;
  run.name = options.studies > 1 ? fmt::format("{}.s{}.t{}", run.name, point.study + 1, point.trial + 1)
                                 : fmt::format("{}.t{}", run.name, point.trial + 1);
  run.seed = std::to_string(first_seed(options) + static_cast<uint64_t>(point.study * repeats + repeat));
  run.repeat.clear();
  run.next_repeat = true;  // after one that failed
  for (const auto& [key, value] : point.settings) run.overrides.push_back(fmt::format("{}={}", key, value));
  if (options.holdout > 0) run.overrides.push_back(fmt::format("data.holdout={}", options.holdout));
  return run;
}

}  // namespace mlbench::plan
