#include "mlbench/report/timeline/clock_alignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

namespace mlbench::report {
namespace {

using record::ClockSample;

// The time that the supervisor's clock shows when the rank's clock shows `rank_ns`.
struct TrueClock {
  long double offset_ns = 10e9L, ppm = 200;
  int64_t server(int64_t rank_ns) const {
    return rank_ns + static_cast<int64_t>(std::floor(offset_ns + static_cast<long double>(rank_ns) * ppm / 1e6L));
  }
};

ClockSample sample_at(const TrueClock& clock, int64_t sent_ns, int64_t there_ns, int64_t back_ns) {
  return {sent_ns, clock.server(sent_ns + there_ns), sent_ns + there_ns + back_ns};
}

// A burst, a sample every second, a burst: delays from 20 us to a few ms, one way up to ten times the other.
std::vector<ClockSample> made_samples(const TrueClock& clock, uint64_t seed, int64_t seconds) {
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> delay(1.0 / 100e3);
  const double to_server = 1 + static_cast<double>(seed % 10), back = 1 + static_cast<double>(seed / 10 % 10);
  std::vector<ClockSample> samples;
  const auto add = [&](int64_t at_ns) {
    samples.push_back(sample_at(clock, at_ns, static_cast<int64_t>(20e3 + to_server * delay(random)),
                                static_cast<int64_t>(20e3 + back * delay(random))));
  };
  const int64_t begin = 7'000'000'000;
  for (int64_t i = 0; i < 20; ++i) add(begin + i * 1'000'000);
  for (int64_t i = 1; i < seconds; ++i) add(begin + i * 1'000'000'000);
  for (int64_t i = 0; i < 20; ++i) add(begin + seconds * 1'000'000'000 + i * 1'000'000);
  return samples;
}

TEST(ClockAlignment, TruthLiesWithinTheBound) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const TrueClock clock{seed % 2 == 0 ? 10e9L : -3600e9L, seed % 3 == 0 ? -200.0L : 200.0L};
    const ClockAlignment alignment(made_samples(clock, seed, 60));
    ASSERT_TRUE(alignment.known());
    EXPECT_EQ(alignment.steps(), 0U) << "seed " << seed;
    AlignedMoment before{INT64_MIN, 0};
    for (int64_t ms = 0; ms < 80'000; ms += 23) {  // before the first sample, and behind the last, too
      const int64_t rank_ns = ms * 1'000'000 + ms * 131;
      const AlignedMoment moment = alignment.at(rank_ns);
      ASSERT_LE(std::abs(moment.ns - clock.server(rank_ns)), moment.bound_ns) << "seed " << seed << ", " << ms << " ms";
      ASSERT_GE(moment.ns, before.ns);
      before = moment;
    }
    const ClockAlignment::Figures figures = alignment.figures();
    EXPECT_LE(std::abs(figures.drift_ppm - static_cast<double>(clock.ppm)), figures.drift_bound_ppm + 1e-6);
    EXPECT_LE(figures.bound_ns, 500'000) << "seed " << seed;
    EXPECT_LE(figures.drift_bound_ppm, 20) << "seed " << seed;
  }
}

TEST(ClockAlignment, OneRoundTripBoundsByHand) {
  // The supervisor's 5,000 lies between the rank's 1,000 and 1,400: the offset between 3,600 and 4,000.
  const ClockAlignment alignment(std::vector<ClockSample>{{1'000, 5'000, 1'400}});
  const AlignedMoment moment = alignment.at(1'200);
  EXPECT_NEAR(static_cast<double>(moment.ns), 1'200 + 3'800, 2);
  EXPECT_NEAR(static_cast<double>(moment.bound_ns), 200, 4);
  // A second later the clocks may have drifted by a millisecond.
  EXPECT_NEAR(static_cast<double>(alignment.at(1'000'001'200).bound_ns), 1'000'200, 10);
}

TEST(ClockAlignment, NothingIsKnownWithoutSamples) {
  const ClockAlignment alignment(std::vector<ClockSample>{});
  EXPECT_FALSE(alignment.known());
  EXPECT_EQ(alignment.steps(), 0U);
}

TEST(ClockAlignment, AClockThatWasSetHasTwoStretches) {
  const TrueClock before{10e9L, 50}, after{40e9L, 50};
  std::vector<ClockSample> samples;
  for (int64_t s = 0; s < 20; ++s) {
    samples.push_back(sample_at(s < 10 ? before : after, s * 1'000'000'000, 30'000, 50'000));
  }
  const ClockAlignment alignment(samples);
  EXPECT_EQ(alignment.steps(), 1U);
  for (int64_t s = 0; s < 20; ++s) {
    const int64_t rank_ns = s * 1'000'000'000 + 10'000;
    const AlignedMoment moment = alignment.at(rank_ns);
    EXPECT_LE(std::abs(moment.ns - (s < 10 ? before : after).server(rank_ns)), moment.bound_ns) << s;
    EXPECT_LE(moment.bound_ns, 2'000'000) << s;
  }
  // It is not known when the clock was set between the stretches, so the bound must hold for both of their lines.
  const int64_t between = 9'500'000'000;
  const AlignedMoment moment = alignment.at(between);
  EXPECT_LE(std::abs(moment.ns - before.server(between)), moment.bound_ns);
  EXPECT_LE(std::abs(moment.ns - after.server(between)), moment.bound_ns);
}

TEST(ClockAlignment, OrderOfSamplesDoesNotMatter) {
  std::vector<ClockSample> samples = made_samples({}, 3, 20);
  const ClockAlignment sorted(samples);
  std::shuffle(samples.begin(), samples.end(), std::mt19937_64(1));
  EXPECT_EQ(ClockAlignment(samples).at(9'000'000'000).ns, sorted.at(9'000'000'000).ns);
}

}  // namespace
}  // namespace mlbench::report
