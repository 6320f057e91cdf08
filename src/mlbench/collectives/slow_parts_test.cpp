#include "mlbench/collectives/slow_parts.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <optional>

#include "mlbench/base/random.h"
#include "mlbench/collectives/control.h"
#include "mlbench/collectives/measure.h"
#include "mlbench/record/events.h"
#include "mlbench/spec/collectives.h"

namespace mlbench::collectives {
namespace {

using record::SlowPart;
using testing::ElementsAre;
using testing::IsEmpty;

using Matrix = std::vector<std::vector<double>>;
using Factor = std::function<double(size_t from, size_t to)>;

// Speeds around 10 whose logarithms scatter by `noise`, times a factor of each link.
Matrix made(size_t ranks, double noise, uint64_t key, const Factor& factor) {
  RandomSequence random(key);
  Matrix speed(ranks, std::vector<double>(ranks));
  for (size_t from = 0; from < ranks; ++from) {
    for (size_t to = 0; to < ranks; ++to) {
      const double scatter = std::exp(noise * random.normal());
      speed[from][to] = from == to ? 0 : 10 * scatter * factor(from, to);
    }
  }
  return speed;
}

// A matrix as pairs.cpp measures it: the best of three passes, each the median of five windows, one in twenty of which
// is disturbed.
Matrix measured(size_t ranks, double noise, uint64_t key, const Factor& factor) {
  RandomSequence random(key);
  const auto pass = [&] {
    double windows[5];
    for (double& window : windows) {
      window = noise * random.normal() - (random.below(20) == 0 ? std::abs(random.normal()) : 0);
    }
    std::ranges::sort(windows);
    return windows[2];
  };
  Matrix speed(ranks, std::vector<double>(ranks));
  for (size_t from = 0; from < ranks; ++from) {
    for (size_t to = 0; to < ranks; ++to) {
      const double scatter = std::exp(std::max({pass(), pass(), pass()}));
      speed[from][to] = from == to ? 0 : 10 * scatter * factor(from, to);
    }
  }
  return speed;
}

std::vector<std::string> hosts_of(size_t ranks) {
  std::vector<std::string> hosts;
  for (size_t rank = 0; rank < ranks; ++rank) hosts.push_back("h" + std::to_string(rank + 1));
  return hosts;
}

std::vector<SlowPart> found(const Matrix& speed, const std::vector<std::string>& hosts) {
  return slow_parts(speed, hosts, "bandwidth", kSlowBandwidth);
}

struct Cause {
  std::string kind;
  std::vector<int64_t> ranks;
  Factor factor;
};

std::vector<Cause> causes() {
  return {{"host", {2}, [](size_t a, size_t b) { return a == 2 || b == 2 ? 0.5 : 1; }},
          {"sending", {2}, [](size_t a, size_t) { return a == 2 ? 0.5 : 1; }},
          {"receiving", {0}, [](size_t, size_t b) { return b == 0 ? 0.5 : 1; }},
          {"link", {0, 2}, [](size_t a, size_t b) { return (a == 0 && b == 2) || (a == 2 && b == 0) ? 0.5 : 1; }},
          {"direction", {2, 1}, [](size_t a, size_t b) { return a == 2 && b == 1 ? 0.5 : 1; }}};
}

TEST(SlowParts, WhatIsHalfAsFastIsNamedTwentyTimesOfTwenty) {
  for (const size_t ranks : {size_t{3}, size_t{4}, size_t{8}}) {
    for (const Cause& cause : causes()) {
      for (uint64_t key = 0; key < 20; ++key) {
        const auto parts = found(made(ranks, 0.03, key, cause.factor), hosts_of(ranks));
        ASSERT_EQ(parts.size(), 1u) << cause.kind << " of " << ranks << ", key " << key;
        EXPECT_EQ(parts[0].kind, cause.kind) << ranks << " ranks, key " << key;
        EXPECT_EQ(parts[0].ranks, cause.ranks);
        EXPECT_NEAR(parts[0].ratio, 0.5, 0.08);
      }
    }
  }
}

TEST(SlowParts, NoiseAloneNamesNobody) {
  for (const size_t ranks : {size_t{3}, size_t{4}, size_t{8}}) {
    for (const double noise : {0.0, 0.02, 0.05, 0.1}) {
      for (uint64_t key = 100; key < 120; ++key) {
        EXPECT_THAT(found(made(ranks, noise, key, [](size_t, size_t) { return 1; }), hosts_of(ranks)), IsEmpty())
            << ranks << " ranks, noise " << noise << ", key " << key;
      }
    }
  }
}

// However noisy three hosts are, and with what is slow told apart where the noise allows it.
TEST(SlowParts, ThreeHostsAreSeldomNamedByNoiseAlone) {
  for (const double noise : {0.1, 0.2, 0.3, 0.6}) {
    size_t named = 0;
    for (uint64_t key = 0; key < 1000; ++key) {
      named += found(made(3, noise, 3000 + key, [](size_t, size_t) { return 1; }), hosts_of(3)).empty() ? 0 : 1;
    }
    EXPECT_LE(named, 60u) << "of 1000, noise " << noise;
  }
  for (const Cause& cause : causes()) {
    size_t right = 0;
    for (uint64_t key = 0; key < 100; ++key) {
      const auto parts = found(made(3, 0.1, 4000 + key, cause.factor), hosts_of(3));
      right += parts.size() == 1 && parts[0].kind == cause.kind && parts[0].ranks == cause.ranks ? 1 : 0;
    }
    EXPECT_GE(right, 70u) << "of 100, noise 0.1, " << cause.kind;
  }
}

// With normal noise, as many links are beyond the limit as among four hosts, for any number of links.
TEST(SlowParts, TheLimitGrowsWithTheNumberOfLinks) {
  const auto beyond = [](double deviations) { return std::erfc(deviations / std::sqrt(2)) / 2; };
  for (const SlowRule& rule : {kSlowBandwidth, kSlowLatency}) {
    for (const size_t few : {size_t{6}, size_t{12}}) EXPECT_EQ(rule.deviations_among(few), rule.deviations);
    const double false_names = 12 * beyond(rule.deviations);
    for (const size_t links : {size_t{56}, size_t{992}, size_t{22350}}) {
      EXPECT_NEAR(static_cast<double>(links) * beyond(rule.deviations_among(links)) / false_names, 1, 0.35) << links;
    }
  }
}

TEST(SlowParts, OfOneHundredMatricesNoiseNamesSomebodyInAtMostOne) {
  for (const auto& noisy : {made, measured}) {
    for (const size_t ranks : {size_t{4}, size_t{32}, size_t{150}}) {
      size_t named = 0;
      for (uint64_t key = 0; key < 100; ++key) {
        const Matrix speed = noisy(ranks, ranks == 4 ? 0.05 : 0.12, 1000 + key, [](size_t, size_t) { return 1; });
        named += found(speed, hosts_of(ranks)).empty() ? 0 : 1;
      }
      EXPECT_LE(named, 1u) << ranks << " ranks, noise " << (noisy == made ? "made" : "measured");
    }
  }
}

TEST(SlowParts, OneLinkOfHalfTheSpeedIsNamedAmongAsManyAsThereMayBe) {
  const Cause link = causes()[3];
  for (const auto& noisy : {made, measured}) {
    for (const size_t ranks : {size_t{4}, size_t{32}, size_t{150}}) {
      for (uint64_t key = 0; key < (ranks < 150 ? 100u : 20u); ++key) {
        const auto parts = found(noisy(ranks, 0.05, 2000 + key, link.factor), hosts_of(ranks));
        ASSERT_EQ(parts.size(), 1u) << ranks << " ranks, key " << key;
        EXPECT_EQ(parts[0].kind, link.kind) << ranks << " ranks, key " << key;
        EXPECT_EQ(parts[0].ranks, link.ranks);
      }
    }
  }
}

TEST(SlowParts, ADifferenceWithinTheNoiseIsNone) {
  const Factor half = causes()[0].factor;
  size_t named = 0;
  for (uint64_t key = 0; key < 20; ++key) named += found(made(4, 0.6, key, half), hosts_of(4)).size();
  EXPECT_LE(named, 4u) << "with a scatter of factors of two nothing can be said";
}

TEST(SlowParts, ALittleSlowerIsNotSlow) {
  const auto parts = found(made(4, 0, 1, [](size_t a, size_t) { return a == 1 ? 0.8 : 1; }), hosts_of(4));
  EXPECT_THAT(parts, IsEmpty()) << "the rule says below 0.75";
}

TEST(SlowParts, SeveralAreNamedWorstFirst) {
  const auto parts = found(made(6, 0.02, 3,
                                [](size_t a, size_t b) {
                                  if (a == 0 && b == 1) return 0.6;
                                  if (a == 4 && b == 2) return 0.2;
                                  return 1.0;
                                }),
                           hosts_of(6));
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_THAT(parts[0].ranks, ElementsAre(4, 2));
  EXPECT_THAT(parts[1].ranks, ElementsAre(0, 1));
}

// One bad link of a host is no bad host, and one good link saves none.
TEST(SlowParts, AHostIsSlowWhenAllItsLinksAre) {
  const auto all_but_one = [](size_t a, size_t b) {
    const bool saved = (a == 2 && b == 0) || (a == 0 && b == 2);
    return !saved && (a == 2 || b == 2) ? 0.5 : 1;
  };
  for (const SlowPart& part : found(made(4, 0.02, 1, all_but_one), hosts_of(4))) EXPECT_EQ(part.kind, "link");
}

TEST(SlowParts, RanksOfOneHostAreTakenTogether) {
  // Ranks 0, 1 on h1, 2, 3 on h2, 4, 5 on h3; within a host everything is ten times as fast.
  const std::vector<std::string> hosts = {"h1", "h1", "h2", "h2", "h3", "h3"};
  const auto parts = found(made(6, 0.05, 7,
                                [](size_t a, size_t b) {
                                  if (a / 2 == b / 2) return 10.0;
                                  return a / 2 == 1 || b / 2 == 1 ? 0.4 : 1.0;
                                }),
                           hosts);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].kind, "host");
  EXPECT_THAT(parts[0].hosts, ElementsAre("h2"));
  EXPECT_THAT(parts[0].ranks, ElementsAre(2, 3));
}

