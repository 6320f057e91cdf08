#include "mlbench/comm/contract_test.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

#include "mlbench/base/paths.h"
#include "mlbench/comm/in_process.h"

namespace mlbench::comm {

BackEnd wrapped_in_process(const std::string& name, const WrapTransport& wrap) {
  return {name, [wrap](int size, std::chrono::milliseconds timeout) -> MakeRank {
            auto ranks = std::make_shared<std::vector<std::unique_ptr<Transport>>>();
            for (auto& rank : make_in_process_transports(size, timeout)) ranks->push_back(wrap(std::move(rank)));
            return [ranks](int rank) {
              return std::make_unique<Communicator>(std::move((*ranks)[static_cast<size_t>(rank)]));
            };
          }};
}

std::vector<ContractCase> contract_cases(const BackEnd& back_end) {
  std::vector<ContractCase> cases;
  for (int size = 1; size <= 5; ++size) cases.push_back({back_end, size});
  return cases;
}

std::string contract_case_name(const testing::TestParamInfo<ContractCase>& info) {
  return fmt::format("{}Rank{}", info.param.size, info.param.size == 1 ? "" : "s");
}

std::string repeat_command() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  return fmt::format("repeat with --gtest_filter={}.{}", test->test_suite_name(), test->name());
}

std::vector<std::exception_ptr> run_ranks(const MakeRank& make_rank, int size,
                                          const std::function<void(Communicator&)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto communicator = make_rank(rank);
        body(*communicator);
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

void run_case(const ContractCase& row, const std::function<void(Communicator&)>& body,
              std::chrono::milliseconds timeout) {
  const MakeRank make_rank = row.back_end.make_group(row.size, timeout);
  const auto rank_body = [&](Communicator& comm) {
    body(comm);
    comm.barrier();  // nobody leaves while another may still need it
  };
  if (row.back_end.own_rank) {
    rank_body(*make_rank(*row.back_end.own_rank));
    return;
  }
  const auto errors = run_ranks(make_rank, row.size, rank_body);
  for (size_t rank = 0; rank < errors.size(); ++rank) {
    if (errors[rank] != nullptr)
      ADD_FAILURE() << row.back_end.name << ", rank " << rank << ": " << text_of(errors[rank]) << "; "
                    << repeat_command();
  }
}

void expect_values(Communicator& comm, const Values& actual, const Values& expected, const std::string& what) {
  const std::string difference = actual.difference(expected);
  EXPECT_EQ(difference, "") << comm.description() << ", rank " << comm.rank() << " of " << comm.size() << ", " << what
                            << "; " << repeat_command();
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  }
}

bool every_combination() { return environment_variable("MLBENCH_CONTRACT") == "all"; }

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Empty, fewer than ranks, odd, and beyond one and several chunks of a large message.
constexpr int64_t kLengths[] = {0, 1, 3, 17, 1000, 70001, 300007};
constexpr int64_t kFewLengths[] = {0, 1, 3, 1000, 70001};

TEST_P(ContractTest, RanksAndDescription) {
  const auto seen = GetParam().back_end.make_counter();  // one octal digit per rank
  int expected = 0;
  for (int rank = 0; rank < GetParam().size; ++rank) expected += 1 << (3 * rank);
  run_case(GetParam(), [&](Communicator& comm) {
    EXPECT_EQ(comm.size(), GetParam().size);
    EXPECT_EQ(comm.description(), GetParam().back_end.name);
    *seen += 1 << (3 * comm.rank());
  });
  EXPECT_EQ(*seen, expected);
}

// No rank leaves a barrier before the last one has come.
TEST_P(ContractTest, Barrier) {
  const auto arrivals = GetParam().back_end.make_counter();
  run_case(GetParam(), [&](Communicator& comm) {
    for (int round = 1; round <= 20; ++round) {
      if (comm.rank() == round % comm.size()) std::this_thread::sleep_for(std::chrono::microseconds(300));
      ++*arrivals;
      comm.barrier();
      EXPECT_GE(*arrivals, round * comm.size()) << repeat_command();
      comm.barrier();
    }
  });
}

TEST_P(ContractTest, Broadcast) {
  run_case(GetParam(), [&](Communicator& comm) {
    for (const DType dtype : kAllTypes) {
      for (const int64_t count : kLengths) {
        for (int root = 0; root < comm.size(); ++root) {
          Values buffer(dtype, count, [&](int64_t i) { return datum(comm.rank(), i); });
          comm.broadcast(buffer.view(), root);
          const Values expected(dtype, count, [&](int64_t i) { return datum(root, i); });
          expect_values(comm, buffer, expected, fmt::format("broadcast from {}", root));
          if (count > 1000) break;
        }
      }
    }
  });
}

