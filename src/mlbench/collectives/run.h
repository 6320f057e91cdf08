#pragma once

// The benchmark of collectives: runs everything that a specification asks for on one communicator.

#include <functional>

#include "mlbench/base/clock.h"
#include "mlbench/collectives/memory.h"
#include "mlbench/comm/communicator.h"
#include "mlbench/record/collectives.h"
#include "mlbench/spec/collectives.h"

namespace mlbench::collectives {

// Is called on rank 0 alone, as soon as something is measured. Each function may be empty.
struct Sink {
  std::function<void(const record::CollectiveRow&)> row;
  std::function<void(const record::PairMatrix&)> pairs;
};

// Collective; returns when all ranks are done. Rows come in the order of cycles, cases (spec::cases_of) and sizes; the
// pairs come last. `clock` is this rank's own. Precondition: a rank has two buffers of spec::most_buffer_bytes. Throws
// UserError when the specification does not fit the number of ranks, and CommError as the communicator does.
//
// For each size and form there are warm-up, iterations, a gathering of times, and then `check` operations on new data
// whose results are verified. What ranks agree on in between goes through the same communicator, outside of all times.
void run(const spec::CollectivesSpec& spec, comm::Communicator& comm, Memory& memory, const Clock& clock,
         const Sink& sink);

// Runs with buffers of the host.
void run(const spec::CollectivesSpec& spec, comm::Communicator& comm, const Clock& clock, const Sink& sink);

}  // namespace mlbench::collectives
