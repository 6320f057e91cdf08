#include "mlbench/collectives/pairs.h"

#include <gmock/gmock.h>

#include <set>

#include "mlbench/collectives/measure.h"
#include "mlbench/collectives/test_group.h"

namespace mlbench::collectives {
namespace {

TEST(Pairs, EveryOrderedPairIsMeasuredOnce) {
  for (const bool disjoint : {false, true}) {
    for (int ranks = 2; ranks <= 9; ++ranks) {
      std::set<std::pair<int, int>> seen;
      for (const Round& round : rounds_of_pairs(ranks, disjoint)) {
        std::set<int> busy;
        for (const auto& [from, to] : round) {
          EXPECT_TRUE(seen.insert({from, to}).second) << from << " " << to << " of " << ranks;
          EXPECT_TRUE(busy.insert(from).second && busy.insert(to).second) << "a rank in two pairs at once";
          EXPECT_TRUE(from != to && from >= 0 && to >= 0 && from < ranks && to < ranks);
        }
        EXPECT_TRUE(disjoint || round.size() == 1);
      }
      EXPECT_EQ(seen.size(), static_cast<size_t>(ranks * (ranks - 1)));
    }
  }
}

TEST(Pairs, DisjointRoundsAreAsFewAsCanBe) {
  EXPECT_EQ(rounds_of_pairs(8, true).size(), 14u);
  EXPECT_EQ(rounds_of_pairs(5, true).size(), 10u);
  EXPECT_EQ(rounds_of_pairs(2, true).size(), 2u);
}

TEST(Pairs, TheMatrixIsWholeOnRank0) {
  for (const bool disjoint : {false, true}) {
    for (const int ranks : {2, 3, 4}) {
      spec::CollectivesSpec spec;
      spec.pairs.measure = true;
      spec.pairs.disjoint = disjoint;
      spec.pairs.iterations = 4;
      spec.pairs.bandwidth_bytes = 1000;
      spec.window = 8;
      // Each look at the clock is a millisecond later: every run takes one.
      std::vector<record::PairMatrix> found(static_cast<size_t>(ranks));
      run_group(ranks, [&](comm::Communicator& comm) {
        HostMemory memory(comm, false);
        found[static_cast<size_t>(comm.rank())] = measure_pairs(spec, comm, memory, TickingClock());
      });
      const record::PairMatrix& pairs = found[0];
      ASSERT_EQ(pairs.hosts.size(), static_cast<size_t>(ranks));
      EXPECT_EQ(pairs.window, 8);
      for (size_t from = 0; from < pairs.hosts.size(); ++from) {
        EXPECT_EQ(pairs.hosts[from], pairs.hosts[0]);
        for (size_t to = 0; to < pairs.hosts.size(); ++to) {
          EXPECT_DOUBLE_EQ(pairs.latency_us[from][to], from == to ? 0 : 500);
          EXPECT_DOUBLE_EQ(pairs.bandwidth[from][to], from == to ? 0 : 8 * 1000 / 1e-3 / 1e9);
        }
      }
      EXPECT_FALSE(pairs.verdict.empty());
      for (size_t rank = 1; rank < found.size(); ++rank) EXPECT_TRUE(found[rank].hosts.empty());
    }
  }
}

// Each look is a millisecond later than the last one, but the first ones 50: something else has the machine.
class DisturbedClock final : public Clock {
 public:
  TimePoint now() const override { return now_ += std::chrono::milliseconds(++looks_ < 20 ? 50 : 1); }
  std::chrono::system_clock::time_point wall_now() const override { return {}; }

 private:
  mutable int looks_ = 0;
  mutable TimePoint now_{};
};

// Looks are about a third of a millisecond apart: the figures have no end.
class UnevenClock final : public Clock {
 public:
  TimePoint now() const override { return now_ += Nanoseconds(333'333 + 1'000 * (++looks_ % 7)); }
  std::chrono::system_clock::time_point wall_now() const override { return {}; }

 private:
  mutable int looks_ = 0;
  mutable TimePoint now_{};
};

TEST(Pairs, FiguresHaveNineDigits) {
  EXPECT_EQ(shortened(1.0 / 3), 0.333333333);
  EXPECT_EQ(shortened(123456789.4), 123456789);
  EXPECT_EQ(shortened(0), 0);
  spec::CollectivesSpec spec;
  spec.pairs.measure = true;
  spec.pairs.iterations = 4;
  spec.pairs.bandwidth_bytes = 1000;
  record::PairMatrix found;
  run_group(2, [&](comm::Communicator& comm) {
    HostMemory memory(comm, false);
    record::PairMatrix pairs = measure_pairs(spec, comm, memory, UnevenClock());
    if (comm.rank() == 0) found = pairs;
  });
  for (const auto* matrix : {&found.latency_us, &found.bandwidth}) {
    for (const auto& row : *matrix) {
      for (const double value : row) EXPECT_LE(Json(value).dump().size(), 14u) << value;
    }
  }
  EXPECT_GT(Json(found.bandwidth[0][1]).dump().size(), 9u) << found.bandwidth[0][1];
}

TEST(Pairs, AMomentsDisturbanceIsNoSlowLink) {
  spec::CollectivesSpec spec;
  spec.pairs.measure = true;
  spec.pairs.iterations = 4;
  spec.pairs.bandwidth_bytes = 1000;
  record::PairMatrix found;
  run_group(4, [&](comm::Communicator& comm) {
    HostMemory memory(comm, false);
    record::PairMatrix pairs = measure_pairs(spec, comm, memory, DisturbedClock());
    if (comm.rank() == 0) found = pairs;
  });
  EXPECT_DOUBLE_EQ(found.latency_us[0][1], 500);
  EXPECT_THAT(found.slow, testing::IsEmpty()) << found.verdict;
}

}  // namespace
}  // namespace mlbench::collectives