TEST_P(ContractTest, AllReduce) {
  run_case(GetParam(), [&](Communicator& comm) {
    for (const DType dtype : kAllTypes) {
      for (const ReduceOp op : kAllOps) {
        for (const int64_t count : kLengths) {
          Values buffer(dtype, count, [&](int64_t i) { return operand(op, comm.rank(), i); });
          comm.all_reduce(buffer.view(), op);
          const Values expected(dtype, count, [&](int64_t i) { return reduced(op, comm.size(), i); });
          expect_values(comm, buffer, expected, "all_reduce " + op_name(op));
        }
      }
    }
  });
}

// The buffer is as large as the gradients of a real model.
TEST_P(ContractTest, LargeAllReduce) {
  run_case(GetParam(), [&](Communicator& comm) {
    const int64_t count = 3'274'634;
    const Values expected(DType::kFloat32, count, [&](int64_t i) { return reduced(ReduceOp::kSum, comm.size(), i); });
    for (int round = 0; round < 2; ++round) {
      Values buffer(DType::kFloat32, count, [&](int64_t i) { return datum(comm.rank(), i); });
      comm.all_reduce(buffer.view(), ReduceOp::kSum);
      expect_values(comm, buffer, expected, "all_reduce sum");
    }
  });
}

TEST_P(ContractTest, AllGather) {
  run_case(GetParam(), [&](Communicator& comm) {
    for (const DType dtype : kAllTypes) {
      for (const int64_t count : kFewLengths) {
        Values input(dtype, count, [&](int64_t i) { return datum(comm.rank(), i); });
        Values output(dtype, count * comm.size());
        comm.all_gather(input.view(), output.view());
        Values expected(dtype, count * comm.size());
        for (int rank = 0; rank < comm.size(); ++rank) {
          expected.fill(rank * count, count, [&](int64_t i) { return datum(rank, i); });
        }
        expect_values(comm, output, expected, "all_gather");
      }
    }
  });
}

TEST_P(ContractTest, AllGatherV) {
  run_case(GetParam(), [&](Communicator& comm) {
    for (const DType dtype : kAllTypes) {
      for (const int64_t scale : {0, 1, 3, 40001}) {
        for (int empty = -1; empty < comm.size(); ++empty) {  // one rank without elements, or none
          std::vector<int64_t> counts;
          for (int rank = 0; rank < comm.size(); ++rank) counts.push_back(rank == empty ? 0 : scale * (rank + 1));
          const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
          Values input(dtype, counts[static_cast<size_t>(comm.rank())],
                       [&](int64_t i) { return datum(comm.rank(), i); });
          Values output(dtype, total), expected(dtype, total);
          comm.all_gather_v(input.view(), output.view(), counts);
          int64_t first = 0;
          for (int rank = 0; rank < comm.size(); ++rank) {
            const int64_t count = counts[static_cast<size_t>(rank)];
            expected.fill(first, count, [&](int64_t i) { return datum(rank, i); });
            first += count;
          }
          expect_values(comm, output, expected,
                        fmt::format("all_gather_v, {} x (rank + 1), none from {}", scale, empty));
          if (scale > 1000) break;
        }
      }
    }
  });
}

TEST_P(ContractTest, ReduceScatter) {
  run_case(GetParam(), [&](Communicator& comm) {
    for (const DType dtype : kAllTypes) {
      for (const ReduceOp op : kAllOps) {
        for (const int64_t count : kFewLengths) {
          Values input(dtype, count * comm.size(), [&](int64_t i) { return operand(op, comm.rank(), i); });
          const Values before = input;
          Values output(dtype, count);
          comm.reduce_scatter(input.view(), output.view(), op);
          const Values expected(dtype, count,
                                [&](int64_t i) { return reduced(op, comm.size(), comm.rank() * count + i); });
          expect_values(comm, output, expected, "reduce_scatter " + op_name(op));
          expect_values(comm, input, before, "reduce_scatter's input");
        }
      }
    }
  });
}

