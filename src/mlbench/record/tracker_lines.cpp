#include "mlbench/record/tracker_lines.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "mlbench/base/input.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/record/legacy_names.h"
#include "mlbench/record/measured_value.h"
#include "mlbench/record/spool.h"
#include "mlbench/spec/goal.h"
#include "mlbench/spec/split.h"

namespace mlbench::record {

namespace {

constexpr double kMostSeconds = 1e11;
constexpr int64_t kMostSamples = 1'000'000'000'000'000;
constexpr size_t kMostNameBytes = 250, kMostTextBytes = 64 * inputs::kKiB;
constexpr size_t kMostLines = 1'000'000;
// The limits of a record: a script may write for weeks.
constexpr size_t kMostRows = 20'000, kMostRecordedValues = 200'000;

int64_t whole(const Json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

bool is_name(std::string_view name) {
  const auto control = [](char c) { return static_cast<unsigned char>(c) < ' '; };
  return !name.empty() && name.size() <= kMostNameBytes && std::none_of(name.begin(), name.end(), control);
}

TrackerLine line_of(const Json& record) {
  TrackerLine line;
  if (const auto time = record.find("time"); time != record.end() && time->is_number()) {
    const double seconds = time->get<double>();
    if (std::abs(seconds) < kMostSeconds) line.time_us = std::llround(seconds * 1e6);
  }
  line.step = std::max<int64_t>(0, whole(record, "step"));
  line.epoch = std::max<int64_t>(0, whole(record, "epoch"));
  if (const auto train = record.find("train_s"); train != record.end() && train->is_number()) {
    const double seconds = train->get<double>();
    if (seconds >= 0 && seconds < kMostSeconds) line.train_s = seconds;
  }
  if (const int64_t samples = whole(record, "samples"); samples > 0 && samples < kMostSamples) line.samples = samples;
  if (const auto values = record.find("values"); values != record.end() && values->is_object()) {
    for (const auto& [name, value] : values->items()) {
      const auto measured = measured_value(value);
      if (measured && is_name(name)) line.values.emplace_back(name, *measured);
    }
  }
  if (const auto text = record.find("text"); text != record.end() && text->is_object()) {
    for (const auto& [name, value] : text->items()) {
      if (value.is_string() && is_name(name) && value.get_ref<const std::string&>().size() <= kMostTextBytes) {
        line.text[name] = value.get<std::string>();
      }
    }
  }
  if (const auto goal = record.find("goal"); goal != record.end() && goal->is_object()) line.goal = *goal;
  return line;
}

double rounded_to_ns(double seconds) { return static_cast<double>(std::llround(seconds * 1e9)) / 1e9; }

}  // namespace

std::optional<TrackerLine> parse_tracker_line(std::string_view text) {
  const auto record = try_parse_json(text, inputs::kTrackerLine);
  if (!record || !record->is_object()) return std::nullopt;
  return line_of(*record);
}

TrackerLines read_tracker_lines(const std::filesystem::path& run_dir, int64_t rank) {
  const std::filesystem::path file = tracker_lines_path(run_dir, rank);
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return {};
  const std::string text = read_file(file, inputs::kClientFile);
  TrackerLines read;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string_view one = std::string_view(text).substr(begin, end - begin);
    if (one.empty()) continue;
    auto line = read.lines.size() < kMostLines ? parse_tracker_line(one) : std::nullopt;
    if (line) {
      read.lines.push_back(std::move(*line));
    } else {
      ++read.left_out;
    }
  }
  return read;
}

namespace {

void set_number(NamedNumbers& numbers, const std::string& name, double value) {
  const auto found = std::ranges::find(numbers, name, &NamedNumbers::value_type::first);
  if (found == numbers.end()) {
    numbers.emplace_back(name, value);
  } else {
    found->second = value;
  }
}

std::optional<double> finite(std::optional<double> value) {
  return value && std::isfinite(*value) ? value : std::nullopt;
}

// The sum of what a count gains from line to line. A count that goes back is that of a restarted script, which takes
// again what it had done.
class Increments {
 public:
  // What the count gained.
  double take(double count) {
    const double gain = std::max(0.0, count - last_);
    last_ = count;
    return gain;
  }

