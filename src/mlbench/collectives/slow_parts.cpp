#include "mlbench/collectives/slow_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "mlbench/base/errors.h"

namespace mlbench::collectives {

namespace {

using Matrix = std::vector<std::vector<double>>;
using record::SlowPart;

constexpr double kDeviationPerMedian = 1.4826;  // for the normal distribution
constexpr size_t kLeastNodes = 3;
constexpr double kFewLinks = 12;    // to which SlowRule::deviations applies
constexpr size_t kFewestLinks = 6;  // the links of three nodes

double middle_of(std::vector<double> values) {
  const auto upper = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), upper, values.end());
  const double middle[] = {values.size() % 2 == 1 ? *upper : *std::max_element(values.begin(), upper), *upper};
  return record::percentile(middle, 0.5);
}

// The nodes that are compared: hosts, or the ranks of one host.
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
  double x = 0;  // the logarithm of its speed
};

enum class PartKind : uint8_t { kHost, kSending, kReceiving, kLink, kDirection };

const char* word_of(PartKind kind) {
  static constexpr const char* kNames[] = {"host", "sending", "receiving", "link", "direction"};
  return kNames[static_cast<size_t>(kind)];
}

// A set of links that may be slow for one cause. A link and a direction have `b`.
struct Part {
  PartKind kind{};
  size_t a = 0, b = 0;
};

std::vector<Part> parts_of(size_t nodes) {
  std::vector<Part> parts;
  for (size_t a = 0; a < nodes; ++a) {
    for (const PartKind kind : {PartKind::kHost, PartKind::kSending, PartKind::kReceiving})
      parts.push_back({kind, a, a});
    for (size_t b = 0; b < nodes; ++b) {
      if (a < b) parts.push_back({PartKind::kLink, a, b});
      if (a != b) parts.push_back({PartKind::kDirection, a, b});
    }
  }
  return parts;
}

struct Fit {
  Part part;
  double gap = 0;  // between the median of the others and that of the part
  double cost = 0;
};

// The links in ascending order. The others' median, their distances and the least noise of a part then follow from the
// few links of the part. There are 1.5 times as many parts as links, and most are ruled out there.
class Links {
 public:
  Links(std::vector<Link> links, size_t nodes) : links_(std::move(links)), nodes_(nodes) { index(); }

  // Among the slow parts, the one that explains the matrix best; of equal ones the first.
  std::optional<Fit> best(const std::vector<Part>& parts, const SlowRule& rule) const {
    std::vector<Candidate> candidates;
    for (const Part& part : parts) {
      if (auto candidate = promising(part, rule)) candidates.push_back(std::move(*candidate));
    }
    // Sums in another order differ in their last digits: candidates that differ only so are all summed as one.
    std::ranges::stable_sort(candidates, {}, &Candidate::about);
    std::optional<Fit> best;
    const Part* first = nullptr;
    for (const Candidate& one : candidates) {
      if (best && one.about > best->cost + kSumError * static_cast<double>(links_.size())) break;
      const std::optional<Fit> found = fit(one, rule);
      if (!found || (best && found->cost > best->cost)) continue;
      if (best && found->cost == best->cost && first < one.part) continue;
      best = found;
      first = one.part;
    }
    return best;
  }

  void erase(const Part& part) {
    std::vector<bool> gone(links_.size());
    for (const size_t link : held_by(part)) gone[link] = true;
    std::vector<Link> rest;
    for (size_t link = 0; link < links_.size(); ++link) {
      if (!gone[link]) rest.push_back(links_[link]);
    }
    links_ = std::move(rest);
    index();
  }

 private:
  static constexpr double kSumError = 1e-9;  // for each link

  struct Candidate {
    const Part* part = nullptr;
    std::vector<size_t> inside;  // the numbers of its links, ascending
    double slow = 0, usual = 0;  // the medians of its links and of the others
    double about = 0;            // its cost, approximately
  };

