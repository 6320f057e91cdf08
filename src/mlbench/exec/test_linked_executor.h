#pragma once

// For tests: an executor of another host, which is a folder of its own on this one. The guards of its ranks come over
// links.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/process.h"
#include "mlbench/base/text.h"
#include "mlbench/exec/linked.h"

namespace mlbench::exec {

struct OtherHost {
  std::string name = "elsewhere";
  // The port at which that host reaches `port` of this host. Null: there is no network between them.
  std::function<int(int port)> way = nullptr;
  std::vector<std::string> files = {};  // those that guards are given
};

class LinkedExecutor final : public Executor {
 public:
  explicit LinkedExecutor(OtherHost host = {}) : host_(std::move(host)) {}

  // The folder on the other host of the run whose folder here is `folder`.
  static std::filesystem::path there(const std::filesystem::path& folder) { return folder.string() + "-elsewhere"; }

  std::string name() const override { return "linked"; }
  ExecutorFacts facts() const override { return {}; }

  std::vector<std::string> describe(const LaunchRequest& request) const override {
    std::vector<std::string> lines;
    for (int rank = 0; rank < request.workers; ++rank) {
      const ProcessOptions options = guard_of(request, rank);
      lines.push_back(command_line(options.environment, options.arguments));
    }
    return lines;
  }

  std::unique_ptr<Start> start(const LaunchRequest& request) override {
    std::filesystem::create_directories(there(request.links.folder));
    LaunchRequest theirs = moved_to(request, there(request.links.folder));
    if (host_.way) {
      const size_t colon = theirs.links.rendezvous.rfind(':');
      const int port = host_.way(std::stoi(theirs.links.rendezvous.substr(colon + 1)));
      theirs.links.rendezvous = theirs.links.rendezvous.substr(0, colon + 1) + std::to_string(port);
      if (theirs.environment.contains("MASTER_PORT")) theirs.environment["MASTER_PORT"] = std::to_string(port);
    }
    auto job = std::make_unique<Job>();
    std::vector<Placement> places;
    for (int rank = 0; rank < request.workers; ++rank) {
      places.push_back({.host = host_.name, .rank = rank, .local_rank = rank});
      ProcessOptions options = guard_of(theirs, rank);
      options.environment.merge(guard_environment(theirs, there(request.links.folder)));
      options.output = job->log();
      job->add(ChildProcess::start(options));
    }
    return std::make_unique<JobStart>(std::move(job), start_linked(request, std::move(places), host_.files));
  }

 private:
  // The job of the engine: the guards of all ranks.
  class Job {
   public:
    ~Job() {
      for (ChildProcess& guard : guards_) guard.stop(std::chrono::seconds(10));
    }
    void add(ChildProcess guard) { guards_.push_back(std::move(guard)); }
    void wait() {
      for (ChildProcess& guard : guards_) guard.wait(std::chrono::seconds(20));
    }
    std::filesystem::path log() const { return folder_ / "guards.log"; }

   private:
    TemporaryFolder folder_;
    std::vector<ChildProcess> guards_;
  };

  class Group final : public RankGroup {
   public:
    Group(std::unique_ptr<Job> job, std::unique_ptr<RankGroup> below)
        : job_(std::move(job)), below_(std::move(below)) {}
    ~Group() override {
      below_.reset();  // tells the guards, which end what is left of their ranks
      job_->wait();
    }
    std::vector<Observation> poll(std::chrono::milliseconds timeout) override { return below_->poll(timeout); }
    bool running() const override { return below_->running(); }
    std::vector<std::optional<pid_t>> pids() const override { return below_->pids(); }
    std::vector<Placement> placement() const override { return below_->placement(); }
    GroupUsage usage() const override { return below_->usage(); }
    std::vector<HostCapture> captures() const override { return below_->captures(); }
    void signal_all(int signal_number) override { below_->signal_all(signal_number); }
    void stop(std::chrono::milliseconds patience) override { below_->stop(patience); }

   private:
    std::unique_ptr<Job> job_;
    std::unique_ptr<RankGroup> below_;
  };

  class JobStart final : public Start {
   public:
    JobStart(std::unique_ptr<Job> job, std::unique_ptr<Start> below) : job_(std::move(job)), below_(std::move(below)) {}
    StartStatus poll(std::chrono::milliseconds timeout) override { return below_->poll(timeout); }
    std::unique_ptr<RankGroup> take() override { return std::make_unique<Group>(std::move(job_), below_->take()); }

   private:
    std::unique_ptr<Job> job_;
    std::unique_ptr<Start> below_;
  };

  static ProcessOptions guard_of(const LaunchRequest& request, int rank) {
    ProcessOptions options;
    options.arguments = {request.guard.string(), "direct"};
    options.arguments.insert(options.arguments.end(), request.command.begin(), request.command.end());
    if (request.rank_words) fill_in(options.arguments, "{rank}", std::to_string(rank));
    options.environment = request.environment;
    options.environment["RANK"] = options.environment["LOCAL_RANK"] = std::to_string(rank);
    options.environment["WORLD_SIZE"] = options.environment["LOCAL_WORLD_SIZE"] = std::to_string(request.workers);
    options.working_directory = request.working_directory;
    options.new_session = true;
    return options;
  }

  const OtherHost host_;
};

}  // namespace mlbench::exec
