#include "mlbench/collectives/slow_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "mlbench/base/errors.h"

namespace mlbench::collectives {

namespace {

using Matrix = std::vector<std::vector<double>>;
using record::SlowPart;

constexpr double kDeviationPerMedian = 1.4826;  // of the normal distribution
constexpr size_t kLeastNodes = 3;

double middle_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return record::percentile(values, 0.5);
}

// What is compared: hosts, or the ranks of one host.
struct Nodes {
  std::vector<std::string> hosts;           // of each node
  std::vector<std::vector<int64_t>> ranks;  // of each node
};

Nodes nodes_of(const std::vector<std::string>& hosts) {
  Nodes nodes;
  const bool one_host = std::set<std::string>(hosts.begin(), hosts.end()).size() == 1;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto known = std::ranges::find(nodes.hosts, hosts[rank]);
    if (one_host || known == nodes.hosts.end()) {
      nodes.hosts.push_back(hosts[rank]);
      nodes.ranks.push_back({static_cast<int64_t>(rank)});
    } else {
      nodes.ranks[static_cast<size_t>(known - nodes.hosts.begin())].push_back(static_cast<int64_t>(rank));
    }
  }
  return nodes;
}

struct Link {
  size_t from = 0, to = 0;
  double x = 0;  // log of its speed
};

// What may have one cause. `b` of a link and a direction.
struct Part {
  const char* kind = "";
  size_t a = 0, b = 0;
  bool holds(const Link& link) const {
    const std::string_view name(kind);
    if (name == "host") return link.from == a || link.to == a;
    if (name == "sending") return link.from == a;
    if (name == "receiving") return link.to == a;
    const bool forth = link.from == a && link.to == b;
    return name == "direction" ? forth : forth || (link.from == b && link.to == a);
  }
};

std::vector<Part> parts_of(size_t nodes) {
  std::vector<Part> parts;
  for (size_t a = 0; a < nodes; ++a) {
    for (const char* kind : {"host", "sending", "receiving"}) parts.push_back({kind, a, a});
    for (size_t b = 0; b < nodes; ++b) {
      if (a < b) parts.push_back({"link", a, b});
      if (a != b) parts.push_back({"direction", a, b});
    }
  }
  return parts;
}

struct Fit {
  Part part;
  double gap = 0;  // between the medians of the others and of the part
  double cost = 0;
};

std::optional<Fit> fit(const Part& part, const std::vector<Link>& links, const SlowRule& rule) {
  std::vector<double> inside, outside;
  for (const Link& link : links) (part.holds(link) ? inside : outside).push_back(link.x);
  if (inside.empty() || outside.size() < 2) return std::nullopt;
  const double slow = middle_of(inside), usual = middle_of(outside), gap = usual - slow;
  if (!(gap > std::log(1 / rule.below))) return std::nullopt;
  if (std::ranges::any_of(inside, [&](double x) { return x > usual - gap / 2; })) return std::nullopt;
  Fit found{part, gap, 0};
  std::vector<double> distances;
  for (const double x : inside) distances.push_back(std::abs(x - slow));
  for (const double x : outside) distances.push_back(std::abs(x - usual));
  for (const double distance : distances) found.cost += distance;
  const double noise = kDeviationPerMedian * middle_of(distances) * (1 + 4 / static_cast<double>(links.size()));
  if (!(gap > rule.deviations * noise)) return std::nullopt;
  return found;
}

std::vector<Link> links_of(const Matrix& speed, const Nodes& nodes) {
  std::vector<Link> links;
  for (size_t from = 0; from < nodes.hosts.size(); ++from) {
    for (size_t to = 0; to < nodes.hosts.size(); ++to) {
      if (from == to) continue;
      std::vector<double> speeds;
      for (const int64_t a : nodes.ranks[from]) {
        for (const int64_t b : nodes.ranks[to])
          speeds.push_back(speed.at(static_cast<size_t>(a)).at(static_cast<size_t>(b)));
      }
      const double typical = middle_of(speeds);
      if (typical > 0) links.push_back({from, to, std::log(typical)});
    }
  }
  return links;
}

