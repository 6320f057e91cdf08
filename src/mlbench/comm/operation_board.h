#pragma once

// What a communicator is doing, and who is told: the one place where operations of communication are observed.

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

namespace mlbench::comm {

// One operation of one rank.
struct Operation {
  std::string_view name;  // "all_reduce", a literal
  int64_t sequence = 0;   // counts from 1, over a communicator and its splits
  // Bytes of this rank's buffer: what the rank hands over or, in broadcast and recv, perhaps receives. Of an operation
  // with two buffers, those of the input (in scatter, of the output where a rank has no input). 0 for barrier, allocate
  // and split.
  uint64_t bytes = 0;
  int root_peer = -1;  // the root of a rooted operation, or the peer of a message; -1: neither
};

// Is told of the begin and the end of every operation of a communicator and its splits, on the thread that calls them.
// An asynchronous operation ends on the thread that waits for its Work. An operation that fails ends, too.
class OperationObserver {
 public:
  virtual ~OperationObserver() = default;
  virtual void begin(const Operation& operation) noexcept = 0;
  virtual void end(const Operation& operation) noexcept = 0;
};

// A communicator and its splits share one board. Any thread may call read() (heartbeats, watchdog); only the
// communicator's thread may call the rest.
class OperationBoard {
 public:
  struct Entry {
    std::string_view operation;  // "" before the first operation
    int64_t sequence = 0;        // operations begun so far
    bool in_progress = false;
    // Where an operation is in progress: when it began, or when the last operation that overlapped it ended.
    std::chrono::steady_clock::time_point since{};
  };
  Entry read() const;

  Operation begin(const char* name_literal, uint64_t bytes = 0, int root_peer = -1);
  void end(const Operation& operation);

  // An observer stays until it is detached. Both may be called only between operations.
  void attach(OperationObserver& observer);
  void detach(OperationObserver& observer);

 private:
  mutable std::mutex mutex_;
  const char* operation_ = "";
  int64_t sequence_ = 0;
  int in_flight_ = 0;  // asynchronous operations overlap
  std::chrono::steady_clock::time_point since_{};
  std::vector<OperationObserver*> observers_;
};

// Marks an operation from begin() to end(), whatever way its scope is left. The board must outlive it.
class BoardEntry {
 public:
  BoardEntry(OperationBoard& board, const char* name_literal, uint64_t bytes = 0, int root_peer = -1)
      : board_(&board), operation_(board.begin(name_literal, bytes, root_peer)) {}
  BoardEntry(BoardEntry&& other) noexcept
      : board_(std::exchange(other.board_, nullptr)), operation_(other.operation_) {}
  BoardEntry& operator=(BoardEntry&&) = delete;
  ~BoardEntry() { end(); }
  // Ends the operation before the end of the scope.
  void end() {
    if (board_ != nullptr) std::exchange(board_, nullptr)->end(operation_);
  }

 private:
  OperationBoard* board_;
  Operation operation_;
};

}  // namespace mlbench::comm
