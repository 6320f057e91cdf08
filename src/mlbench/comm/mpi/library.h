#pragma once

// The MPI of this process, which lives from the first transport to the last, and its types and operators for DType and
// ReduceOp.

#include <mpi.h>

#include <memory>
#include <string>
#include <vector>

#include "mlbench/comm/communicator.h"

namespace mlbench::comm::mpi_backend {

std::string text_of(int code);
// Throws CommError with MPI's text unless `code` is success.
void check(int code, const char* function);

MPI_Datatype type_of(DType dtype);  // float16 and bfloat16: the type of their bits

class Library {
 public:
  // Returns the MPI of the living transports, or initialises MPI. Throws CommError where MPI was finalised, or has
  // failed, in this process.
  static std::shared_ptr<Library> get(const CommOptions& options);

  explicit Library(const CommOptions& options);
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library();

  // After this, the process makes no MPI call.
  void abandon() noexcept { abandoned_ = true; }
  bool abandoned() const { return abandoned_; }

  int level() const { return level_; }
  std::string level_name() const;  // "serialized"
  const std::string& tuning() const { return tuning_; }
  std::string version() const;  // "Open MPI v4.1.4"
  int largest_tag() const { return largest_tag_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  MPI_Op operator_for(DType dtype, ReduceOp op) const;

 private:
  int level_ = MPI_THREAD_SINGLE;
  int largest_tag_ = 0;
  int rank_ = 0;
  int size_ = 1;
  bool abandoned_ = false;
  std::vector<MPI_Op> own_;
  std::string tuning_;
};

}  // namespace mlbench::comm::mpi_backend
