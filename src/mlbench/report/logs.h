#pragma once

// What the ranks of a run wrote: RUN/logs/rank-R.seg-S.log, and all of them as one.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlbench::report {

struct LogFile {
  int64_t rank = -1;  // -1: the supervisor, whose one log counts to the first segment
  int64_t segment = 1;
  std::filesystem::path path;
};
// By segment, then rank, the supervisor first.
std::vector<LogFile> log_files(const std::filesystem::path& run_dir);

// A line of several ranks' logs: "rank 0 | LINE", "supervisor | LINE".
std::string line_with_rank(int64_t rank, std::string_view line);

// The time of day with which a line begins, in seconds: "17:32:43.5", also behind a date, and either also behind "[".
std::optional<double> time_of_line(std::string_view line);

// The logs of all ranks as one: segment after segment, within one in the order of the times of lines. A line without a
// time stays behind the line before it in its own log; logs without any come one after the other. Reads the files side
// by side in little memory, also while they grow: what comes late stands late.
class CombinedLog {
 public:
  using Take = std::function<void(int64_t rank, std::string_view line)>;  // rank as in LogFile

  explicit CombinedLog(const std::filesystem::path& run_dir);
  // From where another one was (cursor()). UserError when the text is no cursor.
  CombinedLog(const std::filesystem::path& run_dir, const std::string& cursor);
  // About the last so many bytes, of the last segment alone.
  CombinedLog(const std::filesystem::path& run_dir, int64_t last_bytes);
  CombinedLog(const CombinedLog&) = delete;
  CombinedLog& operator=(const CombinedLog&) = delete;
  ~CombinedLog();

  // Hands out what is there now: whole lines without their ends, and when the run is `over` also those that have none.
  // A line longer than 64 KiB comes as several. Returns true when it stopped because it gave `most_bytes` or more.
  bool read(bool over, int64_t most_bytes, const Take& take);

  // "SEGMENT:BYTES:BYTES,BYTES,...": the segment, how much was handed out of the supervisor's log and of each rank's.
  std::string cursor() const;

 private:
  class Source;
  void find_sources();
  bool merge(bool over, int64_t most_bytes, int64_t& given, const Take& take);
  double on_one_line(double time_of_day, double before);

  std::filesystem::path run_dir_;
  int64_t segment_ = 1;
  std::optional<int64_t> next_segment_;
  std::vector<std::unique_ptr<Source>> sources_;  // of this segment and the supervisor
  std::vector<int64_t> offsets_;                  // where new ones begin: the supervisor, then by rank
  std::optional<double> now_;                     // time of the latest line, in seconds over days
  double segment_start_ = -std::numeric_limits<double>::infinity();
};

}  // namespace mlbench::report