TEST(SlowParts, TwoHaveNothingToBeComparedWith) {
  record::PairMatrix pairs;
  pairs.hosts = {"a", "b"};
  pairs.bandwidth = {{0, 10}, {1, 0}};
  pairs.latency_us = {{0, 10}, {10, 0}};
  find_slow_parts(pairs);
  EXPECT_THAT(pairs.slow, IsEmpty());
  EXPECT_EQ(pairs.verdict, "no verdict: 2 hosts have nothing to be compared with");
}

record::PairMatrix matrix_of(const Factor& bandwidth, const Factor& latency, const std::vector<std::string>& hosts) {
  record::PairMatrix pairs;
  pairs.hosts = hosts;
  pairs.bandwidth = made(hosts.size(), 0, 1, bandwidth);
  pairs.latency_us = made(hosts.size(), 0, 1, latency);
  find_slow_parts(pairs);
  return pairs;
}

TEST(SlowParts, TheVerdictIsASentence) {
  const Factor same = [](size_t, size_t) { return 1; };
  EXPECT_EQ(matrix_of(same, same, hosts_of(4)).verdict, "none: no host or link is slower than the others beyond noise");
  EXPECT_EQ(matrix_of(same, same, {"a", "a", "a"}).verdict,
            "none: no rank or link is slower than the others beyond noise");
  EXPECT_EQ(matrix_of(causes()[0].factor, same, hosts_of(4)).verdict,
            "host h3 (rank 2) has 50 % of the bandwidth of the others");
  EXPECT_EQ(matrix_of(causes()[1].factor, same, hosts_of(4)).verdict,
            "host h3 (rank 2), sending, has 50 % of the bandwidth of the others");
  EXPECT_EQ(matrix_of(causes()[3].factor, same, hosts_of(4)).verdict,
            "the link between h1 and h3 (ranks 0, 2) has 50 % of the bandwidth of the others");
  EXPECT_EQ(matrix_of(causes()[4].factor, same, {"a", "a", "a"}).verdict,
            "the way from rank 2 to rank 1 has 50 % of the bandwidth of the others");
  EXPECT_EQ(matrix_of(
                same, [](size_t a, size_t b) { return a == 1 || b == 1 ? 3 : 1; }, hosts_of(4))
                .verdict,
            "host h2 (rank 1) takes 3.0 times as long as the others");
}