 private:
  double last_ = 0;
};

// Makes the figures from one line after the other.
class FigureMaker {
 public:
  FigureMaker(int64_t started_us, const std::optional<spec::GoalSpec>& declared)
      : started_us_(started_us), declared_(declared) {}
  void add(const TrackerLine& line);
  TrackerFigures figures();

 private:
  // Whether a record takes another row of `metrics`; a row that it does not take is counted.
  bool has_room(size_t rows, const NamedNumbers& metrics);
  // Sets the train clock to the moment of the line.
  void advance(const TrackerLine& line, std::optional<double> epoch_s);
  void add_epoch(const TrackerLine& line);
  void add_evaluation(const TrackerLine& line, const NamedNumbers& evaluated);
  // Holds values of a split against the declared goal.
  void judge(const TrackerLine& line, std::string_view split, const NamedNumbers& values);
  void add_claimed_goal(const TrackerLine& line, std::optional<double> total_s);
  void reach_goal(Goal& goal, const TrackerLine& line, double train_s) const;
  NamedNumbers steps_so_far() const;

  int64_t started_us_;
  std::optional<spec::GoalSpec> declared_;
  std::optional<BestValue> best_;  // of the declared goal's metric
  TrackerFigures figures_;
  std::map<std::string, double, std::less<>> kinds_;
  NamedNumbers trained_;  // of the current epoch
  double train_s_ = 0;
  Increments clock_;
  size_t recorded_ = 0;  // number of values in rows
};

bool FigureMaker::has_room(size_t rows, const NamedNumbers& metrics) {
  const bool room = rows < kMostRows && recorded_ + metrics.size() <= kMostRecordedValues;
  room ? recorded_ += metrics.size() : ++figures_.left_out;
  return room;
}

void FigureMaker::add(const TrackerLine& line) {
  figures_.steps = std::max(figures_.steps, line.step);
  NamedNumbers evaluated;
  std::optional<double> epoch_s, total_s;
  for (const auto& [name, value] : line.values) {
    const SeriesKey key = key_of_legacy_name(name, 0);
    const bool finite = std::isfinite(value);
    if (key.split.empty() && !finite) continue;  // times are numbers
    const double metric = finite ? value : std::numeric_limits<double>::quiet_NaN();
    if (name == "CumulativeTrainTimeEpoch") {
      epoch_s = value;
    } else if (name == "TotalCumulativeTrainTime") {
      total_s = value;
    } else if (key.split == spec::kTestSplit && key.rank == kAllRanks) {
      set_number(evaluated, key.metric, metric);
    } else if (key.split == spec::kTrainSplit) {
      set_number(trained_, key.metric, metric);
    } else if (std::find(kStepKindNames.begin(), kStepKindNames.end(), name) != kStepKindNames.end()) {
      kinds_[name] += value;
    }
  }
  advance(line, epoch_s);
  if (epoch_s) add_epoch(line);
  if (!evaluated.empty()) add_evaluation(line, evaluated);
  if (const auto text = line.text.find("TaskResult"); text != line.text.end() && figures_.result.empty()) {
    figures_.result = text->second;
  }
  if (line.goal.is_object() && !declared_ && !figures_.goal) add_claimed_goal(line, total_s);
}

void FigureMaker::advance(const TrackerLine& line, std::optional<double> epoch_s) {
  train_s_ += line.train_s ? clock_.take(*line.train_s) : epoch_s.value_or(0);
}

void FigureMaker::add_epoch(const TrackerLine& line) {
  judge(line, spec::kTrainSplit, trained_);
  if (has_room(figures_.epochs.size(), trained_)) {
    Epoch& epoch = figures_.epochs.emplace_back();
    epoch.epoch = line.epoch + 1;
    epoch.train_loss = finite(spec::find_number(trained_, "loss"));
    epoch.metrics = std::move(trained_);
    epoch.train_s = rounded_to_ns(train_s_);
    epoch.step = line.step;
    epoch.segment = 1;
  }
  trained_.clear();
}

void FigureMaker::add_evaluation(const TrackerLine& line, const NamedNumbers& evaluated) {
  judge(line, spec::kTestSplit, evaluated);
  if (!has_room(figures_.evaluations.size(), evaluated)) return;
  auto& rows = figures_.evaluations;
  if (rows.empty() || rows.back().step != line.step || rows.back().epoch != line.epoch) {
    const double wall_s = static_cast<double>(line.time_us - started_us_) / 1e6;
    Evaluation& evaluation = rows.emplace_back();
    evaluation.step = line.step;
    evaluation.epoch = line.epoch;
    evaluation.samples = 0;
    evaluation.split = spec::kTestSplit;
    evaluation.train_s = rounded_to_ns(train_s_);
    evaluation.wall_s = std::max(0.0, wall_s);
    evaluation.duration_s = 0;
    evaluation.segment = 1;
  }
  for (const auto& [name, value] : evaluated) set_number(rows.back().metrics, name, value);
}

void FigureMaker::judge(const TrackerLine& line, std::string_view split, const NamedNumbers& values) {
  if (!declared_ || declared_->split != split) return;
  const auto value = spec::find_number(values, declared_->metric);
  if (!value) return;
  if (spec::is_better(*declared_, *value, best_ ? std::optional(best_->value) : std::nullopt)) {
    best_ = BestValue{*value, static_cast<double>(line.epoch), line.step, rounded_to_ns(train_s_)};
  }
  if (figures_.goal || !spec::goal_met(*declared_, false, *value)) return;
  figures_.goal.emplace().value = *value;
  reach_goal(*figures_.goal, line, train_s_);
}

void FigureMaker::reach_goal(Goal& goal, const TrackerLine& line, double train_s) const {
  goal.reached = true;
  goal.epoch = line.epoch;
  goal.step = line.step;
  goal.train_s = rounded_to_ns(train_s);
  goal.steps_s = steps_so_far();
}

void FigureMaker::add_claimed_goal(const TrackerLine& line, std::optional<double> total_s) {
  const auto field = [&](const char* key) { return line.goal.value(key, Json(nullptr)); };
  if (!field("metric").is_string() || !field("target").is_number()) return;
  Goal& goal = figures_.goal.emplace();
  goal.metric = field("metric").get<std::string>();
  goal.split = field("split") == spec::kTrainSplit ? spec::kTrainSplit : spec::kTestSplit;
  goal.target = field("target").get<double>();
  if (field("value").is_number()) goal.value = field("value").get<double>();
  goal.higher_is_better = spec::higher_is_better(goal.metric);
  reach_goal(goal, line, total_s.value_or(train_s_));
}

NamedNumbers FigureMaker::steps_so_far() const {
  NamedNumbers steps_s;
  for (const std::string_view kind : kStepKindNames) {
    const auto found = kinds_.find(kind);
    steps_s.emplace_back(kind, found == kinds_.end() ? 0.0 : rounded_to_ns(found->second));
  }
  return steps_s;
}

TrackerFigures FigureMaker::figures() {
  if (declared_) {
    if (!figures_.goal) figures_.goal.emplace();
    Goal& goal = *figures_.goal;
    goal.metric = declared_->metric;
    goal.split = declared_->split;
    goal.target = declared_->target;
    goal.higher_is_better = declared_->higher_is_better;
    goal.best = best_;
    if (best_ && !goal.reached) {
      goal.value = best_->value;
      goal.epoch = best_->epoch;
      goal.step = best_->step;
      goal.train_s = best_->train_s;
    }
  }
  figures_.train_s = rounded_to_ns(train_s_);
  figures_.steps_s = steps_so_far();
  return std::move(figures_);
}

}  // namespace

TrackerFigures tracker_figures(const std::vector<TrackerLine>& lines, int64_t started_us,
                               const std::optional<spec::GoalSpec>& declared) {
  FigureMaker maker(started_us, declared);
  for (const TrackerLine& line : lines) maker.add(line);
  return maker.figures();
}

std::optional<int64_t> tracker_samples(const std::vector<TrackerLine>& lines) {
  Increments samples;
  std::optional<int64_t> sum;
  for (const TrackerLine& line : lines) {
    if (line.samples) sum = sum.value_or(0) + static_cast<int64_t>(samples.take(static_cast<double>(*line.samples)));
  }
  return sum;
}

}  // namespace mlbench::record
