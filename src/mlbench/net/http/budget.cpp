#include "mlbench/net/http/budget.h"

#include <utility>

namespace mlbench::net::http {

bool MemoryBudget::Part::resize(size_t bytes) {
  if (bytes == held_) return true;
  if (budget_ == nullptr) return false;
  const std::lock_guard lock(budget_->mutex);
  if (bytes > held_) {
    const size_t more = bytes - held_;
    if (more > budget_->bytes - budget_->held) return false;
    if (!known_ && more > budget_->bytes / 4 - budget_->held_by_unknown) return false;
  }
  budget_->held = budget_->held - held_ + bytes;
  if (!known_) budget_->held_by_unknown = budget_->held_by_unknown - held_ + bytes;
  held_ = bytes;
  return true;
}

void MemoryBudget::Part::swap(Part& other) noexcept {
  std::swap(budget_, other.budget_);
  std::swap(known_, other.known_);
  std::swap(held_, other.held_);
}

size_t MemoryBudget::held() const {
  const std::lock_guard lock(state_->mutex);
  return state_->held;
}

}  // namespace mlbench::net::http
