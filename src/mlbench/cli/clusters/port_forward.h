#pragma once

// Opens a port on the loopback that leads to a service in Kubernetes, by kubectl. This way to a cluster's master opens
// nothing to other machines.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/process.h"
#include "mlbench/cli/clusters/config.h"

namespace mlbench::cli {

// "kubectl ... port-forward --address 127.0.0.1 service/NAME PORT:http". Port 0 means any free port.
std::vector<std::string> port_forward_command(const Cluster& cluster, int port);

// The port in kubectl's "Forwarding from 127.0.0.1:40583 -> 8080"; empty where `said` has no such line (yet).
std::optional<int> forwarded_port(const std::string& said);

// The port is open as long as this object lives. Precondition: the thread that makes the object outlives it, since
// kubectl dies with that thread.
class PortForward {
 public:
  // Opens the port and waits until it is open. Throws UserError where there is no kubectl, and CommError, with
  // kubectl's words, where the port is not open within `patience`.
  explicit PortForward(Cluster cluster, int port = 0, std::chrono::milliseconds patience = std::chrono::seconds(30));
  ~PortForward();
  PortForward(const PortForward&) = delete;
  PortForward& operator=(const PortForward&) = delete;

  std::string url() const;
  // Opens the same port again where kubectl has ended, as it does when the master's pod is replaced.
  void keep_open();
  // Waits for the end of kubectl; empty where it still runs after `timeout`.
  std::optional<ProcessEnd> wait(std::chrono::milliseconds timeout) { return child_->wait(timeout); }

 private:
  void open();
  std::string said() const;

  Cluster cluster_;
  int port_;
  std::chrono::milliseconds patience_;
  FileDescriptor output_;  // a file in memory: a pipe that is not read would block kubectl
  std::optional<ChildProcess> child_;
};

}  // namespace mlbench::cli
