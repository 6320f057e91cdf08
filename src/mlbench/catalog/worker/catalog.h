#pragma once

// The data plane's tables of implementations: one row per back end and per framework. Only this folder names them. All
// worker programs have the same back ends; each lists its own frameworks (frameworks.h).

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
  const char* about;  // for lists: whose connections and whose collectives it uses
  // The call in which make() waits for other ranks without a timeout of its own. It is noted on the board, for the
  // watchdog. "": make() has a timeout.
  const char* waits_in = "";
  // Whether a waiting rank polls, and so takes a core: all the time (mpi) or only at first (shm).
  bool spins = false;
  // What it supports of spec::Communication: `algorithms` of all_reduce, and which `tunables` of links, socket_buffer
  // and interface.
  std::vector<std::string_view> algorithms = {"auto"};
  std::vector<std::string_view> tunables = {};
  // Prefixes of the environment variables that tell its library how to communicate.
  std::vector<std::string_view> variables = {};
  // Makes buffers on the rank's GPU. Null: it takes only buffers in the host's memory.
  std::unique_ptr<comm::Memory> (*gpu_memory)(const comm::CommOptions& options) = nullptr;
};
const std::vector<BackendRow>& backends();

struct FrameworkRow {
  const char* name;
  Availability (*available)();
  std::unique_ptr<framework::Framework> (*make)(const framework::FrameworkOptions& options);
  const char* about;      // for lists: whose kernels it runs
  bool inter_op = false;  // whether it uses FrameworkOptions::inter_op_threads
  bool profile = false;   // whether it can time its operations, for --profile and --explain
  // Precisions and devices that it can compute with for at least some models. A run with another one is refused before
  // any data are prepared.
  std::vector<std::string_view> precisions = {"float32"};
  std::vector<std::string_view> devices = {"cpu"};
  // The values that it takes of spec::kConvolutions.
  std::vector<std::string_view> convolutions = {"auto"};
  // The kinds of layers that it has (models/layer_kinds.h), and so the tasks that it trains. Null: all.
  std::vector<std::string_view> (*layers)() = nullptr;
  bool decodes = true;       // whether it has a Decoder, which metrics of translations need
  bool computes = true;      // false: its passes compute nothing, and it has no speed
  bool sparse_rows = false;  // whether it takes FrameworkOptions::sparse_rows
};

// Whether the framework has every kind of layer of the model.
bool has_layers_of(const FrameworkRow& row, const models::ModelDescription& model);

// A worker program: what its main() lists. All ranks of a run are of one program.
struct WorkerProgram {
  std::string name;  // of its file, "mlbench-worker"
  std::vector<FrameworkRow> frameworks;
};

// The functions below, except describe(), throw UserError listing the valid names, or saying why the named row is not
// available.
// Whether BackendRow::spins is set.
bool backend_spins(const std::string& name);
// NAME=VALUE of the variables in this process's environment that begin with one of the row's `variables`, sorted.
std::vector<std::string> backend_variables(const std::string& name);
// Makes the back end with the wrappers that `communication` asks for: check(cast[...](netem(NAME))). A null `board`
// stands for a new one.
std::unique_ptr<comm::Communicator> make_backend(const std::string& name, const comm::CommOptions& options,
                                                 std::shared_ptr<comm::OperationBoard> board = nullptr,
                                                 const spec::Communication& communication = {});
// Throws UserError naming the back ends with GPU buffers where `backend` takes only buffers in the host's memory.
std::unique_ptr<comm::Memory> make_gpu_memory(const std::string& backend, const comm::CommOptions& options);
const FrameworkRow& find_framework(const WorkerProgram& program, const std::string& name);
std::unique_ptr<framework::Framework> make_framework(const WorkerProgram& program, const std::string& name,
                                                     const framework::FrameworkOptions& options);

// What the program can do, for `mlbench-worker --catalog`: {"build_id", "git_describe", "frameworks": [{"name",
// "available", "reason", "about", "inter_op", "profile", "precisions", "devices", "convolutions", "layers" (null: all
// kinds), "decodes", "computes", "sparse_rows", "tasks": those that it trains}], "backends": [{the first four, and
// "algorithms", "tunables", "devices"}], "optimizers": [...], "rules": [...], "coders": [...], "patterns": [...],
// "step_options": [...] (rows as optim/factory.h, compress/coder.h and optim/exchange/exchange.h say), "models": [...],
// "metrics": [...]}.
Json describe(const WorkerProgram& program);

}  // namespace mlbench::catalog
