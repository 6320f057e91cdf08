#include "mlbench/base/named_state.h"

#include "mlbench/base/errors.h"

namespace mlbench {

namespace {
[[noreturn]] void lacks(const char* what, const std::string& name) {
  throw UserError(std::string("checkpoint has no ") + what + " '" + name +
                  "': it is of another task, or of another mlbench: resume with that one");
}

template <typename T>
const T& scalar_as(const NamedState& state, const std::string& name, const char* type) {
  const auto found = state.scalars.find(name);
  if (found == state.scalars.end()) lacks("value", name);
  const T* value = std::get_if<T>(&found->second);
  if (value == nullptr) throw UserError("checkpoint value '" + name + "' is not " + type);
  return *value;
}
}  // namespace

const HostTensor& NamedState::tensor(const std::string& name) const {
  const auto found = tensors.find(name);
  if (found == tensors.end()) lacks("tensor", name);
  return found->second;
}

int64_t NamedState::integer(const std::string& name) const { return scalar_as<int64_t>(*this, name, "an integer"); }
double NamedState::real(const std::string& name) const { return scalar_as<double>(*this, name, "a number"); }
const std::string& NamedState::text(const std::string& name) const {
  return scalar_as<std::string>(*this, name, "a text");
}

}  // namespace mlbench
