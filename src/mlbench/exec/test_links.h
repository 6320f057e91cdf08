#pragma once

// For tests: what a supervisor opens for ranks on other hosts, a server of links and a rendezvous.

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/run_folder.h"
#include "mlbench/exec/executor.h"
#include "mlbench/net/kv/kv.h"
#include "mlbench/net/link/link.h"

namespace mlbench::exec {

class TestLinks {
 public:
  // Opens both for the run "1" and tells `request` where they are. Preconditions: its workers, logs, folder and secret
  // are set.
  explicit TestLinks(LaunchRequest& request, std::chrono::milliseconds patience = net::kLinkPatience)
      : links_({.size = request.workers,
                .folder = request.links.folder,
                .files = [request](int rank) { return logs_of(request, rank); },
                .patience = patience}),
        rendezvous_({.size = request.workers,
                     .run_id = "1",
                     .secret = request.links.secret,
                     .take_link = [this](net::ProvedConnection connection) { links_.take(std::move(connection)); }}) {
    request.links.server = &links_;
    request.links.rendezvous = "127.0.0.1:" + std::to_string(port());
  }

  int port() const { return rendezvous_.port(); }
  const net::LinkServer& links() const { return links_; }

 private:
  static std::vector<std::string> logs_of(const LaunchRequest& request, int rank) {
    std::vector<std::string> names;
    for (const LogStream stream : kLogStreams) {
      const auto path = rank_log_path(request.log_dir, request.segment, rank, stream);
      names.push_back(path.lexically_relative(request.links.folder));
    }
    return names;
  }

  net::LinkServer links_;
  net::KvServer rendezvous_;
};

}  // namespace mlbench::exec
