#include "mlbench/base/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "mlbench/base/to_number.h"

namespace mlbench {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr size_t kLeastDigits = 9;

fs::path of_rank(const fs::path& folder, int64_t segment, int64_t rank, std::string_view extension) {
  return folder / fmt::format("rank-{}.seg-{}.{}", rank, segment, extension);
}

}  // namespace

fs::path rank_log_path(const fs::path& logs, int64_t segment, int64_t rank, LogStream stream) {
  return of_rank(logs, segment, rank, stream == LogStream::kStdout ? "out" : "err");
}

fs::path launcher_log_path(const fs::path& logs, std::string_view program, int64_t segment,
                           std::string_view extension) {
  return logs / fmt::format("{}.seg-{}.{}", program, segment, extension);
}

fs::path steps_path(const fs::path& run_dir, int64_t segment, int64_t rank) {
  return of_rank(spool_dir(run_dir), segment, rank, "steps");
}

fs::path events_path(const fs::path& run_dir, int64_t segment, int64_t rank) {
  return of_rank(spool_dir(run_dir), segment, rank, "events");
}

fs::path timeline_path(const fs::path& run_dir, int64_t segment, int64_t rank) {
  return of_rank(timeline_dir(run_dir), segment, rank, "spans");
}

fs::path tracker_lines_path(const fs::path& run_dir, int64_t rank) {
  return run_dir / "metrics" / fmt::format("rank-{}.jsonl", rank);
}

void create_run_folders(const fs::path& run_dir) {
  for (const fs::path& folder : {logs_dir(run_dir), spool_dir(run_dir), checkpoints_dir(run_dir)}) {
    fs::create_directories(folder);
  }
}

std::string checkpoint_name(int64_t step) { return fmt::format("{}{:0{}}", kStepPrefix, step, kLeastDigits); }

std::optional<int64_t> step_of_checkpoint(std::string_view name) {
  if (!name.starts_with(kStepPrefix) || name.size() < kStepPrefix.size() + kLeastDigits) return std::nullopt;
  const auto step = to_number<int64_t>(name.substr(kStepPrefix.size()));
  return step && *step >= 0 ? step : std::nullopt;
}

std::vector<int64_t> checkpoint_steps(const fs::path& run_dir) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(checkpoints_dir(run_dir), error)) {
    if (const auto step = step_of_checkpoint(entry.path().filename().string())) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

}  // namespace mlbench
