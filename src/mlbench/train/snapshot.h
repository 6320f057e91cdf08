#pragma once

// Between the live state of a run and a checkpoint's named tensors and scalars.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mlbench/base/named_state.h"
#include "mlbench/comm/communicator.h"
#include "mlbench/framework/framework.h"

namespace mlbench::train {

// What is evaluated, hashed and stored: the averages over the ranks, flat.
struct AveragedModel {
  std::vector<float> parameters;  // empty where all ranks hold the same: then they are the framework's
  std::vector<float> buffers;
};
// `replicated`: all ranks hold the same parameters. Collective.
AveragedModel average_model(framework::Framework& framework, comm::Communicator& comm, bool replicated);

// Parameters and buffers under their neutral names: the averaged ones to `state`, and what is the rank's own, of its
// buffers and of parameters in which ranks differ, to `own`.
void export_model(framework::Framework& framework, const AveragedModel& averaged, NamedState& state, NamedState& own);

// Writes this rank's buffers and parameters back, its own where there are any (own_state.h). UserError naming a missing
// tensor or a wrong shape.
void import_model(const NamedState& state, int rank, framework::Framework& framework);

// Parameters and buffers, both by their neutral names (of a checkpoint: the averaged buffers). Other tensors are left
// alone. UserError naming what is missing and what is there instead, or a wrong shape or type.
void import_averaged_model(const std::map<std::string, HostTensor>& tensors, framework::Framework& framework);

// Of the averaged model; that it is the same on all ranks is checked. Collective.
std::string agreed_weights_sha256(framework::Framework& framework, comm::Communicator& comm, bool replicated);

}  // namespace mlbench::train
