#include "mlbench/report/progress.h"

#include "mlbench/base/run_folder.h"
#include "mlbench/record/events.h"

namespace mlbench::report {

namespace fs = std::filesystem;

namespace {
constexpr int64_t kWindowNs = 5'000'000'000;
constexpr int64_t kSharesOfWindow = 100;
}  // namespace

ProgressReader::ProgressReader(fs::path run_dir, int64_t rank, int64_t first_segment)
    : run_dir_(std::move(run_dir)), rank_(rank), next_segment_(first_segment) {}

bool ProgressReader::update() {
  bool news = false;
  // The files of a segment are complete when those of the next segment exist.
  for (;;) {
    while (tail_ && tail_->read([this](const record::StepRecord& step) { take(step); },
                                [this](const Json& event) { take(event); })) {
      news = true;
    }
    set_means();
    if (!find_next_segment()) return news;
    progress_.segment = next_segment_++;
    progress_.prepared = progress_.training = false;
    progress_.end.reset();
    progress_.failure.reset();
    tail_.emplace(run_dir_, progress_.segment, rank_);
    window_.clear();
    news = true;
  }
}

bool ProgressReader::find_next_segment() {
  const int64_t last = record::last_segment(run_dir_);
  for (int64_t segment = next_segment_; segment <= last; ++segment) {
    if (!fs::exists(events_path(run_dir_, segment, rank_)) && !fs::exists(steps_path(run_dir_, segment, rank_))) {
      continue;
    }
    next_segment_ = segment;
    return true;
  }
  return false;
}

void ProgressReader::take(const record::StepRecord& record) {
  progress_.training = true;
  progress_.steps_done = static_cast<int64_t>(record.first_step + record.count);

  if (window_.empty() || record.end_ns - window_.back().first_end_ns >= kWindowNs / kSharesOfWindow) {
    window_.push_back({record.end_ns, record.end_ns, 0, 0, 0});
  }
  Steps& last = window_.back();
  last.last_end_ns = record.end_ns;
  last.loss += record.loss_sum;
  last.samples += static_cast<double>(record.samples);
  last.train_ns += static_cast<double>(record.total_ns());
  while (record.end_ns - window_.front().last_end_ns > kWindowNs) window_.pop_front();
}

void ProgressReader::set_means() {
  double loss = 0, samples = 0, train_ns = 0;
  for (const Steps& steps : window_) {
    loss += steps.loss;
    samples += steps.samples;
    train_ns += steps.train_ns;
  }
  if (samples > 0) progress_.loss = loss / samples;
  if (train_ns > 0) progress_.samples_per_s = samples / train_ns * 1e9;
}

void ProgressReader::take(const Json& event) {
  using record::EventKind;
  namespace member = record::member;
  if (record::is(event, EventKind::kPrepared)) {
    progress_.prepared = true;
  } else if (record::is(event, EventKind::kBegin)) {
    progress_.prepared = progress_.training = true;
    progress_.steps_per_epoch = record::get(event, member::kStepsPerEpoch);
    progress_.last_step = record::get(event, member::kLastStep);
    if (window_.empty()) progress_.steps_done = record::get(event, member::kStartStep);  // else steps have set it
  } else if (record::is(event, EventKind::kEvaluation)) {
    progress_.evaluation = event;
    ++progress_.evaluations;
  } else if (record::is(event, EventKind::kCollective)) {
    progress_.collective = record::collective_row_from_json(record::get(event, member::kRow), "the row of a benchmark");
    ++progress_.rows;
    if (take_row_) take_row_(*progress_.collective);
  } else if (record::is(event, EventKind::kGoal)) {
    progress_.goal = event;
  } else if (record::is(event, EventKind::kEnd)) {
    progress_.end = event;
  } else if (record::is(event, EventKind::kFailure)) {
    progress_.failure = event;
  }
}

}  // namespace mlbench::report
