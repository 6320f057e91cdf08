#include "mlbench/comm/mpi/library.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "mlbench/comm/mpi/parameters.h"
#include "mlbench/comm/reduce.h"

#ifdef __SANITIZE_ADDRESS__
// A process with MPI is not checked for leaks: once Open MPI's modules have been unloaded, what they keep has no name
// by which it could be suppressed.
extern "C" int __lsan_is_turned_off() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  return initialized;
}
#endif

namespace mlbench::comm::mpi_backend {

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<size_t>(length)};
}

void check(int code, const char* function) {
  if (code != MPI_SUCCESS) throw CommError(fmt::format("{}: {}", function, text_of(code)));
}

MPI_Datatype type_of(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return MPI_UINT8_T;
    case DType::kInt8:
      return MPI_INT8_T;
    case DType::kInt32:
      return MPI_INT32_T;
    case DType::kInt64:
      return MPI_INT64_T;
    case DType::kFloat16:
    case DType::kBFloat16:
      return MPI_UINT16_T;  // the type of the bits
    case DType::kFloat32:
      return MPI_FLOAT;
    case DType::kFloat64:
      return MPI_DOUBLE;
  }
  return MPI_DATATYPE_NULL;
}

namespace {

// MPI passes the operand of the higher rank as `inout`.
template <DType dtype, ReduceOp op>
void accumulate(void* in, void* inout, int* count, MPI_Datatype*) {
  static const AccumulateFunction function = accumulate_function(dtype, op);
  function(inout, in, static_cast<size_t>(*count), true);
}

struct OwnOperator {
  DType dtype;
  ReduceOp op;
  MPI_User_function* function;
};

constexpr std::array kOwnOperators = {
    OwnOperator{DType::kFloat16, ReduceOp::kSum, accumulate<DType::kFloat16, ReduceOp::kSum>},
    OwnOperator{DType::kFloat16, ReduceOp::kProd, accumulate<DType::kFloat16, ReduceOp::kProd>},
    OwnOperator{DType::kFloat16, ReduceOp::kMin, accumulate<DType::kFloat16, ReduceOp::kMin>},
    OwnOperator{DType::kFloat16, ReduceOp::kMax, accumulate<DType::kFloat16, ReduceOp::kMax>},
    OwnOperator{DType::kBFloat16, ReduceOp::kSum, accumulate<DType::kBFloat16, ReduceOp::kSum>},
    OwnOperator{DType::kBFloat16, ReduceOp::kProd, accumulate<DType::kBFloat16, ReduceOp::kProd>},
    OwnOperator{DType::kBFloat16, ReduceOp::kMin, accumulate<DType::kBFloat16, ReduceOp::kMin>},
    OwnOperator{DType::kBFloat16, ReduceOp::kMax, accumulate<DType::kBFloat16, ReduceOp::kMax>},
};

MPI_Op built_in(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return MPI_SUM;
    case ReduceOp::kProd:
      return MPI_PROD;
    case ReduceOp::kMin:
      return MPI_MIN;
    case ReduceOp::kMax:
      return MPI_MAX;
    case ReduceOp::kAvg:
      break;
  }
  return MPI_OP_NULL;
}

// Without enough shared memory, Open MPI ends the process and gives another reason.
void warn_of_little_shared_memory(const CommOptions& options) {
  constexpr const char* kFolder = "/dev/shm";
  constexpr uint64_t kSegmentBytes = 4 << 20;  // each rank's, by default
  struct statvfs disk {};
  if (options.size == 1 || statvfs(kFolder, &disk) != 0 || disk.f_blocks == 0) return;
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  if (free >= kSegmentBytes) return;
  spdlog::warn("no room for {} bytes of shared memory in {} ({} are free): ranks of one host may not reach each other",
               kSegmentBytes, kFolder, free);
}

}  // namespace

std::shared_ptr<Library> Library::get(const CommOptions& options) {
  static std::mutex mutex;
  static std::weak_ptr<Library> current;
  const std::lock_guard lock(mutex);
  auto library = current.lock();
  if (library == nullptr) {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized != 0) throw CommError("MPI was finalised in this process; it cannot be initialised again");
    library = std::make_shared<Library>(options);
    current = library;
  }
  if (library->abandoned_) throw CommError("MPI has failed in this process before");
  return library;
}

Library::Library(const CommOptions& options) : own_(kOwnOperators.size(), MPI_OP_NULL), tuning_(tuning_of(options)) {
  // Set before MPI reads them, over what a launcher may have set. Without passive_wait's, waiting ranks would take the
  // cores from ranks that work.
  for (const auto& [name, value] : parameters_of(options)) setenv(("OMPI_MCA_" + name).c_str(), value.c_str(), 1);
  warn_of_little_shared_memory(options);
  int initialized = 0;
  MPI_Initialized(&initialized);
  MLBENCH_CHECK(initialized == 0, "somebody else has initialised MPI");
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level_);  // a failure in here ends the process
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  int* bound = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&bound), &found);
  if (found != 0) largest_tag_ = *bound;
  for (size_t i = 0; i < kOwnOperators.size(); ++i) MPI_Op_create(kOwnOperators[i].function, 1, &own_[i]);
}

Library::~Library() {
  if (abandoned_) return;
  for (MPI_Op& op : own_) MPI_Op_free(&op);
  MPI_Finalize();
}

std::string Library::level_name() const {
  if (level_ == MPI_THREAD_SINGLE) return "single";
  if (level_ == MPI_THREAD_FUNNELED) return "funneled";
  if (level_ == MPI_THREAD_SERIALIZED) return "serialized";
  return "multiple";
}

// The part before the comma in "Open MPI v4.1.4, package: Debian OpenMPI, ident: ...".
std::string Library::version() const {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string_view whole(text, static_cast<size_t>(length));
  return std::string(whole.substr(0, whole.find_first_of(",\n")));
}

MPI_Op Library::operator_for(DType dtype, ReduceOp op) const {
  for (size_t i = 0; i < kOwnOperators.size(); ++i) {
    if (kOwnOperators[i].dtype == dtype && kOwnOperators[i].op == op) return own_[i];
  }
  return built_in(op);
}

}  // namespace mlbench::comm::mpi_backend
