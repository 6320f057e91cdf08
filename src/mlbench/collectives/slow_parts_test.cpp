#include "mlbench/collectives/slow_parts.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "mlbench/base/random.h"

namespace mlbench::collectives {
namespace {

using record::SlowPart;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

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

}  // namespace
}  // namespace mlbench::collectives
