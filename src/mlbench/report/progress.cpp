#include "mlbench/report/progress.h"

#include <cstring>

namespace mlbench::report {

namespace fs = std::filesystem;

namespace {
constexpr int64_t kWindowNs = 5'000'000'000;
constexpr size_t kMostPieceBytes = size_t{1} << 20;
}  // namespace

ProgressReader::ProgressReader(fs::path run_dir, int64_t rank, int64_t first_segment)
    : run_dir_(std::move(run_dir)), rank_(rank), next_segment_(first_segment) {}

bool ProgressReader::update() {
  bool news = false;
  // The files of a segment are complete when those of the next exist.
  for (;;) {
    if (progress_.segment > 0) {
      while (read_steps()) news = true;
      while (read_events()) news = true;
    }
    if (!fs::exists(record::events_path(run_dir_, next_segment_, rank_)) &&
        !fs::exists(record::steps_path(run_dir_, next_segment_, rank_))) {
      return news;
    }
    progress_.segment = next_segment_++;
    progress_.prepared = progress_.training = false;
    progress_.end.reset();
    progress_.failure.reset();
    steps_offset_ = 0;
    events_ = {};
    window_.clear();
    news = true;
  }
}

bool ProgressReader::read_steps() {
  const fs::path path = record::steps_path(run_dir_, progress_.segment, rank_);
  const std::string text = read_from(path, steps_offset_, kMostPieceBytes);
  size_t used = 0;
  if (steps_offset_ == 0) {
    if (text.size() < sizeof(record::SpoolHeader)) return false;
    record::parse_header(path, text);
    used = sizeof(record::SpoolHeader);
  }
  while (text.size() - used >= sizeof(record::StepRecord)) {
    record::StepRecord record;
    std::memcpy(&record, text.data() + used, sizeof record);
    if (record.count == 0) break;  // blocks that were never written
    used += sizeof record;
    if (record::is_plausible(record)) take(record);
  }
  steps_offset_ += used;
  return used > 0;
}

bool ProgressReader::read_events() {
  return read_lines(record::events_path(run_dir_, progress_.segment, rank_), events_, [&](std::string_view line) {
    const auto event = record::parse_event(line);
    if (event) take(*event);
  });
}

void ProgressReader::take(const record::StepRecord& record) {
  progress_.training = true;
  progress_.steps_done = static_cast<int64_t>(record.first_step + record.count);

  window_.push_back(record);
  while (window_.size() > 1 && record.end_ns - window_.front().end_ns > kWindowNs) window_.pop_front();
  double loss = 0, samples = 0, train_ns = 0;
  for (const record::StepRecord& step : window_) {
    loss += step.loss_sum;
    samples += static_cast<double>(step.samples);
    train_ns += static_cast<double>(step.total.sum);
  }
  if (samples > 0) progress_.loss = loss / samples;
  if (train_ns > 0) progress_.samples_per_s = samples / train_ns * 1e9;
}

void ProgressReader::take(const Json& event) {
  const std::string name = event.value("event", "");
  if (name == "prepared") {
    progress_.prepared = true;
  } else if (name == "begin") {
    progress_.prepared = progress_.training = true;
    progress_.steps_per_epoch = event.value("steps_per_epoch", int64_t{0});
    progress_.last_step = event.value("last_step", int64_t{0});
    if (window_.empty()) progress_.steps_done = event.value("start_step", int64_t{0});  // else steps say more
  } else if (name == "evaluation") {
    progress_.evaluation = event;
    ++progress_.evaluations;
  } else if (name == "goal") {
    progress_.goal = event;
  } else if (name == "end") {
    progress_.end = event;
  } else if (name == "failure") {
    progress_.failure = event;
  }
}

}  // namespace mlbench::report
