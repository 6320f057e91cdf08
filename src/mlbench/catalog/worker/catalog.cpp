#include "mlbench/catalog/worker/catalog.h"

#include <optional>
#include <utility>

#include "mlbench/base/build_info.h"
#include "mlbench/base/errors.h"
#include "mlbench/comm/gloo/gloo.h"
#include "mlbench/comm/mpi/mpi.h"
#include "mlbench/comm/shm/shm.h"
#include "mlbench/framework/null/null_framework.h"
#include "mlbench/framework/onednn/onednn_framework.h"
#include "mlbench/framework/torch/torch_framework.h"
#include "mlbench/metrics/metric.h"
#include "mlbench/models/model.h"
#include "mlbench/optim/factory.h"

namespace mlbench::catalog {

const std::vector<BackendRow>& backends() {
  static const std::vector<BackendRow> kRows = {
      {"gloo", comm::gloo_backend::available, comm::gloo_backend::make},
      {"mpi", comm::mpi_backend::available, comm::mpi_backend::make, "MPI_Init", true},
      {"shm", comm::shm_backend::available, comm::shm_backend::make, "", true},
  };
  return kRows;
}

const std::vector<FrameworkRow>& frameworks() {
  static const std::vector<FrameworkRow> kRows = {
      {"torch", framework::torch_framework::available, framework::torch_framework::make},
      {"onednn", framework::onednn_framework::available, framework::onednn_framework::make},
      {"null", framework::null_framework::available, framework::null_framework::make},
  };
  return kRows;
}

namespace {

template <typename Row>
const Row& find_row(const std::vector<Row>& rows, const std::string& name, const char* what) {
  std::string names;
  for (const Row& row : rows) {
    if (row.name != name) {
      names += (names.empty() ? "" : ", ") + std::string(row.name);
      continue;
    }
    const Availability availability = row.available();
    if (!availability.available) {
      throw UserError(std::string(what) + " '" + name + "' is not available here: " + availability.reason);
    }
    return row;
  }
  throw UserError(std::string("unknown ") + what + " '" + name + "'; valid: " + names);
}

template <typename Row>
Json list(const std::vector<Row>& rows) {
  Json array = Json::array();
  for (const Row& row : rows) {
    const Availability availability = row.available();
    array.push_back({{"name", row.name}, {"available", availability.available}, {"reason", availability.reason}});
  }
  return array;
}

}  // namespace

bool backend_spins(const std::string& name) { return find_row(backends(), name, "backend").spins; }

std::unique_ptr<comm::Communicator> make_backend(const std::string& name, const comm::CommOptions& options,
                                                 std::shared_ptr<comm::OperationBoard> board) {
  const BackendRow& row = find_row(backends(), name, "backend");
  if (board == nullptr) board = std::make_shared<comm::OperationBoard>();
  std::optional<comm::BoardEntry> start;
  if (*row.waits_in != '\0') start.emplace(*board, row.waits_in);
  auto transport = row.make(options);
  start.reset();
  return std::make_unique<comm::Communicator>(std::move(transport), std::move(board));
}

std::unique_ptr<framework::Framework> make_framework(const std::string& name,
                                                     const framework::FrameworkOptions& options) {
  return find_row(frameworks(), name, "framework").make(options);
}

Json describe() {
  return {{"build_id", build_info().build_id},      {"git_describe", build_info().git_describe},
          {"frameworks", list(frameworks())},       {"backends", list(backends())},
          {"optimizers", optim::optimizer_names()}, {"models", models::model_names()},
          {"metrics", metrics::metric_names()}};
}

}  // namespace mlbench::catalog
