#include "mlbench/master/sched/scheduler.h"

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/base/log.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/system_error.h"
#include "mlbench/home/runs.h"
#include "mlbench/report/records.h"
#include "mlbench/spec/variables.h"

namespace mlbench::master {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {
constexpr auto kPoll = 100ms;
constexpr auto kOwnPatience = 10s;                             // for a supervisor to take its run
constexpr auto kFirstPause = 500ms, kLongestPause = 30'000ms;  // between tries to start a run

Job job_of(const spec::RunSpec& run, bool no_wait) {
  std::vector<std::string> hosts = supervise::hosts_needed(run);
  const bool cores = run.share_host && !hosts.empty();  // an engine gives out the cores of its hosts itself
  return {run.name, run.workers, no_wait, std::move(hosts), cores ? spec::cores_needed(run) : 0};
}
}  // namespace

Scheduler::Scheduler(SchedulerOptions options) : options_(std::move(options)), unread_(options_.active) {
  adopt_unread();
}

void Scheduler::adopt_unread() {
  std::erase_if(unread_, [&](const fs::path& run_dir) {
    try {
      adopt(run_dir);
    } catch (const UserError& error) {
      spdlog::error("run {} cannot be started: {}", run_dir.filename().string(), error.what());
      std::error_code ignored;  // the run is then lost, as its record will say
      fs::remove(waiting_path(run_dir), ignored);
    } catch (const std::exception& error) {
      spdlog::warn("run {}: {}", run_dir.filename().string(), error.what());
      return !is_transient(error);
    }
    return true;
  });
}

void Scheduler::adopt(const fs::path& run_dir) {
  if (!record::is_active(report::read_record(run_dir))) return;
  const auto waiting = home::read_waiting(run_dir);
  if (supervise::lease_held(run_dir)) {
    // The marker is still there if an earlier master died between the run's start and the marker's removal.
    running_.push_back({job_of(home::read_spec(run_dir), false), run_dir, std::nullopt, waiting.has_value()});
    spdlog::info("run {} goes on", run_dir.filename().string());
  } else if (waiting) {
    const spec::RunSpec spec = home::read_spec(run_dir);
    const std::lock_guard lock(mutex_);
    insert({spec.id, job_of(spec, waiting->no_wait), run_dir, {}});
  }
}

void Scheduler::begin(std::map<std::string, std::string> environment) {
  environment_ = std::move(environment);
  thread_ = std::thread([this] { work(); });
}

void Scheduler::pause() {
  paused_ = true;
  const FileLock lock = home::lock_runs(options_.home);  // start() holds this lock
}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Scheduler::submit(const spec::RunSpec& run, bool no_wait, std::map<std::string, std::string> values) {
  {
    const std::lock_guard lock(mutex_);
    insert({run.id, job_of(run, no_wait), run.run_dir, std::move(values)});
  }
  wake_.notify_all();
}

void Scheduler::insert(Waits waits) {
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
  for (auto next_look = std::chrono::steady_clock::now() + kLongestPause; !stopping_;) {
    lock.unlock();
    look_after_running();
    if (!unread_.empty() && std::chrono::steady_clock::now() >= next_look) {
      adopt_unread();
      next_look = std::chrono::steady_clock::now() + kLongestPause;
    }
    lock.lock();
    // These runs were stopped or deleted while they waited.
    std::erase_if(waiting_, [](const Waits& run) {
      std::error_code error;
      return !fs::exists(waiting_path(run.run_dir), error) && !error;
    });
    std::vector<Job> running, waiting;
    for (const Runs& run : running_) running.push_back(run.job);
    for (const Waits& run : waiting_) waiting.push_back(run.job);
    std::vector<size_t> chosen = startable(options_.cluster, running, waiting);
    const auto now = std::chrono::steady_clock::now();
    std::erase_if(chosen, [&](size_t index) { return waiting_[index].not_before > now; });
    std::vector<Waits> starting;
    for (const size_t index : chosen) starting.push_back(waiting_[index]);
    for (auto index = chosen.rbegin(); index != chosen.rend(); ++index) {
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(*index));
    }
    lock.unlock();
    std::vector<Waits> again;
    for (Waits& run : starting) {
      try {
        start(run);
      } catch (const std::exception& error) {
        if (is_transient(error)) {
          const auto pause =
              std::min<std::chrono::milliseconds>(kFirstPause * (1 << std::min(run.tries, 10)), kLongestPause);
          spdlog::warn("run {} waits on, it cannot be started now: {}; next try in {:.1f} s", run.job.name,
                       error.what(), std::chrono::duration<double>(pause).count());
          run.not_before = std::chrono::steady_clock::now() + pause;
          ++run.tries;
          again.push_back(std::move(run));
          continue;
        }
        spdlog::error("run {} cannot be started: {}", run.job.name, error.what());
        std::error_code ignored;  // the run is then lost, as its record will say
        fs::remove(waiting_path(run.run_dir), ignored);
      }
    }
    lock.lock();
    for (Waits& run : again) insert(std::move(run));
    if (starting.empty() && !stopping_) wake_.wait_for(lock, kPoll);
  }
}

void Scheduler::look_after_running() {
  std::erase_if(running_, [](Runs& run) {
    try {
      if (run.marked) home::remove_waiting(run.run_dir);
      run.marked = false;
      if (run.supervisor) return run.supervisor->wait(0ms).has_value();
      if (supervise::lease_held(run.run_dir)) return false;
      supervise::settle_if_lost(run.run_dir);
    } catch (const std::exception& error) {
      spdlog::error("run {}: {}", run.job.name, error.what());
      return !is_transient(error);
    }
    return true;
  });
}

void Scheduler::start(const Waits& run) {
  const FileLock lock = home::lock_runs(options_.home);
  if (paused_ || !home::read_waiting(run.run_dir)) return;  // paused, or the run was just stopped
  for (const std::string& name : spec::names_to_give(home::read_spec(run.run_dir))) {
    if (run.values.contains(name)) continue;
    home::fail_waiting(run.run_dir,
                       "the value of " + name + " (--env " + name +
                           ") was in the memory of the master alone, which was started anew before the run "
                           "began: submit it again under another name");
    return;
  }
  supervise::SupervisorOptions options;
  options.run_dir = run.run_dir;
  options.worker = options_.worker;
  options.core_lock = options_.core_lock;
  options.attached = false;
  options.no_wait = run.job.no_wait;
  options.environment = run.values;
  for (const auto& [name, value] : environment_) options.environment[name] = value;
  // From here on the run counts as running, whatever fails.
  running_.push_back({run.job, run.run_dir, supervise::SupervisorHandle::start(options_.program, options), true});
  spdlog::info("run {} started", run.job.name);
  auto& supervisor = *running_.back().supervisor;
  try {
    // Until the supervisor owns the run, the marker keeps others from taking the run for lost.
    const auto deadline = std::chrono::steady_clock::now() + kOwnPatience;
    while (!supervise::lease_held(run.run_dir) && !supervisor.wait(20ms) &&
           std::chrono::steady_clock::now() < deadline) {
    }
    home::remove_waiting(run.run_dir);
    running_.back().marked = false;
  } catch (const std::exception& error) {
    spdlog::warn("run {}: {}", run.job.name, error.what());
  }
}

}  // namespace mlbench::master
