#include "mlbench/report/archive/zip.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "mlbench/base/atomic_file.h"
#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/growing_lines.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/record/build_record.h"
#include "mlbench/record/legacy_names.h"
#include "mlbench/record/points.h"
#include "mlbench/record/spool.h"
#include "mlbench/record/step_reader.h"
#include "mlbench/record/tracker_lines.h"
#include "mlbench/record/usage_lines.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/logs.h"
#include "mlbench/report/notes.h"
#include "mlbench/report/records.h"
#include "mlbench/spec/split.h"

namespace mlbench::report {

namespace {

constexpr size_t kMostNameBytes = 255;
constexpr size_t kReadBytes = 64 << 10;
constexpr uint32_t kStepsPerPoint = 25;  // as MLBench posts

// "2026-01-31T12:00:00.123Z": with milliseconds, truncated; without them where they are 0.
std::string archive_date(int64_t unix_us) {
  const std::chrono::system_clock::time_point time{std::chrono::microseconds(unix_us)};
  const std::string stamp = format_utc(time);  // six digits
  return stamp.substr(20, 3) == "000" ? stamp.substr(0, 19) + "Z" : stamp.substr(0, 23) + "Z";
}

// Series by metric name, each "NAME @ RANK".
class Series {
 public:
  void add(const record::LegacyName& name, int64_t date_us, double value) {
    points_[record::with_rank(name)].push_back({date_us, value});
  }
  SeriesByName& points() { return points_; }

 private:
  SeriesByName points_;
};

// Replaces all characters that may mean something in a path: metric names come from a record, which is not trusted.
std::string safe(std::string name) {
  const auto good = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '@' || c == ' ' ||
           c == '_' || c == '-';
  };
  std::replace_if(
      name.begin(), name.end(), [&](char c) { return !good(c); }, '_');
  return name.substr(0, 100);
}

}  // namespace

ZipPart text_part(std::string name, std::string text) {
  return {std::move(name), [text = std::make_shared<const std::string>(std::move(text)), used = size_t{0}]() mutable {
            std::string piece = text->substr(used, kReadBytes);
            used += piece.size();
            return piece;
          }};
}

