#include "mlbench/compress/error_memory.h"

#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/compress/flat_values.h"

namespace mlbench::compress {

namespace {

constexpr const char* kError = "coder/error";
constexpr const char* kName = "coder/name";

}  // namespace

ErrorMemory::ErrorMemory(std::string coder, const FlatLayout& layout, bool enabled, double decay)
    : coder_(std::move(coder)),
      decay_(decay),
      values_(enabled ? at::zeros({layout.parameter_elements}) : at::Tensor()) {}

const at::Tensor& ErrorMemory::with(const at::Tensor& gradient) {
  if (!enabled()) return gradient;
  if (decay_ != 1) values_.mul_(decay_);
  return values_.add_(gradient);
}

void ErrorMemory::export_state(NamedState& state) const {
  if (!enabled()) return;
  export_values(kError, values_, state);
  state.scalars[kName] = coder_;
}

void ErrorMemory::import_state(const NamedState& state) {
  if (!enabled()) return;
  const std::string coder = state.text(kName);
  if (coder != coder_) {
    throw UserError("checkpoint: the error memory is of the coder '" + coder + "'; expected that of '" + coder_ + "'");
  }
  import_values(kError, state, values_);
}

}  // namespace mlbench::compress
