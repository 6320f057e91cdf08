#include "mlbench/report/logs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <regex>
#include <set>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/growing_lines.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/to_number.h"

namespace mlbench::report {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostLine = size_t{64} << 10;  // of a line that is given as one
constexpr size_t kMostRead = size_t{8} << 20, kLeastPiece = 1024,
                 kMostPiece = kMostLine;  // read at a time: from all files, from one
constexpr size_t kMostCursorLogs = 200'000;
constexpr int64_t kMostCursorNumber = int64_t{1} << 40;
constexpr double kDaySeconds = 86'400, kDisorderSeconds = 600;
constexpr double kNever = -std::numeric_limits<double>::infinity();

// Takes two digits from the front of `text`, whose value must be below `limit`, and then `behind` unless it is '\0'.
// Empty where they are not there.
std::optional<int> two_digits(std::string_view& text, int limit, char behind) {
  const auto digit = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  if (!digit(0) || !digit(1)) return std::nullopt;
  const int value = (text[0] - '0') * 10 + (text[1] - '0');
  if (value >= limit) return std::nullopt;
  text.remove_prefix(2);
  if (behind != '\0') {
    if (!text.starts_with(behind)) return std::nullopt;
    text.remove_prefix(1);
  }
  return value;
}

// Takes a date from the front of `text`: "2026-11-21T" or "2026-11-21 ".
void skip_date(std::string_view& text) {
  std::string_view rest = text;
  if (two_digits(rest, 100, '\0') && two_digits(rest, 100, '-') && two_digits(rest, 13, '-') &&
      two_digits(rest, 32, '\0') && (rest.starts_with('T') || rest.starts_with(' '))) {
    text = rest.substr(1);
  }
}

int64_t number_in(const std::string& cursor, std::string_view text) {
  const auto value = to_number<int64_t>(text);
  if (!value || *value < 0 || *value > kMostCursorNumber) {
    throw UserError(fmt::format("'{}' is no cursor of a combined log", cursor.substr(0, 40)));
  }
  return *value;
}

// Where a log's bytes stand in a cursor: the supervisor's first, then those of each rank's streams.
size_t place_of(const LogFile& log) {
  if (log.rank < 0) return 0;
  return 1 + std::size(kLogStreams) * static_cast<size_t>(log.rank) + static_cast<size_t>(log.stream);
}

}  // namespace

std::optional<LogFile> log_named(const std::string& name) {
  static const std::regex kName(R"(rank-(\d{1,5})\.seg-(\d{1,9})\.(out|err|log))");
  if (name == kSupervisorLog) return LogFile{};
  std::smatch match;
  if (!std::regex_match(name, match, kName)) return std::nullopt;
  // Earlier programs wrote both streams of a rank to one log.
  const LogStream stream = match[3] == "out" ? LogStream::kStdout : LogStream::kStderr;
  return LogFile{.rank = std::stoll(match[1]), .segment = std::stoll(match[2]), .stream = stream};
}

std::vector<LogFile> log_files(const fs::path& run_dir, std::optional<LogStream> only) {
  std::vector<LogFile> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(logs_dir(run_dir), error)) {
    auto log = log_named(entry.path().filename());
    if (!log || (only && log->stream != *only)) continue;
    log->path = entry.path();
    files.push_back(std::move(*log));
  }
  std::ranges::sort(files, {}, [](const LogFile& log) { return std::pair(log.segment, place_of(log)); });
  return files;
}

std::string line_with_writer(const LogFile& log, std::string_view line) {
  if (log.rank < 0) return fmt::format("supervisor | {}", line);
  return fmt::format("rank {} {} | {}", log.rank, log.stream == LogStream::kStdout ? "out" : "err", line);
}

