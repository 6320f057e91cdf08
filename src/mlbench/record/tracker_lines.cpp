#include "mlbench/record/tracker_lines.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "mlbench/base/input.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/record/legacy_names.h"
#include "mlbench/record/measured_value.h"
#include "mlbench/record/spool.h"
#include "mlbench/spec/goal.h"

namespace mlbench::record {

namespace {

constexpr double kMostSeconds = 1e11;
constexpr size_t kMostNameBytes = 250, kMostTextBytes = 64 * inputs::kKiB;
constexpr size_t kMostLines = 1'000'000;
// Of a record: a script may write for weeks.
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

// Takes line after line.
class TrackerFigures {
 public:
  explicit TrackerFigures(int64_t started_us) : started_us_(started_us) {}
  void add(const TrackerLine& line);
  Json json() const;

 private:
  // Whether a record takes another row of `metrics`; one that it does not take is counted.
  bool has_room(const Json& rows, const Json& metrics);
  void add_epoch(const TrackerLine& line, double epoch_s);
  void add_evaluation(const TrackerLine& line, const Json& evaluated);
  void add_goal(const TrackerLine& line, std::optional<double> total_s);
  Json steps_json() const;  // so far

  int64_t started_us_;
  Json goal_ = nullptr, result_ = nullptr, evaluations_ = Json::array(), epochs_ = Json::array();
  std::map<std::string, double, std::less<>> kinds_;
  Json trained_ = Json::object();  // of the current epoch
  double train_s_ = 0;
  int64_t steps_ = 0, left_out_ = 0;
  size_t recorded_ = 0;  // values in rows
};

bool TrackerFigures::has_room(const Json& rows, const Json& metrics) {
  const bool room = rows.size() < kMostRows && recorded_ + metrics.size() <= kMostRecordedValues;
  room ? recorded_ += metrics.size() : ++left_out_;
  return room;
}

void TrackerFigures::add(const TrackerLine& line) {
  steps_ = std::max(steps_, line.step);
  Json evaluated = Json::object();
  std::optional<double> epoch_s, total_s;
  for (const auto& [name, value] : line.values) {
    const SeriesKey key = key_of_legacy_name(name, 0);
    const bool finite = std::isfinite(value);
    if (key.split.empty() && !finite) continue;  // times are numbers
    const Json metric = finite ? Json(value) : Json(nullptr);
    if (name == "CumulativeTrainTimeEpoch") {
      epoch_s = value;
    } else if (name == "TotalCumulativeTrainTime") {
      total_s = value;
    } else if (key.split == kTestSplit && key.rank == kAllRanks) {
      evaluated[key.metric] = metric;
    } else if (key.split == kTrainSplit) {
      trained_[key.metric] = metric;
    } else if (std::find(kStepKindNames.begin(), kStepKindNames.end(), name) != kStepKindNames.end()) {
      kinds_[name] += value;
    }
  }
  if (epoch_s) add_epoch(line, *epoch_s);
  if (!evaluated.empty() && has_room(evaluations_, evaluated)) add_evaluation(line, evaluated);
  if (const auto text = line.text.find("TaskResult"); text != line.text.end() && result_.is_null()) {
    result_ = text->second;
  }
  if (line.goal.is_object() && goal_.is_null()) add_goal(line, total_s);
}

void TrackerFigures::add_epoch(const TrackerLine& line, double epoch_s) {
  train_s_ += epoch_s;
  if (has_room(epochs_, trained_)) {
    epochs_.push_back({{"epoch", line.epoch + 1},
                       {"train_loss", trained_.value("loss", Json(nullptr))},
                       {"metrics", std::move(trained_)},
                       {"train_s", rounded_to_ns(train_s_)},
                       {"step", line.step},
                       {"segment", 1}});
  }
  trained_ = Json::object();
}

void TrackerFigures::add_evaluation(const TrackerLine& line, const Json& evaluated) {
  const bool same =
      !evaluations_.empty() && evaluations_.back()["step"] == line.step && evaluations_.back()["epoch"] == line.epoch;
  if (!same) {
    const double wall_s = static_cast<double>(line.time_us - started_us_) / 1e6;
    evaluations_.push_back({{"step", line.step},
                            {"epoch", line.epoch},
                            {"samples", 0},
                            {"split", "test"},
                            {"train_s", rounded_to_ns(train_s_)},
                            {"wall_s", std::max(0.0, wall_s)},
                            {"metrics", Json::object()},
                            {"duration_s", 0.0},
                            {"segment", 1}});
  }
  evaluations_.back()["metrics"].update(evaluated);
}

void TrackerFigures::add_goal(const TrackerLine& line, std::optional<double> total_s) {
  const auto field = [&](const char* key) { return line.goal.value(key, Json(nullptr)); };
  if (!field("metric").is_string() || !field("target").is_number()) return;
  goal_ = {{"metric", field("metric")},
           {"split", field("split") == "train" ? "train" : "test"},
           {"target", field("target")},
           {"reached", true},
           {"value", field("value").is_number() ? field("value") : Json(nullptr)},
           {"epoch", line.epoch},
           {"step", line.step},
           {"train_s", rounded_to_ns(total_s.value_or(train_s_))},
           {"steps_s", steps_json()}};
  if (const auto higher = spec::higher_is_better(field("metric").get<std::string>())) {
    goal_["higher_is_better"] = *higher;
  }
}

Json TrackerFigures::steps_json() const {
  Json steps_s = Json::object();
  for (const std::string_view kind : kStepKindNames) {
    const auto found = kinds_.find(kind);
    steps_s[std::string(kind)] = found == kinds_.end() ? 0.0 : rounded_to_ns(found->second);
  }
  return steps_s;
}

Json TrackerFigures::json() const {
  return {{"goal", goal_},
          {"clocks", {{"train_s", rounded_to_ns(train_s_)}, {"train_legacy_s", rounded_to_ns(train_s_)}}},
          {"steps_s", steps_json()},
          {"evaluations", evaluations_},
          {"epochs", epochs_},
          {"steps", steps_},
          {"result", result_},
          {"left_out", left_out_}};
}

}  // namespace

Json tracker_figures(const std::vector<TrackerLine>& lines, int64_t started_us) {
  TrackerFigures figures(started_us);
  for (const TrackerLine& line : lines) figures.add(line);
  return figures.json();
}

}  // namespace mlbench::record
