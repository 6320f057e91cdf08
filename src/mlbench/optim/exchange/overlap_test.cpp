// The exchange while the gradient is being computed: when buckets go, on which thread, and that the sums are those of
// the same buckets one after the other.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <numeric>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/test_layout.h"
#include "mlbench/catalog/worker/catalog.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/comm/operation_board.h"
#include "mlbench/comm/test_stores.h"
#include "mlbench/compress/identity.h"
#include "mlbench/compress/test_gradients.h"
#include "mlbench/net/launch.h"
#include "mlbench/optim/exchange/bucket_schedule.h"
#include "mlbench/optim/exchange/centralized.h"
#include "mlbench/optim/exchange/communication_thread.h"

namespace mlbench::optim {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

// ---- the schedule ---------------------------------------------------------------------------------------------------

std::vector<size_t> those_that_may_go(BucketSchedule& schedule) {
  std::vector<size_t> buckets;
  while (const auto bucket = schedule.next()) buckets.push_back(*bucket);
  return buckets;
}

std::vector<int64_t> found_in(const BucketSchedule& schedule) {
  const std::span<const int64_t> order = schedule.found_order();
  return {order.begin(), order.end()};
}

TEST(BucketSchedule, ABucketGoesWhenItIsWholeAndThoseBeforeItHaveGone) {
  const FlatLayout layout = layout_of({3, 20, 5, 16});  // at 0, 16, 48, 64
  BucketSchedule schedule(layout, {{48, 32}, {16, 20}, {0, 3}});
  EXPECT_THAT(those_that_may_go(schedule), IsEmpty());
  schedule.ready(64, 16);
  EXPECT_THAT(those_that_may_go(schedule), IsEmpty()) << "half of the first bucket";
  schedule.ready(0, 3);
  EXPECT_THAT(those_that_may_go(schedule), IsEmpty()) << "the last, before the others";
  schedule.ready(48, 2);
  schedule.ready(50, 3);  // a tensor in two pieces
  EXPECT_THAT(those_that_may_go(schedule), ElementsAre(0));
  schedule.ready(16, 20);
  EXPECT_THAT(those_that_may_go(schedule), ElementsAre(1, 2));
  EXPECT_THAT(those_that_may_go(schedule), IsEmpty());
  EXPECT_THAT(found_in(schedule), ElementsAre(2, 0, 1));

  schedule.begin();
  EXPECT_THAT(found_in(schedule), IsEmpty());
  schedule.ready(0, layout.parameter_elements);  // padding and all
  EXPECT_THAT(found_in(schedule), ElementsAre(0, 1, 2)) << "from the last tensor to the first";
  EXPECT_THAT(those_that_may_go(schedule), ElementsAre(0, 1, 2));

  schedule.begin();
  schedule.ready(16, 20);
  schedule.ready_all();
  EXPECT_THAT(found_in(schedule), ElementsAre(1, 0, 2));
  EXPECT_THAT(those_that_may_go(schedule), ElementsAre(0, 1, 2));
}

TEST(BucketSchedule, FollowsTheOrderThatWasSet) {
  const FlatLayout layout = layout_of({3, 20, 5});
  BucketSchedule schedule(layout, tensor_buckets(layout));
  schedule.set_order(std::vector<int64_t>{1, 2, 0});
  schedule.ready(layout.ranges[2].offset, 5);  // bucket 0
  EXPECT_THAT(those_that_may_go(schedule), IsEmpty());
  schedule.ready(layout.ranges[1].offset, 20);
  EXPECT_THAT(those_that_may_go(schedule), ElementsAre(1));
  schedule.ready(layout.ranges[0].offset, 3);
  EXPECT_THAT(those_that_may_go(schedule), ElementsAre(2, 0));
}

TEST(BucketSchedule, ABucketWithoutElementsGoesAtOnce) {
  const FlatLayout layout = layout_of({3, 0, 5});
  BucketSchedule schedule(layout, tensor_buckets(layout));
  EXPECT_THAT(found_in(schedule), ElementsAre(1));
  schedule.ready(layout.ranges[2].offset, 5);
  EXPECT_THAT(those_that_may_go(schedule), ElementsAre(0, 1));
  schedule.ready_all();
  EXPECT_THAT(those_that_may_go(schedule), ElementsAre(2));
  EXPECT_THAT(found_in(schedule), ElementsAre(1, 0, 2));
}

TEST(BucketSchedule, RefusesWhatCannotBe) {
  const FlatLayout layout = layout_of({3, 20});
  EXPECT_THROW(BucketSchedule(layout, {{0, 10}}), InternalError) << "a tensor in no bucket";
  BucketSchedule schedule(layout, tensor_buckets(layout));
  EXPECT_THROW(schedule.set_order(std::vector<int64_t>{0, 0}), InternalError);
  EXPECT_THROW(schedule.set_order(std::vector<int64_t>{0}), InternalError);
  schedule.ready(0, 3);
  EXPECT_THROW(schedule.ready(0, 3), InternalError) << "told twice";
}

// ---- the thread -----------------------------------------------------------------------------------------------------

// Opens once; waiting is bounded.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

TEST(CommunicationThread, DoesJobsInTheirOrderBesideItsOwner) {
  CommunicationThread thread({});
  std::vector<int> done;
  std::thread::id where;
  thread.finish();  // nothing to wait for
  for (int round = 0; round < 3; ++round) {
    Gate gate;
    thread.submit([&] {
      EXPECT_TRUE(gate.wait()) << "the owner goes on";
      where = std::this_thread::get_id();
    });
    for (int i = 0; i < 100; ++i) thread.submit([&done, i] { done.push_back(i); });
    gate.open();
    thread.finish();
    ASSERT_EQ(done.size(), 100U * static_cast<size_t>(round + 1));
    EXPECT_TRUE(std::is_sorted(done.end() - 100, done.end()));
    EXPECT_NE(where, std::this_thread::get_id());
  }
}

TEST(CommunicationThread, ThrowsAFailureWhenItIsFinishedAndEverAfter) {
  CommunicationThread thread({});
  std::atomic<int> done = 0;
  thread.submit([&] { ++done; });
  thread.submit([] { throw CommError("all_reduce: rank 1 is lost"); });
  thread.submit([&] { ++done; });
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT([&] { thread.finish(); }, ThrowsMessage<CommError>("all_reduce: rank 1 is lost"));
    thread.submit([&] { ++done; });
  }
  EXPECT_EQ(done, 1) << "none behind the one that failed";
}

