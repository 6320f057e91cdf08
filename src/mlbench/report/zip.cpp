#include "mlbench/report/zip.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/report/compare.h"
#include "mlbench/report/records.h"
#include "mlbench/spec/client_lines.h"
#include "mlbench/spec/points.h"
#include "mlbench/spec/record.h"
#include "mlbench/spec/spool.h"

namespace mlbench::report {

namespace {

constexpr size_t kMostNameBytes = 255;
constexpr uint32_t kStepsPerPoint = 25;  // as MLBench posts

// "2026-01-31T12:00:00.123Z": milliseconds, truncated; none when 0.
std::string archive_date(int64_t unix_us) {
  const std::chrono::system_clock::time_point time{std::chrono::microseconds(unix_us)};
  const std::string stamp = format_utc(time);  // six digits
  return stamp.substr(20, 3) == "000" ? stamp.substr(0, 19) + "Z" : stamp.substr(0, 23) + "Z";
}

// Shortest text that reads back as the same number, with a fraction as Python prints floats.
std::string value_text(double value) { return fmt::format("{}", value); }

// Series by metric name, each "NAME @ RANK".
class Series {
 public:
  void add(const std::string& name, int64_t rank, int64_t date_us, double value) {
    points_[fmt::format("{} @ {}", name, rank)].push_back({date_us, value_text(value)});
  }
  const std::map<std::string, std::vector<SeriesPoint>>& points() const { return points_; }
  void append_to(std::vector<ZipMember>& members) const {
    for (const auto& [name, points] : points_) {
      Json list = Json::array();
      for (const SeriesPoint& point : points) {
        list.push_back({{"date", archive_date(point.unix_us)}, {"value", point.value}, {"cumulative", false}});
      }
      members.push_back({"result_" + safe(name) + ".json", list.dump(4)});
    }
  }

 private:
  // Metric names come from a record, which may be anybody's: nothing that means anything in a path.
  static std::string safe(std::string name) {
    const auto good = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '@' || c == ' ' ||
             c == '_' || c == '-';
    };
    std::replace_if(
        name.begin(), name.end(), [&](char c) { return !good(c); }, '_');
    return name.substr(0, 100);
  }

  std::map<std::string, std::vector<SeriesPoint>> points_;
};

struct EpochSums {
  std::array<int64_t, spec::kStepKinds> kinds_ns{};
  int64_t end_us = 0;
};

void add_rank(Series& series, const std::vector<spec::RankSpool>& segments, int64_t rank) {
  std::map<uint32_t, EpochSums> epochs;
  for (const spec::RankSpool& spool : segments) {
    double loss = 0, samples = 0;
    uint32_t steps = 0;
    for (const spec::StepRecord& record : spool.steps) {
      const int64_t date = spool.header.start_wall_us + record.end_ns / 1000;
      loss += record.loss_sum;
      samples += static_cast<double>(record.samples);
      steps += record.count;
      if (steps >= kStepsPerPoint || &record == &spool.steps.back()) {
        if (samples > 0) series.add("train_loss", rank, date, loss / samples);
        loss = samples = steps = 0;
      }
      EpochSums& epoch = epochs[record.epoch];
      epoch.end_us = date;
      for (size_t kind = 0; kind < spec::kStepKinds; ++kind) epoch.kinds_ns[kind] += record.kinds[kind].sum;
    }
  }
  for (const auto& [number, epoch] : epochs) {
    int64_t total = 0;
    for (size_t kind = 0; kind < spec::kStepKinds; ++kind) {
      total += epoch.kinds_ns[kind];
      series.add(std::string(spec::kStepKindNames[kind]), rank, epoch.end_us, double(epoch.kinds_ns[kind]) / 1e9);
    }
    series.add("CumulativeTrainTimeEpoch", rank, epoch.end_us, double(total) / 1e9);
  }
}

void add_totals(Series& series, const std::vector<spec::RankSpool>& segments) {
  int64_t date = 0;
  for (const spec::RankSpool& spool : segments) {
    if (!spool.steps.empty()) date = spool.header.start_wall_us + spool.steps.back().end_ns / 1000;
  }
  if (date == 0) return;
  const spec::Clocks clocks = spec::derive_clocks(segments);
  for (size_t kind = 0; kind < spec::kStepKinds; ++kind) {
    series.add("global_cum_" + std::string(spec::kStepKindNames[kind]), 0, date, double(clocks.kinds_ns[kind]) / 1e9);
  }
  series.add("global_cum_CumulativeTrainTimeEpoch", 0, date, double(clocks.train_ns) / 1e9);
  series.add("TotalCumulativeTrainTime", 0, date, double(clocks.train_legacy_ns) / 1e9);
}

// The rare events of rank 0: they carry the dates that the record leaves out.
void add_events(Series& series, const std::vector<spec::RankSpool>& segments) {
  spec::Points points;
  for (const spec::RankSpool& spool : segments) {
    for (const Json& event : spool.events) spec::add_points(points, event, spool.header);
  }
  for (const auto& [name, values] : points) {
    for (const spec::Point& point : values) series.add(name.name, 0, point.time_us, point.value);
  }
}

int64_t mtime_of(const Json& record) {
  for (const char* pointer : {"/finished_at", "/started_at", "/created_at"}) {
    if (const std::string stamp = text(record, pointer); !stamp.empty()) return unix_us(parse_utc(stamp)) / 1'000'000;
  }
  return 0;
}

Series series_of(const std::filesystem::path& run_dir, const Json& record) {
  const auto workers = static_cast<int64_t>(number(record, "/workers").value_or(0));
  Series series;
  const bool custom = text(record, "/division") == "custom";
  for (int64_t rank = 0; custom && rank < workers; ++rank) {
    for (const spec::ClientLine& line : spec::read_client_lines(run_dir, rank)) {
      for (const auto& [name, value] : line.values) series.add(name, rank, line.time_us, value);
    }
  }
  for (int64_t rank = 0; !custom && rank < workers; ++rank) {
    std::vector<spec::RankSpool> spools;
    for (int64_t segment = 1; segment <= segment_count(record); ++segment) {
      spools.push_back(spec::read_spool(run_dir, segment, rank));
    }
    add_rank(series, spools, rank);
    if (rank == 0) {
      add_totals(series, spools);
      add_events(series, spools);
    }
  }
  return series;
}

// Nothing is ever unpacked to disk, but a name is printed and may be handed on.
std::string checked_name(archive_entry* entry) {
  const char* given = archive_entry_pathname(entry);
  if (given == nullptr) throw UserError("the zip archive has a member whose name is no text");
  const std::string name = given;
  const auto bad = [](char c) { return c == '/' || c == '\\' || static_cast<unsigned char>(c) < ' ' || c == 0x7f; };
  std::string shown = name.substr(0, 100);
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }, '?');
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

