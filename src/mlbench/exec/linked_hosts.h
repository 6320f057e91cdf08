#pragma once

// The guards that came from other hosts, and what they say of their hosts. For linked.cpp alone.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/build_info.h"
#include "mlbench/base/peer_words.h"
#include "mlbench/exec/executor.h"
#include "mlbench/exec/horovod.h"
#include "mlbench/guard/channel.h"
#include "mlbench/guard/words.h"
#include "mlbench/net/link/link.h"

namespace mlbench::exec {

// What is known of the guard of a rank, and of its host.
struct LinkedHost {
  std::unique_ptr<guard::Channel> guard;  // null: the guard has not come, or cannot take part
  bool placed = false;                    // whether the guard has said where it is, which is what follows
  std::string address;                    // the host's, towards the supervisor; "": the guard did not say
  int port = 0;                           // a free one of that host; 0: the guard did not say
  std::string folder;                     // identifies the run's folder there: guards that share it say the same
  LocalPlace local;
  CoreShare cores;
};

class LinkedHosts {
 public:
  // Where `placement` is empty, the guards say where the ranks are. Precondition: `request` outlives this object.
  LinkedHosts(const LaunchRequest& request, std::vector<Placement> placement)
      : request_(request),
        guards_place_(placement.empty()),
        placement_(std::move(placement)),
        arrivals_(*request.links.server, request.workers, request.links.rendezvous),
        hosts_(static_cast<size_t>(request.workers)) {
    if (!request.in_image) {
      guard_build_ = elf_build_id(request.guard);
      if (!request.rank_words) worker_build_ = elf_build_id(request.command.front());
    }
    for (int rank = 0; guards_place_ && rank < request.workers; ++rank) placement_.push_back({.rank = rank});
  }

  // Takes the guards that came since the last call. Returns the ranks whose guards cannot take part, each with the
  // reason.
  std::vector<std::pair<size_t, std::string>> greet() {
    while (auto guard = arrivals_.accept()) strangers_.push_back(std::move(guard));
    std::vector<std::pair<size_t, std::string>> refused;
    // A guard's first word is its rank, which must be that of its link.
    std::erase_if(strangers_, [&](std::unique_ptr<guard::Channel>& guard) {
      const auto rank = static_cast<size_t>(guard->rank());
      guard::Message message;
      const auto status = guard->receive(message);
      if (status == guard::Channel::Status::kNothing) return false;
      if (status == guard::Channel::Status::kClosed) {
        refused.emplace_back(rank, why_lost(rank));
      } else if (!guard::is<guard::RankWord>(message) || message.text != guard::RankWord{guard->rank()}.text()) {
        refused.emplace_back(rank, fmt::format("its guard does not say that it is of rank {}", rank));
      } else {
        hosts_[rank].guard = std::move(guard);
      }
      return true;
    });
    return refused;
  }
  // The connections of guards that have not said their rank yet.
  const std::vector<std::unique_ptr<guard::Channel>>& strangers() const { return strangers_; }

  // Takes what the rank's guard says of its host. Returns why the rank cannot run there; "" where it can. Throws
  // PeerFault where the guard said that before.
  std::string place(size_t rank, const guard::HostWord& said) {
    LinkedHost& host = hosts_[rank];
    if (host.placed) throw PeerFault("it says twice where it is");
    host.placed = true;
    host.address = said.address;
    host.port = said.port;
    host.folder = said.folder.empty() ? fmt::format("of rank {}", rank) : said.folder;
    host.local = {said.local_rank, said.local_size};
    host.cores = {.numbers = said.cores, .at_a_time = said.cores_at_a_time()};
    Placement& place = placement_[rank];
    place.gpu = said.gpu;
    if (guards_place_) {
      place.host = said.node.empty() ? request_.links.server->host(static_cast<int>(rank)) : said.node;
      place.local_rank = said.local_rank;
      if (has_room_for(core_list(said.cores))) place.cores = said.cores;
    }
    if (std::ranges::find(captures_, place.host, &HostCapture::name) == captures_.end()) {
      const bool fits = has_room_for({said.host, said.environment});
      captures_.push_back({place.host, fits ? said.host : Json::object(), fits ? said.environment : Json::object()});
    }
    const std::string problem = other_build(request_.guard, guard_build_, said.guard_build_id());
    return problem.empty() ? other_build(request_.command.front(), worker_build_, said.build_id) : problem;
  }

  // Counts what a host said and the record would keep, as it stands there. Returns whether that is still within what
  // all hosts may say.
  bool has_room_for(const Json& said) {
    constexpr int kIndent = 2;
    kept_bytes_ += Json::array({Json::array({said})}).dump(kIndent, ' ', false, Json::error_handler_t::replace).size();
    return kept_bytes_ <= peer_words::kMostCaptures;
  }

  const LinkedHost& operator[](size_t rank) const { return hosts_[rank]; }
  size_t size() const { return hosts_.size(); }
  bool all_placed() const { return std::ranges::all_of(hosts_, &LinkedHost::placed); }
  // The name by which other ranks reach this one: what its guard said, unless the placement was known before.
  std::string peer_name(size_t rank) const {
    return guards_place_ && !hosts_[rank].address.empty() ? hosts_[rank].address : placement_[rank].host;
  }
  const std::vector<Placement>& placement() const { return placement_; }
  const std::vector<HostCapture>& captures() const { return captures_; }

  // The number of cores of all hosts together. Hosts are told apart by what they call themselves, so each pod is a
  // host.
  int cores() const {
    std::vector<CoreShare> shares;
    for (size_t rank = 0; rank < hosts_.size(); ++rank) {
      shares.push_back(hosts_[rank].cores);
      shares.back().host = request_.links.server->host(static_cast<int>(rank));
    }
    return static_cast<int>(std::min(cores_together(shares), peer_words::kCores.most));
  }

  // "rank 1 on n2"; "rank 1" where the host is not known.
  std::string name_of(size_t rank) const {
    const std::string& host = placement_.at(rank).host;
    return fmt::format("rank {}{}", rank, host.empty() ? "" : " on " + host);
  }

  // Why the link of a rank's guard is lost: the guard is out of reach, or broke the protocol.
  std::string why_lost(size_t rank) const {
    const std::string fault = request_.links.server->fault(static_cast<int>(rank));
    return fault.empty() ? "its guard is out of reach" : "its guard breaks the protocol: " + fault;
  }

 private:
  // What is wrong where `program` has another build on its host (`there`) than on this one (`here`); "" where nothing
  // is. A program that is missing on its host has no build there: the start of the rank reports that.
  static std::string other_build(const std::filesystem::path& program, const std::optional<std::string>& here,
                                 const std::string& there) {
    if (!here || there.empty() || there == *here) return "";
    return fmt::format("{} is another build there ({}) than here ({}): install the same one on all hosts, at this path",
                       program.string(), there, *here);
  }

  const LaunchRequest& request_;
  std::optional<std::string> guard_build_, worker_build_;  // on this host; empty: not compared
  const bool guards_place_;
  std::vector<Placement> placement_;
  guard::LinkArrivals arrivals_;
  std::vector<std::unique_ptr<guard::Channel>> strangers_;
  std::vector<LinkedHost> hosts_;  // by rank
  std::vector<HostCapture> captures_;
  size_t kept_bytes_ = 0;  // as has_room_for() counts
};

}  // namespace mlbench::exec
