#include "mlbench/catalog/worker/catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <utility>

#include "mlbench/base/build_info.h"
#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/comm/gloo/gloo.h"
#include "mlbench/comm/mpi/mpi.h"
#include "mlbench/comm/nccl/gpu_memory.h"
#include "mlbench/comm/nccl/nccl.h"
#include "mlbench/comm/shm/shm.h"
#include "mlbench/comm/wrap/cast.h"
#include "mlbench/comm/wrap/check.h"
#include "mlbench/comm/wrap/netem.h"
#include "mlbench/compress/coder.h"
#include "mlbench/metrics/metric.h"
#include "mlbench/models/layer_kinds.h"
#include "mlbench/models/model.h"
#include "mlbench/optim/exchange/exchange.h"
#include "mlbench/optim/factory.h"
#include "mlbench/spec/algorithm.h"
#include "mlbench/spec/collectives.h"
#include "mlbench/spec/former_names.h"
#include "mlbench/spec/task.h"

namespace mlbench::catalog {

const std::vector<BackendRow>& backends() {
  static const std::vector<BackendRow> kRows = {
      {.name = "gloo",
       .available = comm::gloo_backend::available,
       .make = comm::gloo_backend::make,
       .about = "Gloo's connections, collectives of mlbench; --algorithm library: Gloo's own collectives",
       .algorithms = {std::begin(comm::gloo_backend::kAlgorithms), std::end(comm::gloo_backend::kAlgorithms)},
       .tunables = {"links", "socket_buffer", "interface"}},
      {.name = "mpi",
       .available = comm::mpi_backend::available,
       .make = comm::mpi_backend::make,
       .about = "MPI's connections and collectives",
       .waits_in = "MPI_Init",
       .spins = true,
       .algorithms = {std::begin(comm::mpi_backend::kAlgorithms), std::end(comm::mpi_backend::kAlgorithms)},
       .tunables = {"socket_buffer", "interface"},
       // The variables by which mpirun tells a rank its place are left out.
       .variables = {"OMPI_MCA_btl", "OMPI_MCA_coll", "OMPI_MCA_mpi_", "OMPI_MCA_mtl", "OMPI_MCA_pml", "UCX_", "FI_"}},
      {.name = "nccl",
       .available = comm::nccl_backend::available,
       .make = comm::nccl_backend::make,
       .about = "NCCL's connections and collectives",
       .variables = {"NCCL_", "CUDA_VISIBLE_DEVICES"},
       .gpu_memory = comm::nccl_backend::make_memory},
      {.name = "shm",
       .available = comm::shm_backend::available,
       .make = comm::shm_backend::make,
       .about = "memory that the ranks of one host share, collectives of mlbench",
       .spins = true},
  };
  return kRows;
}

namespace {

template <typename Row>
const Row& find_row(const std::vector<Row>& rows, const std::string& name, const char* what) {
  const Row& row = row_named(rows, what, name);
  const Availability availability = row.available();
  if (!availability.available) {
    throw UserError(std::string(what) + " '" + name + "' is not available here: " + availability.reason);
  }
  return row;
}

template <typename Row>
Json list(const std::vector<Row>& rows) {
  Json array = Json::array();
  for (const Row& row : rows) {
    const Availability availability = row.available();
    array.push_back({{"name", row.name},
                     {"available", availability.available},
                     {"reason", availability.reason},
                     {"about", row.about}});
  }
  return array;
}

// The official tasks that the framework trains.
std::vector<std::string> tasks_of(const FrameworkRow& row) {
  std::vector<std::string> tasks;
  for (const spec::TaskSource& source : spec::embedded_tasks()) {
    const spec::TaskSpec task = spec::parse_task(source, "", {}).task;
    const bool known = std::ranges::find(tasks, task.name) != tasks.end();
    if (!known && has_layers_of(row, models::describe_model(task))) tasks.push_back(task.name);
  }
  return tasks;
}

Json list_frameworks(const std::vector<FrameworkRow>& frameworks) {
  Json array = list(frameworks);
  for (size_t i = 0; i < array.size(); ++i) {
    const FrameworkRow& row = frameworks[i];
    array[i].update({{"inter_op", row.inter_op},
                     {"profile", row.profile},
                     {"precisions", row.precisions},
                     {"devices", row.devices},
                     {"convolutions", row.convolutions},
                     {"layers", row.layers == nullptr ? Json() : Json(row.layers())},
                     {"decodes", row.decodes},
                     {"computes", row.computes},
                     {"sparse_rows", row.sparse_rows},
                     {"tasks", tasks_of(row)}});
  }
  return array;
}

Json tuning_of(const BackendRow& row) { return {{"algorithms", row.algorithms}, {"tunables", row.tunables}}; }

Json list_backends() {
  Json array = list(backends());
  for (size_t i = 0; i < array.size(); ++i) {
    array[i].update(tuning_of(backends()[i]));
    array[i]["devices"] = Json::array({"cpu"});
    if (backends()[i].gpu_memory != nullptr) array[i]["devices"].push_back("cuda");
  }
  return array;
}

comm::LinkOptions link_of(const spec::NetemLink& link) {
  return {.latency = std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(link.latency_s)),
          .bytes_per_second = link.bits_per_second / 8};
}

// The check wrapper is outermost, so that it checks what the caller asks for; netem delays what cast sends.
std::unique_ptr<comm::Transport> wrapped(std::unique_ptr<comm::Transport> transport, const spec::Communication& one) {
  if (!one.netem.empty()) {
    const spec::Netem netem = spec::parse_netem(one.netem);
    comm::NetemOptions options = {.all = link_of(netem.all)};
    for (const auto& [ranks, link] : netem.links) {
      options.links[{static_cast<int>(ranks.first), static_cast<int>(ranks.second)}] = link_of(link);
    }
    transport = comm::make_netem(std::move(transport), options);
  }
  if (!one.wire_dtype.empty()) transport = comm::make_cast(std::move(transport), spec::dtype_named(one.wire_dtype));
  if (one.check) transport = comm::make_check(std::move(transport));
  return transport;
}

}  // namespace

