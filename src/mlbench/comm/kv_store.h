#pragma once

#include <memory>
#include <string>

#include "mlbench/comm/communicator.h"
#include "mlbench/net/kv/kv.h"

namespace mlbench::comm {

// A rendezvous store over the run's key-value connection. Every key gets `prefix`, one for each segment and group.
std::shared_ptr<RendezvousStore> make_kv_store(std::shared_ptr<net::KvClient> client, const std::string& prefix);

}  // namespace mlbench::comm
