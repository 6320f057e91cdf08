#include "mlbench/framework/gradients.h"

#include <utility>

namespace mlbench::framework {

size_t GradientBuffer::add_slot(Slot slot) {
  slots_.push_back(std::move(slot));
  return slots_.size() - 1;
}

void GradientBuffer::begin(bool accumulate, bool last) {
  last_ = last;
  for (Slot& slot : slots_) {
    slot.add = accumulate;
    slot.missing = slot.uses;
  }
}

}  // namespace mlbench::framework