TEST_P(ContractTest, Reduce) {
  run_case(GetParam(), [&](Communicator& comm) {
    for (const DType dtype : kAllTypes) {
      for (const ReduceOp op : kAllOps) {
        for (const int64_t count : kFewLengths) {
          const int root = static_cast<int>((count + static_cast<int64_t>(op)) % comm.size());
          Values buffer(dtype, count, [&](int64_t i) { return operand(op, comm.rank(), i); });
          comm.reduce(buffer.view(), op, root);
          if (comm.rank() != root) continue;
          const Values expected(dtype, count, [&](int64_t i) { return reduced(op, comm.size(), i); });
          expect_values(comm, buffer, expected, "reduce " + op_name(op));
        }
      }
    }
  });
}

// Every rank sends to every other; receivers take the tags in the opposite order.
TEST_P(ContractTest, TaggedMessages) {
  run_case(GetParam(), [&](Communicator& comm) {
    for (const int64_t count : {0, 1, 1000, 300007}) {
      const int tags[] = {65535, 0, 7};
      std::vector<Values> kept;
      kept.reserve(64);
      std::vector<std::unique_ptr<Work>> sends;
      for (int peer = 0; peer < comm.size(); ++peer) {
        if (peer == comm.rank()) continue;
        for (const int tag : tags) {
          kept.emplace_back(DType::kInt32, count, [&](int64_t i) { return datum(comm.rank() + tag, i); });
          sends.push_back(comm.send_async(kept.back().view(), peer, tag));
        }
      }
      for (int peer = comm.size() - 1; peer >= 0; --peer) {
        if (peer == comm.rank()) continue;
        for (int which = 2; which >= 0; --which) {
          Values buffer(DType::kInt32, count);
          comm.recv(buffer.view(), peer, tags[which]);
          const Values expected(DType::kInt32, count, [&](int64_t i) { return datum(peer + tags[which], i); });
          expect_values(comm, buffer, expected, fmt::format("recv of tag {} from {}", tags[which], peer));
        }
      }
      for (const auto& send : sends) send->synchronize();
      for (const auto& send : sends) EXPECT_TRUE(send->done());
    }
  });
}

// Messages of one tag arrive in order, whatever the order in which their receives are waited for.
TEST_P(ContractTest, MessagesOfOneTagKeepTheirOrder) {
  run_case(GetParam(), [&](Communicator& comm) {
    constexpr int kMessages = 10;
    if (comm.size() == 1) return;
    const int next = (comm.rank() + 1) % comm.size();
    const int previous = (comm.rank() + comm.size() - 1) % comm.size();
    std::vector<int64_t> sent(kMessages), received(kMessages, -1), expected(kMessages);
    std::vector<std::unique_ptr<Work>> works;
    for (size_t i = 0; i < kMessages; ++i) {
      sent[i] = comm.rank() * 100 + static_cast<int64_t>(i);
      expected[i] = previous * 100 + static_cast<int64_t>(i);
      works.push_back(comm.recv_async(view_of(std::span(received)).slice(static_cast<int64_t>(i), 1), previous, 3));
    }
    for (size_t i = 0; i < kMessages; ++i)
      comm.send(view_of(std::span(sent)).slice(static_cast<int64_t>(i), 1), next, 3);
    for (auto work = works.rbegin(); work != works.rend(); ++work) (*work)->wait();
    EXPECT_EQ(received, expected) << repeat_command();
  });
}

// A receive that is not waited for is done one day; done() neither waits nor consumes.
TEST_P(ContractTest, DoneWithoutWaiting) {
  run_case(GetParam(), [&](Communicator& comm) {
    int32_t value = comm.rank();
    if (comm.size() > 1 && comm.rank() == 0) {
      int32_t received = -1;
      const auto work = comm.recv_async(view_of(std::span(&received, 1)), 1, 5);
      EXPECT_FALSE(work->done());
      comm.barrier();
      const auto limit = steady_clock::now() + kPatience;
      while (!work->done() && steady_clock::now() < limit) std::this_thread::yield();
      EXPECT_TRUE(work->done());
      work->wait();
      EXPECT_EQ(received, 1);
    } else {
      comm.barrier();
      if (comm.rank() == 1) comm.send(view_of(std::span(&value, 1)), 0, 5);
    }
    const auto all = comm.all_reduce_async(view_of(std::span(&value, 1)), ReduceOp::kSum);
    const auto limit = steady_clock::now() + kPatience;
    while (!all->done() && steady_clock::now() < limit) std::this_thread::yield();
    EXPECT_TRUE(all->done());
    all->synchronize();
    EXPECT_EQ(value, comm.size() * (comm.size() - 1) / 2);
  });
}