namespace {

// What the log holds now. It may grow while the part is read.
ZipPart log_part(const std::filesystem::path& log) {
  return {log.filename(), [log, left = bytes_in(log), used = std::uintmax_t{0}]() mutable {
            std::string piece = read_from(log, used, std::min(kReadBytes, static_cast<size_t>(left)));
            used += piece.size();
            left -= std::ssize(piece);
            return piece;
          }};
}

struct EpochSums {
  std::array<int64_t, record::kStepKinds> kinds_ns{};
  int64_t end_us = 0;
};

// What add_totals() needs of a rank's steps.
struct RankTotals {
  int64_t last_date_us = 0;  // 0: no step
  std::array<int64_t, record::kStepKinds> kinds_ns{};
};

RankTotals add_rank(Series& series, const std::filesystem::path& run_dir, int64_t segments, int64_t rank) {
  RankTotals totals;
  std::map<uint32_t, EpochSums> epochs;
  const record::LegacyName train_loss = record::legacy_name_of({spec::kTrainSplit, "loss", rank});
  for (int64_t segment = 1; segment <= segments; ++segment) {
    record::StepReader steps(run_dir, segment, rank);
    double loss = 0, samples = 0;
    uint32_t count = 0;
    for (auto record = steps.next(); record;) {
      const int64_t date = steps.header().start_wall_us + record->end_ns / 1000;
      loss += record->loss_sum;
      samples += static_cast<double>(record->samples);
      count += record->count;
      EpochSums& epoch = epochs[record->epoch];
      epoch.end_us = totals.last_date_us = date;
      for (size_t kind = 0; kind < record::kStepKinds; ++kind) {
        epoch.kinds_ns[kind] += record->kinds_ns[kind];
        totals.kinds_ns[kind] += record->kinds_ns[kind];
      }
      record = steps.next();
      if (count < kStepsPerPoint && record) continue;
      if (samples > 0) series.add(train_loss, date, loss / samples);
      loss = samples = count = 0;
    }
  }
  for (const auto& [number, epoch] : epochs) {
    int64_t total = 0;
    for (size_t kind = 0; kind < record::kStepKinds; ++kind) {
      total += epoch.kinds_ns[kind];
      series.add({std::string(record::kStepKindNames[kind]), rank}, epoch.end_us, to_seconds(epoch.kinds_ns[kind]));
    }
    series.add({"CumulativeTrainTimeEpoch", rank}, epoch.end_us, to_seconds(total));
  }
  return totals;
}

void add_totals(Series& series, const RankTotals& totals) {
  if (totals.last_date_us == 0) return;
  const auto add = [&](const std::string& name, int64_t ns) {
    series.add({name, 0}, totals.last_date_us, to_seconds(ns));
  };
  int64_t train_ns = 0;
  for (size_t kind = 0; kind < record::kStepKinds; ++kind) {
    train_ns += totals.kinds_ns[kind];
    add("global_cum_" + std::string(record::kStepKindNames[kind]), totals.kinds_ns[kind]);
  }
  add("global_cum_CumulativeTrainTimeEpoch", train_ns);
  add("TotalCumulativeTrainTime", train_ns - totals.kinds_ns[static_cast<size_t>(record::StepKind::kBatchLoad)] -
                                      totals.kinds_ns[static_cast<size_t>(record::StepKind::kCheckpoint)]);
}

// Adds the points of rank 0's events, which carry the dates that the record leaves out.
void add_events(Series& series, const std::filesystem::path& run_dir, int64_t segments) {
  record::Points points;
  for (int64_t segment = 1; segment <= segments; ++segment) {
    const record::SpoolHeader header = record::StepReader(run_dir, segment, 0).header();
    const record::Events events = record::read_events(run_dir, segment, 0);
    for (const Json& event : events.lines) record::add_points(points, event, header);
  }
  for (const auto& [key, values] : points) {
    const record::LegacyName name = record::legacy_name_of(key);
    for (const record::Point& point : values) series.add(name, point.time_us, point.value);
  }
}

int64_t mtime_of(const record::Record& record) {
  for (const std::string& stamp : {record.finished_at, record.started_at, record.created_at}) {
    if (!stamp.empty()) return unix_us(parse_utc(stamp)) / 1'000'000;
  }
  return 0;
}

Series series_of(const std::filesystem::path& run_dir, const record::Record& record) {
  const int64_t workers = record.workers.value_or(0);
  Series series;
  const bool custom = record.division == "custom";
  for (int64_t rank = 0; custom && rank < workers; ++rank) {
    for (const record::TrackerLine& line : record::read_tracker_lines(run_dir, rank).lines) {
      for (const auto& [name, value] : line.values) series.add({name, rank}, line.time_us, value);
    }
  }
  const int64_t segments = record::segment_count(record);
  for (int64_t rank = 0; !custom && rank < workers; ++rank) {
    const RankTotals totals = add_rank(series, run_dir, segments, rank);
    if (rank == 0) {
      add_totals(series, totals);
      add_events(series, run_dir, segments);
    }
  }
  return series;
}

// What the ranks used over time, by the name of the member without ".json".
SeriesByName usage_of(const std::filesystem::path& run_dir, const record::Record& record) {
  const auto workers = static_cast<size_t>(record.workers.value_or(0));
  SeriesByName series;
  LineCursor at;
  const auto add = [&](std::string_view text) {
    const auto line = record::parse_usage_line(text);
    for (size_t rank = 0; line && rank < std::min(workers, line->ranks.size()); ++rank) {
      const auto& [cores, bytes, in, out] = line->ranks[rank];
      if (cores) series[fmt::format("rank-{}_cpu", rank)].push_back({line->time_us, *cores});
      if (bytes) series[fmt::format("rank-{}_memory", rank)].push_back({line->time_us, double(*bytes) / (1 << 20)});
      if (in) series[fmt::format("rank-{}_network_in", rank)].push_back({line->time_us, *in / (1 << 20)});
      if (out) series[fmt::format("rank-{}_network_out", rank)].push_back({line->time_us, *out / (1 << 20)});
    }
  };
  while (read_lines(usage_path(run_dir), at, add)) {
  }
  return series;
}

// The member's name, which must have no meaning in a path. Nothing is unpacked to disk, but names are printed and
// handed on. Throws UserError where name or member are refused.
std::string checked_name(archive_entry* entry) {
  const char* given = archive_entry_pathname(entry);
  if (given == nullptr) throw UserError("the zip archive has a member whose name is no text");
  const std::string name = given;
  const auto bad = [](char c) { return c == '/' || c == '\\' || static_cast<unsigned char>(c) < ' ' || c == 0x7f; };
  const std::string shown = printable(name, 100);
  if (archive_entry_filetype(entry) != AE_IFREG) {
    throw UserError(fmt::format("the zip archive's member '{}' is no plain file", shown));
  }
  if (name.empty() || name == "." || name == ".." || std::any_of(name.begin(), name.end(), bad)) {
    throw UserError(fmt::format("the zip archive's member '{}' has a path: a run's archive has no folders", shown));
  }
  if (name.size() > kMostNameBytes) {
    throw UserError(
        fmt::format("the zip archive's member '{}...' has a name of more than {} bytes", shown, kMostNameBytes));
  }
  if (archive_entry_is_encrypted(entry) != 0) {
    throw UserError(fmt::format("the zip archive's member '{}' is encrypted", shown));
  }
  return name;
}

[[noreturn]] void archive_failed(archive* handle, const char* what) {
  const char* reason = archive_error_string(handle);
  throw IoError(fmt::format("cannot {} the zip: {}", what, reason != nullptr ? reason : "unknown reason"));
}

}  // namespace

