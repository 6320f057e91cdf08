#pragma once

// Gradients of parameters, which the operations' backward passes write straight into the flat buffer. Autograd's own
// accumulation would need a zeroed buffer and one more pass over memory.

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
    at::Tensor gradient;  // view of the flat buffer, with the parameter's logical shape
    int64_t offset = 0;
    int64_t count = 0;
    int uses = 1;      // operations that use the parameter; each makes one contribution to the gradient
    bool add = false;  // the next contribution adds to the gradient instead of overwriting it
    int missing = 0;   // contributions until the gradient is final
  };
  using Ready = std::function<void(int64_t offset, int64_t count)>;

  size_t add_slot(Slot slot);
  void share(size_t slot) { ++slots_[slot].uses; }  // one more operation uses the slot's parameter
  void on_ready(Ready ready) { ready_ = std::move(ready); }

  // Begins a backward pass, which overwrites the gradients, or with `accumulate` adds to them. With `last`, the pass is
  // the last one of its step: gradients become final, and the Ready callback is called for each.
  void begin(bool accumulate, bool last = true);
  // Calls `write(gradient, add)`, which must store one contribution in the slot's view, or with `add` add the
  // contribution. After the contribution of the last operation that uses the parameter, the gradient is final.
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

// A parameter: a view of the flat parameter buffer, unknown to autograd, and its slot in the gradient buffer. The
// backward pass of the operation that uses the parameter fills the slot.
struct Parameter {
  at::Tensor value;
  size_t slot = 0;
};

// Gives views of a layout's parameters and buffers by name. `parameters`, `gradients` and `buffers` are the flat
// buffers with the layout's extents, and `slots` must outlive the table.
class ParameterTable {
 public:
  ParameterTable(const models::ModelDescription& model, const models::FlatLayout& layout, at::Tensor parameters,
                 at::Tensor gradients, at::Tensor buffers, GradientBuffer& slots);
  // The parameter or buffer with this name. Each operation that uses a parameter must ask once: the first call adds a
  // slot, and every further call notes one more use of that slot. A buffer has no slot (0). Fails MLBENCH_CHECK for an
  // unknown name.
  Parameter get(const std::string& name);

 private:
  const std::string model_;
  const std::vector<models::FlatRange> ranges_;
  const at::Tensor parameters_, gradients_, buffers_;
  GradientBuffer& slots_;
  std::map<std::string, Parameter> known_;
};

// Copies `gradient` to `target`, a slot's view, or with `add` adds it.
inline void store(at::Tensor& target, const at::Tensor& gradient, bool add) {
  if (add) {
    target.add_(gradient);
  } else {
    target.copy_(gradient);
  }
}

}  // namespace mlbench::framework