std::string official_result(const Json& record) {
  const auto goal = record.find("goal");
  const auto total = number(record, "/clocks/train_legacy_s");
  const auto target = number(record, "/goal/target");
  if (goal == record.end() || !goal->is_object() || !goal->value("reached", false) || !total || !target) return "";
  const std::string metric = text(record, "/goal/metric");
  const std::string split = text(record, "/goal/split") == "train" ? "Training" : "Validation";
  std::string out = metric.starts_with("Prec@")
                        ? fmt::format("{:g}% Top {} {} Accuracy reached in ", *target, metric.substr(5), split)
                        : fmt::format("{} {} of {:g} reached in ", split, metric, *target);
  out += fmt::format("{:.3f} seconds", *total);
  const auto part = [&](const char* name, std::initializer_list<const char*> kinds) {
    double seconds = 0;
    for (const char* kind : kinds) seconds += number(record, kind).value_or(0);
    if (seconds != 0) out += fmt::format(", {}: {} seconds", name, value_text(seconds));
  };
  part("Compute", {"/steps_s/fwd_pass", "/steps_s/comp_loss", "/steps_s/backprop", "/steps_s/opt_step"});
  part("Communication", {"/steps_s/agg"});
  part("Metrics Computation", {"/steps_s/comp_metrics"});
  part("Pre-processing", {"/steps_s/batch_load"});
  return out;
}

std::map<std::string, std::vector<SeriesPoint>> run_series(const std::filesystem::path& run_dir, const Json& record) {
  return series_of(run_dir, record).points();
}

std::vector<ZipMember> download_members(const std::filesystem::path& run_dir, const Json& record) {
  const bool custom = text(record, "/division") == "custom";
  const Series series = series_of(run_dir, record);
  std::vector<ZipMember> members;
  series.append_to(members);
  std::string official = custom ? text(record, "/custom/result") : official_result(record);
  if (!official.empty()) {
    members.push_back({"official_result.txt", std::move(official)});
  }
  members.push_back({"run.json", record.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"});
  return members;
}

std::string make_zip(const std::vector<ZipMember>& members, int64_t mtime) {
  const std::unique_ptr<archive, decltype(&archive_write_free)> zip(archive_write_new(), archive_write_free);
  std::string bytes;
  const auto append = [](archive*, void* target, const void* data, size_t size) -> la_ssize_t {
    static_cast<std::string*>(target)->append(static_cast<const char*>(data), size);
    return static_cast<la_ssize_t>(size);
  };
  if (archive_write_set_format_zip(zip.get()) != ARCHIVE_OK ||
      archive_write_set_bytes_in_last_block(zip.get(), 1) != ARCHIVE_OK ||
      archive_write_open(zip.get(), &bytes, nullptr, append, nullptr) != ARCHIVE_OK) {
    archive_failed(zip.get(), "begin");
  }
  for (const ZipMember& member : members) {
    const std::unique_ptr<archive_entry, decltype(&archive_entry_free)> entry(archive_entry_new(), archive_entry_free);
    archive_entry_set_pathname(entry.get(), member.name.c_str());
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0644);
    archive_entry_set_mtime(entry.get(), mtime, 0);
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(member.content.size()));
    if (archive_write_header(zip.get(), entry.get()) != ARCHIVE_OK ||
        archive_write_data(zip.get(), member.content.data(), member.content.size()) !=
            static_cast<la_ssize_t>(member.content.size())) {
      archive_failed(zip.get(), "write");
    }
  }
  if (archive_write_close(zip.get()) != ARCHIVE_OK) archive_failed(zip.get(), "end");
  return bytes;
}

void write_download(const std::filesystem::path& run_dir, const Json& record, const std::filesystem::path& file) {
  write_file_atomically(file, make_zip(download_members(run_dir, record), mtime_of(record)));
}

std::vector<ZipMember> read_zip(const std::string& bytes, const ZipLimits& limits) {
  const std::unique_ptr<archive, decltype(&archive_read_free)> zip(archive_read_new(), archive_read_free);
  // The seekable reader goes by the directory at the end, so that an archive that was cut is never taken for a whole.
  archive_read_support_format_zip_seekable(zip.get());
  const auto damaged = [&] {
    const char* reason = archive_error_string(zip.get());
    return UserError(fmt::format("not a readable zip archive: {}", reason != nullptr ? reason : "unknown reason"));
  };
  // An archive of a run without events, which libarchive does not recognise: the end of a directory, and nothing else.
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
