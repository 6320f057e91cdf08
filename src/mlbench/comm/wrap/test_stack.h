#pragma once

// For tests: all wrappers around one transport.

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "mlbench/comm/contract_test.h"
#include "mlbench/comm/wrap/cast.h"
#include "mlbench/comm/wrap/check.h"
#include "mlbench/comm/wrap/netem.h"

namespace mlbench::comm {

inline constexpr Float32Precision kBFloat16Precision{.rounding = 0x1.1p-7};

inline std::unique_ptr<Transport> in_bfloat16(std::unique_ptr<Transport> inner) {
  return make_cast(std::move(inner), DType::kBFloat16);
}
// Adds links that are so fast that a test does not wait for them.
inline std::unique_ptr<Transport> over_links(std::unique_ptr<Transport> inner) {
  return make_netem(std::move(inner), {.all = {.latency = std::chrono::microseconds(5), .bytes_per_second = 20e9}});
}

inline std::unique_ptr<Transport> in_full_stack(std::unique_ptr<Transport> inner) {
  return make_check(in_bfloat16(over_links(std::move(inner))));
}
// The description of the full stack.
inline std::string full_stack_of(const std::string& inner) {
  return "check(cast[bfloat16](netem(ring(" + inner + "))))";
}

}  // namespace mlbench::comm