// ---- the rule, word for word: every part over every link ------------------------------------------------------------

struct PlainLink {
  int64_t from, to;
  double x;
};

bool holds(const SlowPart& part, const PlainLink& link) {
  const int64_t a = part.ranks.front(), b = part.ranks.back();
  if (part.kind == "host") return link.from == a || link.to == a;
  if (part.kind == "sending") return link.from == a;
  if (part.kind == "receiving") return link.to == a;
  const bool forth = link.from == a && link.to == b, back = link.from == b && link.to == a;
  return part.kind == "direction" ? forth : forth || back;
}

double plain_median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return record::percentile(values, 0.5);
}

// The sum of distances where the part is slow; sets its ratio.
std::optional<double> plain_cost(SlowPart& part, const std::vector<PlainLink>& links, const SlowRule& rule) {
  std::vector<double> inside, outside, distances;
  for (const PlainLink& link : links) (holds(part, link) ? inside : outside).push_back(link.x);
  if (inside.empty() || outside.size() < 2) return std::nullopt;
  const double slow = plain_median(inside), usual = plain_median(outside), gap = usual - slow;
  if (!(gap > std::log(1 / rule.below))) return std::nullopt;
  if (std::ranges::any_of(inside, [&](double x) { return x > usual - gap / 2; })) return std::nullopt;
  double cost = 0;
  for (const double x : inside) distances.push_back(std::abs(x - slow));
  for (const double x : outside) distances.push_back(std::abs(x - usual));
  for (const double distance : distances) cost += distance;
  const double more = 4 / static_cast<double>(links.size());
  const double noise =
      links.size() <= 6 ? std::ranges::max(distances) * (0.25 + more) : 1.4826 * plain_median(distances) * (1 + more);
  if (!(gap > rule.deviations_among(links.size()) * noise)) return std::nullopt;
  part.ratio = std::exp(-gap);
  return cost;
}

