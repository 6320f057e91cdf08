#pragma once

// The memory that all requests in flight may hold together: bodies as sent and as unpacked, answers that wait for their
// readers, buffers of connections. Senders who have not shown who they are may hold a quarter of it in all, so that
// they cannot starve the others.

#include <cstddef>
#include <memory>
#include <mutex>

namespace mlbench::net::http {

class MemoryBudget {
  struct State {
    explicit State(size_t all) : bytes(all) {}
    const size_t bytes;
    std::mutex mutex;
    size_t held = 0, held_by_unknown = 0;
  };

 public:
  explicit MemoryBudget(size_t bytes) : state_(std::make_shared<State>(bytes)) {}

  // Holds a part of the budget as long as it lives, which may be longer than the budget. One thread at a time may use
  // it.
  class Part {
   public:
    Part() = default;
    Part(const MemoryBudget& budget, bool known) : budget_(budget.state_), known_(known) {}
    ~Part() { release(); }
    Part(Part&& other) noexcept { swap(other); }
    Part& operator=(Part&& other) noexcept {
      if (this != &other) {
        release();
        swap(other);
      }
      return *this;
    }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

    // Asks to hold `bytes` from now on. Returns false, and changes nothing, when there is not that much. Less than
    // before is always granted.
    bool resize(size_t bytes);
    size_t held() const { return held_; }
    void release() { static_cast<void>(resize(0)); }

   private:
    void swap(Part& other) noexcept;
    std::shared_ptr<State> budget_;
    bool known_ = false;
    size_t held_ = 0;
  };

  size_t held() const;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace mlbench::net::http
