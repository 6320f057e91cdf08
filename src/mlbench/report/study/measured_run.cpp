#include "mlbench/report/study/measured_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/to_number.h"
#include "mlbench/record/legacy_names.h"
#include "mlbench/record/record.h"
#include "mlbench/record/spool.h"
#include "mlbench/report/archive/result.h"
#include "mlbench/report/archive/unpack.h"
#include "mlbench/report/collectives/result.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/records.h"
#include "mlbench/spec/split.h"

namespace mlbench::report {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostPoints = 400;

// Merges consecutive pieces into weighted means, so that at most kMostPoints are left.
class LossMerger {
 public:
  void add(double train_s, double loss_sum, double samples) { pieces_.push_back({train_s, loss_sum, samples}); }
  std::vector<LossPoint> points() const {
    const size_t group = (pieces_.size() + kMostPoints - 1) / kMostPoints;
    std::vector<LossPoint> merged;
    for (size_t i = 0; i < pieces_.size(); i += group) {
      double loss = 0, samples = 0;
      const size_t end = std::min(i + group, pieces_.size());
      for (size_t j = i; j < end; ++j) {
        loss += pieces_[j].loss_sum;
        samples += pieces_[j].samples;
      }
      if (samples > 0) merged.push_back({pieces_[end - 1].train_s, loss / samples});
    }
    return merged;
  }

 private:
  struct Piece {
    double train_s, loss_sum, samples;
  };
  std::vector<Piece> pieces_;
};

// ---- archives -------------------------------------------------------------------------------------------------------

struct DatedValue {
  double unix_s = 0;
  double value = 0;
};

using Archive = std::map<std::string, std::string>;

// The points in "result_NAME @ 0.json" by date. Points whose value is no number are left out; NaN is a number.
std::vector<DatedValue> series_of(const Archive& archive, const std::string& name) {
  const auto member = archive.find("result_" + record::with_rank({name, 0}) + ".json");
  if (member == archive.end()) return {};
  const Json json = try_parse_json(member->second, inputs::kArchiveMember).value_or(nullptr);
  std::vector<DatedValue> series;
  if (!json.is_array()) return series;
  for (const Json& point : json) {
    if (!point.is_object()) continue;
    const std::string date = text(point, "/date"), value = text(point, "/value");
    const auto number = to_number<double>(value);
    if (!number) continue;
    try {
      const auto time = parse_utc(date).time_since_epoch();
      series.push_back({std::chrono::duration<double>(time).count(), *number});
    } catch (const UserError&) {
      continue;
    }
  }
  std::stable_sort(series.begin(), series.end(), [](const auto& a, const auto& b) { return a.unix_s < b.unix_s; });
  return series;
}

// Converts dates to the train clock, which is 0 at the first epoch's start, known at the ends of epochs, and linear
// between them.
class TrainClock {
 public:
  explicit TrainClock(const std::vector<DatedValue>& epoch_times) {
    double train_s = 0;
    for (const DatedValue& epoch : epoch_times) {
      if (!std::isfinite(epoch.value)) continue;
      if (anchors_.empty()) anchors_.push_back({epoch.unix_s - epoch.value, 0});
      train_s += epoch.value;
      anchors_.push_back({epoch.unix_s, train_s});
    }
  }
  bool known() const { return !anchors_.empty(); }
  double at(double unix_s) const {
    if (unix_s <= anchors_.front().unix_s) return 0;
    for (size_t i = 1; i < anchors_.size(); ++i) {
      const DatedValue &from = anchors_[i - 1], &to = anchors_[i];
      if (unix_s > to.unix_s) continue;
      const double share = to.unix_s > from.unix_s ? (unix_s - from.unix_s) / (to.unix_s - from.unix_s) : 1;
      return from.value + share * (to.value - from.value);
    }
    return anchors_.back().value;
  }

