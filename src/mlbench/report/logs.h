#pragma once

// The logs of a run: what each rank wrote to each of its streams (base/run_folder.h), and all these logs as one.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/run_folder.h"

namespace mlbench::report {

struct LogFile {
  int64_t rank = -1;  // -1: the supervisor, whose only log counts as one of the first segment
  int64_t segment = 1;
  LogStream stream = LogStream::kStderr;
  std::filesystem::path path = {};
};
// The log whose file has this name, without its path; empty for the name of another file.
std::optional<LogFile> log_named(const std::string& name);
// The log files of a run, of one stream or of both, ordered by segment, rank and stream, with the supervisor's first.
std::vector<LogFile> log_files(const std::filesystem::path& run_dir, std::optional<LogStream> only = {});

// A line with its writer in front: "rank 0 out | LINE", "rank 0 err | LINE" or "supervisor | LINE".
std::string line_with_writer(const LogFile& log, std::string_view line);

// The time of day with which `line` begins, in seconds: "17:32:43.5", where a "[" and then a date may stand in front.
// Empty where the line begins with none.
std::optional<double> time_of_line(std::string_view line);

// All logs as one log: segment after segment, and within a segment in the order of the lines' times. A line without a
// time stays behind the line before it in its own log; logs without any times come one after the other, standard output
// of a rank before its standard error.
// The files are read side by side in little memory, also while they grow: a line that comes late stands late.
class CombinedLog {
 public:
  using Take = std::function<void(const LogFile& log, std::string_view line)>;

  // With `only`, the logs of that stream.
  explicit CombinedLog(const std::filesystem::path& run_dir, std::optional<LogStream> only = {});
  // Starts where another CombinedLog was when its cursor() gave `cursor`. Throws UserError when the text is no cursor.
  CombinedLog(const std::filesystem::path& run_dir, std::optional<LogStream> only, const std::string& cursor);
  // Starts about `last_bytes` bytes before the end, in the last segment: an equal share for each log that has bytes.
  CombinedLog(const std::filesystem::path& run_dir, std::optional<LogStream> only, int64_t last_bytes);
  CombinedLog(const CombinedLog&) = delete;
  CombinedLog& operator=(const CombinedLog&) = delete;
  ~CombinedLog();

  // Gives what is there now to `take`: whole lines without their line ends and, when the run is `over`, also a last
  // line that has none. A line longer than 64 KiB comes as several. Returns true when reading stopped because
  // `most_bytes` or more were given.
  bool read(bool over, int64_t most_bytes, const Take& take);

  // "SEGMENT:BYTES:BYTES,BYTES,...": the segment, and how much was given of the supervisor's log and of both of each
  // rank.
  std::string cursor() const;

 private:
  class Source;
  void find_sources();
  bool merge(bool over, int64_t most_bytes, int64_t& given, const Take& take);
  double on_one_line(double time_of_day, double before);

  std::filesystem::path run_dir_;
  std::optional<LogStream> only_;
  int64_t segment_ = 1;
  std::optional<int64_t> next_segment_;
  std::vector<std::unique_ptr<Source>> sources_;  // the ranks' logs of this segment, and the supervisor's
  std::vector<int64_t> offsets_;                  // where new sources begin, each at its place in the cursor
  std::optional<double> now_;                     // time of the latest line: seconds, counted on over midnight
  double segment_start_ = -std::numeric_limits<double>::infinity();
};

}  // namespace mlbench::report
