#pragma once

// How the ranks of a run communicate, beside the back end: what wraps it, and how it is tuned.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "mlbench/base/json.h"
#include "mlbench/base/numbers.h"
#include "mlbench/spec/fields.h"

namespace mlbench::spec {

inline constexpr std::string_view kWireTypes[] = {"float16", "bfloat16"};
inline constexpr std::string_view kAlgorithms[] = {"auto", "ring", "halving_doubling", "bcube", "library"};
inline constexpr Range kLinkCounts{1, 64};
inline constexpr Range kSocketBuffers{64 << 10, 1 << 30};

struct Communication {
  std::string wire_dtype = {};         // as what float32 travels; "": as it is
  bool check = false;                  // ranks compare each collective before it
  std::string netem = {};              // a made network, as parse_netem() reads it; "": the one that there is
  std::string algorithm = "auto";      // of all_reduce; "library": all collectives as the back end's library has
                                       // them; which ones there are depends on the back end
  int64_t links = 1;                   // connections between two ranks, over which large messages are spread
  int64_t socket_buffer_bytes = 0;     // of each connection and direction; 0: the system's choice
  std::string network_interface = {};  // its name or address; "": loopback
  bool operator==(const Communication&) const = default;
};

// Its members in a record.
template <typename V, Either<Communication> T>
void describe(V& v, T& communication) {
  v.field_or_null("wire_dtype", communication.wire_dtype, std::string());
  v.field("check", communication.check);
  v.field_or_null("netem", communication.netem, std::string());
  v.field("algorithm", communication.algorithm);
  v.field("links", communication.links);
  v.field_or_null("socket_buffer_bytes", communication.socket_buffer_bytes, int64_t{0});
  v.field_or_null("interface", communication.network_interface, std::string());
}

// Whether the ranks of this back end find each other through Open MPI's launcher, and so are started by an mpirun, or
// by an engine that stands for it. Of other back ends a guard each is enough.
bool needs_mpirun(std::string_view backend);

// Another precision on the wire, or another network: neither is what an official task measures.
bool opens(const Communication& communication);

// Whether a stack of communicators, as a record names it, ends at a network that was made: times are synthetic.
bool on_made_network(std::string_view comm_stack);

struct NetemLink {
  double latency_s = 0;
  double bits_per_second = 0;  // 0: no limit
  bool operator==(const NetemLink&) const = default;
};
struct Netem {
  NetemLink all;
  std::map<std::pair<int64_t, int64_t>, NetemLink>
      links;  // by (sender, receiver); what they leave out is that of `all`
  bool operator==(const Netem&) const = default;
};

// UserError where the back end cannot be tuned as asked, with what can be. `row`: that of the worker's catalog,
// "algorithms" and "tunables" (of "links", "socket_buffer", "interface"); a row without them has neither. The library's
// own collectives take one link.
void check_tuning(const Communication& communication, const std::string& backend, const Json& row);

// "latency=0.2ms,bandwidth=1Gbit;0>1:bandwidth=500Mbit": all links, and some that differ. Latencies in ns, us, ms or s,
// bandwidths in bit, kbit, Mbit or Gbit per second (powers of 1000). UserError with what was given and what can be.
Netem parse_netem(const std::string& text);
// UserError where it names a rank that a run of so many does not have.
void check_netem(const Netem& netem, int64_t workers);

}  // namespace mlbench::spec