TEST(CommunicationThread, EndsWithTheJobInWorkAndDropsTheOthers) {
  for (const bool abandoned : {false, true}) {
    Gate begun, gate;
    std::atomic<int> done = 0;
    std::thread opener;
    {
      CommunicationThread thread({});
      thread.submit([&] {
        begun.open();
        EXPECT_TRUE(gate.wait());
        ++done;
      });
      for (int i = 0; i < 10; ++i) thread.submit([&] { done += 100; });
      ASSERT_TRUE(begun.wait());
      opener = std::thread([&] {
        std::this_thread::sleep_for(milliseconds(20));
        gate.open();
      });
      if (abandoned) {
        thread.abandon();
        EXPECT_EQ(done, 1);
        thread.submit([&] { done += 100; });
        EXPECT_THROW(thread.finish(), InternalError) << "what was dropped is not done";
      }
    }
    EXPECT_EQ(done, 1);
    opener.join();
  }
}

TEST(CommunicationThread, NeedNotShareTheCoreOfABoundOwner) {
  const std::vector<int> before = allowed_cores();
  if (before.size() < 2) GTEST_SKIP() << "missing capability: two cores";
  std::thread([&] {
    ASSERT_TRUE(bind_thread(before[0]));
    const auto cores_of = [](const std::vector<int>& place) {
      std::vector<int> found;
      CommunicationThread thread(place);
      thread.submit([&] { found = allowed_cores(); });
      thread.finish();
      return found;
    };
    EXPECT_EQ(cores_of({}), std::vector{before[0]});
    EXPECT_EQ(cores_of({before[1]}), std::vector{before[1]});
    EXPECT_EQ(cores_of({before[0], before[1]}), (std::vector{before[0], before[1]}));
  }).join();
}

// ---- the exchange ---------------------------------------------------------------------------------------------------

