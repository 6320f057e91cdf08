#pragma once

// Communication between the ranks of a run: a Communicator checks arguments, notes the operation on the board (so that
// a heartbeat can name what a rank is waiting in, and observers hear of begin and end), lets a Transport perform it,
// and turns every failure into a CommError that names operation, rank, peer and timeout.
//
// Contract, tested for every back end and wrapper (tests in comm/contract_test.*):
// - Every rank of the group calls the same operations in the same order with the same counts, dtypes and roots.
// - Blocking calls return when the local buffers may be reused. Asynchronous ones return a Work.
// - A lost peer, or one that the call waited for longer than CommOptions::timeout, throws CommError naming operation,
//   rank and, where known, peer. Afterwards the communicator is unusable: every further call throws CommError, and it
//   lets go of its peers, so that they notice, too. (MPI cannot do that: its calls go on waiting, and whoever reads
//   the board ends the rank.)
// - Wrong arguments (a root that is no rank, sizes that do not fit) are bugs of the caller: MLBENCH_CHECK.
// - Reductions give bitwise the same result on every rank; the same inputs give the same bits again.
// - Counts may be 0. One thread at a time.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "mlbench/base/buffer.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/json.h"
#include "mlbench/comm/operation_board.h"
#include "mlbench/comm/transport.h"

namespace mlbench::comm {

class Communicator {
 public:
  // A null board: one of its own.
  explicit Communicator(std::unique_ptr<Transport> transport, std::shared_ptr<OperationBoard> board = nullptr);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  // Of the transport (transport.h).
  std::string description() const { return transport_->description(); }
  Json versions() const { return transport_->versions(); }
  // Whether operations take buffers that lie there.
  bool supports(const Device& device) const { return transport_->supports(device); }

  void barrier();
  void broadcast(BufferView buffer, int root);
  // In place, over all ranks, all dtypes. Integer sums and products wrap; float16 and bfloat16 are combined in float32
  // and rounded to nearest even after each operation. kAvg: the sum divided by size() (integers: towards zero).
  void all_reduce(BufferView buffer, ReduceOp op);
  std::unique_ptr<Work> all_reduce_async(BufferView buffer, ReduceOp op);  // not kAvg
  // output = size() * input.count elements, in rank order.
  void all_gather(ConstBufferView input, BufferView output);
  // counts[r] elements from rank r, concatenated in rank order (counts the same on all ranks, zeros allowed).
  void all_gather_v(ConstBufferView input, BufferView output, std::span<const int64_t> counts);
  // input = size() * output.count; output = the reduction of slice rank().
  void reduce_scatter(ConstBufferView input, BufferView output, ReduceOp op);
  void reduce(BufferView buffer, ReduceOp op, int root);  // result only at root; others' content undefined
  // At root output = size() * input.count elements in rank order; elsewhere output is not looked at.
  void gather(ConstBufferView input, BufferView output, int root);
  // At root input = size() * output.count elements, of which slice r goes to rank r; elsewhere input is not looked at.
  void scatter(ConstBufferView input, BufferView output, int root);
  // size() slices of equal length each; slice r of input goes to rank r, slice r of output comes from it.
  void all_to_all(ConstBufferView input, BufferView output);
  // send_counts[r] elements go to rank r, recv_counts[r] come from it: what it has in send_counts for this rank.
  void all_to_all_v(ConstBufferView input, BufferView output, std::span<const int64_t> send_counts,
                    std::span<const int64_t> recv_counts);
  // Tagged, blocking; tags 0..2^16-1, `peer` another rank. A send may or may not wait for its receive. Messages of one
  // sender, receiver and tag arrive in order; the receive's size is the send's. Asynchronous ones begin at once and do
  // not wait for other operations.
  void send(ConstBufferView buffer, int peer, int tag);
  void recv(BufferView buffer, int peer, int tag);
  std::unique_ptr<Work> send_async(ConstBufferView buffer, int peer, int tag);
  std::unique_ptr<Work> recv_async(BufferView buffer, int peer, int tag);
  // Collective: every rank asks for as many bytes. Zeroed memory, aligned to 64 bytes, whose contents operations read
  // and write fastest; it may outlive the communicator.
  std::shared_ptr<std::byte> allocate(size_t bytes);
  // Ranks of one colour form a group, ordered by (key, rank). Collective over this communicator. The new one shares the
  // board.
  std::unique_ptr<Communicator> split(int colour, int key);

  OperationBoard& board() { return *board_; }

 private:
  class GuardedWork;

  template <typename Body>
  void perform(const char* operation, size_t bytes, Body&& body) {
    perform(operation, bytes, -1, body);
  }
  template <typename Body>
  void perform(const char* operation, size_t bytes, int root_peer, Body&& body);
  template <typename Body>
  std::unique_ptr<Work> start(const char* operation, size_t bytes, int peer, Body&& body);
  void check_usable(const char* operation) const;
  void check_buffer(const char* operation, const ConstBufferView& buffer) const;
  void check_rank(const char* operation, int rank, const char* role) const;
  void check_message(const char* operation, const ConstBufferView& buffer, int peer, int tag) const;
  CommError failed(const char* operation, const std::string& reason);

  std::shared_ptr<OperationBoard> board_;
  std::unique_ptr<Transport> transport_;
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

// What a back end's make() gets, which returns a Transport.
struct CommOptions {
  int rank = 0;
  int size = 1;
  int local_rank = 0;                      // among those of its host: which GPU
  std::shared_ptr<RendezvousStore> store;  // keys are prefixed by the caller: one store per segment
  std::chrono::milliseconds timeout{30000};
  std::string bind_address;         // address or interface to listen on; "": loopback
  std::string algorithm = "auto";   // of all_reduce, of those that the back end lists
  int links = 1;                    // connections between two ranks, over which large messages are spread
  int64_t socket_buffer_bytes = 0;  // of each connection and direction; 0: the system's choice
  std::string secret;               // of the run: what peers prove to each other that they know; "": rank 0 makes
                                    // one and leaves it in the store
  std::string run;                  // what that proof is bound to, beside the group: "17/segment2/"
  bool passive_wait = false;        // more ranks than cores: never spin
};

}  // namespace mlbench::comm
