#include "mlbench/spec/hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "mlbench/base/errors.h"

namespace mlbench::spec {
namespace {

constexpr size_t kLongestHost = 253;  // RFC 1035

bool is_host(std::string_view name) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_'; };
  return !name.empty() && name.size() <= kLongestHost && name.front() != '-' && std::ranges::all_of(name, fits);
}

bool is_ipv6(std::string_view name) {
  const auto fits = [](unsigned char c) { return std::isxdigit(c) != 0 || c == ':' || c == '.' || c == '%'; };
  return name.find(':') != std::string_view::npos && name.size() <= kLongestHost && std::ranges::all_of(name, fits);
}

[[noreturn]] void refuse_user(const std::string& host) {
  throw UserError(
      fmt::format("host {}: its user is told to ssh, not here: write 'Host {}' and 'User NAME' into ~/.ssh/config, or "
                  "into the file of --ssh-config",
                  host, host));
}

// Reads "h1", "h1:2" or "[fd00::7]:2".
HostSlots parse_host(const std::string& text) {
  const auto refuse = [&] {
    throw UserError(
        fmt::format("'{}' is no host: expected NAME, NAME:SLOTS or [IPv6]:SLOTS, as in h1:2,h2:2", shortened(text)));
  };
  if (const size_t at = text.find('@'); at != std::string::npos) {
    refuse_user(shortened(text.substr(at + 1, text.find(':', at) - at - 1)));
  }
  HostSlots host;
  std::string rest;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string::npos) refuse();
    host.name = text.substr(1, end - 1);
    rest = text.substr(end + 1);
    if (!is_ipv6(host.name)) refuse();
  } else {
    const size_t colon = std::min(text.find(':'), text.size());
    host.name = text.substr(0, colon);
    rest = text.substr(colon);
    if (!is_host(host.name)) refuse();
  }
  if (rest.empty()) return host;
  if (!rest.starts_with(':')) refuse();
  host.slots = parse_count(rest.substr(1), fmt::format("the slots of host {}", host.name), kRanksPerHost);
  return host;
}

}  // namespace

std::vector<HostSlots> parse_hosts(const std::string& text) {
  std::vector<HostSlots> hosts;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    HostSlots host = parse_host(part);
    if (std::ranges::find(hosts, host.name, &HostSlots::name) != hosts.end()) {
      throw UserError(fmt::format("host {} is given twice: say how many ranks it takes as {}:N", host.name, host.name));
    }
    hosts.push_back(std::move(host));
  }
  if (hosts.empty()) throw UserError("no hosts: give them as h1:2,h2:2");
  if (text.ends_with(',')) throw UserError(fmt::format("'{}' ends in a comma: expected another host", shortened(text)));
  return hosts;
}

std::string to_text(const std::vector<HostSlots>& hosts) {
  std::vector<std::string> words;
  for (const HostSlots& host : hosts) {
    words.push_back(fmt::format("{}:{}", is_ipv6(host.name) ? "[" + host.name + "]" : host.name, host.slots));
  }
  return fmt::format("{}", fmt::join(words, ","));
}