std::string official_result(const record::Record& record) {
  if (record.division == "custom") return record.custom ? record.custom->result : "";
  const std::optional<double> total_s = record.clocks.train_legacy_s;
  if (!reached_goal(record) || !record.goal->target || !total_s || !ended_at_goal(record)) return "";
  const std::string& metric = record.goal->metric;
  const double target = *record.goal->target;
  const std::string split = record.goal->split == spec::kTrainSplit ? "Training" : "Validation";
  std::string out = metric.starts_with("Prec@")
                        ? fmt::format("{:g}% Top {} {} Accuracy reached in ", target, metric.substr(5), split)
                        : fmt::format("{} {} of {:g} reached in ", split, metric, target);
  out += fmt::format("{:.3f} seconds", *total_s);
  const auto part = [&](const char* name, std::initializer_list<const char*> kinds) {
    double seconds = 0;
    for (const char* kind : kinds) seconds += spec::find_number(record.steps_s, kind).value_or(0);
    if (seconds != 0) out += fmt::format(", {}: {} seconds", name, value_text(seconds));
  };
  part("Compute", {"fwd_pass", "comp_loss", "backprop", "opt_step"});
  part("Communication", {"agg"});
  part("Metrics Computation", {"comp_metrics"});
  part("Pre-processing", {"batch_load"});
  return out;
}

SeriesByName run_series(const std::filesystem::path& run_dir, const record::Record& record) {
  return std::move(series_of(run_dir, record).points());
}

std::string value_text(double value) { return fmt::format("{}", value); }

