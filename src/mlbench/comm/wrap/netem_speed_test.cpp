// How close netem comes to the network that it stands for: limits on time, for an idle machine.

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <thread>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/comm/contract_test.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/comm/wrap/netem.h"

namespace mlbench::comm {
namespace {

struct Point {
  int ranks;
  std::chrono::microseconds latency;
  double bits_per_second;
  int64_t elements;  // float32, in whole blocks

  double bytes() const { return static_cast<double>(elements) * sizeof(float); }
  // The ring's: 2(k-1) a + 2(k-1)/k S/B.
  double formula_s() const {
    const double steps = 2.0 * (ranks - 1);
    return steps * to_seconds(latency) + steps / ranks * bytes() / (bits_per_second / 8);
  }
};

std::ostream& operator<<(std::ostream& out, const Point& point) {
  return out << fmt::format("{} ranks, {} us, {:g} bit/s, {} bytes", point.ranks, point.latency.count(),
                            point.bits_per_second, point.bytes());
}

constexpr int kBatches = 5;
constexpr int kRounds = 10;

// Seconds per all_reduce in each batch, from the first rank's begin to the last one's end.
std::vector<double> seconds_per_all_reduce(const Point& point) {
  const NetemOptions options{.all = {.latency = point.latency, .bytes_per_second = point.bits_per_second / 8}};
  auto transports = make_in_process_transports(point.ranks, kPatience);
  std::vector<std::vector<TimePoint>> begins(kBatches, std::vector<TimePoint>(transports.size())), ends(begins);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < transports.size(); ++rank) {
    threads.emplace_back([&, rank] {
      Communicator comm(make_netem(std::move(transports[rank]), options));
      std::vector<float> values(static_cast<size_t>(point.elements));
      for (int round = 0; round < 3; ++round) comm.all_reduce(view_of(std::span(values)), ReduceOp::kSum);
      for (size_t batch = 0; batch < kBatches; ++batch) {
        comm.barrier();
        begins[batch][rank] = std::chrono::steady_clock::now();
        for (int round = 0; round < kRounds; ++round) comm.all_reduce(view_of(std::span(values)), ReduceOp::kSum);
        ends[batch][rank] = std::chrono::steady_clock::now();
      }
      comm.barrier();  // nobody leaves while another may still need it
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<double> seconds;
  for (size_t batch = 0; batch < kBatches; ++batch) {
    const Nanoseconds span = *std::max_element(ends[batch].begin(), ends[batch].end()) -
                             *std::min_element(begins[batch].begin(), begins[batch].end());
    seconds.push_back(to_seconds(span) / kRounds);
  }
  return seconds;
}

class NetemSpeed : public testing::TestWithParam<Point> {};

// Never less than the formula, and within 5 % of it: the best of some batches, since what else a machine does makes a
// time longer, never shorter.
TEST_P(NetemSpeed, AnAllReduceMeetsTheRingsFormula) {
  const std::vector<double> taken = seconds_per_all_reduce(GetParam());
  const double best = *std::min_element(taken.begin(), taken.end());
  const double formula = GetParam().formula_s();
  fmt::print("{:.3f} ms (to {:.3f}), the formula says {:.3f} ms\n", best * 1e3,
             *std::max_element(taken.begin(), taken.end()) * 1e3, formula * 1e3);
  EXPECT_GE(best, formula);
  EXPECT_LE(best, formula * 1.05);
}

INSTANTIATE_TEST_SUITE_P(Points, NetemSpeed,
                         testing::Values(Point{2, std::chrono::microseconds(200), 2e9, 1 << 18},
                                         Point{4, std::chrono::microseconds(1000), 500e6, 1 << 18},
                                         Point{3, std::chrono::microseconds(2000), 1e9, 3 << 13}));

}  // namespace
}  // namespace mlbench::comm