namespace {

// The fields that may follow a host in Open MPI's host files.
enum class HostField { kSlots, kMost, kUser };
struct HostFieldRow {
  std::string_view name;
  HostField field;
};
constexpr HostFieldRow kHostFields[] = {
    {"slots", HostField::kSlots},    {"cpu", HostField::kSlots},      {"count", HostField::kSlots},
    {"max_slots", HostField::kMost}, {"max-slots", HostField::kMost}, {"slots_max", HostField::kMost},
    {"slots-max", HostField::kMost}, {"cpu_max", HostField::kMost},   {"cpu-max", HostField::kMost},
    {"count_max", HostField::kMost}, {"count-max", HostField::kMost}, {"user", HostField::kUser},
    {"username", HostField::kUser},  {"user_name", HostField::kUser}, {"user-name", HostField::kUser},
};

// The words of a line, with each '=' as a word of its own and without a comment, which "#" or "//" begins.
std::vector<std::string> words_of_line(std::string line) {
  line.resize(std::min({line.size(), line.find('#'), line.find("//")}));
  std::string spaced;
  for (const char c : line) spaced += c == '=' ? std::string(" = ") : std::string(1, c);
  std::istringstream stream(spaced);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(std::move(word));
  return words;
}

HostSlots host_of_line(const std::vector<std::string>& words) {
  HostSlots host = parse_host(words[0]);
  std::optional<int64_t> most;
  for (size_t i = 1; i < words.size(); i += 3) {
    const auto* row = std::ranges::find(kHostFields, words[i], &HostFieldRow::name);
    if (row == std::end(kHostFields) || i + 2 >= words.size() || words[i + 1] != "=") {
      throw UserError(
          fmt::format("'{}' is not expected behind a host: slots=N is, and max_slots=N", shortened(words[i])));
    }
    if (row->field == HostField::kUser) refuse_user(host.name);
    const int64_t count =
        parse_count(words[i + 2], fmt::format("the {} of host {}", row->name, host.name), kRanksPerHost);
    if (row->field == HostField::kMost) most = count;
    if (row->field == HostField::kSlots) host.slots = count;
  }
  if (most && host.slots > *most) {
    throw UserError(fmt::format("host {} has {} slots and max_slots={}", host.name, host.slots, *most));
  }
  return host;
}

}  // namespace

std::string hosts_of_file(const std::string& content, const std::string& file) {
  std::vector<HostSlots> hosts;
  std::istringstream lines(content);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::vector<std::string> words = words_of_line(std::move(line));
    if (words.empty()) continue;
    try {
      HostSlots host = host_of_line(words);
      const auto known = std::ranges::find(hosts, host.name, &HostSlots::name);
      if (known == hosts.end()) {
        hosts.push_back(std::move(host));
      } else {
        known->slots += host.slots;
        if (!kRanksPerHost.contains(static_cast<double>(known->slots))) {
          throw UserError(
              fmt::format("host {} has {} slots; expected at most {}", host.name, known->slots, kRanksPerHost.most));
        }
      }
    } catch (const UserError& error) {
      throw UserError(fmt::format("{}:{}: {}", file, number, error.what()));
    }
  }
  if (hosts.empty()) throw UserError(fmt::format("{}: names no host: expected lines like 'h1 slots=2'", file));
  return to_text(hosts);
}

std::vector<std::string> place_ranks(const std::vector<HostSlots>& hosts, int64_t ranks_per_host, int64_t ranks) {
  std::vector<std::string> places;
  for (const HostSlots& host : hosts) {
    const int64_t most = ranks_per_host > 0 ? ranks_per_host : host.slots;
    for (int64_t i = 0; i < most && std::ssize(places) < ranks; ++i) places.push_back(host.name);
  }
  if (std::ssize(places) < ranks) {
    throw UserError(
        fmt::format("{} ranks need {} slots, and the hosts have {}: name more hosts, or say how many ranks "
                    "each takes (h1:4,h2:4, or --ranks-per-host)",
                    ranks, ranks, places.size()));
  }
  return places;
}

std::optional<std::vector<std::string>> named_places(const Json& engine, int64_t ranks) {
  const std::string hosts = engine_text(engine, "hosts");
  if (hosts.empty()) return std::nullopt;
  return place_ranks(parse_hosts(hosts), engine_count(engine, "ranks_per_host"), ranks);
}

std::string engine_text(const Json& engine, std::string_view option) {
  const auto found = engine.find(option);
  return found == engine.end() || !found->is_string() ? "" : found->get<std::string>();
}

int64_t engine_count(const Json& engine, std::string_view option) {
  const auto found = engine.find(option);
  return found == engine.end() || !found->is_number_integer() ? 0 : found->get<int64_t>();
}

}  // namespace mlbench::spec