std::vector<SlowPart> plain_slow_parts(const Matrix& speed, const std::vector<std::string>& hosts,
                                       const SlowRule& rule) {
  const auto ranks = static_cast<int64_t>(speed.size());
  const auto host = [&](int64_t rank) { return hosts[static_cast<size_t>(rank)]; };
  std::vector<PlainLink> links;
  std::vector<SlowPart> parts, slow;
  for (int64_t a = 0; a < ranks; ++a) {
    for (const char* kind : {"host", "sending", "receiving"}) parts.push_back({"bandwidth", kind, {a}, {host(a)}});
    for (int64_t b = 0; b < ranks; ++b) {
      if (a == b) continue;
      links.push_back({a, b, std::log(speed[static_cast<size_t>(a)][static_cast<size_t>(b)])});
      if (a < b) parts.push_back({"bandwidth", "link", {a, b}, {host(a), host(b)}});
      parts.push_back({"bandwidth", "direction", {a, b}, {host(a), host(b)}});
    }
  }
  for (;;) {
    std::optional<SlowPart> best;
    double least = 0;
    for (SlowPart& part : parts) {
      const auto cost = plain_cost(part, links, rule);
      if (!cost || (best && *cost >= least)) continue;
      best = part;
      least = *cost;
    }
    if (!best) break;
    slow.push_back(*best);
    std::erase_if(links, [&](const PlainLink& link) { return holds(*best, link); });
  }
  std::ranges::stable_sort(slow, {}, &SlowPart::ratio);
  return slow;
}

// Any causes in any noise; every other matrix has few different values, so that parts are equally good.
Matrix any_matrix(size_t ranks, uint64_t key) {
  RandomSequence random(key);
  constexpr double kNoise[] = {0, 0.02, 0.1, 0.4};
  Matrix speed = made(ranks, kNoise[random.below(4)], key, [](size_t, size_t) { return 1; });
  for (uint64_t cause = random.below(5); cause > 0; --cause) {
    const uint64_t kind = random.below(5), a = random.below(ranks), b = random.below(ranks);
    const double factor = 0.2 + 0.1 * static_cast<double>(random.below(6));
    for (size_t from = 0; from < ranks; ++from) {
      for (size_t to = 0; to < ranks; ++to) {
        const bool forth = from == a && to == b, back = from == b && to == a;
        const bool held = kind == 0   ? from == a || to == a
                          : kind == 1 ? from == a
                          : kind == 2 ? to == a
                          : kind == 3 ? forth || back
                                      : forth;
        if (held) speed[from][to] *= factor;
      }
    }
  }
  if (key % 2 == 0) return speed;
  for (auto& row : speed) {
    for (double& value : row) value = std::max(std::round(value), value > 0 ? 1.0 : 0.0);
  }
  return speed;
}

