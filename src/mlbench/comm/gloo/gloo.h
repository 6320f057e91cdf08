#pragma once

#include <memory>

#include "mlbench/comm/communicator.h"

namespace mlbench::comm::gloo_backend {

Availability available();
std::unique_ptr<Communicator> make(const CommOptions& options);

}  // namespace mlbench::comm::gloo_backend
