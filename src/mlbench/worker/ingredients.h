#pragma once

// Makes what a rank needs for its run beside the communicator: data and framework, and the places of its threads.

#include <memory>
#include <string>
#include <vector>

#include "mlbench/catalog/worker/catalog.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/framework/framework.h"
#include "mlbench/optim/exchange/communication_thread.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::worker {

// Prepares the run's data set, or finds it prepared. Logs what takes long. Throws UserError and IoError
// (dataset/prepare.h).
dataset::PreparedDataset prepare_data(const spec::RunSpec& run);

// Makes the framework of one rank. `local_rank` is the rank's number on its host, which selects cores and GPU.
// `gradient_memory` is that of FrameworkOptions. Throws UserError for what the program or the framework lacks, and
// where MLBENCH_CORES is no list of cores.
std::unique_ptr<framework::Framework> make_framework(const catalog::WorkerProgram& program, const spec::RunSpec& run,
                                                     int rank, int local_rank,
                                                     framework::MakeMemory gradient_memory = nullptr);

// The cores for threads that a rank starts beside its computing threads, each of which is bound to one core. These are
// the cores that the supervisor keeps for the run and on which no rank computes; where there are none, the rank's own.
// Empty where no thread is bound.
std::vector<int> cores_beside_computing(const spec::RunSpec& run, int local_rank);

// How many threads decode a rank's images: as the user says, else as many as its share of the host's cores has beside
// the computing threads, at least 1. 0 where no image is encoded and the user says nothing. Precondition: no thread is
// bound yet, as the cores of the calling thread are counted.
int decoding_threads(const spec::RunSpec& run, const dataset::PreparedDataset& data, int local_size);

// The place of a rank's communication thread. `crowded` says why such a thread would be in the way: the back end spins,
// and this host has fewer cores than threads that compute or communicate. It is empty otherwise, and where the user set
// optimizer.overlap. `local_size` is the number of ranks on this host. Precondition: no thread is bound yet, as the
// cores of the calling thread are counted.
optim::CommunicationPlace place_of_communication(const spec::RunSpec& run, int local_rank, int local_size,
                                                 bool backend_spins);

}  // namespace mlbench::worker
