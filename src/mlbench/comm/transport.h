#pragma once

// What a back end implements: raw operations between the ranks of a group. Communicator (communicator.h) stands before
// it: arguments are checked there, operations noted on the board, failures given their prefix, once, however many
// wrappers (comm/wrap/) lie between. So what comes here is checked: counts are positive (all_gather_v and all_to_all_v:
// some may be zero), size() > 1, except that split comes with any size.
//
// A failure is a CommError saying why and with which peer; the communicator adds operation and rank. Buffers may lie at
// any address; input and output do not overlap. Calls come from one thread at a time.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "mlbench/base/buffer.h"
#include "mlbench/base/json.h"

namespace mlbench::comm {

enum class ReduceOp : uint8_t { kSum, kProd, kMin, kMax, kAvg };

// An operation under way. Destroying an unfinished Work waits for it. It is destroyed before its communicator.
class Work {
 public:
  virtual ~Work() = default;
  virtual bool done() = 0;
  // The stream of the buffer waits (on the CPU the same as synchronize()). Throws the operation's error.
  virtual void wait() = 0;
  // The host waits. Throws the operation's error.
  virtual void synchronize() = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // For the record: "gloo", "mpi[serialized]", "netem(ring(gloo))".
  virtual std::string description() const = 0;
  // For the record, of libraries whose version shows only once they are loaded: {"mpi": "Open MPI v4.1.4"}.
  virtual Json versions() const { return Json::object(); }
  virtual bool supports(const Device& device) const { return device.kind == Device::Kind::kCpu; }

  // Reductions are in place; kAvg comes here for buffers on a device alone (of the host's the communicator divides the
  // sum). So do operations of one rank that copy from buffer to buffer.
  virtual void barrier() = 0;
  virtual void broadcast(BufferView buffer, int root) = 0;
  virtual void all_reduce(BufferView buffer, ReduceOp op) = 0;
  // Default: performs it at once and returns a finished Work.
  virtual std::unique_ptr<Work> all_reduce_async(BufferView buffer, ReduceOp op);
  virtual void all_gather_v(ConstBufferView input, BufferView output, std::span<const int64_t> counts) = 0;
  virtual void reduce_scatter(ConstBufferView input, BufferView output, ReduceOp op) = 0;
  virtual void reduce(BufferView buffer, ReduceOp op, int root) = 0;
  virtual std::unique_ptr<Work> send(ConstBufferView buffer, int peer, int tag) = 0;
  virtual std::unique_ptr<Work> recv(BufferView buffer, int peer, int tag) = 0;
  // Defaults: tagged messages under kCollectiveTag, which Communicator's callers cannot use.
  virtual void gather(ConstBufferView input, BufferView output, int root);   // output: at root alone
  virtual void scatter(ConstBufferView input, BufferView output, int root);  // input: at root alone
  // Every rank comes, even one with nothing to send or get.
  virtual void all_to_all_v(ConstBufferView input, BufferView output, std::span<const int64_t> send_counts,
                            std::span<const int64_t> recv_counts);
  // size() equal slices each. Default: all_to_all_v. (Apart from it since a rank sees its own counts only: it could
  // never tell that they are equal everywhere.)
  virtual void all_to_all(ConstBufferView input, BufferView output);
  static constexpr int kCollectiveTag = 1 << 16;

  // Collective: every rank asks for as many bytes. Zeroed memory, aligned to 64 bytes, that the operations read and
  // write fastest; it may outlive the transport. Default: the heap.
  virtual std::shared_ptr<std::byte> allocate(size_t bytes);

  virtual std::unique_ptr<Transport> split(int colour, int key) = 0;
  // After a failure, perhaps more than once: peers notice that this rank takes no part any more, and what is under way
  // here fails instead of waiting for them.
  virtual void let_go() noexcept {}
};

}  // namespace mlbench::comm
