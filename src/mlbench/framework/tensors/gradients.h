#pragma once

// Where the operations' backward passes leave the gradients of parameters: straight in the flat buffer, without the
// detour over autograd's accumulation (which would need a zeroed buffer and one more pass over memory).

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "mlbench/models/model.h"

namespace mlbench::framework {

class GradientBuffer {
 public:
  struct Slot {
    at::Tensor gradient;  // view of the flat buffer, logical shape
    int64_t offset = 0;
    int64_t count = 0;
    int uses = 1;      // operations that use the parameter: as many contributions make its gradient
    bool add = false;  // the next contribution adds instead of overwriting
    int missing = 0;   // contributions until it is final
  };
  using Ready = std::function<void(int64_t offset, int64_t count)>;

  size_t add_slot(Slot slot);
  void share(size_t slot) { ++slots_[slot].uses; }  // one more operation uses it
  void on_ready(Ready ready) { ready_ = std::move(ready); }

  // Before a backward pass: overwrite what is there, or add to it. `last`: of its step, so that gradients become final.
  void begin(bool accumulate, bool last = true);
  // `write(gradient, add)` leaves one contribution in the slot's view. With that of the last operation that uses the
  // parameter the gradient is final.
  template <typename Write>
  void contribute(size_t slot, Write&& write) {
    Slot& target = slots_[slot];
    write(target.gradient, target.add);
    target.add = true;
    if (--target.missing == 0 && last_ && ready_) ready_(target.offset, target.count);
  }

 private:
  std::vector<Slot> slots_;
  Ready ready_;
  bool last_ = true;
};

// A parameter: a view of the flat parameter buffer, unknown to autograd, and its slot in the gradient buffer, which the
// backward pass of its operation fills.
struct Parameter {
  at::Tensor value;
  size_t slot = 0;
};

// Views of a layout's parameters and buffers by name. The buffers outlive it; they have the layout's extents.
class ParameterTable {
 public:
  ParameterTable(const models::ModelDescription& model, const models::FlatLayout& layout, at::Tensor parameters,
                 at::Tensor gradients, at::Tensor buffers, GradientBuffer& slots);
  // Asked for again where several layers share it, which then have one slot. A buffer has none.
  Parameter get(const std::string& name);

 private:
  const std::string model_;
  const std::vector<models::FlatRange> ranges_;
  const at::Tensor parameters_, gradients_, buffers_;
  GradientBuffer& slots_;
  std::map<std::string, Parameter> known_;
};

// `gradient` into, or on top of, a slot of the gradient buffer.
inline void store(at::Tensor& target, const at::Tensor& gradient, bool add) {
  if (add) {
    target.add_(gradient);
  } else {
    target.copy_(gradient);
  }
}

}  // namespace mlbench::framework
