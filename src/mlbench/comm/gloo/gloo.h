#pragma once

#include <memory>
#include <string_view>

#include "mlbench/base/availability.h"
#include "mlbench/comm/communicator.h"

namespace mlbench::comm::gloo_backend {

// The values of CommOptions::algorithm that make() takes (collectives.h).
inline constexpr std::string_view kAlgorithms[] = {"auto", "ring", "halving_doubling", "bcube"};

Availability available();
std::unique_ptr<Transport> make(const CommOptions& options);

}  // namespace mlbench::comm::gloo_backend
