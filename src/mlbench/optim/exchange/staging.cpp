#include "mlbench/optim/exchange/staging.h"

namespace mlbench::optim {

Staging::Staging(SeparateMemory& memory, int64_t elements)
    : memory_(memory),
      host_(at::zeros({elements},
                      at::TensorOptions(at::kFloat).pinned_memory(memory.stream.device.kind == Device::Kind::kCuda))) {}

void Staging::fetch(const at::Tensor& gradients, int64_t first, int64_t count) {
  copy(host_.narrow(0, first, count), gradients.narrow(0, first, count));
}

void Staging::put_back(const at::Tensor& gradients, int64_t first, int64_t count) {
  copy(gradients.narrow(0, first, count), host_.narrow(0, first, count));
}

void Staging::copy(const at::Tensor& to, const at::Tensor& from) {
  to.copy_(from);
  memory_.flat_bytes += from.nbytes();
}

}  // namespace mlbench::optim