using MakeComm = std::function<std::unique_ptr<comm::Communicator>(int rank)>;

MakeComm in_process(int size) {
  const auto group = std::make_shared<std::vector<std::unique_ptr<comm::Communicator>>>(
      comm::make_in_process_group(size, std::chrono::seconds(20)));
  return [group](int rank) { return std::move((*group)[static_cast<size_t>(rank)]); };
}

MakeComm over(const char* backend, int size) {
  const auto store = std::make_shared<comm::MemoryStore>();
  return [=](int rank) {
    comm::CommOptions options;
    options.rank = rank;
    options.size = size;
    options.store = store;
    options.timeout = std::chrono::seconds(20);
    options.passive_wait = true;  // more threads than cores
    return catalog::make_backend(backend, options);
  };
}
MakeComm gloo(int size) { return over("gloo", size); }
MakeComm shm(int size) { return over("shm", size); }

// Under mpirun ranks are processes, each of which runs these tests.
const net::LaunchInfo& launch() {
  static const net::LaunchInfo info = net::detect_launch(environment_variable);
  return info;
}
MakeComm mpi(int size) {
  // MPI is there from the first communicator to the last: through all tests.
  static const auto all = over("mpi", launch().size)(launch().rank);
  return over("mpi", size);
}

void on_ranks(int size, const MakeComm& make, const std::function<void(int, comm::Communicator&)>& body) {
  if (launch().size > 1) {
    ASSERT_EQ(size, launch().size);
    const auto comm = make(launch().rank);
    body(launch().rank, *comm);
    return;
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto comm = make(rank);
      body(rank, *comm);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

CentralizedOptions options_of(double bucket_mb, bool by_layer, bool overlap) {
  CentralizedOptions options;
  options.bucket_mb = bucket_mb;
  options.by_layer = by_layer;
  options.overlap = overlap;
  return options;
}

// A rank with an exchange, and what a backward pass does to it: tensor by tensor, or, without samples, all at once.
class Rank {
 public:
  Rank(comm::Communicator& comm, const FlatLayout& layout, const CentralizedOptions& options)
      : layout_(layout),
        coder_(layout_),
        exchange_({comm, coder_, layout_}, options),
        tensors_{at::ones({layout.parameter_elements}), at::zeros({layout.parameter_elements})} {}

  Exchange& exchange() { return exchange_; }
  const at::Tensor& gradients() const { return tensors_.gradients; }

  void begin(int step) { exchange_.begin({step}, tensors_); }
  // The tensors in this order; a gradient changes until it is told.
  void backward(const at::Tensor& gradient, const std::vector<size_t>& order) {
    tensors_.gradients.fill_(1e30F);
    for (const size_t index : order) {
      const FlatRange& range = layout_.ranges[index];
      tensors_.gradients.narrow(0, range.offset, range.count).copy_(gradient.narrow(0, range.offset, range.count));
      exchange_.ready(range.offset, range.count);
    }
  }
  void without_samples() {
    tensors_.gradients.zero_();
    exchange_.ready(0, layout_.parameter_elements);
  }

 private:
  FlatLayout layout_;
  compress::IdentityCoder coder_;
  CentralizedExchange exchange_;
  FlatTensors tensors_;
};

std::vector<size_t> last_first(const FlatLayout& layout) {
  std::vector<size_t> order(layout.ranges.size());
  std::iota(order.rbegin(), order.rend(), size_t{0});
  return order;
}

// Compares without padding, for which the exchange promises nothing.
bool same_gradient(const FlatLayout& layout, const at::Tensor& a, const at::Tensor& b) {
  return std::ranges::all_of(layout.ranges, [&](const FlatRange& range) {
    return compress::same_bits(a.narrow(0, range.offset, range.count), b.narrow(0, range.offset, range.count));
  });
}

struct Way {
  const char* name;
  MakeComm (*make)(int size);
  std::vector<int> sizes = {1, 2, 3, 4};
};
class Overlap : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(BackEnds, Overlap,
                         testing::Values(Way{"in_process", in_process}, Way{"gloo", gloo}, Way{"shm", shm}),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Mpirun, Overlap,
                         testing::ValuesIn(launch().size > 1 ? std::vector{Way{"mpi", mpi, {launch().size}}}
                                                             : std::vector<Way>{}),
                         [](const auto& info) { return info.param.name; });

// Buckets of a size, one per tensor, one for all; in each third step one rank has no samples.
TEST_P(Overlap, GivesTheBitsOfTheSameBucketsOneAfterTheOther) {
  const FlatLayout layout = layout_of({400, 7, 0, 1, 5000, 33, 70'001, 0});
  for (const auto& [bucket_mb, by_layer] : {std::pair{0.001, false}, {0.05, false}, {0.0, true}, {0.0, false}}) {
    for (const int size : GetParam().sizes) {
      SCOPED_TRACE(fmt::format("{} MiB, by layer {}, {} ranks", bucket_mb, by_layer, size));
      on_ranks(size, GetParam().make(size),
               [&, bucket_mb = bucket_mb, by_layer = by_layer](int rank, comm::Communicator& comm) {
                 Rank plain(comm, layout, options_of(bucket_mb, by_layer, false));
                 Rank overlapped(comm, layout, options_of(bucket_mb, by_layer, true));
                 EXPECT_FALSE(plain.exchange().listens());
                 EXPECT_EQ(overlapped.exchange().listens(), size > 1);
                 Json expected = plain.exchange().effective();
                 expected["overlap"] = true;
                 expected["one_collective"] = false;
                 EXPECT_EQ(overlapped.exchange().effective(), expected);
                 for (int step = 0; step < 7; ++step) {
                   const bool without = step % 3 == 2 && rank == (step / 3 + 1) % size;
                   const at::Tensor gradient = compress::drawn_for(layout, rank, step);
                   for (Rank* one : {&plain, &overlapped}) {
                     one->begin(step);
                     without ? one->without_samples() : one->backward(gradient, last_first(layout));
                     const auto bytes = static_cast<uint64_t>(layout.parameter_count()) * sizeof(float);
                     EXPECT_EQ(one->exchange().finish(), size == 1 ? 0 : bytes);
                   }
                   EXPECT_TRUE(same_gradient(layout, overlapped.gradients(), plain.gradients()))
                       << "rank " << rank << ", step " << step;
                 }
               });
    }
  }
}

// The bytes of the operations in the order in which they began.
class Log final : public comm::OperationObserver {
 public:
  void begin(const comm::Operation& operation) noexcept override {
    const std::lock_guard lock(mutex_);
    lines_.push_back(fmt::format("{} {}", operation.name, operation.bytes));
  }
  void end(const comm::Operation&) noexcept override { ++ended_; }
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(lines_, {});
  }
  int ended() const { return ended_; }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::atomic<int> ended_ = 0;
};

// Rank r makes its gradients final in an order of its own, another one in each step.
TEST_P(Overlap, AllRanksFollowTheOrderThatRankZeroFoundInItsFirstStep) {
  const FlatLayout layout = layout_of({1, 2, 3, 4});
  on_ranks(3, GetParam().make(3), [&](int rank, comm::Communicator& comm) {
    Log log;
    comm.board().attach(log);
    {
      Rank one(comm, layout, options_of(0, true, true));
      std::vector<size_t> order = {2, 0, 3, 1};
      for (int step = 0; step < 4; ++step) {
        std::vector<size_t> own = order;
        std::rotate(own.begin(), own.begin() + (rank + step) % 4, own.end());
        one.begin(step);
        one.backward(compress::drawn_for(layout, rank, step), own);
        one.exchange().finish();
        if (step == 0) {
          EXPECT_THAT(log.take(),
                      ElementsAre("all_reduce 16", "all_reduce 12", "all_reduce 8", "all_reduce 4", "broadcast 32"))
              << "in the order of the layout, and then the order";
        } else {
          EXPECT_THAT(log.take(), ElementsAre("all_reduce 12", "all_reduce 4", "all_reduce 16", "all_reduce 8"))
              << "rank " << rank << ", step " << step;
        }
      }
    }
    comm.board().detach(log);
  });
}

// With buckets of one tensor each, all except the last are summed while the owner is still busy.
TEST_P(Overlap, BucketsGoWhileTheGradientIsComputed) {
  const FlatLayout layout = layout_of({100, 200, 300});
  on_ranks(2, GetParam().make(2), [&](int rank, comm::Communicator& comm) {
    Log log;
    comm.board().attach(log);
    {
      Rank one(comm, layout, options_of(0, true, true));
      one.begin(0);
      const at::Tensor gradient = compress::drawn_for(layout, rank, 0);
      one.backward(gradient, {2, 1});
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (log.ended() < 2 && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(milliseconds(1));
      }
      EXPECT_EQ(log.ended(), 2) << "nobody has called finish yet";
      const FlatRange& last = layout.ranges[0];
      one.gradients().narrow(0, last.offset, last.count).copy_(gradient.narrow(0, last.offset, last.count));
      one.exchange().ready(last.offset, last.count);
      one.exchange().finish();
      const at::Tensor sum = compress::drawn_for(layout, 0, 0) + compress::drawn_for(layout, 1, 0);
      EXPECT_TRUE(same_gradient(layout, one.gradients(), sum));
    }
    comm.board().detach(log);
  });
}

TEST_P(Overlap, ALostPeerIsThrownByFinishAndNobodyHangs) {
  const FlatLayout layout = layout_of({100, 200});
  on_ranks(2, GetParam().make(2), [&](int rank, comm::Communicator& comm) {
    Rank one(comm, layout, options_of(0, true, true));
    one.begin(0);
    one.backward(compress::drawn_for(layout, rank, 0), last_first(layout));
    one.exchange().finish();
    if (rank == 1) return;  // lets go of its communicator
    one.begin(1);
    one.backward(compress::drawn_for(layout, rank, 1), last_first(layout));
    EXPECT_THAT([&] { one.exchange().finish(); }, ThrowsMessage<CommError>(HasSubstr("all_reduce: rank 0 of 2")));
    EXPECT_THROW(comm.barrier(), CommError) << "the communicator is unusable, as after any failure";
  });
}

// The loop throws in the middle of a step: one bucket is under way, and the other one is never sent.
TEST_P(Overlap, AStepThatIsAbandonedEndsWithTheBucketUnderWay) {
  const FlatLayout layout = layout_of({100, 200});
  on_ranks(2, GetParam().make(2), [&](int rank, comm::Communicator& comm) {
    Log log;
    comm.board().attach(log);
    {
      Rank one(comm, layout, options_of(0, true, true));
      one.begin(0);
      one.backward(compress::drawn_for(layout, rank, 0), {1});
      if (rank == 0) one.exchange().abandon();
      // Rank 1: destroyed in the middle of a step.
    }
    EXPECT_EQ(static_cast<int>(log.take().size()), log.ended()) << "nothing is under way any more";
    comm.board().detach(log);
  });
}

TEST(OverlapOff, WhereTheThreadWouldBeInTheWayAndSaysWhy) {
  const FlatLayout layout = layout_of({100, 200});
  on_ranks(2, in_process(2), [&](int rank, comm::Communicator& comm) {
    compress::IdentityCoder coder(layout);
    ExchangeContext context{comm, coder, layout};
    context.place.crowded = "mpi spins";
    CentralizedExchange crowded(context, options_of(0, true, true));
    EXPECT_EQ(crowded.effective(), (Json{{"overlap", false},
                                         {"buckets", 2},
                                         {"by_layer", true},
                                         {"one_collective", false},
                                         {"overlap_off", "mpi spins"}}));
    EXPECT_FALSE(crowded.listens());
    FlatTensors tensors{at::ones({layout.parameter_elements}), compress::drawn_for(layout, rank, 0)};
    crowded.begin({0}, tensors);
    crowded.finish();
    const at::Tensor sum = compress::drawn_for(layout, 0, 0) + compress::drawn_for(layout, 1, 0);
    EXPECT_TRUE(same_gradient(layout, tensors.gradients, sum));
    EXPECT_EQ(CentralizedExchange(context, options_of(0, true, false)).effective(),
              (Json{{"overlap", false}, {"buckets", 2}, {"by_layer", true}, {"one_collective", false}}))
        << "nobody asked for it";
  });
}

}  // namespace
}  // namespace mlbench::optim
