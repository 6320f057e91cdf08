#pragma once

// The data plane's tables of implementations: one row per back end and per framework. The only place that names them.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/availability.h"
#include "mlbench/comm/communicator.h"
#include "mlbench/comm/memory.h"
#include "mlbench/framework/framework.h"
#include "mlbench/spec/communication.h"

namespace mlbench::catalog {

struct BackendRow {
  const char* name;
  Availability (*available)();
  std::unique_ptr<comm::Transport> (*make)(const comm::CommOptions& options);
  const char* about;  // whose connections and whose collectives, for lists
  // The call in which make() waits for the other ranks without a timeout of its own: noted on the board, for the
  // watchdog. "": it has a timeout.
  const char* waits_in = "";
  // Waits by looking again and again, and so takes a core while it waits: for as long (mpi), or at first (shm).
  bool spins = false;
  // What of spec::Communication it knows beside "auto" and defaults: all_reduce algorithms; links, socket_buffer,
  // interface.
  std::vector<std::string_view> algorithms = {"auto"};
  std::vector<std::string_view> tunables = {};
  // How the variables begin by which its library is told how to communicate.
  std::vector<std::string_view> variables = {};
  // Makes buffers on the rank's GPU. Null: it takes buffers of the host alone.
  std::unique_ptr<comm::Memory> (*gpu_memory)(const comm::CommOptions& options) = nullptr;
};
const std::vector<BackendRow>& backends();

struct FrameworkRow {
  const char* name;
  Availability (*available)();
  std::unique_ptr<framework::Framework> (*make)(const framework::FrameworkOptions& options);
  bool inter_op = false;  // takes FrameworkOptions::inter_op_threads
  bool profile = false;   // can tell its operations apart, for --profile and --explain
  // What it computes in, and on, of some models at least: the rest is refused before any data are prepared.
  std::vector<std::string_view> precisions = {"float32"};
  std::vector<std::string_view> devices = {"cpu"};
};
const std::vector<FrameworkRow>& frameworks();

// UserError listing the valid names, or the reason why the chosen one is not available.
bool backend_spins(const std::string& name);
// NAME=VALUE of those of its variables that this process has, ordered.
std::vector<std::string> backend_variables(const std::string& name);
// With what is to stand around it: check(cast[...](netem(ring(NAME)))), each where it is asked for. A null board: one
// of its own.
std::unique_ptr<comm::Communicator> make_backend(const std::string& name, const comm::CommOptions& options,
                                                 std::shared_ptr<comm::OperationBoard> board = nullptr,
                                                 const spec::Communication& communication = {});
// UserError naming the back ends that there are for it where this one takes buffers of the host alone.
std::unique_ptr<comm::Memory> make_gpu_memory(const std::string& backend, const comm::CommOptions& options);
std::unique_ptr<framework::Framework> make_framework(const std::string& name,
                                                     const framework::FrameworkOptions& options);

// What this worker can do, for `mlbench-worker --catalog`: {"build_id", "git_describe", "frameworks": [{"name",
// "available", "reason", "inter_op", "profile", "precisions", "devices"}], "backends": [{... and "about", "algorithms",
// "tunables", "devices"}], "optimizers": [...], "models": [...], "metrics": [...]}.
Json describe();

}  // namespace mlbench::catalog
