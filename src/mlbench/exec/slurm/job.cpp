#include "mlbench/exec/slurm/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/log.h"
#include "mlbench/exec/slurm/script.h"

namespace mlbench::exec::slurm {
namespace {

using std::chrono::milliseconds;

// The limit for an answer about the allocation, which is asked for while ranks run already.
constexpr milliseconds kAllocationPatience{5000};
// How long a job has, that has just begun to end, before the first look at it.
constexpr milliseconds kFirstLook{300};
// How long srun and the batch script take to end after the guards.
constexpr milliseconds kStepPatience{10000};
// The exit code by which slurmstepd says that it could not open the file of --output.
constexpr const char* kNoOutputFile = "0:53";

std::vector<std::string> about(const JobName& name, std::vector<std::string> command,
                               const std::vector<std::string>& words) {
  if (!name.cluster.empty()) command.push_back("--clusters=" + name.cluster);
  command.insert(command.end(), words.begin(), words.end());
  return slurm_command(std::move(command));
}

}  // namespace

std::vector<std::string> show_command(const JobName& name) {
  return about(name, {"scontrol"}, {"--oneliner", "show", "job", name.id});
}

std::vector<std::string> cancel_command(const JobName& name) { return about(name, {"scancel"}, {name.id}); }

Job::Job(JobName name, std::filesystem::path log, JobPace pace)
    : name_(std::move(name)),
      log_(std::move(log)),
      pace_(pace),
      next_look_(Clock::now() + std::min(pace.look, kFirstLook)),
      last_look_(Clock::now() - pace.look),
      wait_(pace.look) {}

StartStatus Job::status() {
  look();
  if (unknown_) return {StartState::kFailed, said("Slurm does not know it any more")};
  if (!info_) {
    const std::string why = silence_.empty() ? "" : ": " + silence_;
    return {StartState::kQueued, fmt::format("job {} is submitted{}", name_.id, why)};
  }
  if (info_->requeued()) return {StartState::kFailed, said("Slurm requeued it, and a run does not begin again")};
  const std::string words = fmt::format("job {} {}{}", name_.id, info_->words(),
                                        silence_.empty() ? "" : fmt::format(" (no news: {})", silence_));
  switch (info_->phase()) {
    case JobPhase::kQueued:
      running_since_.reset();
      return {StartState::kQueued, words};
    case JobPhase::kEnding:
      return {StartState::kStarting, words};
    case JobPhase::kEnded:
      return {StartState::kFailed, said("it ended before all ranks ran")};
    case JobPhase::kRunning:
      break;
  }
  if (info_->state() != "RUNNING") return {StartState::kStarting, words};
  if (!running_since_) running_since_ = Clock::now();
  if (Clock::now() - *running_since_ >= pace_.start) {
    const double patience_s = std::chrono::duration<double>(pace_.start).count();
    return {.state = StartState::kFailed,
            .words = said(fmt::format("not all of its ranks ran within {} s", patience_s)),
            .late = true};
  }
  return {StartState::kStarted, words};
}

std::vector<EngineWord> Job::news() {
  ran_ = true;
  look();
  auto word = done();
  if (!word || word->words == told_) return {};
  told_ = word->words;
  return {std::move(*word)};
}

std::optional<EngineWord> Job::done() const {
  if (unknown_) return EngineWord{EngineFact::kJobTaken, said("Slurm does not know it any more")};
  if (!info_) return std::nullopt;
  const bool host_gone = info_->host_gone(), requeued = info_->requeued() || info_->phase() == JobPhase::kQueued;
  if (!requeued && info_->phase() == JobPhase::kRunning) return std::nullopt;
  return EngineWord{.fact = host_gone                  ? EngineFact::kHostGone
                            : info_->ended_by_itself() ? EngineFact::kJobOver
                                                       : EngineFact::kJobTaken,
                    .words = said(requeued ? "Slurm requeued it under its ranks" : "Slurm ended it under its ranks"),
                    .place_lost = host_gone || requeued || info_->preempted()};
}

void Job::hurry() {
  // The first time, the job is looked at right away: the supervisor judges within a second, and must know by then what
  // Slurm did.
  next_look_ = hurried_ ? std::min(next_look_, last_look_ + pace_.look) : Clock::now();
  wait_ = pace_.look;
  hurried_ = true;
}

Json Job::allocation() {
  ran_ = true;
  const bool running = info_ && info_->phase() == JobPhase::kRunning && !info_->field("NodeList").empty();
  if (!running) {
    question_.reset();
    take(ask(show_command(name_), std::min(pace_.answer, kAllocationPatience)));
  }
  return info_ ? allocation_of(name_, *info_) : identity_of(name_);
}

void Job::end(milliseconds patience) {
  try {
    // The end of ranks that ran ends their guards, and with these their job, which is to count as completed. A job
    // whose ranks did not run, or that waits, has no end of its own.
    if (patience > milliseconds(0) && gone_within(patience + (ran_ ? kStepPatience : milliseconds(0)), false)) return;
    if (!info_ || info_->phase() != JobPhase::kEnding) cancel();
    if (gone_within(pace_.cancel, true)) return;
    spdlog::warn("Slurm job {} was cancelled, and is not gone after {} s: {}{}", name_.id,
                 std::chrono::duration<double>(pace_.cancel).count(), info_ ? info_->words() : "nothing is known of it",
                 silence_.empty() ? "" : "; " + silence_);
  } catch (const std::exception& error) {
    spdlog::warn("Slurm job {}: {}", name_.id, error.what());
  }
}

bool Job::gone_within(milliseconds patience, bool stays_queued) {
  const auto deadline = Clock::now() + patience;
  question_.reset();
  for (milliseconds wait = std::min(pace_.look, kFirstLook); !gone(); wait = pace_.look) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left <= milliseconds(0)) return false;
    std::this_thread::sleep_for(std::min(wait, left));
    look_and_wait();
    // A queued job would come again.
    if (!stays_queued && info_ && info_->phase() == JobPhase::kQueued) return false;
  }
  return true;
}

