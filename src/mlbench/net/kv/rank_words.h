#pragma once

// What ranks say to the rendezvous, and what the rendezvous says of ranks.

#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/net/kv/kv.h"

namespace mlbench::net {

// Returns a heartbeat or a report, or throws PeerFault where a member that the supervisor uses is not what it must be.
const Json& checked_words(const Json& said);

// The text "rank 1 of 4 has not joined" or "ranks 0, 1 and 3 of 4 have not joined"; "" when nobody is missing.
std::string missing_text(const std::vector<RankStatus>& ranks);

}  // namespace mlbench::net