 private:
  std::vector<DatedValue> anchors_;
};

// Makes a record from an archive of MLBench's dashboard: from its result (archive/result.h) and its evaluations.
record::Record record_of_dashboard(const std::vector<ZipMember>& members, const Archive& archive,
                                   const TrainClock& clock, const std::string& name) {
  const Json result = derive_result(members);
  record::Record record;
  record.name = name;
  record.state = "finished";
  record.task = text(result, "/task");
  record.division = "closed";
  record.workers = integer_of(result.value("workers", Json(nullptr)));
  if (result.contains("collectives")) {  // task 0, which trains nothing
    record.collectives.emplace().rows = collective_rows_of(result["collectives"]["results"], name);
    return record;
  }
  record.limits.light = result.value("light", Json(nullptr)) == true;
  record.clocks.train_s = record.clocks.train_legacy_s = number(result, "/seconds/total");
  if (!text(result, "/goal/metric").empty()) {
    record::Goal& goal = record.goal.emplace();
    goal.metric = text(result, "/goal/metric");
    goal.split = text(result, "/goal/split");
    goal.target = number(result, "/goal/target");
    goal.higher_is_better = result["goal"].value("higher_is_better", Json(nullptr)) == true;
    goal.reached = result["goal"].value("reached", Json(nullptr)) == true;
    goal.value = number(result, "/goal/value");
    goal.train_s = record.clocks.train_s;
  }
  // The sums of the whole run fill gaps, where the derived times cover the whole run.
  const bool whole = result.value("epochs", Json(nullptr)) == series_of(archive, "CumulativeTrainTimeEpoch").size();
  for (const std::string_view kind : record::kStepKindNames) {
    auto sum_s = number(result, fmt::format("/steps_s/{}", kind).c_str());
    const std::vector<DatedValue> sum = series_of(archive, "global_cum_" + std::string(kind));
    if (!sum_s && whole && !sum.empty() && std::isfinite(sum.back().value)) sum_s = sum.back().value;
    if (sum_s) record.steps_s.emplace_back(kind, *sum_s);
  }
  const std::string metric = record.goal ? record.goal->metric : "";
  double epoch = 0;
  for (const DatedValue& point :
       series_of(archive, record::legacy_name_of({spec::kTestSplit, metric, record::kAllRanks}).name)) {
    record::Evaluation& evaluation = record.evaluations.emplace_back();
    evaluation.epoch = ++epoch;
    evaluation.split = spec::kTestSplit;
    if (clock.known()) evaluation.train_s = clock.at(point.unix_s);
    const bool finite = std::isfinite(point.value);
    evaluation.metrics = {{metric, finite ? point.value : std::numeric_limits<double>::quiet_NaN()}};
  }
  return record;
}

// Rank 0's steps of a segment, also of packed ones, which are unpacked to `scratch`. Empty where an older program wrote
// the packed ones.
std::vector<record::StepRecord> steps_of(const fs::path& run_dir, int64_t segment, const fs::path& scratch) {
  if (fs::exists(steps_path(run_dir, segment, 0))) return record::read_spool(run_dir, segment, 0).steps;
  fs::create_directories(spool_dir(scratch));
  if (!unpack(steps_path(run_dir, segment, 0), steps_path(scratch, segment, 0), inputs::kStepFile)) return {};
  try {
    return record::read_spool(scratch, segment, 0).steps;
  } catch (const UserError&) {
    return {};
  }
}

}  // namespace

MeasuredRun read_run_folder(const fs::path& run_dir) {
  MeasuredRun run{read_record(run_dir), {}, run_dir.string()};
  const TemporaryFolder scratch;
  LossMerger merger;
  double train_s = 0;
  for (int64_t segment = 1; segment <= record::segment_count(run.record); ++segment) {
    for (const record::StepRecord& step : steps_of(run_dir, segment, scratch.path())) {
      train_s += to_seconds(step.total_ns());
      merger.add(train_s, step.loss_sum, static_cast<double>(step.samples));
    }
  }
  run.loss = merger.points();
  if (run.loss.empty()) run.loss = read_run_record(run.record).loss;
  return run;
}