// Asynchronous operations of several sizes, a blocking one and messages between them, waited for in any order.
TEST_P(ContractTest, AsynchronousAllReduce) {
  run_case(GetParam(), [&](Communicator& comm) {
    std::vector<Values> buffers;
    std::vector<std::unique_ptr<Work>> works;
    const std::vector<int64_t> counts = {1, 300007, 0, 17, 70001, 3, 1000};
    buffers.reserve(counts.size());
    for (const int64_t count : counts) {
      buffers.emplace_back(DType::kFloat32, count, [&](int64_t i) { return datum(comm.rank(), i); });
      works.push_back(comm.all_reduce_async(buffers.back().view(), ReduceOp::kSum));
    }
    Values blocking(DType::kInt64, 9, [&](int64_t i) { return datum(comm.rank(), i); });
    comm.all_reduce(blocking.view(), ReduceOp::kMax);
    expect_values(comm, blocking,
                  Values(DType::kInt64, 9, [&](int64_t i) { return reduced(ReduceOp::kMax, comm.size(), i); }),
                  "all_reduce max");
    Values late(DType::kFloat32, 5, [&](int64_t i) { return datum(comm.rank(), i); });
    works.push_back(comm.all_reduce_async(late.view(), ReduceOp::kSum));
    for (auto work = works.rbegin(); work != works.rend(); ++work) (*work)->synchronize();
    for (size_t b = 0; b < buffers.size(); ++b) {
      const Values expected(DType::kFloat32, counts[b],
                            [&](int64_t i) { return reduced(ReduceOp::kSum, comm.size(), i); });
      expect_values(comm, buffers[b], expected, "all_reduce_async");
      EXPECT_TRUE(works[b]->done());
    }
    expect_values(comm, late,
                  Values(DType::kFloat32, 5, [&](int64_t i) { return reduced(ReduceOp::kSum, comm.size(), i); }),
                  "all_reduce_async");
  });
}

// A Work that nobody waits for is finished when it is gone.
TEST_P(ContractTest, DestroyedWorkIsFinished) {
  run_case(GetParam(), [&](Communicator& comm) {
    Values buffer(DType::kFloat32, 300007, [&](int64_t i) { return datum(comm.rank(), i); });
    comm.all_reduce_async(buffer.view(), ReduceOp::kSum).reset();
    const Values expected(DType::kFloat32, 300007, [&](int64_t i) { return reduced(ReduceOp::kSum, comm.size(), i); });
    expect_values(comm, buffer, expected, "all_reduce_async");
  });
}

// A reduction gives the same bits on every rank and again, on numbers whose sums round; close to the sum in float64.
TEST_P(ContractTest, ReductionsAreDeterministic) {
  const int size = GetParam().size;
  const Float32Precision& float32 = GetParam().back_end.float32;
  for (const int64_t count : {5, 999, 300007}) {
    std::vector<std::vector<float>> inputs(static_cast<size_t>(size));
    std::vector<double> exact(static_cast<size_t>(count));
    std::vector<double> magnitude(exact.size());
    for (size_t rank = 0; rank < inputs.size(); ++rank) {
      std::mt19937 random(static_cast<unsigned>(rank) + 1);
      std::normal_distribution<float> normal;
      for (size_t i = 0; i < exact.size(); ++i) {
        const int exponent = static_cast<int>(i) % float32.exponents - float32.exponents / 2;
        inputs[rank].push_back(std::ldexp(normal(random), exponent));
        exact[i] += inputs[rank].back();
        magnitude[i] += std::abs(inputs[rank].back());
      }
    }
    std::vector<std::vector<float>> first(inputs.size()), second(inputs.size());
    for (auto* results : {&first, &second}) {
      run_case(GetParam(), [&](Communicator& comm) {
        auto& result = (*results)[static_cast<size_t>(comm.rank())];
        result = inputs[static_cast<size_t>(comm.rank())];
        comm.all_reduce(view_of(std::span(result)), ReduceOp::kSum);
        std::vector<float> all(result.size() * inputs.size());
        comm.all_gather(view_of(std::span(result)), view_of(std::span(all)));
        for (size_t rank = 0; rank < inputs.size(); ++rank) {
          EXPECT_EQ(std::memcmp(&all[rank * result.size()], result.data(), result.size() * sizeof(float)), 0)
              << count << " elements, ranks " << comm.rank() << " and " << rank << "; " << repeat_command();
        }
      });
    }
    for (size_t rank = 0; rank < first.size(); ++rank) {  // where ranks are processes, the others' stay empty
      EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(first[rank])), std::as_bytes(std::span(second[rank]))))
          << count << " elements, again at rank " << rank << "; " << repeat_command();
    }
    const auto& sum = first[static_cast<size_t>(GetParam().back_end.own_rank.value_or(0))];
    for (size_t i = 0; i < exact.size(); ++i) {
      ASSERT_NEAR(sum[i], exact[i], (size - 1) * (float32.rounding * magnitude[i] + float32.smallest))
          << "element " << i << "; " << repeat_command();
    }
  }
}