std::string point_text(const std::string& date, const std::string& value, bool cumulative) {
  const auto quoted = [](const std::string& text) {
    return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  return fmt::format("{{\n        \"date\": {},\n        \"value\": {},\n        \"cumulative\": {}\n    }}",
                     quoted(date), quoted(value), cumulative);
}

std::function<std::string()> json_list(size_t count, std::function<std::string(size_t)> value) {
  return [count, value = std::move(value), done = size_t{0}, ended = false]() mutable {
    std::string piece;
    if (ended) return piece;
    if (count == 0) piece = "[]";
    for (; done < count && piece.size() < kReadBytes; ++done) {
      piece += (done == 0 ? "[\n    " : ",\n    ") + value(done);
    }
    ended = done == count;
    if (ended && count > 0) piece += "\n]";
    return piece;
  };
}

Download download_of(const std::filesystem::path& run_dir, const record::Record& record) {
  Download download;
  const auto add = [&](std::string member, std::vector<SeriesPoint> series) {
    download.held_bytes += series.size() * sizeof(SeriesPoint);
    const auto points = std::make_shared<const std::vector<SeriesPoint>>(std::move(series));
    const auto one = [points](size_t i) {
      return point_text(archive_date((*points)[i].unix_us), value_text((*points)[i].value), false);
    };
    download.parts.push_back({std::move(member), json_list(points->size(), one)});
  };
  for (auto& [name, series] : run_series(run_dir, record)) add("result_" + safe(name) + ".json", std::move(series));
  for (auto& [name, series] : usage_of(run_dir, record)) add(name + ".json", std::move(series));
  if (const RunNotes notes = notes_or_none(run_dir); notes != RunNotes{}) {
    download.parts.push_back(text_part(std::string(kNotesFile), to_json(notes).dump(2) + "\n"));
  }
  for (const LogFile& log : log_files(run_dir)) {
    if (bytes_in(log.path) > 0) download.parts.push_back(log_part(log.path));
  }
  if (std::string official = official_result(record); !official.empty())
    download.parts.push_back(text_part("official_result.txt", std::move(official)));
  std::string json = to_json(record).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  download.held_bytes += json.size();
  download.parts.push_back(text_part(std::string(kRecordFile), std::move(json)));
  return download;
}

struct ZipStream::Impl {
  std::vector<ZipPart> parts;
  int64_t mtime;
  std::string bytes = {};  // made and not given out yet; archive_write_free() of `zip` may still write here
  std::unique_ptr<archive, decltype(&archive_write_free)> zip{archive_write_new(), archive_write_free};
  size_t part = 0;
  bool in_part = false, ended = false;

  void begin_part() {
    // The member's header, in front of the content, has its size.
    uint64_t size = 0;
    auto counted = parts[part].next;
    for (std::string piece; !(piece = counted()).empty();) size += piece.size();
    const std::unique_ptr<archive_entry, decltype(&archive_entry_free)> entry(archive_entry_new(), archive_entry_free);
    archive_entry_set_pathname(entry.get(), parts[part].name.c_str());
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0644);
    archive_entry_set_mtime(entry.get(), mtime, 0);
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(size));
    if (archive_write_header(zip.get(), entry.get()) != ARCHIVE_OK) archive_failed(zip.get(), "write");
    in_part = true;
  }

  void step() {
    if (part == parts.size()) {
      if (archive_write_close(zip.get()) != ARCHIVE_OK) archive_failed(zip.get(), "end");
      ended = true;
    } else if (!in_part) {
      begin_part();
    } else if (const std::string piece = parts[part].next(); !piece.empty()) {
      const la_ssize_t written = archive_write_data(zip.get(), piece.data(), piece.size());
      if (written != static_cast<la_ssize_t>(piece.size())) archive_failed(zip.get(), "write");
    } else {
      parts[part++].next = nullptr;
      in_part = false;
    }
  }
};

