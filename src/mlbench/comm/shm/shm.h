#pragma once

#include <memory>

#include "mlbench/base/availability.h"
#include "mlbench/comm/communicator.h"

namespace mlbench::comm::shm_backend {

Availability available();
std::unique_ptr<Transport> make(const CommOptions& options);

}  // namespace mlbench::comm::shm_backend
