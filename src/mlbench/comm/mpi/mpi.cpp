#include "mlbench/comm/mpi/mpi.h"

#include <fmt/format.h>
#include <mpi.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <mutex>
#include <utility>

#include "mlbench/comm/reduce.h"

#ifdef __SANITIZE_ADDRESS__
// A process with MPI is not checked for leaks: what modules of Open MPI keep has no name to be suppressed by when they
// have been unloaded.
extern "C" int __lsan_is_turned_off() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  return initialized;
}
#endif

namespace mlbench::comm::mpi_backend {

namespace {

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<size_t>(length)};
}

void check(int code, const char* function) {
  if (code != MPI_SUCCESS) throw CommError(fmt::format("{}: {}", function, text_of(code)));
}

// ---- types and operators -------------------------------------------------------------------------------------------

// `inout` holds the operand of the higher rank.
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
    OwnOperator{DType::kFloat16, ReduceOp::kMin, accumulate<DType::kFloat16, ReduceOp::kMin>},
    OwnOperator{DType::kFloat16, ReduceOp::kMax, accumulate<DType::kFloat16, ReduceOp::kMax>},
    OwnOperator{DType::kBFloat16, ReduceOp::kSum, accumulate<DType::kBFloat16, ReduceOp::kSum>},
    OwnOperator{DType::kBFloat16, ReduceOp::kMin, accumulate<DType::kBFloat16, ReduceOp::kMin>},
    OwnOperator{DType::kBFloat16, ReduceOp::kMax, accumulate<DType::kBFloat16, ReduceOp::kMax>},
};

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
      return MPI_UINT16_T;  // bits
    case DType::kFloat32:
      return MPI_FLOAT;
    case DType::kFloat64:
      return MPI_DOUBLE;
  }
  return MPI_DATATYPE_NULL;
}

MPI_Op built_in(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return MPI_SUM;
    case ReduceOp::kMin:
      return MPI_MIN;
    case ReduceOp::kMax:
      return MPI_MAX;
    case ReduceOp::kProd:
    case ReduceOp::kAvg:
      break;
  }
  return MPI_OP_NULL;
}

const char* name_of_level(int level) {
  if (level == MPI_THREAD_SINGLE) return "single";
  if (level == MPI_THREAD_FUNNELED) return "funneled";
  if (level == MPI_THREAD_SERIALIZED) return "serialized";
  return "multiple";
}

// "Open MPI v4.1.4" of "Open MPI v4.1.4, package: Debian OpenMPI, ident: ...".
std::string version_of_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string_view whole(text, static_cast<size_t>(length));
  return std::string(whole.substr(0, whole.find_first_of(",\n")));
}

// ---- the library ---------------------------------------------------------------------------------------------------

// MPI in this process, from the first transport to the last.
class Library {
 public:
  static std::shared_ptr<Library> get(const CommOptions& options) {
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

  explicit Library(const CommOptions& options) {
    // Before MPI reads its parameters. Without it, waiting ranks would take the cores from those that work.
    if (options.passive_wait) setenv("OMPI_MCA_mpi_yield_when_idle", "1", 1);
    int initialized = 0;
    MPI_Initialized(&initialized);
    MLBENCH_CHECK(initialized == 0, "somebody else has initialised MPI");
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level_);  // what fails here ends the process
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    for (size_t i = 0; i < kOwnOperators.size(); ++i) MPI_Op_create(kOwnOperators[i].function, 1, &own_[i]);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (abandoned_) return;
    for (MPI_Op& op : own_) MPI_Op_free(&op);
    MPI_Finalize();
  }

  // No MPI call from now on.
  void abandon() noexcept { abandoned_ = true; }
  bool abandoned() const { return abandoned_; }

  int level() const { return level_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

  MPI_Op operator_for(DType dtype, ReduceOp op) const {
    for (size_t i = 0; i < kOwnOperators.size(); ++i) {
      if (kOwnOperators[i].dtype == dtype && kOwnOperators[i].op == op) return own_[i];
    }
    return built_in(op);
  }

 private:
  int level_ = MPI_THREAD_SINGLE;
  int rank_ = 0;
  int size_ = 1;
  bool abandoned_ = false;
  std::array<MPI_Op, kOwnOperators.size()> own_{};
};

// ---- work ----------------------------------------------------------------------------------------------------------

// One or several requests. With `expected`, they are receives of so many elements each.
class RequestWork final : public Work {
 public:
  RequestWork(std::shared_ptr<Library> library, const char* function, MPI_Datatype type)
      : library_(std::move(library)), function_(function), type_(type) {}
  ~RequestWork() override {
    if (!library_->abandoned() && !finished_) MPI_Waitall(size(), requests_.data(), MPI_STATUSES_IGNORE);
  }