ZipStream::ZipStream(std::vector<ZipPart> parts, int64_t mtime)
    : impl_(new Impl{.parts = std::move(parts), .mtime = mtime}) {
  const auto append = [](archive*, void* target, const void* data, size_t size) -> la_ssize_t {
    static_cast<std::string*>(target)->append(static_cast<const char*>(data), size);
    return static_cast<la_ssize_t>(size);
  };
  archive* zip = impl_->zip.get();
  if (archive_write_set_format_zip(zip) != ARCHIVE_OK || archive_write_set_bytes_in_last_block(zip, 1) != ARCHIVE_OK ||
      archive_write_open(zip, &impl_->bytes, nullptr, append, nullptr) != ARCHIVE_OK) {
    archive_failed(zip, "begin");
  }
}

ZipStream::~ZipStream() = default;
ZipStream::ZipStream(ZipStream&&) noexcept = default;
ZipStream& ZipStream::operator=(ZipStream&&) noexcept = default;

std::string ZipStream::next() {
  while (!impl_->ended && impl_->bytes.size() < kReadBytes) impl_->step();
  return std::exchange(impl_->bytes, {});
}

std::string make_zip(const std::vector<ZipMember>& members, int64_t mtime) {
  std::vector<ZipPart> parts;
  for (const ZipMember& member : members) parts.push_back(text_part(member.name, member.content));
  ZipStream stream(std::move(parts), mtime);
  std::string zip;
  for (std::string piece; !(piece = stream.next()).empty();) zip += piece;
  return zip;
}

void write_download(const std::filesystem::path& run_dir, const record::Record& record,
                    const std::filesystem::path& path) {
  AtomicFile file(path);
  ZipStream stream(download_of(run_dir, record).parts, mtime_of(record));
  for (std::string piece; !(piece = stream.next()).empty();) file.write(piece);
  file.commit();
}

std::vector<ZipMember> read_zip(const std::string& bytes, const ZipLimits& limits) {
  const std::unique_ptr<archive, decltype(&archive_read_free)> zip(archive_read_new(), archive_read_free);
  // The seekable reader uses the directory at the end, so that an archive that was cut is never taken for a whole one.
  archive_read_support_format_zip_seekable(zip.get());
  const auto damaged = [&] {
    const char* reason = archive_error_string(zip.get());
    return UserError(fmt::format("not a readable zip archive: {}", reason != nullptr ? reason : "unknown reason"));
  };
  // An archive without members is nothing but the end of a directory, which libarchive does not recognise.
  if (bytes == std::string("PK\x05\x06", 4) + std::string(18, '\0')) return {};
  if (archive_read_open_memory(zip.get(), bytes.data(), bytes.size()) != ARCHIVE_OK) throw damaged();
  std::vector<ZipMember> members;
  std::set<std::string> names;
  size_t total = 0;
  for (archive_entry* entry = nullptr;;) {
    const int status = archive_read_next_header(zip.get(), &entry);
    if (status == ARCHIVE_EOF) return members;
    if (status != ARCHIVE_OK) throw damaged();
    ZipMember member;
    member.name = checked_name(entry);
    if (!names.insert(member.name).second) {
      throw UserError(fmt::format("the zip archive has two members '{}'", member.name));
    }
    if (names.size() > limits.members) {
      throw UserError(fmt::format("the zip archive has more than {} members", limits.members));
    }
    if (log_named(member.name)) continue;
    std::array<char, 1 << 16> buffer;
    for (;;) {
      const la_ssize_t n = archive_read_data(zip.get(), buffer.data(), buffer.size());
      if (n < 0) throw damaged();
      if (n == 0) break;
      member.content.append(buffer.data(), static_cast<size_t>(n));
      total += static_cast<size_t>(n);
      if (member.content.size() > limits.member_bytes || total > limits.total_bytes) {
        throw UserError(fmt::format("the zip archive unpacks to more than {} (member '{}')",
                                    member.content.size() > limits.member_bytes
                                        ? fmt::format("{} bytes in one member", limits.member_bytes)
                                        : fmt::format("{} bytes", limits.total_bytes),
                                    member.name));
      }
    }
    members.push_back(std::move(member));
  }
}

}  // namespace mlbench::report