// An average is the sum divided: towards zero in integers, rounded in floats.
TEST_P(ContractTest, AveragesRoundAsDivisionDoes) {
  run_case(GetParam(), [&](Communicator& comm) {
    const int size = comm.size();
    std::vector<int32_t> whole = {comm.rank(), -comm.rank()};
    comm.all_reduce(view_of(std::span(whole)), ReduceOp::kAvg);
    const int sum = size * (size - 1) / 2;
    EXPECT_THAT(whole, testing::ElementsAre(sum / size, -(sum / size))) << repeat_command();
    std::vector<float> real = {1.0F, comm.rank() == 0 ? 1.0F : 0.0F};
    comm.all_reduce(view_of(std::span(real)), ReduceOp::kAvg);
    EXPECT_THAT(real, testing::ElementsAre(1.0F, 1.0F / static_cast<float>(size))) << repeat_command();
  });
}

// Operands that compare equal but differ in bits.
TEST_P(ContractTest, SignsOfZeroAgree) {
  run_case(GetParam(), [&](Communicator& comm) {
    for (const ReduceOp op : kAllOps) {
      std::vector<float> values(40);
      for (size_t i = 0; i < values.size(); ++i) values[i] = ((i >> comm.rank()) & 1) != 0 ? -0.0F : 0.0F;
      comm.all_reduce(view_of(std::span(values)), op);
      std::vector<float> all(values.size() * static_cast<size_t>(comm.size()));
      comm.all_gather(view_of(std::span(values)), view_of(std::span(all)));
      for (size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(std::signbit(all[i]), std::signbit(values[i % values.size()]))
            << op_name(op) << ", element " << i << "; " << repeat_command();
      }
    }
  });
}

TEST_P(ContractTest, Split) {
  run_case(GetParam(), [&](Communicator& comm) {
    // Odd and even ranks, in reverse order.
    const auto group = comm.split(comm.rank() % 2, -comm.rank());
    std::vector<int> members;
    for (int rank = comm.size() - 1; rank >= 0; --rank) {
      if (rank % 2 == comm.rank() % 2) members.push_back(rank);
    }
    const auto check = [&](Communicator& part) {
      ASSERT_EQ(part.size(), static_cast<int>(members.size()));
      ASSERT_EQ(members[static_cast<size_t>(part.rank())], comm.rank());
      std::vector<int32_t> ranks(members.size());
      int32_t own = comm.rank();
      part.all_gather(view_of(std::span(&own, 1)), view_of(std::span(ranks)));
      EXPECT_THAT(ranks, testing::ElementsAreArray(members)) << repeat_command();
      int32_t sum = comm.rank();
      part.all_reduce(view_of(std::span(&sum, 1)), ReduceOp::kSum);
      EXPECT_EQ(sum, std::accumulate(members.begin(), members.end(), 0)) << repeat_command();
      EXPECT_EQ(part.description(), comm.description());
    };
    check(*group);
    // The whole one still works, and a second split with the same colours is another group; equal keys: by rank.
    const auto again = comm.split(comm.rank() % 2, 0);
    std::reverse(members.begin(), members.end());
    check(*again);
    EXPECT_EQ(&again->board(), &comm.board());
    // Split once more: everybody alone.
    const auto alone = again->split(again->rank(), 0);
    EXPECT_EQ(alone->size(), 1);
    EXPECT_EQ(alone->rank(), 0);
    int32_t one = 1;
    comm.all_reduce(view_of(std::span(&one, 1)), ReduceOp::kSum);
    EXPECT_EQ(one, comm.size());
    again->barrier();  // nobody leaves while another may still need it
    group->barrier();
  });
}