std::optional<double> time_of_line(std::string_view line) {
  if (line.starts_with('[')) line.remove_prefix(1);
  skip_date(line);
  const auto hours = two_digits(line, 24, ':');
  const auto minutes = hours ? two_digits(line, 60, ':') : std::nullopt;
  const auto seconds = minutes ? two_digits(line, 61, '\0') : std::nullopt;
  if (!seconds) return std::nullopt;
  double fraction = 0, unit = 1;
  if (line.starts_with('.') || line.starts_with(',')) {
    for (line.remove_prefix(1); !line.empty() && line[0] >= '0' && line[0] <= '9'; line.remove_prefix(1)) {
      fraction += (line[0] - '0') * (unit /= 10);
    }
  }
  return *hours * 3600.0 + *minutes * 60.0 + *seconds + fraction;
}

// Reads one log file: holds its next line, and the time by which that line is ordered.
class CombinedLog::Source {
 public:
  Source(LogFile file, int64_t offset) : file_(std::move(file)), offset_(offset) {}
  const LogFile& file() const { return file_; }
  int64_t offset() const { return offset_ + static_cast<int64_t>(used_); }
  double time = kNever;  // of the next line

  // Whether there is a next line. Reads `piece` bytes at a time. A line without its end counts when the log is `over`.
  bool peek(bool over, size_t piece = kMostPiece) {
    for (;;) {
      const size_t end = text_.find('\n', used_);
      const size_t left = std::min(end, text_.size()) - used_;
      if (left > kMostLine) return found(kMostLine, 0);
      if (end != std::string::npos) return found(left, 1);
      text_.erase(0, used_);
      offset_ += static_cast<int64_t>(std::exchange(used_, 0));
      const std::string more = read_from(file_.path, static_cast<std::uintmax_t>(offset_) + left, piece);
      text_ += more;
      if (more.empty()) return over && left > 0 && found(left, 0);
    }
  }
  std::string_view line() const { return std::string_view(text_).substr(used_, length_); }
  void next() { used_ += length_ + end_; }
  // Goes from the middle of a line to the beginning of the next one.
  void skip_line() {
    if (offset() > 0 && peek(true)) next();
  }

 private:
  bool found(size_t length, size_t end) {
    length_ = length;
    end_ = end;
    return true;
  }

  LogFile file_;
  int64_t offset_;  // in the file, of the first byte in text_
  std::string text_;
  size_t used_ = 0;              // bytes of text_ that were given
  size_t length_ = 0, end_ = 0;  // bytes of the next line and of its line end
};

CombinedLog::CombinedLog(const fs::path& run_dir, std::optional<LogStream> only) : run_dir_(run_dir), only_(only) {
  find_sources();
}