SlowPart named(const Fit& found, const Nodes& nodes, const std::string& measure) {
  SlowPart part;
  part.measure = measure;
  part.kind = found.part.kind;
  part.ratio = std::exp(-found.gap);
  part.hosts = {nodes.hosts[found.part.a]};
  part.ranks = nodes.ranks[found.part.a];
  if (found.part.b != found.part.a) {
    part.hosts.push_back(nodes.hosts[found.part.b]);
    part.ranks.insert(part.ranks.end(), nodes.ranks[found.part.b].begin(), nodes.ranks[found.part.b].end());
  }
  return part;
}

std::string ranks_in_words(const std::vector<int64_t>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

// "host node-3 (rank 2)", "the link between node-1 and node-3 (ranks 0, 2)", "rank 2, sending"
std::string in_words(const SlowPart& part, bool one_host) {
  const std::string ranks = ranks_in_words(part.ranks);
  if (part.kind == "link" || part.kind == "direction") {
    const bool both = part.kind == "link";
    const std::string a = one_host ? fmt::format("rank {}", part.ranks[0]) : part.hosts[0];
    const std::string b = one_host ? fmt::format("rank {}", part.ranks[1]) : part.hosts[1];
    const std::string ends = one_host ? "" : fmt::format(" ({})", ranks);
    return fmt::format("the {} {} {} {}{}", both ? "link between" : "way from", a, both ? "and" : "to", b, ends);
  }
  const std::string who = one_host ? ranks : fmt::format("host {} ({})", part.hosts[0], ranks);
  return part.kind == "host" ? who : fmt::format("{}, {},", who, part.kind);
}

std::string sentence(const SlowPart& part, bool one_host) {
  const std::string who = in_words(part, one_host);
  return part.measure == "latency"
             ? fmt::format("{} takes {:.1f} times as long as the others", who, 1 / part.ratio)
             : fmt::format("{} has {:.0f} % of the bandwidth of the others", who, part.ratio * 100);
}

}  // namespace

std::vector<SlowPart> slow_parts(const Matrix& speed, const std::vector<std::string>& hosts, const std::string& measure,
                                 const SlowRule& rule) {
  MLBENCH_CHECK(speed.size() == hosts.size(), fmt::format("{} rows, {} ranks", speed.size(), hosts.size()));
  const Nodes nodes = nodes_of(hosts);
  std::vector<SlowPart> slow;
  if (nodes.hosts.size() < kLeastNodes) return slow;
  std::vector<Link> links = links_of(speed, nodes);
  for (;;) {
    std::optional<Fit> best;
    for (const Part& part : parts_of(nodes.hosts.size())) {
      const std::optional<Fit> found = fit(part, links, rule);
      if (found && (!best || found->cost < best->cost)) best = found;
    }
    if (!best) break;
    slow.push_back(named(*best, nodes, measure));
    std::erase_if(links, [&](const Link& link) { return best->part.holds(link); });
  }
  std::ranges::stable_sort(slow, {}, &SlowPart::ratio);
  return slow;
}

void find_slow_parts(record::PairMatrix& pairs) {
  Matrix inverse = pairs.latency_us;
  for (std::vector<double>& row : inverse) {
    for (double& value : row) value = value > 0 ? 1 / value : 0;
  }
  pairs.slow = slow_parts(pairs.bandwidth, pairs.hosts, "bandwidth", kSlowBandwidth);
  for (SlowPart& part : slow_parts(inverse, pairs.hosts, "latency", kSlowLatency))
    pairs.slow.push_back(std::move(part));

  const size_t nodes = nodes_of(pairs.hosts).hosts.size();
  const bool one_host = std::set<std::string>(pairs.hosts.begin(), pairs.hosts.end()).size() == 1;
  if (nodes < kLeastNodes) {
    pairs.verdict =
        fmt::format("no verdict: {} {} have nothing to be compared with", nodes, one_host ? "ranks" : "hosts");
  } else if (pairs.slow.empty()) {
    pairs.verdict =
        fmt::format("none: no {} or link is slower than the others beyond noise", one_host ? "rank" : "host");
  } else {
    std::vector<std::string> sentences;
    for (const SlowPart& part : pairs.slow) sentences.push_back(sentence(part, one_host));
    pairs.verdict = fmt::format("{}", fmt::join(sentences, "; "));
  }
}

}  // namespace mlbench::collectives
