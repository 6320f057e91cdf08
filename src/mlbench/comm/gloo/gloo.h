#pragma once

#include <memory>
#include <string_view>

#include "mlbench/base/availability.h"
#include "mlbench/comm/communicator.h"

namespace mlbench::comm::gloo_backend {

// What make() takes in CommOptions::algorithm: all_reduces of ours (collectives.h), or all collectives as Gloo has them
// (library.h), which take one link.
inline constexpr std::string_view kLibraryAlgorithm = "library";
inline constexpr std::string_view kAlgorithms[] = {"auto", "ring", "halving_doubling", "bcube", kLibraryAlgorithm};

Availability available();
std::unique_ptr<Transport> make(const CommOptions& options);

}  // namespace mlbench::comm::gloo_backend
