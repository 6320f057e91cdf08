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
  int64_t sequence = 0;   // from 1, over a communicator and its splits
  uint64_t bytes = 0;     // of this rank's buffer: what it hands over (broadcast, recv: what it hands over or gets);
                          // of the input where an operation has two (scatter: of the output where a rank has no
                          // input); 0 for barrier, allocate and split
  int root_peer = -1;     // the root of a rooted one, the peer of a message; -1: neither
};

// Told of begin and end of every operation of a communicator and its splits, on the thread that calls them (that of an
// asynchronous operation's end waits for its Work). An operation that fails ends, too.
class OperationObserver {
 public:
  virtual ~OperationObserver() = default;
  virtual void begin(const Operation& operation) noexcept = 0;
  virtual void end(const Operation& operation) noexcept = 0;
};

// Shared by a communicator and its splits. read() from any thread (heartbeats, watchdog); all else from the thread of
// the communicator.
class OperationBoard {
 public:
  struct Entry {
    std::string_view operation;  // "" before the first
    int64_t sequence = 0;        // operations begun so far
    bool in_progress = false;
    std::chrono::steady_clock::time_point since{};  // in progress: its begin, or the last end of one that overlapped it
  };
  Entry read() const;

  Operation begin(const char* name_literal, uint64_t bytes = 0, int root_peer = -1);
  void end(const Operation& operation);

  // An observer is there until it is detached; between operations only.
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

// An operation from begin() to end(), on every way out. The board outlives it.
class BoardEntry {
 public:
  BoardEntry(OperationBoard& board, const char* name_literal, uint64_t bytes = 0, int root_peer = -1)
      : board_(&board), operation_(board.begin(name_literal, bytes, root_peer)) {}
  BoardEntry(BoardEntry&& other) noexcept
      : board_(std::exchange(other.board_, nullptr)), operation_(other.operation_) {}
  BoardEntry& operator=(BoardEntry&&) = delete;
  ~BoardEntry() { end(); }
  // Before the end of its scope.
  void end() {
    if (board_ != nullptr) std::exchange(board_, nullptr)->end(operation_);
  }

 private:
  OperationBoard* board_;
  Operation operation_;
};

}  // namespace mlbench::comm
