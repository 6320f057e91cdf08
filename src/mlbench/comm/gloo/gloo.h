#pragma once

#include <memory>
#include <string_view>

#include "mlbench/base/availability.h"
#include "mlbench/comm/communicator.h"

namespace mlbench::comm::gloo_backend {

// The values of CommOptions::algorithm that make() takes: names of the all_reduces in collectives.h, or Gloo's own
// collectives for all operations (library.h), which use one link.
inline constexpr std::string_view kLibraryAlgorithm = "library";
inline constexpr std::string_view kAlgorithms[] = {"auto", "ring", "halving_doubling", "bcube", kLibraryAlgorithm};

Availability available();
std::unique_ptr<Transport> make(const CommOptions& options);

}  // namespace mlbench::comm::gloo_backend