CombinedLog::CombinedLog(const fs::path& run_dir, std::optional<LogStream> only, const std::string& cursor)
    : run_dir_(run_dir), only_(only) {
  const size_t first = cursor.find(':'), second = first == std::string::npos ? first : cursor.find(':', first + 1);
  if (second == std::string::npos) number_in(cursor, "");
  const std::string_view text = cursor;
  segment_ = std::max<int64_t>(1, number_in(cursor, text.substr(0, first)));
  offsets_.push_back(number_in(cursor, text.substr(first + 1, second - first - 1)));
  for (std::string_view rest = text.substr(second + 1); !rest.empty() && offsets_.size() <= kMostCursorLogs;) {
    const size_t end = std::min(rest.find(','), rest.size());
    offsets_.push_back(number_in(cursor, rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  find_sources();
}

CombinedLog::CombinedLog(const fs::path& run_dir, std::optional<LogStream> only, int64_t last_bytes)
    : run_dir_(run_dir), only_(only) {
  std::vector<LogFile> files = log_files(run_dir, only);
  for (const LogFile& file : files) segment_ = std::max(segment_, file.segment);
  std::erase_if(files, [&](const LogFile& file) {
    return (file.rank >= 0 && file.segment != segment_) || bytes_in(file.path) == 0;
  });
  const int64_t share = last_bytes / std::max<int64_t>(1, std::ssize(files));
  for (const LogFile& file : files) {
    const int64_t bytes = bytes_in(file.path);
    if (bytes <= share) continue;
    const size_t place = place_of(file);
    if (offsets_.size() <= place) offsets_.resize(place + 1);
    offsets_[place] = bytes - share;
  }
  find_sources();
  for (const auto& source : sources_) source->skip_line();
}

CombinedLog::~CombinedLog() = default;

void CombinedLog::find_sources() {
  std::set<size_t> known;
  for (const auto& source : sources_) known.insert(place_of(source->file()));
  for (LogFile& file : log_files(run_dir_, only_)) {
    if (file.segment > segment_ && !next_segment_) next_segment_ = file.segment;
    if (file.rank >= 0 && file.segment != segment_) continue;
    const size_t place = place_of(file);
    if (known.contains(place)) continue;
    const int64_t offset = place < offsets_.size() ? offsets_[place] : 0;
    sources_.push_back(std::make_unique<Source>(std::move(file), offset));
  }
  std::ranges::sort(sources_, {}, [](const auto& source) { return place_of(source->file()); });
}

// Turns a time of day into seconds that count on over midnight: the moment nearest to the latest line. Where that is
// clearly before `before` (the log's line before) or before the segment's start, a day is added.
double CombinedLog::on_one_line(double time_of_day, double before) {
  if (!now_) now_ = time_of_day;
  const double nearest = *now_ + std::remainder(time_of_day - *now_, kDaySeconds);
  return nearest < std::max(before, segment_start_) - kDisorderSeconds ? nearest + kDaySeconds : nearest;
}

bool CombinedLog::merge(bool over, int64_t most_bytes, int64_t& given, const Take& take) {
  const bool segment_over = over || next_segment_;
  std::set<std::pair<double, size_t>> next;
  const size_t piece = std::clamp(kMostRead / std::max<size_t>(1, sources_.size()), kLeastPiece, kMostPiece);
  const auto has_line = [&](size_t i) {
    return sources_[i]->peek(sources_[i]->file().rank < 0 ? over : segment_over, piece);
  };
  const auto add = [&](size_t i) {
    Source& source = *sources_[i];
    if (const auto time = time_of_line(source.line())) source.time = on_one_line(*time, source.time);
    next.emplace(source.time, i);
  };
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (has_line(i)) add(i);
  }
  while (!next.empty()) {
    const auto [time, i] = *next.begin();
    Source& source = *sources_[i];
    const bool supervisor = source.file().rank < 0;
    if (supervisor && next.size() == 1 && next_segment_) break;  // the line may belong to a later segment
    next.erase(next.begin());
    if (std::isfinite(time)) now_ = time;
    bool more = true;
    do {
      take(source.file(), source.line());
      given += std::ssize(source.line()) + 1;
      source.next();
      if (given >= most_bytes) return true;
      more = has_line(i);
    } while (more && !time_of_line(source.line()));
    if (more) add(i);
  }
  return false;
}

bool CombinedLog::read(bool over, int64_t most_bytes, const Take& take) {
  int64_t given = 0;
  for (;;) {
    find_sources();
    if (merge(over, most_bytes, given, take)) return true;
    if (!next_segment_) return false;
    segment_ = *std::exchange(next_segment_, std::nullopt);
    segment_start_ = now_.value_or(kNever);
    std::erase_if(sources_, [](const auto& source) { return source->file().rank >= 0; });
    offsets_.clear();
  }
}

std::string CombinedLog::cursor() const {
  std::vector<int64_t> offsets = offsets_;
  for (const auto& source : sources_) {
    const size_t place = place_of(source->file());
    if (offsets.size() <= place) offsets.resize(place + 1);
    offsets[place] = source->offset();
  }
  if (offsets.empty()) offsets.push_back(0);
  return fmt::format("{}:{}:{}", segment_, offsets[0], fmt::join(offsets.begin() + 1, offsets.end(), ","));
}

}  // namespace mlbench::report
