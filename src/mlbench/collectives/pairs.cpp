#include "mlbench/collectives/pairs.h"

#include <algorithm>
#include <chrono>

#include "mlbench/collectives/bandwidth.h"
#include "mlbench/collectives/control.h"
#include "mlbench/collectives/exercise.h"
#include "mlbench/collectives/measure.h"
#include "mlbench/collectives/slow_parts.h"

namespace mlbench::collectives {

namespace {

using spec::Collective;

constexpr int64_t kLeastWindows = 3;
constexpr int64_t kWarmUpRounds = 3;
// There are so many passes over all pairs. A pair's best one counts: a short disturbance would look like a slow link.
constexpr int kPasses = 3;

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return record::percentile(values, 0.5);
}

class PairBenchmark {
 public:
  PairBenchmark(const spec::CollectivesSpec& spec, comm::Communicator& comm, Memory& memory, const Clock& clock)
      : spec_(spec.pairs),
        window_(spec.window),
        comm_(comm),
        clock_(clock),
        control_(comm, memory),
        send_(memory, most_bytes(), 0),
        receive_(memory, most_bytes(), 0),
        at_{comm, memory, send_, receive_},
        latency_us_(static_cast<size_t>(comm.size())),
        bandwidth_(static_cast<size_t>(comm.size())) {}

  record::PairMatrix run() {
    const std::vector<Round> rounds = rounds_of_pairs(comm_.size(), spec_.disjoint);
    for (int pass = 0; pass < kPasses; ++pass) {
      for (const Round& round : rounds) {
        comm_.barrier();
        for (const auto& [from, to] : round) {
          if (comm_.rank() == from || comm_.rank() == to) measure_pair(from, to);
        }
      }
    }
    record::PairMatrix pairs;
    std::ranges::transform(latency_us_, latency_us_.begin(), shortened);
    std::ranges::transform(bandwidth_, bandwidth_.begin(), shortened);
    pairs.latency_us = control_.gathered(latency_us_);
    pairs.bandwidth = control_.gathered(bandwidth_);
    pairs.hosts = control_.gathered_hosts();
    pairs.latency_bytes = spec_.latency_bytes;
    pairs.bandwidth_bytes = spec_.bandwidth_bytes;
    pairs.window = window_;
    pairs.disjoint = spec_.disjoint;
    return pairs;
  }

 private:
  size_t most_bytes() const { return static_cast<size_t>(std::max(spec_.latency_bytes, spec_.bandwidth_bytes)); }

  // The times of the runs in microseconds, on rank `from`.
  std::vector<double> times_of(Exercise& exercise, int64_t runs) {
    std::vector<double> times;
    for (int64_t i = 0; i < runs; ++i) {
      const TimePoint begin = clock_.now();
      exercise.run();
      at_.memory.synchronize();
      times.push_back(std::chrono::duration<double, std::micro>(clock_.now() - begin).count());
    }
    return times;
  }

  void measure_pair(int from, int to) {
    const auto ping_pong =
        make_point_to_point(at_, Collective::kLatency, DType::kUInt8, spec_.latency_bytes, 1, from, to);
    ping_pong->prepare(0);
    times_of(*ping_pong, kWarmUpRounds);
    const double round_trip_us = median_of(times_of(*ping_pong, spec_.iterations));

    const auto one_way =
        make_point_to_point(at_, Collective::kBandwidth, DType::kUInt8, spec_.bandwidth_bytes, window_, from, to);
    one_way->prepare(0);
    times_of(*one_way, 1);
    const double first_us = times_of(*one_way, 1).front();
    const auto iterations = static_cast<double>(spec_.iterations);
    const double fitting = first_us > 0 ? spec_.most_seconds / kPasses * 1e6 / first_us : iterations;
    const double most = std::max(static_cast<double>(kLeastWindows), iterations / kPasses);
    const auto windows = static_cast<int64_t>(std::clamp(fitting, static_cast<double>(kLeastWindows), most));
    const double window_us = median_of(times_of(*one_way, control_.told(windows, from, to)));

    if (comm_.rank() != from) return;
    double& latency_us = latency_us_[static_cast<size_t>(to)];  // 0: no pass has one yet
    latency_us = latency_us > 0 ? std::min(latency_us, round_trip_us / 2) : round_trip_us / 2;
    double& bandwidth = bandwidth_[static_cast<size_t>(to)];
    bandwidth =
        std::max(bandwidth, algorithm_bandwidth(Collective::kBandwidth, spec_.bandwidth_bytes * window_, window_us));
  }

  spec::PairSpec spec_;
  int64_t window_;
  comm::Communicator& comm_;
  const Clock& clock_;
  Control control_;
  BufferWithMargins send_, receive_;
  Workplace at_;
  std::vector<double> latency_us_, bandwidth_;  // from this rank to each other
};

}  // namespace

std::vector<Round> rounds_of_pairs(int ranks, bool disjoint) {
  std::vector<Round> rounds;
  if (!disjoint) {
    for (int from = 0; from < ranks; ++from) {
      for (int to = 0; to < ranks; ++to) {
        if (from != to) rounds.push_back({{from, to}});
      }
    }
    return rounds;
  }
  // The circle method: one rank stays, the others go round. For an odd number, the place that stays is empty.
  const int seats = ranks + ranks % 2;
  for (int turn = 0; turn < seats - 1; ++turn) {
    Round there, back;
    const auto meet = [&](int a, int b) {
      if (a >= ranks || b >= ranks) return;
      there.emplace_back(a, b);
      back.emplace_back(b, a);
    };
    meet(turn, seats - 1);
    for (int distance = 1; distance < seats / 2; ++distance) {
      meet((turn + distance) % (seats - 1), (turn + seats - 1 - distance) % (seats - 1));
    }
    rounds.push_back(std::move(there));
    rounds.push_back(std::move(back));
  }
  return rounds;
}

record::PairMatrix measure_pairs(const spec::CollectivesSpec& spec, comm::Communicator& comm, Memory& memory,
                                 const Clock& clock) {
  record::PairMatrix pairs = PairBenchmark(spec, comm, memory, clock).run();
  if (comm.rank() != 0) return {};
  find_slow_parts(pairs);
  return pairs;
}

}  // namespace mlbench::collectives
