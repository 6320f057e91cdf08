#pragma once

// Between the live state of a run and a checkpoint's named tensors and scalars.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/named_state.h"
#include "mlbench/comm/communicator.h"
#include "mlbench/framework/framework.h"

namespace mlbench::train {

// Parameters and buffers under their neutral names, and each rank's own buffers under "rank<R>/<name>".
// Collective (gathers the buffers); every rank gets the whole state.
void export_model(framework::Framework& framework, std::span<const float> averaged_buffers, comm::Communicator& comm,
                  NamedState& state);

// Writes parameters and this rank's own buffers back. UserError naming a missing tensor or a wrong shape.
void import_model(const NamedState& state, int rank, framework::Framework& framework);

// Parameters and buffers, both by their neutral names (of a checkpoint: the averaged buffers). Other tensors are left
// alone. UserError naming what is missing and what is there instead, or a wrong shape or type.
void import_averaged_model(const std::map<std::string, HostTensor>& tensors, framework::Framework& framework);

// The buffers averaged over ranks: what is evaluated, hashed and stored. Collective.
std::vector<float> average_buffers(framework::Framework& framework, comm::Communicator& comm);

// Of the parameters and the averaged buffers; that it is the same on all ranks is checked. Collective.
std::string agreed_weights_sha256(framework::Framework& framework, comm::Communicator& comm);

}  // namespace mlbench::train
