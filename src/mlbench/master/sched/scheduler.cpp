#include "mlbench/master/sched/scheduler.h"

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/base/log.h"
#include "mlbench/master/runs.h"
#include "mlbench/report/records.h"

namespace mlbench::master {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {
constexpr auto kPoll = 100ms;
constexpr auto kOwnPatience = 10s;  // for a supervisor to take its run
}  // namespace

Scheduler::Scheduler(SchedulerOptions options) : options_(std::move(options)) {
  for (const fs::path& run_dir : options_.active) {
    try {
      if (!report::is_active(report::read_record(run_dir))) continue;
      const auto waiting = read_waiting(run_dir);
      if (supervise::lease_held(run_dir)) {
        if (waiting) remove_waiting(run_dir);  // we died between its start and this
        running_.push_back({{run_dir.filename(), read_spec(run_dir).workers, false}, run_dir, std::nullopt});
        spdlog::info("run {} goes on", run_dir.filename().string());
      } else if (waiting) {
        enqueue(run_dir);
      }
    } catch (const UserError& error) {
      spdlog::error("run {} cannot be started: {}", run_dir.filename().string(), error.what());
      std::error_code ignored;  // it is then lost, as its record will say
      fs::remove(run_dir / "control" / "queue.json", ignored);
    } catch (const std::exception& error) {
      spdlog::warn("run {}: {}", run_dir.filename().string(), error.what());
    }
  }
}

void Scheduler::begin(std::map<std::string, std::string> environment) {
  environment_ = std::move(environment);
  thread_ = std::thread([this] { work(); });
}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Scheduler::submit(const fs::path& run_dir) {
  {
    const std::lock_guard lock(mutex_);
    enqueue(run_dir);
  }
  wake_.notify_all();
}

void Scheduler::enqueue(const fs::path& run_dir) {
  const spec::RunSpec run = read_spec(run_dir);
  const bool no_wait = read_waiting(run_dir).value_or(Waiting{}).no_wait;
  Waits waits{run.id, {run.name, run.workers, no_wait}, run_dir};
  const auto place = std::upper_bound(waiting_.begin(), waiting_.end(), waits,
                                      [](const Waits& a, const Waits& b) { return a.id < b.id; });
  waiting_.insert(place, std::move(waits));
}

std::vector<std::string> Scheduler::waiting() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const Waits& run : waiting_) names.push_back(run.job.name);
  return names;
}

void Scheduler::work() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    look_after_running();
    // Stopped or deleted while they waited.
    std::erase_if(waiting_, [](const Waits& run) { return !fs::exists(run.run_dir / "control" / "queue.json"); });
    std::vector<Job> running, waiting;
    for (const Runs& run : running_) running.push_back(run.job);
    for (const Waits& run : waiting_) waiting.push_back(run.job);
    const std::vector<size_t> chosen = startable(options_.cluster, running, waiting);
    std::vector<Waits> starting;
    for (const size_t index : chosen) starting.push_back(waiting_[index]);
    for (auto index = chosen.rbegin(); index != chosen.rend(); ++index) {
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(*index));
    }
    lock.unlock();
    for (const Waits& run : starting) {
      try {
        start(run);
      } catch (const std::exception& error) {
        spdlog::error("run {} cannot be started: {}", run.job.name, error.what());
        std::error_code ignored;  // it is then lost, as its record will say
        fs::remove(run.run_dir / "control" / "queue.json", ignored);
      }
    }
    lock.lock();
    if (starting.empty() && !stopping_) wake_.wait_for(lock, kPoll);
  }
}

void Scheduler::look_after_running() {
  std::erase_if(running_, [](Runs& run) {
    try {
      if (run.supervisor) return run.supervisor->wait(0ms).has_value();
      if (supervise::lease_held(run.run_dir)) return false;
      supervise::settle_if_lost(run.run_dir);
    } catch (const std::exception& error) {
      spdlog::error("run {}: {}", run.job.name, error.what());
    }
    return true;
  });
}

void Scheduler::start(const Waits& run) {
  const FileLock lock = lock_runs(options_.home);
  if (!read_waiting(run.run_dir)) return;  // stopped in this moment
  supervise::SupervisorOptions options;
  options.run_dir = run.run_dir;
  options.worker = options_.worker;
  options.core_lock = options_.core_lock;
  options.attached = false;
  options.no_wait = run.job.no_wait;
  options.environment = environment_;
  auto supervisor = supervise::SupervisorHandle::start(options_.program, options);
  // Until it owns the run, the marker keeps others from taking the run for lost.
  const auto deadline = std::chrono::steady_clock::now() + kOwnPatience;
  while (!supervise::lease_held(run.run_dir) && !supervisor.wait(20ms) && std::chrono::steady_clock::now() < deadline) {
  }
  remove_waiting(run.run_dir);
  spdlog::info("run {} started", run.job.name);
  running_.push_back({run.job, run.run_dir, std::move(supervisor)});
}

}  // namespace mlbench::master
