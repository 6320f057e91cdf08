#pragma once

// Converts between the live state of a run and a checkpoint's named tensors and scalars.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mlbench/base/named_state.h"
#include "mlbench/comm/communicator.h"
#include "mlbench/framework/framework.h"

namespace mlbench::train {

// The model that is evaluated, hashed and stored: flat averages over the ranks.
struct AveragedModel {
  std::vector<float> parameters;  // empty where all ranks hold the same: then the framework's
  std::vector<float> buffers;
};
// Averages the ranks' models. `replicated` means that all ranks hold the same parameters, which are then not averaged.
// Collective.
AveragedModel average_model(framework::Framework& framework, comm::Communicator& comm, bool replicated);

// Copies parameters and buffers, under their neutral names, to the two states. `state` receives the averaged values.
// `own` receives this rank's buffers, and this rank's parameters where ranks differ in them.
void export_model(framework::Framework& framework, const AveragedModel& averaged, NamedState& state, NamedState& own);

// Writes parameters and buffers of `state` to the framework: the rank's own values where there are any (own_state.h).
// Throws UserError, naming a tensor that is missing or has a wrong shape.
void import_model(const NamedState& state, int rank, framework::Framework& framework);

// Writes parameters and buffers to the framework, both found by their neutral names (in a checkpoint, those are the
// averaged buffers). Other tensors are ignored. Throws UserError, naming what is missing and what is there instead, or
// a tensor with a wrong shape or type.
void import_averaged_model(const std::map<std::string, HostTensor>& tensors, framework::Framework& framework);

// The hash of the averaged model. Fails MLBENCH_CHECK where it is not the same on all ranks. Collective.
std::string agreed_weights_sha256(framework::Framework& framework, comm::Communicator& comm, bool replicated);

}  // namespace mlbench::train
