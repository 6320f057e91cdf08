#include "mlbench/collectives/run.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>
#include <vector>

#include "mlbench/collectives/bandwidth.h"
#include "mlbench/collectives/control.h"
#include "mlbench/collectives/exercise.h"
#include "mlbench/collectives/measure.h"
#include "mlbench/collectives/pairs.h"

namespace mlbench::collectives {

namespace {

using spec::Collective;

class Benchmark {
 public:
  Benchmark(const spec::CollectivesSpec& spec, comm::Communicator& comm, Memory& memory, const Clock& clock,
            const Sink& sink)
      : spec_(spec),
        comm_(comm),
        memory_(memory),
        clock_(clock),
        sink_(sink),
        control_(comm, memory),
        send_(memory, static_cast<size_t>(spec::most_buffer_bytes(spec)), misaligned_by(sizeof(double))),
        receive_(memory, static_cast<size_t>(spec::most_buffer_bytes(spec)), misaligned_by(sizeof(double))),
        at_{comm, memory, send_, receive_} {}

  void run_rows() {
    for (int64_t cycle = 1; cycle <= spec_.cycles; ++cycle) {
      for (const spec::CollectiveCase& one : spec::cases_of(spec_, comm_.size())) {
        for (const int64_t count : spec::counts_of(spec_, one)) run_row(cycle, one, count);
      }
    }
  }

 private:
  size_t misaligned_by(size_t element_size) const {
    return static_cast<size_t>(spec_.misaligned_elements) * element_size + static_cast<size_t>(spec_.misaligned_bytes);
  }

  void run_row(int64_t cycle, const spec::CollectiveCase& one, int64_t count) {
    const spec::CollectiveTraits& traits = spec::traits_of(one.operation);
    const bool typed = one.operation != Collective::kBarrier;
    record::CollectiveRow row;
    row.operation = traits.name;
    row.cycle = cycle;
    row.count = traits.sliced ? count / comm_.size() : count;
    row.size_bytes = row.count * (traits.sliced ? comm_.size() : 1) * static_cast<int64_t>(size_of(one.dtype));
    if (typed) row.dtype = mlbench::name_of(one.dtype);
    if (one.reduction) row.reduction = spec::name_of(*one.reduction);
    row.root = one.root;
    row.device = memory_.stream().device.kind == Device::Kind::kCuda ? "cuda" : "cpu";
    send_.misalign(misaligned_by(size_of(one.dtype)));
    receive_.misalign(misaligned_by(size_of(one.dtype)));
    const bool in_place = spec_.in_place && has_form(one.operation, Form::kInPlace);
    const bool out_of_place = spec_.out_of_place || !has_form(one.operation, Form::kInPlace);
    const int forms = in_place && out_of_place ? 2 : 1;
    if (out_of_place) row.out_of_place = run_form(one, count, Form::kOutOfPlace, forms, row.size_bytes);
    if (in_place) row.in_place = run_form(one, count, Form::kInPlace, forms, row.size_bytes);
    if (comm_.rank() == 0 && sink_.row) sink_.row(row);
  }

  // The result is complete on rank 0 alone.
  record::CollectiveForm run_form(const spec::CollectiveCase& one, int64_t count, Form form, int forms,
                                  int64_t size_bytes) {
    const bool point_to_point = spec::traits_of(one.operation).point_to_point;
    const auto exercise = point_to_point ? make_point_to_point(at_, one.operation, one.dtype, count, spec_.window, 0, 1)
                                         : make_exercise(at_, one, count, form);
    Repetition repetition;
    repetition.iterations = spec_.iterations;
    repetition.warm_up = spec_.warm_up;
    repetition.aggregated = spec_.aggregated;
    // An operation of two ranks has no end that all ranks share.
    repetition.blocking = spec_.blocking && !point_to_point;
    repetition.cap =
        std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(spec_.most_seconds_per_size / forms));
    repetition.least = spec_.least_iterations;
    repetition.check_every = spec_.check_every;
    Measured measured = measure(*exercise, repetition, at_, control_, clock_, seed_);
    measured.wrong += count_wrong(*exercise, spec_.check, at_, seed_);

    record::CollectiveForm found;
    found.copies = makes_copies(one.operation, form);
    found.capped = measured.capped;
    std::vector<std::vector<double>> of_ranks = control_.gathered(measured.times_us);
    const double own_wrong[] = {static_cast<double>(measured.wrong)};
    const std::vector<std::vector<double>> wrong = control_.gathered(own_wrong);
    if (comm_.rank() != 0) return found;

    const double operations = operations_per_run(one.operation);
    for (std::vector<double>& rank : of_ranks) {
      for (double& time : rank) time /= operations;
    }
    std::vector<double> times =
        times_of_iterations(of_ranks, point_to_point ? spec::RankAverage::kRank0 : spec_.average);
    found.time_us = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
    found.alg_bw = algorithm_bandwidth(one.operation, size_bytes, found.time_us);
    found.bus_bw = found.alg_bw * bus_factor(one.operation, comm_.size());
    found.iterations = record::summarise(std::move(times));
    const bool checked = spec_.check > 0 || (spec_.check_every > 0 && spec_.check_every <= found.iterations->count);
    if (checked && one.operation != Collective::kBarrier) {
      found.wrong = 0;
      for (const std::vector<double>& rank : wrong) *found.wrong += static_cast<int64_t>(rank[0]);
    }
    if (!spec_.raw_times) return found;
    for (std::vector<double>& rank : of_ranks) std::ranges::transform(rank, rank.begin(), shortened);
    found.raw_times_us = std::move(of_ranks);
    return found;
  }

  // By what the time of a run is divided: half the round trip of a ping-pong, one message of a window.
  double operations_per_run(Collective operation) const {
    switch (operation) {
      case Collective::kLatency:
        return 2;
      case Collective::kBandwidth:
      case Collective::kBidirectionalBandwidth:
        return static_cast<double>(spec_.window);
      default:
        return 1;
    }
  }

  const spec::CollectivesSpec& spec_;
  comm::Communicator& comm_;
  Memory& memory_;
  const Clock& clock_;
  const Sink& sink_;
  Control control_;
  BufferWithMargins send_, receive_;
  Workplace at_;
  uint64_t seed_ = 1;
};

}  // namespace

void run(const spec::CollectivesSpec& spec, comm::Communicator& comm, Memory& memory, const Clock& clock,
         const Sink& sink) {
  spec::check_collectives(spec, comm.size());
  Benchmark(spec, comm, memory, clock, sink).run_rows();
  if (!spec.pairs.measure) return;
  const record::PairMatrix pairs = measure_pairs(spec, comm, memory, clock);
  if (comm.rank() == 0 && sink.pairs) sink.pairs(pairs);
}

void run(const spec::CollectivesSpec& spec, comm::Communicator& comm, const Clock& clock, const Sink& sink) {
  HostMemory memory(comm, spec.communicator_memory);
  run(spec, comm, memory, clock, sink);
}

}  // namespace mlbench::collectives
