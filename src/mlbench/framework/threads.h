#pragma once

#include <span>

namespace mlbench::framework {

// Binds as many threads of the OpenMP pool that frameworks and LibTorch share to one of `cores` each, in order; the
// caller is the first. Threads that it starts later run on its core, too, unless they are told others (bind_thread of
// base/environment.h). False: no cores, the system refuses one, or OpenMP gives fewer threads; then none is bound.
bool bind_threads(std::span<const int> cores);

}  // namespace mlbench::framework