MeasuredRun read_run_archive(const std::vector<ZipMember>& members, const std::string& name) {
  Archive archive;
  for (const ZipMember& member : members) archive[member.name] = member.content;
  const TrainClock clock(series_of(archive, "CumulativeTrainTimeEpoch"));
  MeasuredRun run;
  if (const auto record = archive.find(std::string(kRecordFile)); record != archive.end()) {
    const Json json = try_parse_json(record->second, inputs::kArchiveMember).value_or(nullptr);
    run.record = record::record_from_json(json, "the archive's member 'run.json'");
  } else {
    run.record = record_of_dashboard(members, archive, clock, name);
  }
  if (clock.known()) {
    LossMerger merger;
    for (const DatedValue& point : series_of(archive, "train_loss")) merger.add(clock.at(point.unix_s), point.value, 1);
    run.loss = merger.points();
  }
  if (run.loss.empty()) run.loss = read_run_record(run.record).loss;
  return run;
}

MeasuredRun read_run_record(record::Record record) {
  MeasuredRun run{std::move(record), {}, ""};
  for (const record::Epoch& epoch : run.record.epochs) {
    if (!epoch.train_s) continue;
    run.loss.push_back({*epoch.train_s, epoch.train_loss.value_or(std::numeric_limits<double>::quiet_NaN())});
  }
  return run;
}

std::vector<MeasuredRun> read_runs(const fs::path& path, std::vector<std::string>& notes) {
  std::error_code error;
  const auto is_record = [](const fs::path& file) { return file.extension() == ".json"; };
  const auto read_one = [&](const fs::path& file) {
    try {
      MeasuredRun run =
          is_record(file)
              ? read_run_record(record::record_from_json(read_json_file(file, inputs::kRecord), "the record"))
              : read_run_archive(read_zip(read_file(file, inputs::kArchive)), file.stem().string());
      if (!run.record.workers) throw UserError("it is no run record");
      run.source = file.string();
      return run;
    } catch (const UserError& wrong) {
      throw UserError(fmt::format("{}: {}", file.string(), wrong.what()));
    }
  };
  if (fs::is_regular_file(path, error)) return {read_one(path)};
  if (!fs::is_directory(path, error)) {
    throw UserError(
        fmt::format("{}: no such file or folder; expected a run folder, an archive of 'mlbench download', "
                    "a run record (.json), a home, or a folder of these",
                    path.string()));
  }
  if (fs::is_regular_file(record_path(path), error)) return {read_run_folder(path)};

  std::vector<fs::path> folders, files;
  const fs::path in = fs::is_directory(runs_dir(path), error) ? runs_dir(path) : path;
  if (in != path) {
    folders = list_runs(path);
  } else {
    for (const auto& entry : fs::directory_iterator(in, error)) {
      if (entry.path().filename().string().starts_with('.')) continue;
      if (fs::is_regular_file(record_path(entry.path()), error)) folders.push_back(entry.path());
      const bool file = entry.is_regular_file(error);
      if (file && (entry.path().extension() == ".zip" || is_record(entry.path()))) files.push_back(entry.path());
    }
    std::sort(folders.begin(), folders.end());
    std::sort(files.begin(), files.end());
  }
  std::vector<MeasuredRun> runs;
  const auto keep = [&](const fs::path& one, const auto& read) {
    try {
      runs.push_back(read(one));
    } catch (const std::exception& wrong) {
      notes.push_back(fmt::format("{} is left out: {}", one.string(), wrong.what()));
    }
  };
  for (const fs::path& folder : folders) keep(folder, read_run_folder);
  for (const fs::path& file : files) keep(file, read_one);
  if (folders.empty() && files.empty()) {
    throw UserError(
        fmt::format("{} holds no runs: expected a run folder, a home, or a folder of run folders, archives "
                    "(.zip) or records (.json)",
                    path.string()));
  }
  return runs;
}

}  // namespace mlbench::report
