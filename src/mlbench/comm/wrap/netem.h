#pragma once

// Emulates a slower network: each message gets the latency and the bandwidth of its link.
//
// A message carries the time at which its last byte would arrive over a link with these properties that carries one
// message at a time; the receive completes no earlier. Collectives are those of comm/ring, made of such messages:
// nothing here knows what an all_reduce costs. Nothing is random. The time of the inner transport is hidden as long as
// the link is slower; the time of additions is not, and comes on top.
//
// All ranks must run on one host: the times are those of its monotonic clock.

#include <map>
#include <memory>
#include <utility>

#include "mlbench/comm/transport.h"
#include "mlbench/comm/wrap/link.h"

namespace mlbench::comm {

struct NetemOptions {
  LinkOptions all = {};
  std::map<std::pair<int, int>, LinkOptions> links = {};  // links with other properties, by (sender, receiver)
};

// Describes itself as "netem(ring(gloo))". A split goes over the links of the group that it comes from. Throws
// UserError for a link between ranks that do not exist, and for a negative latency or bandwidth.
std::unique_ptr<Transport> make_netem(std::unique_ptr<Transport> inner, const NetemOptions& options);

}  // namespace mlbench::comm
