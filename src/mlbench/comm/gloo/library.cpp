#include "mlbench/comm/gloo/library.h"

#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/context.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/scatter.h>

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "mlbench/comm/gloo/mesh.h"
#include "mlbench/comm/reduce.h"

namespace mlbench::comm::gloo_backend {

namespace {

class LibraryContext final : public gloo::Context {
 public:
  explicit LibraryContext(std::shared_ptr<gloo::transport::Context> connected)
      : gloo::Context(connected->rank, connected->size) {
    timeout_ = connected->getTimeout();
    transportContext_ = std::move(connected);
  }
};

// Gloo only looks at the size of elements: `body` gets a null pointer to an integer of that size.
template <typename Body>
void with_element(DType dtype, Body body) {
  switch (size_of(dtype)) {
    case 1:
      return body(static_cast<uint8_t*>(nullptr));
    case 2:
      return body(static_cast<uint16_t*>(nullptr));
    case 4:
      return body(static_cast<uint32_t*>(nullptr));
    default:
      return body(static_cast<uint64_t*>(nullptr));
  }
}

// The function for out = a op b, where `out` may be one of the two.
gloo::AllreduceOptions::Func reduction(DType dtype, ReduceOp op) {
  return [accumulate = accumulate_function(dtype, op), bytes = size_of(dtype)](void* out, const void* a, const void* b,
                                                                               size_t count) {
    if (out == b) return accumulate(out, a, count, true);
    if (out != a) std::memcpy(out, a, count * bytes);
    accumulate(out, b, count, false);
  };
}

template <typename Count>
std::vector<Count> lengths_of(std::span<const size_t> offsets) {
  std::vector<Count> lengths;
  for (size_t rank = 0; rank + 1 < offsets.size(); ++rank) {
    lengths.push_back(static_cast<Count>(offsets[rank + 1] - offsets[rank]));
  }
  return lengths;
}

uint8_t* bytes_at(const std::byte* data) { return reinterpret_cast<uint8_t*>(const_cast<std::byte*>(data)); }

class LibraryCollectives final : public Collectives {
 public:
  LibraryCollectives(std::shared_ptr<ConnectedContext> connected, std::chrono::milliseconds timeout)
      : connected_(std::move(connected)), timeout_(timeout), context_(std::make_shared<LibraryContext>(connected_)) {}

  void barrier() override {
    perform(gloo::BarrierOptions(context_), [](auto& options) { gloo::barrier(options); });
  }

  void broadcast(std::byte* data, size_t bytes, int root) override {
    perform(gloo::BroadcastOptions(context_), [&](auto& options) {
      options.setOutput(bytes_at(data), bytes);
      options.setRoot(root);
      gloo::broadcast(options);
    });
  }

  void all_reduce(BufferView buffer, ReduceOp op) override {
    perform(gloo::AllreduceOptions(context_), [&](auto& options) {
      set_output(options, buffer);
      options.setReduceFunction(reduction(buffer.dtype, op));
      gloo::allreduce(options);
    });
  }

  void all_gather(std::byte* data, std::span<const size_t> offsets) override {
    perform(gloo::AllgathervOptions(context_), [&](auto& options) {
      options.setOutput(bytes_at(data), lengths_of<size_t>(offsets));
      gloo::allgatherv(options);
    });
  }

  void reduce_scatter(BufferView blocks, ReduceOp op) override { all_reduce(blocks, op); }

  void reduce(BufferView buffer, ReduceOp op, int root) override {
    perform(gloo::ReduceOptions(context_), [&](auto& options) {
      set_output(options, buffer);
      options.setRoot(root);
      options.setReduceFunction(reduction(buffer.dtype, op));
      gloo::reduce(options);
    });
  }

  void gather(const std::byte* input, size_t bytes, std::byte* output, int root) override {
    perform(gloo::GatherOptions(context_), [&](auto& options) {
      options.setInput(bytes_at(input), bytes);
      if (connected_->rank == root) {
        options.setOutput(bytes_at(output), bytes * static_cast<size_t>(connected_->size));
      }
      options.setRoot(root);
      gloo::gather(options);
    });
  }

  void scatter(const std::byte* input, std::byte* output, size_t bytes, int root) override {
    perform(gloo::ScatterOptions(context_), [&](auto& options) {
      if (connected_->rank == root) {
        std::vector<uint8_t*> slices;
        for (int rank = 0; rank < connected_->size; ++rank) {
          slices.push_back(bytes_at(input) + static_cast<size_t>(rank) * bytes);
        }
        options.setInputs(slices, bytes);
      }
      options.setOutput(bytes_at(output), bytes);
      options.setRoot(root);
      gloo::scatter(options);
    });
  }

  void all_to_all(const std::byte* input, std::span<const size_t> out, std::byte* output,
                  std::span<const size_t> in) override {
    perform(gloo::AlltoallvOptions(context_), [&](auto& options) {
      options.setInput(bytes_at(input), lengths_of<int64_t>(out));
      options.setOutput(bytes_at(output), lengths_of<int64_t>(in));
      gloo::alltoallv(options);
    });
  }

  void close() noexcept override { connected_->close(); }

 private:
  template <typename Options>
  static void set_output(Options& options, BufferView buffer) {
    with_element(buffer.dtype, [&]<typename T>(T* /*null*/) {
      options.setOutput(static_cast<T*>(buffer.data), static_cast<size_t>(buffer.count));
    });
  }

  template <typename Options, typename Body>
  void perform(Options options, Body body) {
    options.setTag(tag_++);
    options.setTimeout(timeout_);
    try {
      body(options);
    } catch (const std::exception& error) {
      throw error_with(connected_->silent_peer(), timeout_, error);
    }
  }

  std::shared_ptr<ConnectedContext> connected_;
  std::chrono::milliseconds timeout_;
  std::shared_ptr<LibraryContext> context_;
  uint32_t tag_ = 0;  // tag of the next operation: all ranks count alike
};

}  // namespace

std::unique_ptr<Collectives> make_library_collectives(std::shared_ptr<ConnectedContext> context,
                                                      std::chrono::milliseconds timeout) {
  return std::make_unique<LibraryCollectives>(std::move(context), timeout);
}

}  // namespace mlbench::comm::gloo_backend
