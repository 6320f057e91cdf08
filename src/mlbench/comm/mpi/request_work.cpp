#include "mlbench/comm/mpi/request_work.h"

#include <fmt/format.h>

#include <utility>

namespace mlbench::comm::mpi_backend {

RequestWork::RequestWork(std::shared_ptr<Library> library, const char* function, MPI_Datatype type)
    : library_(std::move(library)), function_(function), type_(type) {}

RequestWork::~RequestWork() {
  if (!library_->abandoned() && !finished_) MPI_Waitall(size(), requests_.data(), MPI_STATUSES_IGNORE);
}

bool RequestWork::done() {
  if (finished_) return true;
  std::vector<MPI_Status> statuses(requests_.size());
  int all = 0;
  const int code = MPI_Testall(size(), requests_.data(), &all, statuses.data());
  if (code != MPI_SUCCESS || all != 0) finish(code, statuses);
  return finished_;
}

void RequestWork::synchronize() {
  if (!finished_) {
    std::vector<MPI_Status> statuses(requests_.size());
    const int code = MPI_Waitall(size(), requests_.data(), statuses.data());
    finish(code, statuses);
  }
  if (!error_.empty()) throw CommError(error_);
}

void RequestWork::finish(int code, const std::vector<MPI_Status>& statuses) {
  finished_ = true;
  for (size_t i = 0; i < statuses.size() && code == MPI_ERR_IN_STATUS; ++i) {
    const int own = statuses[i].MPI_ERROR;
    if (own != MPI_SUCCESS && own != MPI_ERR_PENDING) code = own;
  }
  if (code != MPI_SUCCESS) {
    error_ = fmt::format("{}: {}", function_, text_of(code));
    library_->abandon();
    return;
  }
  for (size_t i = 0; i < expected_.size(); ++i) {
    int count = 0;
    MPI_Get_count(&statuses[i], type_, &count);
    if (count != expected_[i]) {
      error_ = fmt::format("{}: rank {} sent {} elements under tag {}, {} were expected", function_,
                           statuses[i].MPI_SOURCE, count, statuses[i].MPI_TAG, expected_[i]);
      return;
    }
  }
}

}  // namespace mlbench::comm::mpi_backend