  void index() {
    const size_t count = links_.size();
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, [&](size_t link) { return links_[link].x; });
    ascending_.assign(count, 0);
    place_.assign(count, 0);
    sums_.assign(count + 1, 0);
    for (size_t place = 0; place < count; ++place) {
      ascending_[place] = links_[order[place]].x;
      place_[order[place]] = place;
      sums_[place + 1] = sums_[place] + ascending_[place];
    }
    from_.assign(nodes_, {});
    to_.assign(nodes_, {});
    number_.assign(nodes_ * nodes_, std::nullopt);
    for (size_t link = 0; link < count; ++link) {
      from_[links_[link].from].push_back(link);
      to_[links_[link].to].push_back(link);
      number_[links_[link].from * nodes_ + links_[link].to] = link;
    }
  }

  std::vector<size_t> held_by(const Part& part) const {
    std::vector<size_t> held;
    if (part.kind == PartKind::kHost || part.kind == PartKind::kSending) held = from_[part.a];
    if (part.kind == PartKind::kHost || part.kind == PartKind::kReceiving) {
      held.insert(held.end(), to_[part.a].begin(), to_[part.a].end());
    }
    if (part.kind == PartKind::kLink || part.kind == PartKind::kDirection) {
      if (const auto forth = number_[part.a * nodes_ + part.b]) held.push_back(*forth);
    }
    if (part.kind == PartKind::kLink) {
      if (const auto back = number_[part.b * nodes_ + part.a]) held.push_back(*back);
    }
    std::ranges::sort(held);
    return held;
  }

  // The median of all links except those at `places`, which are ascending.
  double median_without(const std::vector<size_t>& places) const {
    const size_t count = ascending_.size() - places.size();
    const auto value = [&](size_t place) {
      for (const size_t left_out : places) {
        if (left_out > place) break;
        ++place;
      }
      return ascending_[place];
    };
    const double middle[] = {value((count - 1) / 2), value(count / 2)};
    return record::percentile(middle, 0.5);
  }

  double distances_from(double x) const {
    const auto below = static_cast<size_t>(std::ranges::lower_bound(ascending_, x) - ascending_.begin());
    const size_t above = ascending_.size() - below;
    return x * static_cast<double>(below) - sums_[below] + (sums_.back() - sums_[below]) -
           x * static_cast<double>(above);
  }

  // The distance from x within which `nearer` links lie, beside the link that has it.
  double distance_of_rank(double x, size_t nearer) const {
    size_t first = 0, last = ascending_.size() - nearer - 1;  // where the nearest ones may begin
    while (first < last) {
      const size_t middle = (first + last) / 2;
      if (x - ascending_[middle] > ascending_[middle + nearer + 1] - x) {
        first = middle + 1;
      } else {
        last = middle;
      }
    }
    return std::max(x - ascending_[first], ascending_[first + nearer] - x);
  }

  // With few links, the largest distance gives the noise; else the middle one.
  bool few() const { return links_.size() <= kFewestLinks; }

  double noise_of(double distance) const {
    const double more = 4 / static_cast<double>(links_.size());
    return few() ? distance * (0.25 + more) : kDeviationPerMedian * distance * (1 + more);
  }

  // Applies the rule except for the noise, for which the least possible value is taken.
  std::optional<Candidate> promising(const Part& part, const SlowRule& rule) const {
    Candidate one{.part = &part, .inside = held_by(part)};
    const size_t inside = one.inside.size();
    if (inside == 0 || links_.size() < inside + 2) return std::nullopt;
    std::vector<size_t> places;
    for (const size_t link : one.inside) places.push_back(place_[link]);
    std::ranges::sort(places);
    std::vector<double> values;
    for (const size_t place : places) values.push_back(ascending_[place]);
    one.slow = record::percentile(values, 0.5);
    one.usual = median_without(places);
    const double gap = one.usual - one.slow;
    if (!(gap > std::log(1 / rule.below)) || values.back() > one.usual - gap / 2) return std::nullopt;
    // Whatever the distances of the part's own links are, they can move the one that counts by only so many places.
    const size_t telling = few() ? links_.size() - 1 : (links_.size() - 1) / 2;
    const double least = telling >= inside ? distance_of_rank(one.usual, telling - inside) : 0;
    if (!(gap > rule.deviations_among(links_.size()) * noise_of(least))) return std::nullopt;
    one.about = distances_from(one.usual);
    for (const double x : values) one.about += std::abs(x - one.slow) - std::abs(x - one.usual);
    return one;
  }

  std::optional<Fit> fit(const Candidate& one, const SlowRule& rule) const {
    std::vector<double> distances;
    distances.reserve(links_.size());
    for (const size_t link : one.inside) distances.push_back(std::abs(links_[link].x - one.slow));
    auto held = one.inside.begin();
    for (size_t link = 0; link < links_.size(); ++link) {
      if (held != one.inside.end() && *held == link) {
        ++held;
      } else {
        distances.push_back(std::abs(links_[link].x - one.usual));
      }
    }
    Fit found{*one.part, one.usual - one.slow, std::accumulate(distances.begin(), distances.end(), 0.0)};
    const double noise = noise_of(few() ? std::ranges::max(distances) : middle_of(std::move(distances)));
    if (!(found.gap > rule.deviations_among(links_.size()) * noise)) return std::nullopt;
    return found;
  }

  std::vector<Link> links_;
  size_t nodes_;
  std::vector<double> ascending_, sums_;  // x of each link, and the sums of the first ones
  std::vector<size_t> place_;             // the place of each link in ascending_
  std::vector<std::vector<size_t>> from_, to_;
  std::vector<std::optional<size_t>> number_;  // the number of the link [from * nodes + to]
};

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
  part.kind = word_of(found.part.kind);
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

// The part as "host node-3 (rank 2)", "the link between node-1 and node-3 (ranks 0, 2)" or "rank 2, sending".
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

double SlowRule::deviations_among(size_t links) const {
  const double more = std::max(1.0, static_cast<double>(links) / kFewLinks);
  return std::sqrt(deviations * deviations + 2 * std::log(more));
}

std::vector<SlowPart> slow_parts(const Matrix& speed, const std::vector<std::string>& hosts, const std::string& measure,
                                 const SlowRule& rule) {
  MLBENCH_CHECK(speed.size() == hosts.size(), fmt::format("{} rows, {} ranks", speed.size(), hosts.size()));
  const Nodes nodes = nodes_of(hosts);
  std::vector<SlowPart> slow;
  if (nodes.hosts.size() < kLeastNodes) return slow;
  const std::vector<Part> parts = parts_of(nodes.hosts.size());
  Links links(links_of(speed, nodes), nodes.hosts.size());
  while (slow.size() < kMostSlowParts) {
    const std::optional<Fit> best = links.best(parts, rule);
    if (!best) break;
    slow.push_back(named(*best, nodes, measure));
    links.erase(best->part);
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
  std::vector<SlowPart> of_latency = slow_parts(inverse, pairs.hosts, "latency", kSlowLatency);
  const bool capped = std::max(pairs.slow.size(), of_latency.size()) == kMostSlowParts;
  std::ranges::move(of_latency, std::back_inserter(pairs.slow));

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
    if (capped) pairs.verdict += "; there may be more";
  }
}

}  // namespace mlbench::collectives
