#pragma once

// A Job that was created in Kubernetes, as its run sees it.

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "mlbench/exec/engine_group.h"
#include "mlbench/exec/kubernetes/api.h"
#include "mlbench/exec/kubernetes/status.h"

namespace mlbench::exec::kubernetes {

struct JobPace {
  ApiPace api;
  // The least time between two looks at the job, and the most, which is reached where nothing changes.
  std::chrono::milliseconds look{1000}, slow_look{5000};
  // How long an error of an image or a container may last before the start fails: such an error may pass.
  std::chrono::milliseconds stuck{20'000};
  // The limit from the moment when all containers run until all ranks run.
  std::chrono::milliseconds start{60'000};
  // How long Kubernetes may take, once a rank has ended of SIGTERM, to say what it did.
  std::chrono::milliseconds verdict{3000};
  // The limit for the end of a job that was deleted: pods of a lost node stay until the node is back.
  std::chrono::milliseconds removal{20'000};
  // The time between two looks at Kubernetes' warnings where nothing changes.
  std::chrono::milliseconds warnings{15'000};
};

struct JobOfRun {
  std::string name, uid, name_space, image, queue;
  int ranks = 1;
  std::string supervisor;    // the address to which guards connect
  bool pods_meet = false;    // whether pods connect to each other before the ranks run (Open MPI)
  std::string server = {};   // version of Kubernetes; "": not known
  std::string path() const;  // paths in the API: this one is the job's
  std::string pods_path() const;
  std::string events_path() const;    // events of the job itself
  std::string warnings_path() const;  // warnings of all pods of the namespace
};

// Looks at the job now and then, in a thread of its own: a slow server holds nobody up. Public methods are thread-safe.
class Watch {
 public:
  Watch(Cluster cluster, JobOfRun job, JobPace pace);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  Seen seen() const;
  std::vector<std::string> take_warnings();  // those since the last call
  void hurry();                              // makes the next look come at once

 private:
  void run();
  void look(Api& api);
  void look_at_job(Api& api, Seen& now) const;
  void look_for_warnings(Api& api);

  const JobOfRun job_;
  const JobPace pace_;
  const Cluster cluster_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  Seen seen_;
  std::vector<std::string> news_;
  Warnings warnings_;                                    // used by the thread alone
  std::chrono::steady_clock::time_point warnings_at_{};  // when to ask for warnings again; used by the thread alone
  bool changed_ = false, hurried_ = false, stopped_ = false;
  std::thread thread_;  // last member: the thread uses the others
};

class Job final : public EngineJob {
 public:
  Job(const Cluster& cluster, JobOfRun job, JobPace pace = {});

  StartStatus status() override;
  void extend_start() override { running_since_.reset(); }
  std::vector<EngineWord> news() override;
  std::chrono::milliseconds verdict_time() const override { return pace_.verdict; }
  void hurry() override { watch_->hurry(); }
  std::vector<std::string> notes() override { return watch_->take_warnings(); }
  Json allocation() override;
  void end(std::chrono::milliseconds patience) override;

 private:
  using Clock = std::chrono::steady_clock;
  std::string said(const std::string& what) const;

  const JobOfRun job_;
  const JobPace pace_;
  Api api_;  // for end()
  std::unique_ptr<Watch> watch_;
  std::optional<Clock::time_point> stuck_since_, running_since_;
  std::optional<std::vector<PodView>> first_;  // the pods as the ranks began
  std::set<std::string> told_;                 // the words that news() has returned
  std::string failure_;
  bool late_ = false;  // whether failure_ says that ranks were late
};

}  // namespace mlbench::exec::kubernetes
