#include "mlbench/supervise/progress.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <array>
#include <cerrno>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/or_null.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/system_error.h"

namespace mlbench::supervise {
namespace {

constexpr std::array kStates = {record::RunState::kQueued, record::RunState::kRunning, record::RunState::kFinished,
                                record::RunState::kFailed, record::RunState::kStopped};

record::RunState state_of(const std::string& name) {
  std::vector<std::string> valid;
  for (const record::RunState state : kStates) {
    if (record::name_of(state) == name) return state;
    valid.emplace_back(record::name_of(state));
  }
  refuse_unknown("run state", name, valid);
}

Json to_json(const std::optional<record::Failure>& failure) {
  if (!failure) return nullptr;
  return {{"kind", failure->kind},           {"rank", failure->rank},         {"host", failure->host},
          {"operation", failure->operation}, {"sequence", failure->sequence}, {"message", failure->message},
          {"log_tail", failure->log_tail}};
}

Json to_json(const record::SegmentInfo& segment) {
  Json codes = Json::array();
  for (const auto& code : segment.exit_codes) codes.push_back(or_null(code));
  return {{"index", segment.index},
          {"start_step", segment.start_step},
          {"started_at", segment.started_at},
          {"finished_at", segment.finished_at},
          {"lost_s", segment.lost_s},
          {"exit_codes", codes},
          {"failure", to_json(segment.failure)}};
}

record::Failure failure_from_json(const Json& json) {
  record::Failure failure;
  json.at("kind").get_to(failure.kind);
  failure.rank = integer_member(json, "rank");
  json.at("host").get_to(failure.host);
  json.at("operation").get_to(failure.operation);
  failure.sequence = integer_member(json, "sequence");
  json.at("message").get_to(failure.message);
  json.at("log_tail").get_to(failure.log_tail);
  return failure;
}

record::SegmentInfo segment_from_json(const Json& json) {
  record::SegmentInfo segment;
  segment.index = integer_member(json, "index");
  segment.start_step = integer_member(json, "start_step");
  json.at("started_at").get_to(segment.started_at);
  json.at("finished_at").get_to(segment.finished_at);
  json.at("lost_s").get_to(segment.lost_s);
  for (const Json& code : json.at("exit_codes")) {
    const auto number = integer_of(code);
    if (!number && !code.is_null()) throw UserError("progress.json: an exit code is neither a whole number nor null");
    segment.exit_codes.push_back(number ? std::optional(static_cast<int>(*number)) : std::nullopt);
  }
  if (!json.at("failure").is_null()) segment.failure = failure_from_json(json.at("failure"));
  return segment;
}

constexpr int64_t kReservedBytes = 1 << 20;

}  // namespace

Json to_json(const record::RunProgress& progress) {
  Json segments = Json::array();
  for (const auto& segment : progress.segments) segments.push_back(to_json(segment));
  return {{"state", record::name_of(progress.state)},
          {"started_at", progress.started_at},
          {"finished_at", progress.finished_at},
          {"segments", segments},
          {"failure", to_json(progress.failure)},
          {"placement", progress.placement},
          {"allocation", progress.allocation},
          {"hosts", progress.hosts},
          {"environment", progress.environment},
          {"notes", progress.notes},
          {"queue_s", progress.queue_s},
          {"wall_s", progress.wall_s},
          {"oversubscribed", progress.oversubscribed},
          {"utilisation", progress.utilisation}};
}

record::RunProgress progress_from_json(const Json& json) {
  try {
    record::RunProgress progress;
    progress.state = state_of(json.at("state").get<std::string>());
    json.at("started_at").get_to(progress.started_at);
    json.at("finished_at").get_to(progress.finished_at);
    for (const Json& segment : json.at("segments")) progress.segments.push_back(segment_from_json(segment));
    if (!json.at("failure").is_null()) progress.failure = failure_from_json(json.at("failure"));
    progress.hosts = json.at("hosts");
    progress.environment = json.at("environment");
    if (!progress.hosts.is_array() || !progress.environment.is_object()) {
      throw UserError("progress.json: hosts is no list, or environment no object");
    }
    progress.allocation = json.at("allocation");
    if (!progress.allocation.is_null() && !progress.allocation.is_object()) {
      throw UserError("progress.json: allocation is no object");
    }
    progress.placement = json.at("placement");
    if (!progress.placement.is_null() && !progress.placement.is_array()) {
      throw UserError("progress.json: placement is no list");
    }
    json.at("queue_s").get_to(progress.queue_s);
    json.at("notes").get_to(progress.notes);
    json.at("wall_s").get_to(progress.wall_s);
    json.at("oversubscribed").get_to(progress.oversubscribed);
    progress.utilisation = json.at("utilisation");
    return progress;
  } catch (const Json::exception& error) {
    throw UserError(
        fmt::format("progress.json: {}: use the mlbench that wrote it, or start the run anew", error.what()));
  }
}

void write_progress(const std::filesystem::path& run_dir, const record::RunProgress& progress) {
  write_json_file(progress_path(run_dir), to_json(progress), inputs::kProgress);
}

std::optional<record::RunProgress> read_progress(const std::filesystem::path& run_dir) {
  if (!std::filesystem::exists(progress_path(run_dir))) return std::nullopt;
  return progress_from_json(read_json_file(progress_path(run_dir), inputs::kProgress));
}

bool disk_is_full(const std::filesystem::path& run_dir) {
  constexpr uintmax_t kLeastBytes = 64 << 10;
  std::error_code unknown;
  const auto space = std::filesystem::space(run_dir, unknown);
  return !unknown && space.available < kLeastBytes;
}

void reserve_room(const std::filesystem::path& run_dir) {
  const std::filesystem::path file = reserve_path(run_dir);
  const FileDescriptor fd(open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) throw_system_error("cannot write " + file.string(), errno);
  if (const int error = posix_fallocate(fd.get(), 0, kReservedBytes); error == ENOSPC || error == EDQUOT) {
    throw_system_error("cannot write " + file.string(), error);
  }
}

void release_room(const std::filesystem::path& run_dir) {
  std::error_code ignored;
  std::filesystem::remove(reserve_path(run_dir), ignored);
}

Json record_of(const std::filesystem::path& run_dir, const record::RunProgress& progress) {
  spec::RunSpec run;
  try {
    run = spec::read_run_spec(spec_path(run_dir));
  } catch (const UserError& error) {
    const std::filesystem::path file = record_path(run_dir);
    Json record = std::filesystem::exists(file) ? read_json_file(file, inputs::kRecord)
                                                : Json{{"name", run_dir.filename().string()}};
    record["state"] = record::name_of(progress.state);
    record["finished_at"] = text_or_null(progress.finished_at);
    record["notes"].push_back(error.what());
    if (progress.failure) {
      for (const char* key : {"rank", "host", "operation", "sequence"}) record["failure"][key] = nullptr;
      record["failure"]["kind"] = progress.failure->kind;
      record["failure"]["message"] = progress.failure->message + ": " + error.what();
      record["failure"]["log_tail"] = Json::array();
    }
    return record;
  }
  run.run_dir = std::filesystem::absolute(run_dir);
  return record::build_record(run, progress);
}

}  // namespace mlbench::supervise
