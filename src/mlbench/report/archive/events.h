#pragma once

// The raw events of an archive (zip.h): each of its results as a series by metric name and rank.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/legacy_names.h"
#include "mlbench/record/record.h"
#include "mlbench/report/archive/zip.h"

namespace mlbench::report {

// Each duration in an archive is below this, three years. Sums of nine such durations fit into int64_t nanoseconds.
inline constexpr double kMostSeconds = 1e8;

inline constexpr const char* kEpochTime = "CumulativeTrainTimeEpoch";
inline constexpr const char* kTotalTime = "TotalCumulativeTrainTime";

struct ArchivePoint {
  std::chrono::system_clock::time_point date;
  std::string value;
};

// The members "result_NAME @ RANK.json" of an archive as series, beside run.json and official_result.txt. Constructor
// and getters throw UserError, naming the member, where it is malformed.
class ArchiveEvents {
 public:
  explicit ArchiveEvents(const std::vector<ZipMember>& members);

  const std::optional<record::Record>& record() const { return record_; }  // run.json
  const std::optional<std::string>& claim() const { return claim_; }       // official_result.txt without its line end

  // The series `name` of rank 0: whether it exists, its points, their values as numbers. Empty if it does not exist.
  bool has(const std::string& name) const { return series_.contains({name, 0}); }
  const std::vector<ArchivePoint>& points(const std::string& name) const;
  std::vector<double> numbers(const std::string& name) const;
  // Rank 0's values as durations in seconds, each of which must lie from 0 to kMostSeconds.
  std::vector<double> seconds(const std::string& name) const;
  // The last value of seconds(name), for totals; empty without values.
  std::optional<double> total(const std::string& name) const;

  std::set<int64_t> ranks_with(const std::string& name) const;
  // The names of all series, for error messages: "agg, train_loss" or "none".
  std::string names() const;

  static std::string member_of(const std::string& name) { return "result_" + record::with_rank({name, 0}) + ".json"; }
  // Throws UserError with `text` about the member `member`.
  [[noreturn]] static void fail(const std::string& member, const std::string& text);

 private:
  std::map<std::pair<std::string, int64_t>, std::vector<ArchivePoint>> series_;
  std::optional<record::Record> record_;
  std::optional<std::string> claim_;
};

}  // namespace mlbench::report
