#pragma once

// What is brought to the hosts of ranks, and what is launched there. For linked.cpp alone.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/run_folder.h"
#include "mlbench/exec/executor.h"
#include "mlbench/exec/horovod.h"
#include "mlbench/exec/linked_hosts.h"
#include "mlbench/exec/openmpi.h"

namespace mlbench::exec {

// The files of the run's folder that ranks on other hosts are given. Ranks that share a folder there get each file
// once: the guard of the first of these ranks writes it. The others start after that rank, which runs once it has found
// all its files.
class LinkedFiles {
 public:
  // `files` are for all ranks, beside those of Links::given. Precondition: `request` outlives this object.
  LinkedFiles(const LaunchRequest& request, std::vector<std::string> files)
      : request_(request), files_(std::move(files)), behind_(static_cast<size_t>(request.workers)) {}

  // Gives `rank` its files. Precondition: `host.placed`.
  void give(size_t rank, const LinkedHost& host) {
    std::vector<std::string> names = files_;
    if (request_.links.given) {
      for (std::string& name : request_.links.given(static_cast<int>(rank))) names.push_back(std::move(name));
    }
    for (const std::string& name : names) {
      const auto [writer, first] = writers_.try_emplace({host.folder, name}, rank);
      if (first) host.guard->put(name);
      if (writer->second != rank) behind_[rank].insert(writer->second);
    }
  }
  // The ranks whose guards write files that `rank` is to find.
  const std::set<size_t>& behind(size_t rank) const { return behind_[rank]; }

 private:
  const LaunchRequest& request_;
  const std::vector<std::string> files_;
  std::map<std::pair<std::string, std::string>, size_t> writers_;  // by folder and file: the rank whose guard writes it
  std::vector<std::set<size_t>> behind_;
};

// Starts the ranks, and beside them Open MPI's mpirun and daemons where nobody but the guards can start these.
class LinkedLaunch {
 public:
  // `mpirun` and `peers` are those of start_linked(). Precondition: `request`, `hosts` and `files` outlive this object.
  LinkedLaunch(const LaunchRequest& request, const LinkedHosts& hosts, const LinkedFiles& files,
               std::vector<std::string> mpirun, std::vector<std::string> peers)
      : request_(request),
        hosts_(hosts),
        files_(files),
        mpirun_(std::move(mpirun)),
        peers_(std::move(peers)),
        due_(hosts.size()),
        started_(hosts.size()) {}

  // Starts the ranks, or mpirun, as soon as all guards came, since ranks are told of each other; before that, does
  // nothing.
  void begin() {
    if (begun_ || !hosts_.all_placed()) return;
    begun_ = true;
    if (request_.rank_words) tell_of_peers();
    if (!mpirun_.empty()) return guard::say(*hosts_[0].guard, guard::LaunchWord{"mpirun", mpirun_});
    for (size_t rank = 0; rank < hosts_.size(); ++rank) start(rank);
  }
  bool has_begun() const { return begun_; }
  bool runs_mpirun() const { return begun_ && !mpirun_.empty(); }

  // Makes the rank due: it starts as soon as the ranks have started whose guards write its files.
  void start(size_t rank) {
    due_[rank] = true;
    if (!std::ranges::all_of(files_.behind(rank), [&](size_t writer) { return started_[writer]; })) return;
    const auto log = [&](LogStream stream) {
      return rank_log_path(request_.log_dir, request_.segment, static_cast<int64_t>(rank), stream)
          .lexically_relative(request_.links.folder)
          .string();
    };
    guard::say(*hosts_[rank].guard, guard::StartWord{log(LogStream::kStdout), log(LogStream::kStderr)});
  }

  // Notes that the guard of rank `writer` says that its rank runs, and starts the ranks that waited for it. Throws
  // PeerFault where the rank was not to start.
  void note_start(size_t writer) {
    if (!due_[writer] || started_[writer]) throw PeerFault("it says that its rank runs, which was not to start");
    started_[writer] = true;
    for (size_t rank = 0; rank < hosts_.size(); ++rank) {
      if (due_[rank] && files_.behind(rank).contains(writer)) start(rank);
    }
  }

  // Starts a daemon of Open MPI's on the host that mpirun names. Returns whether that is the host of some rank.
  bool launch_daemon(const guard::AgentWord& wanted) const {
    for (size_t rank = 0; rank < hosts_.size(); ++rank) {
      if (openmpi_host(static_cast<int>(rank)) != wanted.host) continue;
      guard::say(*hosts_[rank].guard, guard::LaunchWord{"Open MPI's daemon", {"/bin/sh", "-c", wanted.command}});
      return true;
    }
    return false;
  }

 private:
  void tell_of_peers() const {
    std::vector<std::string> names = peers_;
    std::vector<LocalPlace> places;
    for (size_t rank = 0; rank < hosts_.size(); ++rank) {
      places.push_back(hosts_[rank].local);
      if (peers_.empty()) names.push_back(hosts_.peer_name(rank));
    }
    LaunchRequest told = request_;
    told.environment["MASTER_ADDR"] = names.front();
    told.environment["MASTER_PORT"] = std::to_string(hosts_[0].port);
    add_horovod(told);
    const std::vector<HorovodPlace> horovod = horovod_places(places);
    const std::string all_names = fmt::format("{}", fmt::join(names, ","));
    for (size_t rank = 0; rank < hosts_.size(); ++rank) {
      auto variables = told.environment;
      if (!request_.by_mpirun) add_horovod(variables, horovod[rank]);
      guard::PeersWord word{all_names, {}};
      for (const auto& [name, value] : variables) {
        const auto known = request_.environment.find(name);
        if (known == request_.environment.end() || known->second != value) word.variables[name] = value;
      }
      guard::say(*hosts_[rank].guard, word);
    }
  }

  const LaunchRequest& request_;
  const LinkedHosts& hosts_;
  const LinkedFiles& files_;
  const std::vector<std::string> mpirun_, peers_;
  bool begun_ = false;
  std::vector<bool> due_, started_;
};

}  // namespace mlbench::exec
