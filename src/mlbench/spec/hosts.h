#pragma once

// The hosts that a user names for ranks.

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
  std::string name;   // name or number (IPv4; IPv6 without its brackets)
  int64_t slots = 1;  // most ranks on it
  bool operator==(const HostSlots&) const = default;
};

// "h1:2,h2,[fd00::7]:4", in order. UserError naming what is no host, a host that comes twice, or slots out of range.
std::vector<HostSlots> parse_hosts(const std::string& text);
// The inverse.
std::string to_text(const std::vector<HostSlots>& hosts);

// The content of a host file as text for parse_hosts(): a host per line, as Open MPI ("h1 slots = 2 max_slots=4") or
// MPICH ("h1:2") has it; # and // begin a comment; a host that comes again has more slots, as with Open MPI. UserError
// with file and line; also for users ("u@h1"), of whom ssh is told, and for more slots than max_slots.
std::string hosts_of_file(const std::string& content, const std::string& file);

// Where so many ranks go, host by host: filling each up to its slots, or to ranks_per_host where that is given. The
// name of each rank's host, in order. UserError where there are too few slots.
std::vector<std::string> place_ranks(const std::vector<HostSlots>& hosts, int64_t ranks_per_host, int64_t ranks);

// The same of what an executor is told: by its options "hosts" and "ranks_per_host". Empty where it is told no hosts.
std::optional<std::vector<std::string>> named_places(const Json& engine, int64_t ranks);

// What an executor is told by the option of that name; "" and 0 where it is told nothing, or another kind of value.
std::string engine_text(const Json& engine, std::string_view option);
int64_t engine_count(const Json& engine, std::string_view option);

}  // namespace mlbench::spec
