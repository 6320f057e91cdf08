#pragma once

// The Work of an operation under way in MPI.

#include <mpi.h>

#include <memory>
#include <string>
#include <vector>

#include "mlbench/comm/mpi/library.h"

namespace mlbench::comm::mpi_backend {

// Holds one or several MPI requests. expect() is called once per request where they are receives, with the number of
// elements that must come. wait() throws CommError naming `function`.
class RequestWork final : public Work {
 public:
  RequestWork(std::shared_ptr<Library> library, const char* function, MPI_Datatype type);
  ~RequestWork() override;

  // The place of one more request. The pointer is valid until the next call.
  MPI_Request* add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }
  void expect(int elements) { expected_.push_back(elements); }

  bool done() override;
  void synchronize() override;

 private:
  int size() const { return static_cast<int>(requests_.size()); }
  void finish(int code, const std::vector<MPI_Status>& statuses);

  std::shared_ptr<Library> library_;
  const char* function_;
  MPI_Datatype type_;
  std::vector<MPI_Request> requests_;
  std::vector<int> expected_;
  bool finished_ = false;
  std::string error_;
};

}  // namespace mlbench::comm::mpi_backend