TEST_P(ContractTest, BoardShowsOperations) {
  run_case(GetParam(), [&](Communicator& comm) {
    EXPECT_EQ(comm.board().read().operation, "");
    EXPECT_EQ(comm.board().read().sequence, 0);
    int32_t value = 1;
    comm.all_reduce(view_of(std::span(&value, 1)), ReduceOp::kSum);
    comm.broadcast(view_of(std::span(&value, 1)), 0);
    const auto entry = comm.board().read();
    EXPECT_EQ(entry.operation, "broadcast");
    EXPECT_EQ(entry.sequence, 2);
    EXPECT_FALSE(entry.in_progress);
  });
}

// Each operation's begin and end, with its bytes and its root or peer, of the communicator and of its splits,
// asynchronous or not.
TEST_P(ContractTest, ObserversHearOfEveryOperation) {
  struct Log final : OperationObserver {
    void begin(const Operation& one) noexcept override { open.emplace_back(one.name, one.bytes); }
    void end(const Operation& one) noexcept override {
      ended.emplace_back(one.name, one.bytes);
      std::erase(open, ended.back());
      roots.push_back(one.root_peer);
    }
    std::vector<std::pair<std::string, uint64_t>> open, ended;
    std::vector<int> roots;
  };
  run_case(GetParam(), [&](Communicator& comm) {
    Log log;
    comm.board().attach(log);
    std::vector<float> values(static_cast<size_t>(3 * comm.size()), 1.0F), others(values), part(3);
    const auto all = view_of(std::span(values));
    const auto own = view_of(std::span(part));
    comm.all_reduce(all, ReduceOp::kSum);
    const auto work = comm.all_reduce_async(all, ReduceOp::kSum);
    work->wait();
    comm.all_gather(own, all);
    comm.reduce_scatter(all, own, ReduceOp::kSum);
    comm.gather(own, all, 0);
    comm.scatter(all, own, 0);
    comm.all_to_all(all, view_of(std::span(others)));
    comm.allocate(100);
    const auto group = comm.split(0, comm.rank());
    group->broadcast(own, 0);
    group->barrier();
    const uint64_t whole = 12 * static_cast<uint64_t>(comm.size());
    using testing::Pair;
    EXPECT_THAT(log.ended,
                testing::ElementsAre(Pair("all_reduce", whole), Pair("all_reduce", whole), Pair("all_gather", 12),
                                     Pair("reduce_scatter", whole), Pair("gather", 12),
                                     Pair("scatter", comm.rank() == 0 ? whole : 12), Pair("all_to_all", whole),
                                     Pair("allocate", 0), Pair("split", 0), Pair("broadcast", 12), Pair("barrier", 0)))
        << repeat_command();
    EXPECT_TRUE(log.open.empty()) << repeat_command();
    EXPECT_THAT(log.roots, testing::ElementsAre(-1, -1, -1, -1, 0, 0, -1, -1, -1, 0, -1)) << repeat_command();
    log.roots.clear();
    const int peer = (comm.rank() + 1) % comm.size();
    if (comm.size() == 2) {
      const auto sent = comm.send_async(own, peer, 0);
      comm.recv(all.slice(0, 3), peer, 0);
      sent->wait();
      EXPECT_THAT(log.roots, testing::ElementsAre(peer, peer)) << repeat_command();
    }
    comm.board().detach(log);
  });
}

// What a rank waits for is on the board meanwhile: rank 0 lets the others wait until each has seen itself waiting.
TEST_P(ContractTest, BoardShowsWaiting) {
  const int waiting = GetParam().size - 1;
  const auto seen = GetParam().back_end.make_counter();
  run_case(GetParam(), [&](Communicator& comm) {
    const auto begin = steady_clock::now();
    const auto give_up = begin + std::chrono::seconds(20);
    std::thread watcher([&] {
      if (comm.rank() == 0) return;
      while (steady_clock::now() < give_up) {
        const auto entry = comm.board().read();
        if (entry.in_progress && entry.operation == "barrier" && entry.sequence == 1 && entry.since >= begin) {
          ++*seen;
          return;
        }
        std::this_thread::sleep_for(milliseconds(1));
      }
    });
    while (comm.rank() == 0 && *seen < waiting && steady_clock::now() < give_up) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    comm.barrier();
    watcher.join();
    EXPECT_FALSE(comm.board().read().in_progress);
  });
  EXPECT_EQ(*seen, waiting) << repeat_command();
}

// --- Failures ---

// What the ranks wait in when a peer is lost or does not come.
struct Wait {
  const char* name;
  const char* operation;
  std::function<void(Communicator&, int absent)> call;
};

