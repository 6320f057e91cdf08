#include "mlbench/spec/communication.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/or_null.h"
#include "mlbench/base/text.h"
#include "mlbench/spec/fields.h"

namespace mlbench::spec {

namespace {

constexpr Range kLatencies{0, 60};        // seconds
constexpr Range kBandwidths{1000, 1e15};  // bits per second
constexpr double kMostNetemRank = 1e6;

struct NetemUnit {
  std::string_view name;
  double factor;
};
constexpr NetemUnit kTimeUnits[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
constexpr NetemUnit kRateUnits[] = {{"bit", 1}, {"kbit", 1e3}, {"Mbit", 1e6}, {"Gbit", 1e9}};

// Reads the text of --netem.
class NetemReader {
 public:
  explicit NetemReader(const std::string& text) : text_(text) {}

  Netem read() const {
    Netem netem;
    std::vector<std::pair<std::pair<int64_t, int64_t>, std::string>> others;
    const std::vector<std::string> parts = split_at(text_, ';');
    for (size_t i = 0; i < parts.size(); ++i) {
      const size_t colon = parts[i].find(':');
      if (colon != std::string::npos) {
        others.emplace_back(link_of(parts[i].substr(0, colon)), parts[i].substr(colon + 1));
      } else if (i == 0) {
        netem.all = properties_of(parts[i], {});
      } else {
        fail(fmt::format("'{}' names no link: expected SENDER>RECEIVER:..., such as 0>1:latency=1ms",
                         shortened(parts[i])));
      }
    }
    for (const auto& [link, properties] : others) {
      if (!netem.links.emplace(link, properties_of(properties, netem.all)).second) {
        fail(fmt::format("the link {}>{} is given twice", link.first, link.second));
      }
    }
    return netem;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw UserError(fmt::format("--netem '{}': {}", shortened(text_), reason));
  }

  std::pair<int64_t, int64_t> link_of(const std::string& text) const {
    const size_t arrow = text.find('>');
    if (arrow == std::string::npos) {
      fail(fmt::format("'{}' is no link: expected SENDER>RECEIVER, such as 0>1", shortened(text)));
    }
    const Range ranks{0, kMostNetemRank};
    const std::pair link{parse_count(text.substr(0, arrow), "--netem: rank", ranks),
                         parse_count(text.substr(arrow + 1), "--netem: rank", ranks)};
    if (link.first == link.second) fail(fmt::format("{} is a link of a rank with itself", shortened(text)));
    return link;
  }

  NetemLink properties_of(const std::string& text, NetemLink link) const {
    for (const std::string& property : split_at(text, ',')) {
      const size_t equals = property.find('=');
      const std::string key = property.substr(0, equals);
      const std::string value = equals == std::string::npos ? "" : property.substr(equals + 1);
      if (key == "latency") {
        link.latency_s = quantity_of(property, value, kTimeUnits, kLatencies, "a time from 0s to 60s, such as 0.2ms");
      } else if (key == "bandwidth") {
        link.bits_per_second =
            quantity_of(property, value, kRateUnits, kBandwidths, "a rate from 1kbit to 1000000Gbit, such as 100Mbit");
      } else {
        fail(unknown_text("property", key, {"latency", "bandwidth"}));
      }
    }
    return link;
  }

  double quantity_of(const std::string& property, const std::string& text, std::span<const NetemUnit> units,
                     const Range& range, std::string_view expected) const {
    double value = 0;
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value, std::chars_format::fixed);
    const std::string_view name(end, static_cast<size_t>(last - end));
    const auto unit = std::ranges::find(units, name, &NetemUnit::name);
    if (error != std::errc() || unit == units.end() || !range.contains(value * unit->factor)) {
      fail(fmt::format("'{}' is not {}", shortened(property), expected));
    }
    return value * unit->factor;
  }

  const std::string& text_;
};

}  // namespace

bool opens(const Communication& communication) {
  return !communication.wire_dtype.empty() || !communication.netem.empty();
}

bool on_made_network(std::string_view comm_stack) { return comm_stack.find("netem(") != std::string_view::npos; }

Netem parse_netem(const std::string& text) { return NetemReader(text).read(); }

void check_tuning(const Communication& communication, const std::string& backend, const Json& row) {
  const std::vector<std::string> algorithms = row.value("algorithms", std::vector<std::string>{"auto"});
  if (std::ranges::find(algorithms, communication.algorithm) == algorithms.end()) {
    throw UserError(fmt::format("--algorithm: the back end {} has no all_reduce '{}'{}", backend,
                                communication.algorithm, valid_text(communication.algorithm, algorithms)));
  }
  const std::vector<std::string> tunables = row.value("tunables", std::vector<std::string>{});
  const auto check = [&](bool asked, const char* tunable, const char* flag) {
    if (!asked || std::ranges::find(tunables, tunable) != tunables.end()) return;
    throw UserError(
        fmt::format("{}: the back end {} has no such setting{}", flag, backend, valid_text(tunable, tunables)));
  };
  check(communication.links > 1, "links", "--links");
  if (communication.links > 1 && communication.algorithm == "library") {
    throw UserError(
        fmt::format("--links {}: with --algorithm library the collectives of {} use 1 connection; leave out "
                    "--links, or choose another algorithm",
                    communication.links, backend));
  }
  check(communication.socket_buffer_bytes > 0, "socket_buffer", "--socket-buffer");
  check(!communication.network_interface.empty(), "interface", "--interface");
}

void check_netem(const Netem& netem, int64_t workers) {
  for (const auto& [link, properties] : netem.links) {
    if (std::max(link.first, link.second) < workers) continue;
    throw UserError(fmt::format("--netem names the link {}>{}, but with {} workers the ranks are 0 to {}", link.first,
                                link.second, workers, workers - 1));
  }
}

}  // namespace mlbench::spec