void Job::cancel() const {
  const Answer answer = ask(cancel_command(name_), pace_.answer);
  if (answer.good() || job_is_unknown(answer.errors)) return;
  spdlog::warn("scancel {}: {}", name_.id, answer.errors);
}

void Job::look() {
  if (gone()) return;
  if (!question_) {
    if (Clock::now() < next_look_) return;
    last_look_ = Clock::now();
    question_ = std::make_unique<Question>(show_command(name_), pace_.answer);
  }
  const auto answer = question_->answer(milliseconds(0));
  if (!answer) return;
  question_.reset();
  const std::string before = info_ ? info_->words() : "";
  take(*answer);
  const bool changed = info_ && info_->words() != before;
  wait_ = changed ? pace_.look : std::min(pace_.slow_look, wait_ * 3 / 2);
  next_look_ = Clock::now() + wait_;
}

void Job::look_and_wait() {
  last_look_ = Clock::now();
  take(ask(show_command(name_), pace_.answer));
}

// Takes an answer of scontrol. A controller that does not answer has not lost its jobs.
void Job::take(const Answer& answer) {
  if (answer.good()) {
    if (auto info = parse_job(answer.output)) {
      info_ = std::move(info);
      silence_.clear();
      return;
    }
    silence_ = "scontrol show job answered what is no job";
  } else if (answer.end && job_is_unknown(answer.errors)) {
    unknown_ = true;
  } else {
    silence_ = answer.errors.empty() ? "scontrol failed" : answer.errors;
  }
}

std::string Job::said(const std::string& what) const {
  std::string text = fmt::format("Slurm job {}: {}", name_.id, what);
  if (info_) {
    text += fmt::format(": {}", info_->words());
    const std::string code = info_->field("ExitCode");
    if (!code.empty() && code != "0:0") text += fmt::format(", exit code {}", code);
    if (code == kNoOutputFile) {
      text += fmt::format(
          "; its node could not write {}: where the run's folder is not on the nodes, give "
          "--slurm-option output=/dev/null",
          log_.string());
    }
  }
  const std::string words = last_words_in(log_);
  return words.empty() ? text : text + ": " + words;
}

}  // namespace mlbench::exec::slurm