const std::vector<Wait>& waits() {
  static const std::vector<Wait> all = {
      {"barrier", "barrier", [](Communicator& comm, int) { comm.barrier(); }},
      {"broadcast", "broadcast",
       [](Communicator& comm, int absent) {
         std::vector<float> own(8);
         comm.broadcast(view_of(std::span(own)), absent);
       }},
      {"scatter", "scatter",
       [](Communicator& comm, int absent) {
         std::vector<float> own(8);
         comm.scatter({}, view_of(std::span(own)), absent);
       }},
      {"all_to_all", "all_to_all",
       [](Communicator& comm, int) {
         std::vector<float> own(static_cast<size_t>(8 * comm.size())), others(own);
         comm.all_to_all(view_of(std::span(own)), view_of(std::span(others)));
       }},
      {"all_reduce", "all_reduce",
       [](Communicator& comm, int) {
         std::vector<float> own(100000);
         comm.all_reduce(view_of(std::span(own)), ReduceOp::kSum);
       }},
      {"all_reduce_async", "all_reduce",
       [](Communicator& comm, int) {
         std::vector<float> own(100000);
         comm.all_reduce_async(view_of(std::span(own)), ReduceOp::kSum)->wait();
       }},
      {"recv", "recv",
       [](Communicator& comm, int absent) {
         std::vector<float> own(8);
         comm.recv(view_of(std::span(own)), absent, 1);
       }},
      {"recv_async", "recv",
       [](Communicator& comm, int absent) {
         std::vector<float> own(8);
         comm.recv_async(view_of(std::span(own)), absent, 1)->wait();
       }},
      {"split", "split", [](Communicator& comm, int) { comm.split(0, 0); }},
  };
  return all;
}

void expect_unusable(Communicator& comm) {
  float value = 0;
  const BufferView buffer = view_of(std::span(&value, 1));
  EXPECT_THAT(comm_error_of([&] { comm.barrier(); }), testing::HasSubstr("failed before"));
  EXPECT_THAT(comm_error_of([&] { comm.all_reduce(buffer, ReduceOp::kSum); }), testing::HasSubstr("failed before"));
  EXPECT_THAT(comm_error_of([&] { comm.all_reduce_async(buffer, ReduceOp::kSum); }),
              testing::HasSubstr("failed before"));
  EXPECT_THAT(comm_error_of([&] { comm.send(buffer, comm.rank() == 0 ? 1 : 0, 0); }),
              testing::HasSubstr("failed before"));
  EXPECT_THAT(comm_error_of([&] { comm.split(0, 0); }), testing::HasSubstr("failed before"));
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LostPeerContractTest);

// The last rank leaves; the others, waiting for it, throw long before the timeout.
TEST_P(LostPeerContractTest, LostPeer) {
  const int size = GetParam().size;
  if (size == 1) return;  // one rank has no peers
  for (const Wait& wait : waits()) {
    const auto begin = steady_clock::now();
    const auto errors = run_ranks(GetParam().back_end.make_group(size, kPatience), size, [&](Communicator& comm) {
      comm.barrier();
      if (comm.rank() == size - 1) return;
      const std::string error = comm_error_of([&] { wait.call(comm, size - 1); });
      EXPECT_THAT(error, testing::StartsWith(fmt::format("{}: rank {} of {}: ", wait.operation, comm.rank(), size)))
          << repeat_command();
      EXPECT_THAT(error, testing::ContainsRegex("rank [0-9]+ has left|lost rank [0-9]+")) << repeat_command();
      if (size == 2) {
        EXPECT_THAT(error, testing::ContainsRegex("rank 1 has left|lost rank 1")) << repeat_command();
      }
      expect_unusable(comm);
      EXPECT_FALSE(comm.board().read().in_progress);
    });
    EXPECT_LT(steady_clock::now() - begin, kPatience / 2) << wait.name << "; " << repeat_command();
    for (const auto& error : errors) EXPECT_EQ(error, nullptr) << text_of(error);
  }
}

