#pragma once

// State in which ranks differ, such as running statistics or an error memory. One checkpoint has the state of all
// ranks, that of rank R under "rankR/<name>".

#include <string>

#include "mlbench/base/named_state.h"
#include "mlbench/comm/communicator.h"

namespace mlbench::train {

// The name in a checkpoint of what is `name` in the state of `rank`: "rankR/<name>".
std::string own_name(int rank, const std::string& name);

// Adds the state `own` of every rank to `all` on rank 0, to which the others send theirs. Other ranks' `all` does not
// change. Collective.
void gather_own_state(const NamedState& own, comm::Communicator& comm, NamedState& all);

// The state of one rank in `all`, under plain names.
NamedState own_state_of(const NamedState& all, int rank);

}  // namespace mlbench::train
