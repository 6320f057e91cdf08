#pragma once

// What is brought to ranks on other hosts, and what is launched there. For linked.cpp.

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
#include "mlbench/spec/communication.h"

namespace mlbench::exec {

// Files of the run's folder, each once for all ranks that share a folder there: the guard of the first writes it, and
// the others' ranks start behind that one, which runs once it has found all.
class LinkedFiles {
 public:
  // `files`: for all ranks, beside Links::given.
  LinkedFiles(const LaunchRequest& request, std::vector<std::string> files)
      : request_(request), files_(std::move(files)), behind_(static_cast<size_t>(request.workers)) {}

  // To a rank that is placed.
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
  // Ranks whose guards write what it is to find.
  const std::set<size_t>& behind(size_t rank) const { return behind_[rank]; }

 private:
  const LaunchRequest& request_;
  const std::vector<std::string> files_;
  std::map<std::pair<std::string, std::string>, size_t> writers_;  // of a file in a folder: the rank whose guard it is
  std::vector<std::set<size_t>> behind_;
};

// The ranks, and beside them Open MPI's mpirun and daemons, where nobody but the guards can start these.
class LinkedLaunch {
 public:
  // `mpirun`, `peers`: of start_linked(). The others outlive this.
  LinkedLaunch(const LaunchRequest& request, const LinkedHosts& hosts, const LinkedFiles& files,
               std::vector<std::string> mpirun, std::vector<std::string> peers)
      : request_(request),
        hosts_(hosts),
        files_(files),
        mpirun_(std::move(mpirun)),
        peers_(std::move(peers)),
        due_(hosts.size()),
        started_(hosts.size()) {}

  // Once all guards came, so that ranks can be told of each other.
  void begin() {
    if (begun_ || !hosts_.all_placed()) return;
    begun_ = true;
    if (request_.rank_words) tell_of_peers();
    if (!mpirun_.empty()) return guard::say(*hosts_[0].guard, guard::LaunchWord{"mpirun", mpirun_});
    for (size_t rank = 0; rank < hosts_.size(); ++rank) start(rank);
  }
  bool has_begun() const { return begun_; }
  bool runs_mpirun() const { return begun_ && !mpirun_.empty(); }

  // From now on the rank is due: it starts as soon as those have started behind which it is.
  void start(size_t rank) {
    due_[rank] = true;
    if (!std::ranges::all_of(files_.behind(rank), [&](size_t writer) { return started_[writer]; })) return;
    const auto log = rank_log_path(request_.log_dir, request_.segment, static_cast<int>(rank));
    guard::say(*hosts_[rank].guard, guard::StartWord{log.lexically_relative(request_.links.folder)});
  }

  // It says that it runs. PeerFault where it was not to start.
  void note_start(size_t writer) {
    if (!due_[writer] || started_[writer]) throw PeerFault("it says that its rank runs, which was not to start");
    started_[writer] = true;
    for (size_t rank = 0; rank < hosts_.size(); ++rank) {
      if (due_[rank] && files_.behind(rank).contains(writer)) start(rank);
    }
  }

  // What mpirun wants: a daemon of Open MPI's on the host of a rank. Whether there is such a host.
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
      if (!spec::needs_mpirun(request_.backend)) add_horovod(variables, horovod[rank]);
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