// The last rank does not come; the others throw at the timeout.
TEST_P(LostPeerContractTest, Timeout) {
  const int size = GetParam().size;
  if (size == 1) return;  // one rank has no peers
  constexpr milliseconds kTimeout{150};
  for (const Wait& wait : waits()) {
    std::atomic<int> finished{0};
    const auto errors = run_ranks(GetParam().back_end.make_group(size, kTimeout), size, [&](Communicator& comm) {
      if (comm.rank() == size - 1) {
        while (finished < size - 1) std::this_thread::sleep_for(milliseconds(1));
        return;
      }
      const auto begin = steady_clock::now();
      const std::string error = comm_error_of([&] { wait.call(comm, size - 1); });
      const auto waited = steady_clock::now() - begin;
      ++finished;
      EXPECT_THAT(error, testing::StartsWith(fmt::format("{}: rank {} of {}: ", wait.operation, comm.rank(), size)))
          << repeat_command();
      // With more ranks, some may see a rank that lets go first.
      EXPECT_THAT(error, testing::ContainsRegex("waited 150 ms for rank [0-9]|has left|lost rank [0-9]"))
          << repeat_command();
      if (size == 2) {
        EXPECT_THAT(error, testing::HasSubstr("waited 150 ms for rank 1")) << repeat_command();
      }
      if (size == 2) {
        EXPECT_GE(waited, kTimeout * 9 / 10) << repeat_command();
      }
      EXPECT_LT(waited, kPatience / 2) << repeat_command();
      expect_unusable(comm);
    });
    for (const auto& error : errors) EXPECT_EQ(error, nullptr) << text_of(error);
  }
}

// Our own mistakes are not taken for the network's.
TEST_P(ContractTest, WrongArgumentsAreBugs) {
  run_case(GetParam(), [&](Communicator& comm) {
    float values[4] = {};
    const BufferView buffer{values, 4, DType::kFloat32, {}};
    EXPECT_THROW(comm.broadcast(buffer, comm.size()), InternalError);
    EXPECT_THROW(comm.reduce(buffer, ReduceOp::kSum, -1), InternalError);
    EXPECT_THROW(comm.send(buffer, comm.rank(), 0), InternalError);
    EXPECT_THROW(comm.recv(buffer, comm.size(), 0), InternalError);
    EXPECT_THROW(comm.all_gather(buffer, buffer.slice(0, 3)), InternalError);
    EXPECT_THROW(comm.reduce_scatter(buffer, {values, 4, DType::kInt32, {}}, ReduceOp::kSum), InternalError);
    EXPECT_THROW(comm.all_reduce({nullptr, 4, DType::kFloat32, {}}, ReduceOp::kSum), InternalError);
    EXPECT_THROW(comm.all_reduce({values, -1, DType::kFloat32, {}}, ReduceOp::kSum), InternalError);
    EXPECT_THROW(comm.all_reduce_async(buffer, ReduceOp::kAvg), InternalError);
    const int64_t rest = comm.size() * 4 + 1;  // fits no number of ranks
    EXPECT_THROW(comm.gather(buffer, {values, rest, DType::kFloat32, {}}, comm.rank()), InternalError);
    EXPECT_THROW(comm.gather(buffer, {}, comm.size()), InternalError);
    EXPECT_THROW(comm.scatter({values, rest, DType::kFloat32}, buffer, comm.rank()), InternalError);
    EXPECT_THROW(comm.all_to_all(buffer, buffer.slice(0, 3)), InternalError);
    EXPECT_THROW(comm.all_to_all(buffer, {values, 4, DType::kInt32, {}}), InternalError);
    const std::vector<int64_t> ones(static_cast<size_t>(comm.size()), 1), negative(ones.size(), -1), few;
    const BufferView whole{values, comm.size(), DType::kFloat32, {}};
    EXPECT_THROW(comm.all_to_all_v(whole, whole, ones, few), InternalError);
    EXPECT_THROW(comm.all_to_all_v(whole, whole, ones, negative), InternalError);
    EXPECT_THROW(comm.all_to_all_v(whole, buffer.slice(0, 0), ones, ones), InternalError);
    // One tag further is the collectives' own.
    static_assert(Transport::kCollectiveTag == 65536);
    if (comm.size() > 1) {
      const int peer = (comm.rank() + 1) % comm.size();
      for (const int tag : {-1, Transport::kCollectiveTag}) {
        EXPECT_THROW(comm.send(buffer, peer, tag), InternalError);
        EXPECT_THROW(comm.recv(buffer, peer, tag), InternalError);
        EXPECT_THROW(comm.send_async(buffer, peer, tag), InternalError);
        EXPECT_THROW(comm.recv_async(buffer, peer, tag), InternalError);
      }
    }
    const Stream gpu{{Device::Kind::kCuda, 99}, nullptr};  // which no rank has
    EXPECT_THROW(comm.all_reduce({values, 4, DType::kFloat32, gpu}, ReduceOp::kSum), InternalError);
  });
}

}  // namespace
}  // namespace mlbench::comm
