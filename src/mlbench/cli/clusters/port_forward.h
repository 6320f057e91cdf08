#pragma once

// A port of the loopback that leads to a service in Kubernetes, by kubectl, for as long as this object lives: the one
// way to the master of a cluster that opens nothing to anybody else.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/process.h"
#include "mlbench/cli/clusters/config.h"

namespace mlbench::cli {

// "kubectl ... port-forward --address 127.0.0.1 service/NAME PORT:http". Port 0: whichever is free.
std::vector<std::string> port_forward_command(const Cluster& cluster, int port);

// The port of kubectl's "Forwarding from 127.0.0.1:40583 -> 8080". Empty: it does not say so (yet).
std::optional<int> forwarded_port(const std::string& said);

// Owned by one thread, the one that made it: kubectl dies with that.
class PortForward {
 public:
  // Waits until it is open. CommError with kubectl's words where that does not come about within `patience`.
  explicit PortForward(Cluster cluster, int port = 0, std::chrono::milliseconds patience = std::chrono::seconds(30));
  ~PortForward();
  PortForward(const PortForward&) = delete;
  PortForward& operator=(const PortForward&) = delete;

  std::string url() const;
  // Again, on the same port, where kubectl ended: it does when the master's pod is replaced.
  void keep_open();
  // Empty while it is open.
  std::optional<ProcessEnd> wait(std::chrono::milliseconds timeout) { return child_->wait(timeout); }

 private:
  void open();
  std::string said() const;

  Cluster cluster_;
  int port_;
  std::chrono::milliseconds patience_;
  FileDescriptor output_;  // in memory: a pipe that nobody reads would stop kubectl
  std::optional<ChildProcess> child_;
};

}  // namespace mlbench::cli
