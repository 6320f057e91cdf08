#pragma once

// Communication between the ranks of a run. A Communicator checks arguments and notes each operation on the board, so
// that a heartbeat can name what a rank is waiting in and observers learn when an operation begins and ends. The
// communicator lets a Transport perform the operation, and turns every failure into a CommError that names operation,
// rank, peer and timeout.
//
// The contract, tested for every back end and wrapper (tests in comm/contract_test.*):
// - Every rank of the group calls the same operations in the same order with the same counts, dtypes and roots.
// - A blocking call returns when the local buffers may be reused. An asynchronous one returns a Work.
// - A call throws CommError, naming operation, rank and, where known, peer, when a peer is lost or keeps the call
//   waiting for longer than CommOptions::timeout. Afterwards the communicator is unusable: every further call throws
//   CommError, and the communicator lets go of its peers, so that they notice, too. (MPI cannot do that: its calls go
//   on waiting, and whoever reads the board ends the rank.)
// - Wrong arguments (a root that is no rank, sizes that do not fit) are bugs of the caller: MLBENCH_CHECK.
// - A reduction gives bitwise the same result on every rank, and the same bits again for the same inputs.
// - Counts may be 0. One thread at a time may use a communicator.

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
  // A null `board` means a board of its own.
  explicit Communicator(std::unique_ptr<Transport> transport, std::shared_ptr<OperationBoard> board = nullptr);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  // What the transport says of itself (transport.h).
  std::string description() const { return transport_->description(); }
  Json versions() const { return transport_->versions(); }
  std::string collectives_by() const { return transport_->collectives_by(); }
  // Whether operations take buffers on that device.
  bool supports(const Device& device) const { return transport_->supports(device); }

  void barrier();
  void broadcast(BufferView buffer, int root);
  // Reduces in place over all ranks, for all dtypes. Integer sums and products wrap; float16 and bfloat16 are combined
  // in float32 and rounded to nearest even after each operation. kAvg is the sum over size() (integers: towards zero).
  void all_reduce(BufferView buffer, ReduceOp op);
  std::unique_ptr<Work> all_reduce_async(BufferView buffer, ReduceOp op);  // any op except kAvg
  // `output` receives size() * input.count elements, in rank order.
  void all_gather(ConstBufferView input, BufferView output);
  // `output` receives counts[r] elements from rank r, in rank order. All ranks have the same `counts`, which may be 0.
  void all_gather_v(ConstBufferView input, BufferView output, std::span<const int64_t> counts);
  // `input` has size() * output.count elements; `output` receives the reduction of slice rank().
  void reduce_scatter(ConstBufferView input, BufferView output, ReduceOp op);
  void reduce(BufferView buffer, ReduceOp op, int root);  // only root has the result; others: undefined
  // At `root`, `output` receives size() * input.count elements in rank order. Other ranks' `output` is ignored.
  void gather(ConstBufferView input, BufferView output, int root);
  // At `root`, `input` has size() * output.count elements, and slice r goes to rank r. Other ranks' `input` is ignored.
  void scatter(ConstBufferView input, BufferView output, int root);
  // Both buffers have size() equal slices: slice r of `input` goes to rank r, slice r of `output` comes from it.
  void all_to_all(ConstBufferView input, BufferView output);
  // send_counts[r] elements go to rank r, and recv_counts[r] elements come from it. recv_counts[r] must equal what rank
  // r has in send_counts for this rank.
  void all_to_all_v(ConstBufferView input, BufferView output, std::span<const int64_t> send_counts,
                    std::span<const int64_t> recv_counts);
  // Tagged messages. A tag is 0 to 2^16-1, and `peer` is another rank. A send may or may not wait for its receive.
  // Messages with the same sender, receiver and tag arrive in order; a receive must have the size of its send.
  // Asynchronous messages begin at once and do not wait for other operations.
  void send(ConstBufferView buffer, int peer, int tag);
  void recv(BufferView buffer, int peer, int tag);
  std::unique_ptr<Work> send_async(ConstBufferView buffer, int peer, int tag);
  std::unique_ptr<Work> recv_async(BufferView buffer, int peer, int tag);
  // Allocates zeroed memory, aligned to 64 bytes, which operations read and write fastest. The memory may outlive the
  // communicator. Collective: every rank asks for the same number of bytes.
  std::shared_ptr<std::byte> allocate(size_t bytes);
  // Makes a group of the ranks with the same colour, ordered by (key, rank). Collective over this communicator. The new
  // communicator shares the board.
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
  std::string failure_;  // the first failure
};

// A store in which ranks of one group publish small values and wait for those of others. kv_store.h has one over the
// run's key-value connection; tests have one in memory. A key may be written once.
class RendezvousStore {
 public:
  virtual ~RendezvousStore() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  // Throws CommError naming the key when `timeout` passes.
  virtual std::string get(const std::string& key, std::chrono::milliseconds timeout) = 0;
};

// The options for a back end's make(), which returns a Transport.
struct CommOptions {
  int rank = 0;
  int size = 1;
  int local_rank = 0;                      // the rank's number among those on its host, which decides its GPU
  std::shared_ptr<RendezvousStore> store;  // the caller prefixes the keys: each segment has its own
  std::chrono::milliseconds timeout{30000};
  std::string bind_address;         // the address or interface to listen on; "": loopback
  std::string algorithm = "auto";   // the algorithm of all_reduce, one of those that the back end lists
  int links = 1;                    // connections between two ranks, over which large messages are spread
  int64_t socket_buffer_bytes = 0;  // of each connection and direction; 0: the system's choice
  std::string secret;               // the run's secret, which peers prove to each other that they know; "": rank 0
                                    // makes one and leaves it in the store
  std::string run;                  // what that proof is bound to beside the group: "17/segment2/"
  bool passive_wait = false;        // there are more ranks than cores: never spin
};

}  // namespace mlbench::comm