bool has_layers_of(const FrameworkRow& row, const models::ModelDescription& model) {
  if (row.layers == nullptr) return true;
  const std::vector<std::string_view> layers = row.layers();
  return std::ranges::all_of(models::kinds_in(model), [&](const std::string& kind) {
    return std::ranges::find(layers, std::string_view(kind)) != layers.end();
  });
}

bool backend_spins(const std::string& name) { return find_row(backends(), name, "backend").spins; }

std::vector<std::string> backend_variables(const std::string& name) {
  const auto& beginnings = find_row(backends(), name, "backend").variables;
  std::vector<std::string> found;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view variable(*one);
    const auto begins = [&](std::string_view beginning) { return variable.starts_with(beginning); };
    if (std::ranges::any_of(beginnings, begins)) found.emplace_back(variable);
  }
  std::ranges::sort(found);
  return found;
}

std::unique_ptr<comm::Communicator> make_backend(const std::string& name, const comm::CommOptions& options,
                                                 std::shared_ptr<comm::OperationBoard> board,
                                                 const spec::Communication& communication) {
  const BackendRow& row = find_row(backends(), name, "backend");
  spec::check_tuning(communication, name, tuning_of(row));
  if (board == nullptr) board = std::make_shared<comm::OperationBoard>();
  std::optional<comm::BoardEntry> start;
  if (*row.waits_in != '\0') start.emplace(*board, row.waits_in);
  auto transport = row.make(options);
  start.reset();
  return std::make_unique<comm::Communicator>(wrapped(std::move(transport), communication), std::move(board));
}

std::unique_ptr<comm::Memory> make_gpu_memory(const std::string& backend, const comm::CommOptions& options) {
  const BackendRow& row = find_row(backends(), backend, "backend");
  if (row.gpu_memory != nullptr) return row.gpu_memory(options);
  std::string names;
  for (const BackendRow& other : backends()) {
    if (other.gpu_memory != nullptr) names += (names.empty() ? "" : ", ") + std::string(other.name);
  }
  throw UserError("backend '" + backend + "' takes buffers of the host alone; with buffers on GPUs: " + names);
}

const FrameworkRow& find_framework(const WorkerProgram& program, const std::string& name) {
  spec::refuse_former_framework(name);
  const std::vector<std::string> names = names_of(program.frameworks);
  if (std::ranges::find(names, name) == names.end()) {
    throw UserError(
        fmt::format("{} (of {}; all ranks are of the program that has the run's framework: see mlbench list "
                    "frameworks)",
                    unknown_text("framework", name, names), program.name));
  }
  return find_row(program.frameworks, name, "framework");
}

std::unique_ptr<framework::Framework> make_framework(const WorkerProgram& program, const std::string& name,
                                                     const framework::FrameworkOptions& options) {
  const FrameworkRow& row = find_framework(program, name);
  check_choice("convolution", options.convolution, texts_of(row.convolutions));
  if (options.sparse_rows && !row.sparse_rows) {
    std::vector<std::string> able;
    for (const FrameworkRow& other : program.frameworks) {
      if (other.sparse_rows) able.emplace_back(other.name);
    }
    throw UserError(fmt::format("framework '{}' takes no sparse rows; valid: {}", name, fmt::join(able, ", ")));
  }
  return row.make(options);
}

Json describe(const WorkerProgram& program) {
  return {{"build_id", build_info().build_id},
          {"git_describe", build_info().git_describe},
          {"frameworks", list_frameworks(program.frameworks)},
          {"backends", list_backends()},
          {"optimizers", spec::with_names_elsewhere("name", optim::list_optimizers())},
          {"rules", optim::list_rules()},
          {"coders", spec::with_names_elsewhere("compression", compress::list_coders())},
          {"patterns", spec::with_names_elsewhere("pattern", optim::list_exchanges())},
          {"step_options", optim::list_step_options()},
          {"models", models::model_names()},
          {"metrics", metrics::metric_names()}};
}

}  // namespace mlbench::catalog
