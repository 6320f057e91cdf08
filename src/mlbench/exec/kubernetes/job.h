#pragma once

// A job that was made, as its run sees it.

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
  // Between two looks at the job: at least, and where nothing changes.
  std::chrono::milliseconds look{1000}, slow_look{5000};
  // For an error of an image or container, which may pass.
  std::chrono::milliseconds stuck{20'000};
  // From the moment when all containers run, to the guards of all ranks.
  std::chrono::milliseconds start{60'000};
  // From the end of a rank, of SIGTERM, to what Kubernetes says of it.
  std::chrono::milliseconds verdict{3000};
  // For the end of a job that was deleted: pods of a lost node stay until it is back.
  std::chrono::milliseconds removal{20'000};
  // Between two looks at what Kubernetes warns of, where nothing changes.
  std::chrono::milliseconds warnings{15'000};
};

struct JobOfRun {
  std::string name, uid, name_space, image, queue;
  int ranks = 1;
  std::string supervisor;    // address that guards connect to
  bool pods_meet = false;    // before the ranks run
  std::string server = {};   // version; "": not known
  std::string path() const;  // of the API
  std::string pods_path() const;
  std::string events_path() const;    // of the job itself
  std::string warnings_path() const;  // of all pods of the namespace
};

// Looks at the job now and then, in a thread of its own: a slow server holds nobody up.
class Watch {
 public:
  Watch(Cluster cluster, JobOfRun job, JobPace pace);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  Seen seen() const;
  std::vector<std::string> take_warnings();  // since the last call
  void hurry();                              // the next look is at once

 private:
  void run();
  void look(Api& api);
  void look_for_warnings(Api& api);

  const JobOfRun job_;
  const JobPace pace_;
  const Cluster cluster_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  Seen seen_;
  std::vector<std::string> news_;
  Warnings warnings_;                                    // of the thread alone
  std::chrono::steady_clock::time_point warnings_at_{};  // likewise: when to ask for them again
  bool changed_ = false, hurried_ = false, stopped_ = false;
  std::thread thread_;  // last: it uses the others
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
  Api api_;  // for the end
  std::unique_ptr<Watch> watch_;
  std::optional<Clock::time_point> stuck_since_, running_since_;
  std::optional<std::vector<PodView>> first_;  // as ranks began
  std::set<std::string> told_;                 // of what became of it
  std::string failure_;
  bool late_ = false;  // that is why
};

}  // namespace mlbench::exec::kubernetes
