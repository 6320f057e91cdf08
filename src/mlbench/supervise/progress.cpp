#include "mlbench/supervise/progress.h"

#include <fcntl.h>

#include <cerrno>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/system_error.h"
#include "mlbench/record/record_fields.h"

namespace mlbench::supervise {
namespace {

constexpr int64_t kReservedBytes = 1 << 20;

}  // namespace

Json to_json(const record::RunProgress& progress) {
  Json json;
  spec::FieldWriter writer(json);
  describe(writer, progress);
  return json;
}

record::RunProgress progress_from_json(const Json& json) {
  if (!json.is_object()) throw UserError("progress.json: it is no JSON object");
  spec::FieldReader reader(
      json, [](const std::string&, spec::Part) { return "progress.json"; }, spec::FieldReader::Unknown::kIgnore,
      spec::FieldReader::Absent::kError);
  record::RunProgress progress;
  describe(reader, progress);
  reader.finish();
  return progress;
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

record::Record record_of(const std::filesystem::path& run_dir, const record::RunProgress& progress) {
  try {
    spec::RunSpec run = spec::read_run_spec(spec_path(run_dir));
    run.run_dir = std::filesystem::absolute(run_dir);
    return record::build_record(run, progress);
  } catch (const UserError& error) {
    const std::filesystem::path file = record_path(run_dir);
    record::Record record;
    record.name = run_dir.filename();
    if (std::filesystem::exists(file)) {
      record = record::record_from_json(read_json_file(file, inputs::kRecord), file.string());
    }
    record.state = name_of(progress.state);
    record.finished_at = progress.finished_at;
    record.notes.emplace_back(error.what());
    if (progress.failure) {
      record.failure.emplace();
      record.failure->kind = progress.failure->kind;
      record.failure->message = progress.failure->message + ": " + error.what();
    }
    return record;
  }
}

}  // namespace mlbench::supervise