TEST(SlowParts, TheSearchFindsWhatTheRuleSays) {
  size_t named = 0;
  for (uint64_t key = 0; key < 600; ++key) {
    const size_t ranks = 3 + key % 8;
    const Matrix speed = any_matrix(ranks, key);
    for (const SlowRule& rule : {kSlowBandwidth, kSlowLatency}) {
      const auto expected = plain_slow_parts(speed, hosts_of(ranks), rule);
      EXPECT_EQ(slow_parts(speed, hosts_of(ranks), "bandwidth", rule), expected) << ranks << " ranks, key " << key;
      named += expected.size();
    }
  }
  EXPECT_GE(named, 500u);
}

constexpr auto kMost = static_cast<size_t>(spec::kMostPairRanks);

// Trying each part over all links takes two minutes for the first of these.
TEST(SlowParts, AsManyRanksAsThereMayBeTakeNoTime) {
  const auto begin = std::chrono::steady_clock::now();
  const auto few = found(made(kMost, 0.05, 1,
                              [](size_t a, size_t b) {
                                if (a == 7 || b == 7) return 0.5;
                                return a == 31 && b == 30 ? 0.3 : 1.0;
                              }),
                         hosts_of(kMost));
  ASSERT_EQ(few.size(), 2u);
  EXPECT_EQ(few[0].kind, "direction");
  EXPECT_THAT(few[0].ranks, ElementsAre(31, 30));
  EXPECT_EQ(few[1].kind, "host");
  EXPECT_THAT(few[1].ranks, ElementsAre(7));
  EXPECT_THAT(found(made(kMost, 0.05, 2, [](size_t, size_t) { return 1; }), hosts_of(kMost)), IsEmpty());
  EXPECT_LE(found(made(kMost, 0.6, 3, [](size_t, size_t) { return 1; }), hosts_of(kMost)).size(), 4u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

const Factor every_fifth = [](size_t a, size_t b) { return (a + 2 * b) % 5 == 0 ? 0.3 : 1; };

TEST(SlowParts, ASearchThatEndsEarlySaysSo) {
  const record::PairMatrix pairs = matrix_of(
      every_fifth, [](size_t, size_t) { return 1; }, hosts_of(40));
  EXPECT_EQ(pairs.slow.size(), kMostSlowParts);
  EXPECT_THAT(pairs.verdict, testing::EndsWith("of the others; there may be more"));
}

// The event has as many ranks as there may be, with names as long as they may be, all figures of 9 digits, and as many
// slow parts of both kinds as are named.
TEST(SlowParts, TheLargestMatrixIsAnEventThatIsRead) {
  std::vector<std::string> hosts;
  for (size_t rank = 0; rank < kMost; ++rank) {
    const std::string number = std::to_string(rank);
    hosts.push_back(std::string(Control::kMostHostName - number.size(), 'h') + number);
  }
  record::PairMatrix pairs;
  pairs.hosts = hosts;
  pairs.latency_bytes = pairs.bandwidth_bytes = spec::kMostCollectiveBytes;
  pairs.window = 1'000'000;
  pairs.bandwidth = made(kMost, 0.02, 1, every_fifth);
  pairs.latency_us = made(kMost, 0.02, 2, [](size_t a, size_t b) { return 1 / every_fifth(a, b); });
  for (Matrix* matrix : {&pairs.bandwidth, &pairs.latency_us}) {
    for (auto& row : *matrix) {
      for (double& value : row) value = shortened(value / 1e6);
    }
  }
  find_slow_parts(pairs);
  EXPECT_EQ(pairs.slow.size(), 2 * kMostSlowParts);
  const Json event = record::make_event(record::EventKind::kPairs, {record::member::kMatrix(record::to_json(pairs))});
  const std::string line = event.dump();
  EXPECT_GT(line.size(), kMost * kMost * 2 * 14) << "figures of 9 digits";
  const auto read = record::parse_event(line);
  ASSERT_TRUE(read.has_value()) << line.size() << " bytes";
  EXPECT_EQ(record::pair_matrix_from_json(record::get(*read, record::member::kMatrix), "the event"), pairs);
}

}  // namespace
}  // namespace mlbench::collectives
