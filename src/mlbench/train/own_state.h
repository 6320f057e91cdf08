#pragma once

// State in which ranks differ, such as running statistics or an error memory: all ranks' in one checkpoint, rank R's
// under "rankR/<name>".

#include <string>

#include "mlbench/base/named_state.h"
#include "mlbench/comm/communicator.h"

namespace mlbench::train {

std::string own_name(int rank, const std::string& name);

// Adds every rank's to `all` on rank 0, to which the others send theirs. Collective.
void gather_own_state(const NamedState& own, comm::Communicator& comm, NamedState& all);

// One rank's, under its plain names.
NamedState own_state_of(const NamedState& all, int rank);

}  // namespace mlbench::train
