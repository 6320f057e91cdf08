#pragma once

// Starts the runs that wait in a home as their hosts become free (queue.h). Each gets a supervisor of its own on this
// machine, which outlives the master. After a restart of the master, the run folders say which runs wait and which run.
// A run that cannot be started for a shortage of the system (base/system_error.h) waits on, and is tried again after a
// pause.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "mlbench/master/sched/queue.h"
#include "mlbench/spec/run_spec.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench::master {

struct SchedulerOptions {
  std::filesystem::path home;
  std::filesystem::path program;  // the program mlbench
  std::filesystem::path worker;
  std::filesystem::path core_lock;
  Cluster cluster;
  std::vector<std::filesystem::path> active;  // folders of runs that wait or run now
};

class Scheduler {
 public:
  // Adopts the runs of `options.active` that run, and queues those that wait.
  explicit Scheduler(SchedulerOptions options);
  // Starts the thread that starts waiting runs. `environment` is added to the variables of each: it says where its
  // programs find this master.
  void begin(std::map<std::string, std::string> environment);
  // Stops starting runs: those that wait are left to the next master. No start is in progress on return.
  void pause();
  ~Scheduler();  // starts nothing more; started runs go on
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  const Cluster& cluster() const { return options_.cluster; }
  // Queues a run that was just made with home::Waiting. `values` are those of the variables that its specification only
  // names; they stay in memory. Reads no file, so that it cannot fail.
  void submit(const spec::RunSpec& run, bool no_wait, std::map<std::string, std::string> values = {});
  // Names of runs that wait, oldest first.
  std::vector<std::string> waiting() const;

 private:
  struct Waits {
    int64_t id;
    Job job;
    std::filesystem::path run_dir;
    std::map<std::string, std::string> values;
    int tries = 0;
    std::chrono::steady_clock::time_point not_before = {};
  };
  struct Runs {
    Job job;
    std::filesystem::path run_dir;
    std::optional<supervise::SupervisorHandle> supervisor;  // empty: adopted
    bool marked = false;                                    // its marker of a waiting run is still there
  };

  void work();
  void look_after_running();
  // Tries again to adopt the runs that could not be read before.
  void adopt_unread();
  void adopt(const std::filesystem::path& run_dir);
  void start(const Waits& run);
  void insert(Waits waits);

  const SchedulerOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> paused_ = false;
  bool stopping_ = false;
  std::vector<Waits> waiting_;                      // sorted by id
  std::list<Runs> running_;                         // used by the thread alone, once it runs
  std::vector<std::filesystem::path> unread_;       // used as `running_`
  std::map<std::string, std::string> environment_;  // used as `running_`
  std::thread thread_;
};

}  // namespace mlbench::master
