#include "mlbench/collectives/run.h"

#include <gmock/gmock.h>

#include <atomic>

#include "mlbench/base/errors.h"
#include "mlbench/collectives/exercise.h"
#include "mlbench/collectives/test_group.h"
#include "mlbench/record/events.h"

namespace mlbench::collectives {
namespace {

using record::CollectiveForm;
using record::CollectiveRow;
using spec::Collective;
using spec::CollectivesSpec;
using spec::Reduction;
using testing::ElementsAre;
using testing::HasSubstr;

using Group = std::vector<std::unique_ptr<comm::Communicator>>;

// The rows that rank 0 tells of. Every rank has a clock of its own.
std::vector<CollectiveRow> rows_of(Group group, const CollectivesSpec& spec,
                                   Nanoseconds step = std::chrono::milliseconds(1), bool slower_ranks = false) {
  std::vector<CollectiveRow> rows;
  std::atomic<int> told_elsewhere{0};
  run_group(std::move(group), [&](comm::Communicator& comm) {
    const TickingClock clock(slower_ranks ? step * (comm.rank() + 1) : step);
    Sink sink;
    if (comm.rank() == 0) {
      sink.row = [&](const CollectiveRow& row) { rows.push_back(row); };
    } else {
      sink.row = [&](const CollectiveRow&) { ++told_elsewhere; };
    }
    run(spec, comm, clock, sink);
  });
  EXPECT_EQ(told_elsewhere, 0) << "rank 0 alone tells";
  return rows;
}
std::vector<CollectiveRow> rows_of(int ranks, const CollectivesSpec& spec) {
  return rows_of(comm::make_in_process_group(ranks, kGroupPatience), spec);
}

CollectivesSpec quick(std::vector<Collective> operations, std::vector<int64_t> counts) {
  CollectivesSpec spec;
  spec.operations = std::move(operations);
  spec.counts = std::move(counts);
  spec.iterations = 2;
  spec.warm_up = 1;
  spec.window = 4;
  return spec;
}

std::vector<Collective> all_operations() {
  std::vector<Collective> operations;
  for (const spec::CollectiveTraits& one : spec::collectives()) operations.push_back(one.operation);
  return operations;
}

std::string name_of_row(const CollectiveRow& row) {
  return row.operation + " " + row.dtype + " " + row.reduction + " of " + std::to_string(row.count) + ", root " +
         std::to_string(row.root);
}

TEST(Collectives, EverythingIsRightOnEveryNumberOfRanks) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    CollectivesSpec spec = quick({}, {0, 1, 2, 3, 17, 1023});
    spec.iterations = 1;
    for (const spec::CollectiveTraits& one : spec::collectives()) {
      if (one.least_ranks <= ranks) spec.operations.push_back(one.operation);
    }
    spec.dtypes = {spec::collective_dtypes().begin(), spec::collective_dtypes().end()};
    spec.reductions = {Reduction::kSum, Reduction::kProd, Reduction::kMin, Reduction::kMax, Reduction::kAvg};
    spec.root = spec::kEveryRoot;
    size_t checked = 0;
    for (const CollectiveRow& row : rows_of(ranks, spec)) {
      for (const auto* form : {&row.out_of_place, &row.in_place}) {
        if (!*form || row.operation == "barrier") continue;
        EXPECT_EQ((*form)->wrong, 0) << ranks << " ranks, " << (form == &row.in_place ? "in place " : "")
                                     << name_of_row(row);
        ++checked;
      }
    }
    EXPECT_GT(checked, 1000u);
  }
}

