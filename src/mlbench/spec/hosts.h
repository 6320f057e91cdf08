#pragma once

// Reads the hosts that a user names for ranks, and places ranks on them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/base/numbers.h"

namespace mlbench::spec {

inline constexpr Range kRanksPerHost{1, 1024};

struct HostSlots {
  std::string name;   // name or address (IPv4; IPv6 without brackets)
  int64_t slots = 1;  // most ranks on the host
  bool operator==(const HostSlots&) const = default;
};

// Reads "h1:2,h2,[fd00::7]:4", in this order. Throws UserError naming a text that is no host, a host that comes twice,
// or slots out of range.
std::vector<HostSlots> parse_hosts(const std::string& text);
// The inverse of parse_hosts().
std::string to_text(const std::vector<HostSlots>& hosts);

// Converts the content of a host file to a text for parse_hosts(). The file has a host per line, in the form of Open
// MPI ("h1 slots = 2 max_slots=4") or MPICH ("h1:2"); # and // begin a comment. As in Open MPI, the slots of a host
// that comes again are added. Throws UserError with file and line for a wrong line, for more slots than max_slots, and
// for users ("u@h1"), which belong into ssh's configuration.
std::string hosts_of_file(const std::string& content, const std::string& file);

// The name of each rank's host, by rank. Hosts are filled one after the other up to their slots or, where it is above
// 0, up to `ranks_per_host`. Throws UserError where there are too few slots.
std::vector<std::string> place_ranks(const std::vector<HostSlots>& hosts, int64_t ranks_per_host, int64_t ranks);

// Places ranks by an executor's options "hosts" and "ranks_per_host" in `engine`. Empty where these name no hosts.
std::optional<std::vector<std::string>> named_places(const Json& engine, int64_t ranks);

// The value of an executor's option in `engine`; "" and 0 where it has none, or one of another type.
std::string engine_text(const Json& engine, std::string_view option);
int64_t engine_count(const Json& engine, std::string_view option);

}  // namespace mlbench::spec
