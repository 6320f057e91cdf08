#pragma once

// Starts the runs that wait in a home, as their hosts become free (queue.h). Each gets a supervisor of its own on this
// machine, which survives us; after a restart the folders say what waits and what runs. A run that cannot be started
// because the system is short of something (base/system_error.h) waits on, and is tried again after a while.

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
  std::filesystem::path program;  // mlbench
  std::filesystem::path worker;
  std::filesystem::path core_lock;
  Cluster cluster;
  std::vector<std::filesystem::path> active;  // runs that wait or run now
};

class Scheduler {
 public:
  // Adopts what runs, queues what waits.
  explicit Scheduler(SchedulerOptions options);
  // From now on starts what waits, with these variables: where its programs find this master.
  void begin(std::map<std::string, std::string> environment);
  // Starts nothing more: what waits is for the next master. Nothing is about to start on return.
  void pause();
  ~Scheduler();  // starts nothing more; what runs goes on
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  const Cluster& cluster() const { return options_.cluster; }
  // A run that was just made with Waiting; `values` of the variables that its specification only names stay in memory.
  // Reads nothing, so that nothing can fail any more.
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
    bool marked = false;                                    // as one that waits, still
  };

  void work();
  void look_after_running();
  // Those that could not be read before.
  void adopt_unread();
  void adopt(const std::filesystem::path& run_dir);
  void start(const Waits& run);
  void insert(Waits waits);

  const SchedulerOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> paused_ = false;
  bool stopping_ = false;
  std::vector<Waits> waiting_;                      // by id
  std::list<Runs> running_;                         // of the thread alone, once it runs
  std::vector<std::filesystem::path> unread_;       // the same
  std::map<std::string, std::string> environment_;  // of the thread alone, once it runs
  std::thread thread_;
};

}  // namespace mlbench::master