// Both forms have the same data; the results of an operation that was not performed must count as wrong.
TEST(Collectives, InPlaceEqualsOutOfPlace) {
  for (const spec::CollectiveTraits& traits : spec::collectives()) {
    if (!has_form(traits.operation, Form::kInPlace)) continue;
    for (const int ranks : {2, 3, 5}) {
      std::atomic<int64_t> wrong{0}, undone{0};
      run_group(ranks, [&](comm::Communicator& comm) {
        constexpr int64_t kCount = 1000;
        HostMemory memory(comm, false);
        BufferWithMargins send(memory, kCount * 4, 0), receive(memory, kCount * 4, 0);
        const Workplace at{comm, memory, send, receive};
        const spec::CollectiveCase one{traits.operation, DType::kInt32, Reduction::kSum, 1};
        for (const Form form : {Form::kOutOfPlace, Form::kInPlace}) {
          const auto exercise = make_exercise(at, one, kCount, form);
          exercise->prepare(7);
          exercise->run();
          wrong += exercise->wrong();
          exercise->prepare(8);
          undone += exercise->wrong();
        }
      });
      EXPECT_EQ(wrong, 0) << traits.name << " of " << ranks;
      EXPECT_GT(undone, 0) << traits.name << " of " << ranks;
    }
  }
}

TEST(Collectives, RowsComeInOrderWithTheSizesOfNcclTests) {
  CollectivesSpec spec = quick({Collective::kAllReduce, Collective::kAllGather, Collective::kBarrier}, {6, 17});
  spec.cycles = 2;
  const std::vector<CollectiveRow> rows = rows_of(3, spec);
  ASSERT_EQ(rows.size(), 10u);
  EXPECT_EQ(rows[0].operation, "all_reduce");
  EXPECT_EQ(rows[0].count, 6);
  EXPECT_EQ(rows[0].size_bytes, 24);
  EXPECT_EQ(rows[0].reduction, "sum");
  EXPECT_EQ(rows[0].root, -1);
  EXPECT_EQ(rows[3].operation, "all_gather");
  EXPECT_EQ(rows[3].count, 5) << "of one slice: 17 / 3";
  EXPECT_EQ(rows[3].size_bytes, 60) << "of all slices together";
  EXPECT_EQ(rows[3].reduction, "");
  EXPECT_EQ(rows[4].operation, "barrier");
  EXPECT_EQ(rows[4].dtype, "");
  EXPECT_EQ(rows[4].in_place, std::nullopt);
  EXPECT_EQ(rows[4].out_of_place->wrong, std::nullopt);
  EXPECT_EQ(rows[5].cycle, 2);
  EXPECT_EQ(rows[5].operation, "all_reduce");
}

