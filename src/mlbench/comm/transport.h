#pragma once

// What a back end implements: raw operations between the ranks of a group. The Communicator in front of it
// (communicator.h) checks arguments, notes operations on the board and prefixes failures: once, however many wrappers
// (comm/wrap/) lie in between. What arrives here is therefore checked: counts are positive (some of all_gather_v and
// all_to_all_v may be zero), and size() > 1, except that split comes with any size.
//
// A failure is a CommError saying why, and with which peer; the communicator adds operation and rank. Buffers may lie
// at any address; input and output do not overlap. One thread at a time calls.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "mlbench/base/buffer.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/json.h"

namespace mlbench::comm {

enum class ReduceOp : uint8_t { kSum, kProd, kMin, kMax, kAvg };

// An operation under way. Destroying an unfinished Work waits for it. A Work must be destroyed before its communicator.
class Work {
 public:
  virtual ~Work() = default;
  virtual bool done() = 0;
  // The buffer's stream waits; on the CPU this is synchronize(). Throws the operation's error.
  virtual void wait() { synchronize(); }
  // The host waits. Throws the operation's error.
  virtual void synchronize() = 0;

 protected:
  // For destructors of works: nobody is left to hear of an error.
  void await_silently() {
    try {
      synchronize();
    } catch (const CommError&) {
    }
  }
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The description for the record: "gloo", "mpi[serialized]", "netem(ring(gloo))".
  virtual std::string description() const = 0;
  // The versions, for the record, of libraries that tell theirs only once loaded: {"mpi": "Open MPI v4.1.4"}.
  virtual Json versions() const { return Json::object(); }
  // For the record, whose collective algorithms these are: "mlbench", or the library's name.
  virtual std::string collectives_by() const { return "mlbench"; }
  virtual bool supports(const Device& device) const { return device.kind == Device::Kind::kCpu; }

  // Reductions are in place. kAvg arrives only for buffers on a device (for the host's buffers the communicator divides
  // the sum). Operations of a group of one that copy from buffer to buffer also arrive only for buffers on a device.
  virtual void barrier() = 0;
  virtual void broadcast(BufferView buffer, int root) = 0;
  virtual void all_reduce(BufferView buffer, ReduceOp op) = 0;
  // The default performs the operation at once and returns a finished Work.
  virtual std::unique_ptr<Work> all_reduce_async(BufferView buffer, ReduceOp op);
  virtual void all_gather_v(ConstBufferView input, BufferView output, std::span<const int64_t> counts) = 0;
  virtual void reduce_scatter(ConstBufferView input, BufferView output, ReduceOp op) = 0;
  virtual void reduce(BufferView buffer, ReduceOp op, int root) = 0;
  virtual std::unique_ptr<Work> send(ConstBufferView buffer, int peer, int tag) = 0;
  virtual std::unique_ptr<Work> recv(BufferView buffer, int peer, int tag) = 0;
  // The defaults send tagged messages under kCollectiveTag, which the Communicator's callers cannot use.
  virtual void gather(ConstBufferView input, BufferView output, int root);   // output: at root only
  virtual void scatter(ConstBufferView input, BufferView output, int root);  // input: at root only
  // Every rank calls this, even one with nothing to send or receive.
  virtual void all_to_all_v(ConstBufferView input, BufferView output, std::span<const int64_t> send_counts,
                            std::span<const int64_t> recv_counts);
  // Both buffers have size() equal slices. The default is all_to_all_v. (all_to_all is a function of its own since a
  // rank sees only its own counts, and could never tell that all counts are equal everywhere.)
  virtual void all_to_all(ConstBufferView input, BufferView output);
  static constexpr int kCollectiveTag = 1 << 16;

  // Allocates zeroed memory, aligned to 64 bytes, that operations read and write fastest. The memory may outlive the
  // transport. Collective: every rank asks for the same number of bytes. The default takes it from the heap.
  virtual std::shared_ptr<std::byte> allocate(size_t bytes);

  virtual std::unique_ptr<Transport> split(int colour, int key) = 0;
  // Called after a failure, perhaps more than once. Peers must notice that this rank no longer takes part, and what is
  // under way here must fail instead of waiting for them.
  virtual void let_go() noexcept {}
};

}  // namespace mlbench::comm
