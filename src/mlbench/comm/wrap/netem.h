#pragma once

// A slower network than there is: each message gets the latency and the bandwidth of its link.
//
// A message carries the time at which its last byte would have come over a link of these properties that carries one
// message at a time; the receive completes no earlier. Collectives are those of comm/ring, made of such messages:
// nothing here knows what an all_reduce costs. No chance is involved. What the machine itself takes beyond that comes
// on top: the inner transport's time is hidden as long as the link is slower, the additions are not.
//
// Ranks have to run on one host: the times are those of its monotonic clock.

#include <map>
#include <memory>
#include <utility>

#include "mlbench/comm/transport.h"
#include "mlbench/comm/wrap/link.h"

namespace mlbench::comm {

struct NetemOptions {
  LinkOptions all = {};
  std::map<std::pair<int, int>, LinkOptions> links = {};  // others, by (sender, receiver)
};

// "netem(ring(gloo))". Splits go over the links of the group that they come from. UserError for a link between ranks
// that are not there, or of a negative latency or bandwidth.
std::unique_ptr<Transport> make_netem(std::unique_ptr<Transport> inner, const NetemOptions& options);

}  // namespace mlbench::comm
