#pragma once

// What a run is made of, beside its communicator: data and framework, and where its threads run.

#include <memory>
#include <string>
#include <vector>

#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/framework/framework.h"
#include "mlbench/optim/exchange/communication_thread.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::worker {

// The run's data set, ready to be read; what takes long is logged. UserError, IoError.
dataset::PreparedDataset prepare_data(const spec::RunSpec& run);

// For one rank; `local_rank` is its number on its host, which picks cores and GPU. `gradient_memory`: see
// FrameworkOptions. UserError.
std::unique_ptr<framework::Framework> make_framework(const spec::RunSpec& run, int rank, int local_rank,
                                                     framework::MakeMemory gradient_memory = nullptr);

// Cores for threads that a rank starts beside those that compute, which are bound to one each: what the supervisor
// keeps for the run and no rank computes on, else the rank's own. Empty where nothing is bound.
std::vector<int> cores_beside_computing(const spec::RunSpec& run, int local_rank);

// Of a rank's communication thread: in the way where the back end spins and there are fewer cores than threads that
// compute or communicate on this host, unless the user asks for overlap all the same. To be asked before any thread is
// bound.
optim::CommunicationPlace place_of_communication(const spec::RunSpec& run, int local_rank, int local_size,
                                                 bool backend_spins);

}  // namespace mlbench::worker