TEST(Collectives, TimesAndBandwidthsByHand) {
  CollectivesSpec spec =
      quick({Collective::kAllReduce, Collective::kLatency, Collective::kBandwidth, Collective::kBidirectionalBandwidth},
            {10'000});
  spec.iterations = 3;
  spec.window = 50;
  const std::vector<CollectiveRow> rows = rows_of(4, spec);
  ASSERT_EQ(rows.size(), 4u);
  // Two looks at a clock that goes on by 1 ms with each: every iteration takes 1 ms. 40,000 bytes in it are 0.04 GB/s.
  EXPECT_DOUBLE_EQ(rows[0].in_place->time_us, 1000);
  EXPECT_DOUBLE_EQ(rows[0].in_place->alg_bw, 0.04);
  EXPECT_DOUBLE_EQ(*rows[0].in_place->bus_bw, 0.06);  // x 2 (4 - 1) / 4
  EXPECT_EQ(rows[0].in_place->iterations->count, 3);
  EXPECT_DOUBLE_EQ(rows[0].in_place->iterations->p99_us, 1000);
  EXPECT_FALSE(rows[0].in_place->copies);
  EXPECT_TRUE(rows[0].out_of_place->copies);
  EXPECT_DOUBLE_EQ(rows[1].out_of_place->time_us, 500) << "half the round trip";
  EXPECT_DOUBLE_EQ(rows[2].out_of_place->time_us, 20) << "of one message of the window";
  EXPECT_DOUBLE_EQ(rows[2].out_of_place->alg_bw, 2);
  EXPECT_DOUBLE_EQ(rows[3].out_of_place->alg_bw, 4) << "both directions";
  EXPECT_EQ(rows[3].in_place, std::nullopt);
}

TEST(Collectives, AggregatedOperationsShareTheTime) {
  CollectivesSpec spec = quick({Collective::kAllReduce}, {10});
  spec.aggregated = 5;
  EXPECT_DOUBLE_EQ(rows_of(2, spec)[0].in_place->time_us, 200);
}

TEST(Collectives, TheTimeOfAnIterationOutOfThoseOfTheRanks) {
  CollectivesSpec spec = quick({Collective::kAllReduce}, {10});
  spec.raw_times = true;
  const auto time = [&](spec::RankAverage average) {
    spec.average = average;
    auto rows = rows_of(comm::make_in_process_group(3, kGroupPatience), spec, std::chrono::milliseconds(1), true);
    EXPECT_THAT(rows[0].in_place->raw_times_us,
                ElementsAre(ElementsAre(1000, 1000), ElementsAre(2000, 2000), ElementsAre(3000, 3000)));
    return rows[0].in_place->time_us;
  };
  EXPECT_DOUBLE_EQ(time(spec::RankAverage::kRank0), 1000);
  EXPECT_DOUBLE_EQ(time(spec::RankAverage::kMean), 2000);
  EXPECT_DOUBLE_EQ(time(spec::RankAverage::kMin), 1000);
  EXPECT_DOUBLE_EQ(time(spec::RankAverage::kMax), 3000);
  spec.raw_times = false;
  EXPECT_TRUE(rows_of(2, spec)[0].in_place->raw_times_us.empty()) << "on request";
}

// Each look is some nanoseconds later than the last, never as many.
class JumpingClock final : public Clock {
 public:
  TimePoint now() const override { return now_ += Nanoseconds(10'000'019 * (1 + ++looks_ % 97)); }
  std::chrono::system_clock::time_point wall_now() const override { return {}; }

 private:
  mutable int64_t looks_ = 0;
  mutable TimePoint now_{};
};

TEST(Collectives, TheRowWithMostRawTimesIsAnEventThatIsRead) {
  CollectivesSpec spec = quick({Collective::kAllReduce}, {1});
  spec.raw_times = true;
  spec.iterations = spec::kMostRawTimes / 2;  // in both forms
  spec.aggregated = 7;
  std::vector<CollectiveRow> rows;
  Sink sink;
  sink.row = [&](const CollectiveRow& row) { rows.push_back(row); };
  run_group(1, [&](comm::Communicator& comm) { run(spec, comm, JumpingClock(), sink); });
  ASSERT_EQ(rows.size(), 1U);
  const Json event =
      record::make_event(record::EventKind::kCollective, {record::member::kRow(record::to_json(rows[0]))});
  const std::string line = event.dump();
  EXPECT_GT(line.size(), static_cast<size_t>(spec::kMostRawTimes) * 10) << "figures of 9 digits";
  const auto read = record::parse_event(line);
  ASSERT_TRUE(read.has_value()) << line.size() << " bytes";
  EXPECT_EQ(record::collective_row_from_json(record::get(*read, record::member::kRow), "the event"), rows[0]);
  ++spec.iterations;
  EXPECT_THROW(spec::check_collectives(spec, 1), UserError) << "no row has more";
}

// The clock of rank 0 goes on by 1 ms with each look: at the begin, before each iteration beyond the least, and around
// each iteration. The other ranks' clocks say otherwise and are not asked.
TEST(Collectives, TheCapOnTimeHolds) {
  CollectivesSpec spec = quick({Collective::kAllReduce}, {10});
  spec.iterations = 1000;
  spec.warm_up = 0;
  spec.in_place = false;
  spec.most_seconds_per_size = 0.1;
  spec.least_iterations = 4;
  const auto capped = [&] {
    return *rows_of(comm::make_in_process_group(3, kGroupPatience), spec, std::chrono::milliseconds(1), true)[0]
                .out_of_place;
  };
  CollectiveForm form = capped();
  EXPECT_TRUE(form.capped);
  // 4 iterations of 2 looks, then 3 looks each while less than 100 have passed.
  EXPECT_EQ(form.iterations->count, 4 + 31);
  EXPECT_EQ(form.wrong, 0);
  spec.most_seconds_per_size = 0.001;
  form = capped();
  EXPECT_EQ(form.iterations->count, 4) << "the least";
  spec.most_seconds_per_size = 100;
  form = capped();
  EXPECT_EQ(form.iterations->count, 1000);
  EXPECT_FALSE(form.capped);
}

TEST(Collectives, TheCapIsSharedByTheFormsAndEndsTheWarmUp) {
  CollectivesSpec spec = quick({Collective::kAllReduce}, {10});
  spec.iterations = 1000;
  spec.warm_up = 1000;
  spec.most_seconds_per_size = 0.2;
  spec.least_iterations = 1;
  const CollectiveRow row = rows_of(2, spec)[0];
  // Each form has 100 ms, in readings of the clock: 25 in the warm-up, one in the first iteration, about which nobody
  // is asked, and 3 in each other iteration.
  EXPECT_NEAR(static_cast<double>(row.in_place->iterations->count), 25, 2);
  EXPECT_EQ(row.in_place->iterations->count, row.out_of_place->iterations->count);
}

// ---- mistakes of a back end ----------------------------------------------------------------------------------------

constexpr int64_t kLargeCount = 60;  // what the ranks tell each other is less

// One bit of one element, on every rank.
Hook corrupt(const std::string& operation) {
  return [operation](const std::string& name, BufferView output) {
    if (name != operation || output.count < kLargeCount / 5) return;
    static_cast<std::byte*>(output.data)[output.size_bytes() / 2] ^= std::byte{0x10};
  };
}

std::string operation_that_carries(Collective operation) {
  const bool messages = operation == Collective::kSendRecv || spec::traits_of(operation).point_to_point;
  return messages ? "recv" : std::string(spec::traits_of(operation).name);
}

TEST(Collectives, AnElementThatABackEndCorruptsIsFound) {
  for (const Collective operation : all_operations()) {
    if (operation == Collective::kBarrier) continue;
    CollectivesSpec spec = quick({operation}, {kLargeCount});
    const CollectiveRow row = rows_of(make_hooked_group(3, corrupt(operation_that_carries(operation))), spec)[0];
    EXPECT_GE(row.out_of_place->wrong, 1) << row.operation;
    EXPECT_LE(row.out_of_place->wrong, 3) << row.operation << ": one on each rank";
    if (row.in_place) {
      EXPECT_GE(row.in_place->wrong, 1) << row.operation << " in place";
    }
    const CollectiveRow other = rows_of(make_hooked_group(3, corrupt("nothing")), spec)[0];
    EXPECT_EQ(other.out_of_place->wrong, 0) << row.operation;
  }
}

TEST(Collectives, WhatIsWrittenBesideABufferIsFound) {
  const Hook beside = [](const std::string& name, BufferView output) {
    if (name == "all_gather") static_cast<std::byte*>(output.data)[output.size_bytes()] ^= std::byte{1};
  };
  const CollectiveRow row = rows_of(make_hooked_group(2, beside), quick({Collective::kAllGather}, {kLargeCount}))[0];
  EXPECT_EQ(row.out_of_place->wrong, 2) << "a byte on each rank";
}

TEST(Collectives, AnInputThatIsOverwrittenIsFound) {
  std::vector<int64_t> wrong(2);
  run_group(2, [&](comm::Communicator& comm) {
    HostMemory memory(comm, false);
    BufferWithMargins send(memory, 400, 0), receive(memory, 400, 0);
    const Workplace at{comm, memory, send, receive};
    const auto exercise =
        make_exercise(at, {Collective::kAllGather, DType::kFloat32, std::nullopt, -1}, 100, Form::kOutOfPlace);
    exercise->prepare(1);
    exercise->run();
    if (comm.rank() == 1) send.data()[7] ^= std::byte{1};
    wrong[static_cast<size_t>(comm.rank())] = exercise->wrong();
  });
  EXPECT_THAT(wrong, ElementsAre(0, 1));
}

TEST(Collectives, WithoutACheckNothingIsSaidAboutResults) {
  CollectivesSpec spec = quick({Collective::kAllReduce}, {kLargeCount});
  spec.check = 0;
  EXPECT_EQ(rows_of(make_hooked_group(2, corrupt("all_reduce")), spec)[0].in_place->wrong, std::nullopt);
}

TEST(Collectives, MeasuredIterationsCanBeCheckedToo) {
  CollectivesSpec spec = quick({Collective::kAllReduce}, {kLargeCount});
  spec.iterations = 10;
  spec.warm_up = 0;
  spec.check = 0;
  spec.check_every = 3;
  spec.out_of_place = false;
  EXPECT_EQ(rows_of(2, spec)[0].in_place->wrong, 0);
  const CollectiveRow row = rows_of(make_hooked_group(2, corrupt("all_reduce")), spec)[0];
  EXPECT_EQ(row.in_place->wrong, 3 * 2) << "iterations 3, 6 and 9, on two ranks";
}

// ---- where buffers lie ---------------------------------------------------------------------------------------------

TEST(Collectives, BuffersBeginWhereTheyAreAskedTo) {
  for (const bool of_communicator : {false, true}) {
    const std::vector<std::pair<int64_t, int64_t>> offsets = {{0, 0}, {1, 0}, {0, 1}, {3, 2}};
    for (const auto& [elements, bytes] : offsets) {
      CollectivesSpec spec = quick({Collective::kAllReduce}, {kLargeCount});
      spec.dtypes = {DType::kFloat32, DType::kFloat16};
      spec.misaligned_elements = elements;
      spec.misaligned_bytes = bytes;
      spec.communicator_memory = of_communicator;
      std::atomic<int> seen{0}, elsewhere{0};
      const Hook look = [&, elements = elements, bytes = bytes](const std::string& name, BufferView output) {
        if (name != "all_reduce") return;
        const auto expected = static_cast<size_t>(elements) * size_of(output.dtype) + static_cast<size_t>(bytes);
        ++(reinterpret_cast<uintptr_t>(output.data) % 64 == expected ? seen : elsewhere);
      };
      for (const CollectiveRow& row : rows_of(make_hooked_group(2, look), spec)) {
        EXPECT_EQ(row.in_place->wrong, 0);
        EXPECT_EQ(row.out_of_place->wrong, 0);
      }
      EXPECT_GT(seen, 0);
      EXPECT_EQ(elsewhere, 0);
    }
  }
}

TEST(Collectives, FormsAreAsked) {
  CollectivesSpec spec = quick({Collective::kAllReduce, Collective::kBarrier}, {4});
  spec.out_of_place = false;
  const std::vector<CollectiveRow> rows = rows_of(2, spec);
  EXPECT_EQ(rows[0].out_of_place, std::nullopt);
  EXPECT_TRUE(rows[0].in_place.has_value());
  EXPECT_TRUE(rows[1].out_of_place.has_value()) << "the one form that it has";
}

TEST(Collectives, WhatDoesNotFitTheRanksIsRefusedByAll) {
  std::atomic<int> refused{0};
  run_group(1, [&](comm::Communicator& comm) {
    try {
      run(quick({Collective::kSendRecv}, {4}), comm, TickingClock(), {});
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("needs at least 2 ranks"));
      ++refused;
    }
  });
  EXPECT_EQ(refused, 1);
}

TEST(Collectives, PairsComeLast) {
  CollectivesSpec spec = quick({Collective::kAllReduce}, {4});
  spec.pairs.measure = true;
  spec.pairs.iterations = 2;
  spec.pairs.bandwidth_bytes = 100;
  spec.window = 2;
  std::vector<std::string> told;
  run_group(3, [&](comm::Communicator& comm) {
    Sink sink;
    if (comm.rank() == 0) {
      sink.row = [&](const CollectiveRow& row) { told.push_back(row.operation); };
      sink.pairs = [&](const record::PairMatrix& pairs) {
        told.push_back("pairs of " + std::to_string(pairs.hosts.size()));
      };
    }
    run(spec, comm, SystemClock(), sink);
  });
  EXPECT_THAT(told, ElementsAre("all_reduce", "pairs of 3"));
}

}  // namespace
}  // namespace mlbench::collectives
