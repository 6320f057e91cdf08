#include "mlbench/comm/mpi/mpi.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "mlbench/comm/mpi/library.h"
#include "mlbench/comm/mpi/request_work.h"
#include "mlbench/comm/work_group.h"

namespace mlbench::comm::mpi_backend {

namespace {

// Slices of a buffer, one per rank, of which one MPI call takes those of at most `most` elements. Where the call does
// not take all, those that it takes are copied together: between larger slices, their offsets might not fit into an
// int.
class CallSlices {
 public:
  CallSlices(std::span<const int64_t> counts, int64_t most) : all_(counts.begin(), counts.end()) {
    int64_t place = 0;
    int first = 0;
    for (const int64_t count : all_) {
      places_.push_back(place);
      firsts_.push_back(first);
      taken_.push_back(count <= most ? static_cast<int>(count) : 0);
      place += count;
      first += taken_.back();
    }
    total_ = first;
    whole_ = total_ == place;
  }

  bool takes(size_t rank) const { return taken_[rank] == all_[rank]; }
  const int* counts() const { return taken_.data(); }
  const int* firsts() const { return firsts_.data(); }

  const void* together(const ConstBufferView& buffer) {
    if (whole_) return buffer.data;
    room(buffer.dtype);
    each([&](size_t rank, std::byte* place, size_t bytes) {
      std::memcpy(place, buffer.slice(places_[rank], 0).data, bytes);
    });
    return copies_.data();
  }
  void* room_for(const BufferView& buffer) { return whole_ ? buffer.data : room(buffer.dtype); }
  void apart(const BufferView& buffer) {
    if (whole_) return;
    each([&](size_t rank, const std::byte* place, size_t bytes) {
      std::memcpy(buffer.slice(places_[rank], 0).data, place, bytes);
    });
  }

 private:
  std::byte* room(DType dtype) {
    width_ = size_of(dtype);
    copies_.resize(static_cast<size_t>(total_) * width_);
    return copies_.data();
  }
  template <typename Copy>
  void each(Copy copy) {
    for (size_t rank = 0; rank < taken_.size(); ++rank) {
      const auto count = static_cast<size_t>(taken_[rank]);
      if (count > 0) copy(rank, copies_.data() + static_cast<size_t>(firsts_[rank]) * width_, count * width_);
    }
  }

  std::vector<int64_t> all_;
  std::vector<int64_t> places_;
  std::vector<int> taken_;
  std::vector<int> firsts_;  // offsets of the slices that are copied together
  int total_ = 0;
  bool whole_ = true;
  size_t width_ = 0;
  std::vector<std::byte> copies_;
};

class Mpi final : public Transport {
 public:
  // Takes ownership of the MPI communicator.
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
  std::string description() const override {
    return fmt::format("mpi[{}{}]", library_->level_name(), library_->tuning());
  }
  std::string collectives_by() const override { return "mpi"; }
  Json versions() const override { return {{"mpi", library_->version()}}; }

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
        check(MPI_Reduce(input.slice(root * output.count + first, 0).data, part.data, count, type, mpi_op, root, comm_),
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

  // Where the buffer exceeds what one call takes, messages, which go in parts, replace the library's call.
  void gather(ConstBufferView input, BufferView output, int root) override {
    if (size_ * input.count > most_elements_) {
      Transport::gather(input, output, root);
      return;
    }
    const auto count = static_cast<int>(input.count);
    const MPI_Datatype type = type_of(input.dtype);
    check(MPI_Gather(input.data, count, type, output.data, count, type, root, comm_), "MPI_Gather");
  }

  void scatter(ConstBufferView input, BufferView output, int root) override {
    if (size_ * output.count > most_elements_) {
      Transport::scatter(input, output, root);
      return;
    }
    const auto count = static_cast<int>(output.count);
    const MPI_Datatype type = type_of(output.dtype);
    check(MPI_Scatter(input.data, count, type, output.data, count, type, root, comm_), "MPI_Scatter");
  }

  void all_to_all(ConstBufferView input, BufferView output) override {
    if (input.count > most_elements_) {
      Transport::all_to_all(input, output);
      return;
    }
    const auto count = static_cast<int>(input.count / size_);
    const MPI_Datatype type = type_of(input.dtype);
    check(MPI_Alltoall(input.data, count, type, output.data, count, type, comm_), "MPI_Alltoall");
  }

  void all_to_all_v(ConstBufferView input, BufferView output, std::span<const int64_t> send_counts,
                    std::span<const int64_t> recv_counts) override {
    // Only two ranks know the size of what they exchange. Slices beyond `most` go as messages, so the others need not
    // know it.
    const int64_t most = most_elements_ / size_;
    CallSlices out(send_counts, most), in(recv_counts, most);
    WorkGroup messages(*this);
    int64_t first_out = 0, first_in = 0;
    for (size_t peer = 0; peer < send_counts.size(); ++peer) {
      const ConstBufferView slice_out = input.slice(first_out, send_counts[peer]);
      const BufferView slice_in = output.slice(first_in, recv_counts[peer]);
      const int rank = static_cast<int>(peer);
      if (rank == rank_ && !in.takes(peer)) {
        std::memcpy(slice_in.data, slice_out.data, slice_in.size_bytes());
      } else {
        if (!in.takes(peer)) messages.add(recv(slice_in, rank, kCollectiveTag));
        if (!out.takes(peer)) messages.add(send(slice_out, rank, kCollectiveTag));
      }
      first_out += slice_out.count;
      first_in += slice_in.count;
    }
    const MPI_Datatype type = type_of(input.dtype);
    check(MPI_Alltoallv(out.together(input), out.counts(), out.firsts(), type, in.room_for(output), in.counts(),
                        in.firsts(), type, comm_),
          "MPI_Alltoallv");
    in.apart(output);
    messages.finish();
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
    // MPI wants colours that are not negative: these are their places among all colours.
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
  // Calls part(slice, its count) for slices that one MPI call takes.
  template <typename View, typename Part>
  void in_parts(View buffer, Part part) const {
    for (int64_t first = 0; first < buffer.count; first += most_elements_) {
      View slice = buffer.slice(first, std::min(most_elements_, buffer.count - first));
      part(slice, static_cast<int>(slice.count));
    }
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
    throw CommError(
        fmt::format("backend mpi: this MPI gives the thread level {}, serialized is needed", library->level_name()));
  }
  if (library->largest_tag() < Transport::kCollectiveTag) {
    throw CommError(fmt::format("backend mpi: this MPI knows message tags up to {}, up to {} are needed",
                                library->largest_tag(), Transport::kCollectiveTag));
  }
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  return std::make_unique<Mpi>(std::move(library), comm, most_elements);
}

}  // namespace mlbench::comm::mpi_backend
