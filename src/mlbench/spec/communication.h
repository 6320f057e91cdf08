#pragma once

// How the ranks of a run communicate, beside the choice of a back end: what wraps it, and how it is tuned.

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
  std::string wire_dtype = {};         // the type in which float32 travels; "": float32
  bool check = false;                  // before each collective, ranks compare what they are going to call
  std::string netem = {};              // an emulated network, in the form of parse_netem(); "": the real network
  std::string algorithm = "auto";      // for all_reduce; the back end says which it has. "library": all collectives
                                       // are those of the back end's library
  int64_t links = 1;                   // connections between two ranks, over which large messages are spread
  int64_t socket_buffer_bytes = 0;     // of each connection and direction; 0: the system's choice
  std::string network_interface = {};  // name or address of the interface; "": loopback
  bool operator==(const Communication&) const = default;
};

// The members of Communication in a record.
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

// Whether the communication opens a run: official tasks have no other precision on the wire and no emulated network.
bool opens(const Communication& communication);

// Whether a stack of communicators, as a record names it, has an emulated network, so that times are synthetic.
bool on_made_network(std::string_view comm_stack);

struct NetemLink {
  double latency_s = 0;
  double bits_per_second = 0;  // 0: no limit
  bool operator==(const NetemLink&) const = default;
};
struct Netem {
  NetemLink all;
  std::map<std::pair<int64_t, int64_t>, NetemLink>
      links;  // by (sender, receiver), complete: the reader took from `all` what a link leaves out
  bool operator==(const Netem&) const = default;
};

// Throws UserError where the back end cannot be tuned as asked, with what is valid. `row` is the back end's row in the
// worker's catalog, with "algorithms" and "tunables" (some of "links", "socket_buffer", "interface"). A row without
// them has only the algorithm "auto" and no tunables. The library's own collectives take one link.
void check_tuning(const Communication& communication, const std::string& backend, const Json& row);

// Reads "latency=0.2ms,bandwidth=1Gbit;0>1:bandwidth=500Mbit": all links, and links that differ. Latencies are in ns,
// us, ms or s, bandwidths in bit, kbit, Mbit or Gbit per second (powers of 1000). Throws UserError with what was given
// and what is valid.
Netem parse_netem(const std::string& text);
// Throws UserError where `netem` names a rank that a run of `workers` workers does not have.
void check_netem(const Netem& netem, int64_t workers);

}  // namespace mlbench::spec
