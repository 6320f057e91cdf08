#pragma once

// Communication between the ranks of a run. Back ends derive from Communicator and implement the do_* functions; the
// public functions note the operation on the board (so that a heartbeat can name what a rank is waiting in, and
// observers hear of begin and end) and check arguments.
//
// Contract, tested for every back end (tests in comm/contract_test.*):
// - Every rank of the group calls the same operations in the same order with the same counts, dtypes and roots.
// - Blocking calls return when the local buffers may be reused. Asynchronous ones return a Work.
// - A lost peer, or one that the call waited for longer than CommOptions::timeout, throws CommError naming operation,
//   rank and, where known, peer. Afterwards the communicator is unusable: every further call throws CommError, and it
//   lets go of its peers, so that they notice, too. (MPI cannot do that: its calls go on waiting, and whoever reads
//   the board ends the rank.)
// - Wrong arguments (a root that is no rank, sizes that do not fit) are bugs of the caller: MLBENCH_CHECK.
// - Reductions give bitwise the same result on every rank; the same inputs give the same bits again.
// - Counts may be 0. Not thread-safe: one thread per communicator.

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/availability.h"
#include "mlbench/base/buffer.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/json.h"
#include "mlbench/comm/operation_board.h"

namespace mlbench::comm {

enum class ReduceOp : uint8_t { kSum, kMin, kMax };

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

class Communicator {
 public:
  // A null board: one of its own.
  explicit Communicator(std::shared_ptr<OperationBoard> board);
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // For the record: "gloo", "mpi[serialized]".
  virtual std::string description() const = 0;
  // For the record, of libraries whose version shows only once they are loaded: {"mpi": "Open MPI v4.1.4"}.
  virtual Json versions() const { return Json::object(); }

  void barrier();
  void broadcast(BufferView buffer, int root);
  // In place, over all ranks, all dtypes. Integer sums wrap; float16 and bfloat16 are added in float32 and rounded to
  // nearest even after each addition.
  void all_reduce(BufferView buffer, ReduceOp op);
  std::unique_ptr<Work> all_reduce_async(BufferView buffer, ReduceOp op);
  // output = size() * input.count elements, in rank order.
  void all_gather(ConstBufferView input, BufferView output);
  // counts[r] elements from rank r, concatenated in rank order (counts the same on all ranks, zeros allowed).
  void all_gather_v(ConstBufferView input, BufferView output, std::span<const int64_t> counts);
  // input = size() * output.count; output = the reduction of slice rank().
  void reduce_scatter(ConstBufferView input, BufferView output, ReduceOp op);
  void reduce(BufferView buffer, ReduceOp op, int root);  // result only at root; others' content undefined
  // Tagged, blocking; tags 0..2^16-1, `peer` another rank. A send may or may not wait for its receive. Messages of one
  // sender, receiver and tag arrive in order; the receive's size is the send's. Asynchronous ones begin at once and do
  // not wait for other operations.
  void send(ConstBufferView buffer, int peer, int tag);
  void recv(BufferView buffer, int peer, int tag);
  std::unique_ptr<Work> send_async(ConstBufferView buffer, int peer, int tag);
  std::unique_ptr<Work> recv_async(BufferView buffer, int peer, int tag);
  // Ranks of one colour form a group, ordered by (key, rank). Collective over this communicator. The new one shares the
  // board.
  std::unique_ptr<Communicator> split(int colour, int key);

  OperationBoard& board() { return *board_; }

 protected:
  const std::shared_ptr<OperationBoard>& shared_board() const { return board_; }

 private:
  class GuardedWork;

  // What back ends implement. Arguments are checked, counts are positive and size() > 1, except that do_all_gather_v
  // has some counts of zero and do_split comes with any size. A failure is a CommError saying why and with which peer;
  // operation and rank are added here.
  virtual void do_barrier() = 0;
  virtual void do_broadcast(BufferView buffer, int root) = 0;
  virtual void do_all_reduce(BufferView buffer, ReduceOp op) = 0;
  // Default: performs it at once and returns a finished Work.
  virtual std::unique_ptr<Work> do_all_reduce_async(BufferView buffer, ReduceOp op);
  virtual void do_all_gather_v(ConstBufferView input, BufferView output, std::span<const int64_t> counts) = 0;
  virtual void do_reduce_scatter(ConstBufferView input, BufferView output, ReduceOp op) = 0;
  virtual void do_reduce(BufferView buffer, ReduceOp op, int root) = 0;
  virtual std::unique_ptr<Work> do_send(ConstBufferView buffer, int peer, int tag) = 0;
  virtual std::unique_ptr<Work> do_recv(BufferView buffer, int peer, int tag) = 0;
  virtual std::unique_ptr<Communicator> do_split(int colour, int key) = 0;
  // After the first failure, once.
  virtual void do_let_go() noexcept {}
  virtual bool supports(const Device& device) const { return device.kind == Device::Kind::kCpu; }

  template <typename Body>
  void perform(const char* operation, size_t bytes, Body&& body);
  template <typename Body>
  std::unique_ptr<Work> start(const char* operation, size_t bytes, Body&& body);
  void check_usable(const char* operation) const;
  void check_buffer(const char* operation, const ConstBufferView& buffer) const;
  void check_rank(const char* operation, int rank, const char* role) const;
  void check_message(const char* operation, const ConstBufferView& buffer, int peer, int tag) const;
  CommError failed(const char* operation, const std::string& reason);

  std::shared_ptr<OperationBoard> board_;
  std::string failure_;  // the first one
};

// A place where ranks of one group publish small values and wait for others': kv_store.h has it over the run's
// key-value connection, tests in memory. Keys are written once.
class RendezvousStore {
 public:
  virtual ~RendezvousStore() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  // CommError naming the key when the timeout passes.
  virtual std::string get(const std::string& key, std::chrono::milliseconds timeout) = 0;
};

// What a back end's make() gets.
struct CommOptions {
  int rank = 0;
  int size = 1;
  std::shared_ptr<RendezvousStore> store;  // keys are prefixed by the caller: one store per segment
  std::chrono::milliseconds timeout{30000};
  std::string bind_address = "127.0.0.1";  // address or interface to listen on
  std::string secret;                     // of the run: what peers prove to each other that they know; "": rank 0 makes
                                          // one and leaves it in the store
  std::string run;                        // what that proof is bound to, beside the group: "17/segment2/"
  bool passive_wait = false;              // more ranks than cores: never spin
  std::shared_ptr<OperationBoard> board;  // may be null: the back end makes one
};

}  // namespace mlbench::comm