  // The place of one more request.
  MPI_Request* add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }
  void expect(int elements) { expected_.push_back(elements); }

  bool done() override {
    if (finished_) return true;
    std::vector<MPI_Status> statuses(requests_.size());
    int all = 0;
    const int code = MPI_Testall(size(), requests_.data(), &all, statuses.data());
    if (code != MPI_SUCCESS || all != 0) finish(code, statuses);
    return finished_;
  }
  void wait() override { synchronize(); }
  void synchronize() override {
    if (!finished_) {
      std::vector<MPI_Status> statuses(requests_.size());
      const int code = MPI_Waitall(size(), requests_.data(), statuses.data());
      finish(code, statuses);
    }
    if (!error_.empty()) throw CommError(error_);
  }

 private:
  int size() const { return static_cast<int>(requests_.size()); }

  void finish(int code, const std::vector<MPI_Status>& statuses) {
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

  std::shared_ptr<Library> library_;
  const char* function_;
  MPI_Datatype type_;
  std::vector<MPI_Request> requests_;
  std::vector<int> expected_;
  bool finished_ = false;
  std::string error_;
};

// ---- the transport -------------------------------------------------------------------------------------------------

class Mpi final : public Transport {
 public:
  // Takes the MPI communicator.
  Mpi(std::shared_ptr<Library> library, MPI_Comm comm, int64_t most_elements)
      : library_(std::move(library)), comm_(comm), most_elements_(most_elements) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
  }
  ~Mpi() override {
    if (std::uncaught_exceptions() > 0) library_->abandon();
    if (!library_->abandoned()) MPI_Comm_free(&comm_);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string description() const override { return fmt::format("mpi[{}]", name_of_level(library_->level())); }
  Json versions() const override { return {{"mpi", version_of_library()}}; }

  void barrier() override { check(MPI_Barrier(comm_), "MPI_Barrier"); }

  void broadcast(BufferView buffer, int root) override {
    in_parts(buffer, [&](const BufferView& part, int count) {
      check(MPI_Bcast(part.data, count, type_of(part.dtype), root, comm_), "MPI_Bcast");
    });
  }

  void all_reduce(BufferView buffer, ReduceOp op) override {
    in_parts(buffer, [&](const BufferView& part, int count) {
      check(MPI_Allreduce(MPI_IN_PLACE, part.data, count, type_of(part.dtype), library_->operator_for(part.dtype, op),
                          comm_),
            "MPI_Allreduce");
    });
  }

  std::unique_ptr<Work> all_reduce_async(BufferView buffer, ReduceOp op) override {
    auto work = std::make_unique<RequestWork>(library_, "MPI_Iallreduce", type_of(buffer.dtype));
    in_parts(buffer, [&](const BufferView& part, int count) {
      check(MPI_Iallreduce(MPI_IN_PLACE, part.data, count, type_of(part.dtype), library_->operator_for(part.dtype, op),
                           comm_, work->add()),
            "MPI_Iallreduce");
    });
    return work;
  }

  void all_gather_v(ConstBufferView input, BufferView output, std::span<const int64_t> counts) override {
    std::vector<int64_t> firsts{0};
    for (const int64_t count : counts) firsts.push_back(firsts.back() + count);
    const auto slice_of = [&](size_t rank) { return output.slice(firsts[rank], counts[rank]); };
    if (input.count > 0) std::memmove(slice_of(static_cast<size_t>(rank_)).data, input.data, input.size_bytes());
    const MPI_Datatype type = type_of(output.dtype);
    if (output.count > most_elements_) {
      for (int rank = 0; rank < size_; ++rank) broadcast(slice_of(static_cast<size_t>(rank)), rank);
    } else if (std::all_of(counts.begin(), counts.end(), [&](int64_t count) { return count == counts[0]; })) {
      check(MPI_Allgather(MPI_IN_PLACE, 0, type, output.data, static_cast<int>(counts[0]), type, comm_),
            "MPI_Allgather");
    } else {
      const std::vector<int> mpi_counts(counts.begin(), counts.end());
      const std::vector<int> mpi_firsts(firsts.begin(), firsts.end() - 1);
      check(MPI_Allgatherv(MPI_IN_PLACE, 0, type, output.data, mpi_counts.data(), mpi_firsts.data(), type, comm_),
            "MPI_Allgatherv");
    }
  }

  void reduce_scatter(ConstBufferView input, BufferView output, ReduceOp op) override {
    const MPI_Datatype type = type_of(input.dtype);
    const MPI_Op mpi_op = library_->operator_for(input.dtype, op);
    if (input.count <= most_elements_) {
      check(MPI_Reduce_scatter_block(input.data, output.data, static_cast<int>(output.count), type, mpi_op, comm_),
            "MPI_Reduce_scatter_block");
      return;
    }
    for (int root = 0; root < size_; ++root) {
      in_parts(output, [&](const BufferView& part, int count) {
        const int64_t first = (static_cast<std::byte*>(part.data) - static_cast<std::byte*>(output.data)) /
                              static_cast<int64_t>(size_of(output.dtype));
        check(MPI_Reduce(offset(input, root * output.count + first), part.data, count, type, mpi_op, root, comm_),
              "MPI_Reduce");
      });
    }
  }

  void reduce(BufferView buffer, ReduceOp op, int root) override {
    in_parts(buffer, [&](const BufferView& part, int count) {
      const bool at_root = rank_ == root;
      check(MPI_Reduce(at_root ? MPI_IN_PLACE : part.data, at_root ? part.data : nullptr, count, type_of(part.dtype),
                       library_->operator_for(part.dtype, op), root, comm_),
            "MPI_Reduce");
    });
  }

  std::unique_ptr<Work> send(ConstBufferView buffer, int peer, int tag) override {
    auto work = std::make_unique<RequestWork>(library_, "MPI_Isend", type_of(buffer.dtype));
    in_parts(buffer, [&](const ConstBufferView& part, int count) {
      check(MPI_Isend(part.data, count, type_of(part.dtype), peer, tag, comm_, work->add()), "MPI_Isend");
    });
    return work;
  }

  std::unique_ptr<Work> recv(BufferView buffer, int peer, int tag) override {
    auto work = std::make_unique<RequestWork>(library_, "MPI_Irecv", type_of(buffer.dtype));
    in_parts(buffer, [&](const BufferView& part, int count) {
      check(MPI_Irecv(part.data, count, type_of(part.dtype), peer, tag, comm_, work->add()), "MPI_Irecv");
      work->expect(count);
    });
    return work;
  }

  std::unique_ptr<Transport> split(int colour, int key) override {
    // MPI wants colours that are not negative: their places among all colours.
    std::vector<int> colours(static_cast<size_t>(size_));
    check(MPI_Allgather(&colour, 1, MPI_INT, colours.data(), 1, MPI_INT, comm_), "MPI_Allgather");
    std::sort(colours.begin(), colours.end());
    const auto place = std::lower_bound(colours.begin(), colours.end(), colour) - colours.begin();
    MPI_Comm part = MPI_COMM_NULL;
    check(MPI_Comm_split(comm_, static_cast<int>(place), key, &part), "MPI_Comm_split");
    return std::make_unique<Mpi>(library_, part, most_elements_);
  }

  void let_go() noexcept override { library_->abandon(); }

 private:
  // part(slice, its count) for slices that one MPI call takes.
  template <typename View, typename Part>
  void in_parts(View buffer, Part part) const {
    for (int64_t first = 0; first < buffer.count; first += most_elements_) {
      View slice = buffer;
      slice.count = std::min(most_elements_, buffer.count - first);
      slice.data = offset(buffer, first);
      part(slice, static_cast<int>(slice.count));
    }
  }
  static void* offset(const BufferView& buffer, int64_t first) { return buffer.slice(first, 0).data; }
  static const void* offset(const ConstBufferView& buffer, int64_t first) {
    return static_cast<const std::byte*>(buffer.data) + static_cast<size_t>(first) * size_of(buffer.dtype);
  }

  std::shared_ptr<Library> library_;
  MPI_Comm comm_;
  int64_t most_elements_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

Availability available() { return {true, ""}; }

std::unique_ptr<Transport> make(const CommOptions& options) { return make_in_parts(options, kMostElements); }

std::unique_ptr<Transport> make_in_parts(const CommOptions& options, int64_t most_elements) {
  MLBENCH_CHECK(options.rank >= 0 && options.rank < options.size,
                fmt::format("rank {} of {}", options.rank, options.size));
  MLBENCH_CHECK(most_elements >= 1 && most_elements <= kMostElements, fmt::format("parts of {}", most_elements));
  auto library = Library::get(options);
  if (library->rank() != options.rank || library->size() != options.size) {
    throw UserError(
        fmt::format("backend mpi: the environment says rank {} of {}, MPI says rank {} of {}: start the ranks with "
                    "`mlbench run`, with mpirun, or with srun --mpi=pmix",
                    options.rank, options.size, library->rank(), library->size()));
  }
  if (library->level() < MPI_THREAD_SERIALIZED) {
    throw CommError(fmt::format("backend mpi: this MPI gives the thread level {}, serialized is needed",
                                name_of_level(library->level())));
  }
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  return std::make_unique<Mpi>(std::move(library), comm, most_elements);
}

}  // namespace mlbench::comm::mpi_backend
