// Every operation on combinations of what it can be given, and what operations have to do with each other.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <set>
#include <tuple>

#include "mlbench/comm/contract_test.h"

namespace mlbench::comm {
namespace {

constexpr std::array<int64_t, 7> kCounts = {0, 1, 2, 3, 17, 1023, 1'000'001};

struct Combination {
  DType dtype;
  int64_t count;
  ReduceOp op;
  int root;
  Start start;

  std::string text() const {
    return fmt::format("{} {}, {}, root {}, {}", count, name_of(dtype), op_name(op), root,
                       start == Start::kOdd ? "odd address" : "aligned");
  }
};

using Choice = std::array<size_t, 5>;  // of dtype, count, op, root, start

// The choices that are tried: those with a pair of values that is new. The order, and so the choices, are
// the same on all ranks.
std::vector<Choice> covering(std::vector<Choice> all) {
  std::shuffle(all.begin(), all.end(), std::mt19937(1));
  std::set<std::tuple<size_t, size_t, size_t, size_t>> seen;
  std::vector<Choice> chosen;
  for (const Choice& choice : all) {
    bool is_new = false;
    for (size_t a = 0; a < choice.size(); ++a) {
      for (size_t b = a + 1; b < choice.size(); ++b) is_new |= seen.insert({a, b, choice[a], choice[b]}).second;
    }
    if (is_new) chosen.push_back(choice);
  }
  return chosen;
}

// Pairs take only two dtypes with the largest count, which over one to five ranks are all of them.
std::vector<Combination> combinations(int size, size_t ops, int roots) {
  std::vector<Choice> all;
  for (size_t dtype = 0; dtype < std::size(kAllTypes); ++dtype) {
    for (size_t count = 0; count < kCounts.size(); ++count) {
      const bool large = count + 1 == kCounts.size();
      if (large && !every_combination() && dtype % 4 != static_cast<size_t>(size + 1) % 4) continue;
      for (size_t op = 0; op < ops; ++op) {
        for (size_t root = 0; root < static_cast<size_t>(roots); ++root) {
          for (size_t start = 0; start < 2; ++start) all.push_back({dtype, count, op, root, start});
        }
      }
    }
  }
  if (!every_combination()) all = covering(std::move(all));
  std::vector<Combination> result;
  for (const auto& [dtype, count, op, root, start] : all) {
    result.push_back({kAllTypes[dtype], kCounts[count], kAllOps[op], static_cast<int>(root),
                      start == 0 ? Start::kAligned : Start::kOdd});
  }
  return result;
}

enum class Has : uint8_t { kNothing, kOps, kRoots, kOpsAndRoots };

void try_combinations(const ContractCase& row, Has has, const std::function<void(Communicator&, Combination)>& body) {
  const size_t ops = has == Has::kOps || has == Has::kOpsAndRoots ? std::size(kAllOps) : 1;
  const int roots = has == Has::kRoots || has == Has::kOpsAndRoots ? row.size : 1;
  const std::vector<Combination> all = combinations(row.size, ops, roots);
  run_case(row, [&](Communicator& comm) {
    for (const Combination& one : all) body(comm, one);
  });
}

// Their pairs are what the default set relies on.
TEST(ContractCombinations, HoldEveryPair) {
  std::set<std::pair<DType, int64_t>> counts;
  for (int size = 1; size <= 5; ++size) {
    std::set<std::pair<DType, ReduceOp>> ops;
    std::set<std::pair<ReduceOp, int>> roots;
    std::set<std::pair<int, Start>> starts;
    for (const Combination& one : combinations(size, std::size(kAllOps), size)) {
      counts.emplace(one.dtype, one.count);
      ops.emplace(one.dtype, one.op);
      roots.emplace(one.op, one.root);
      starts.emplace(one.root, one.start);
    }
    EXPECT_EQ(ops.size(), std::size(kAllTypes) * std::size(kAllOps));
    EXPECT_EQ(roots.size(), std::size(kAllOps) * static_cast<size_t>(size));
    EXPECT_EQ(starts.size(), 2 * static_cast<size_t>(size));
  }
  EXPECT_EQ(counts.size(), std::size(kAllTypes) * kCounts.size());
}

TEST_P(ContractTest, BroadcastCombinations) {
  try_combinations(GetParam(), Has::kRoots, [](Communicator& comm, const Combination& one) {
    Values buffer(
        one.dtype, one.count, [&](int64_t i) { return datum(comm.rank(), i); }, one.start);
    comm.broadcast(buffer.view(), one.root);
    const Values expected(one.dtype, one.count, [&](int64_t i) { return datum(one.root, i); });
    expect_values(comm, buffer, expected, "broadcast of " + one.text());
  });
}

TEST_P(ContractTest, AllReduceCombinations) {
  try_combinations(GetParam(), Has::kOps, [](Communicator& comm, const Combination& one) {
    Values buffer(
        one.dtype, one.count, [&](int64_t i) { return operand(one.op, comm.rank(), i); }, one.start);
    comm.all_reduce(buffer.view(), one.op);
    const Values expected(one.dtype, one.count, [&](int64_t i) { return reduced(one.op, comm.size(), i); });
    expect_values(comm, buffer, expected, "all_reduce of " + one.text());
  });
}

TEST_P(ContractTest, ReduceCombinations) {
  try_combinations(GetParam(), Has::kOpsAndRoots, [](Communicator& comm, const Combination& one) {
    Values buffer(
        one.dtype, one.count, [&](int64_t i) { return operand(one.op, comm.rank(), i); }, one.start);
    comm.reduce(buffer.view(), one.op, one.root);
    if (comm.rank() != one.root) return;
    const Values expected(one.dtype, one.count, [&](int64_t i) { return reduced(one.op, comm.size(), i); });
    expect_values(comm, buffer, expected, "reduce of " + one.text());
  });
}

TEST_P(ContractTest, ReduceScatterCombinations) {
  try_combinations(GetParam(), Has::kOps, [](Communicator& comm, const Combination& one) {
    const auto value = [&](int64_t i) { return operand(one.op, comm.rank(), i); };
    Values input(one.dtype, one.count * comm.size(), value, one.start);
    const Values before = input;
    Values output(one.dtype, one.count, one.start);
    comm.reduce_scatter(input.view(), output.view(), one.op);
    const int64_t first = comm.rank() * one.count;
    const Values expected(one.dtype, one.count, [&](int64_t i) { return reduced(one.op, comm.size(), first + i); });
    expect_values(comm, output, expected, "reduce_scatter of " + one.text());
    expect_values(comm, input, before, "reduce_scatter's input of " + one.text());
  });
}

// What all ranks' data() come to, in rank order.
Values concatenated(const Combination& one, int ranks) {
  Values all(one.dtype, one.count * ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    all.fill(rank * one.count, one.count, [&](int64_t i) { return datum(rank, i); });
  }
  return all;
}

TEST_P(ContractTest, AllGatherCombinations) {
  try_combinations(GetParam(), Has::kNothing, [](Communicator& comm, const Combination& one) {
    Values input(
        one.dtype, one.count, [&](int64_t i) { return datum(comm.rank(), i); }, one.start);
    Values output(one.dtype, one.count * comm.size(), one.start);
    comm.all_gather(input.view(), output.view());
    expect_values(comm, output, concatenated(one, comm.size()), "all_gather of " + one.text());
  });
}

TEST_P(ContractTest, GatherCombinations) {
  try_combinations(GetParam(), Has::kRoots, [](Communicator& comm, const Combination& one) {
    Values input(
        one.dtype, one.count, [&](int64_t i) { return datum(comm.rank(), i); }, one.start);
    const Values before = input;
    if (comm.rank() == one.root) {
      Values output(one.dtype, one.count * comm.size(), one.start);
      comm.gather(input.view(), output.view(), one.root);
      expect_values(comm, output, concatenated(one, comm.size()), "gather of " + one.text());
    } else {
      comm.gather(input.view(), {}, one.root);
    }
    expect_values(comm, input, before, "gather's input of " + one.text());
  });
}

TEST_P(ContractTest, ScatterCombinations) {
  try_combinations(GetParam(), Has::kRoots, [](Communicator& comm, const Combination& one) {
    Values output(one.dtype, one.count, one.start);
    if (comm.rank() == one.root) {
      Values input(one.dtype, one.count * comm.size(), one.start);
      for (int rank = 0; rank < comm.size(); ++rank) {
        input.fill(rank * one.count, one.count, [&](int64_t i) { return datum(rank, i); });
      }
      const Values before = input;
      comm.scatter(input.view(), output.view(), one.root);
      expect_values(comm, input, before, "scatter's input of " + one.text());
    } else {
      comm.scatter({}, output.view(), one.root);
    }
    const Values expected(one.dtype, one.count, [&](int64_t i) { return datum(comm.rank(), i); });
    expect_values(comm, output, expected, "scatter of " + one.text());
  });
}

// Slice r of what rank `from` has for rank `to`: no two slices that meet in one buffer are equal.
int exchanged(int from, int to, int64_t i) { return datum(from * 5 + to, i); }

// Returns none, half of the elements, or all.
int64_t elements_between(int from, int to, int64_t count) {
  return count * ((from + to + (from < to ? 1 : 0)) % 3) / 2;
}

// What a rank sends to all, or what it gets from all, with its counts.
struct Slices {
  std::vector<int64_t> counts;
  Values values;
};

template <typename Count, typename Value>
Slices slices(int ranks, DType dtype, Start start, Count count, Value value) {
  std::vector<int64_t> counts;
  for (int rank = 0; rank < ranks; ++rank) counts.push_back(count(rank));
  Slices result{counts, Values(dtype, std::accumulate(counts.begin(), counts.end(), int64_t{0}), start)};
  int64_t first = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t own = counts[static_cast<size_t>(rank)];
    result.values.fill(first, own, [&](int64_t i) { return value(rank, i); });
    first += own;
  }
  return result;
}

TEST_P(ContractTest, AllToAllCombinations) {
  try_combinations(GetParam(), Has::kNothing, [](Communicator& comm, const Combination& one) {
    const int own = comm.rank();
    const auto count = [&](int) { return one.count; };
    Slices input =
        slices(comm.size(), one.dtype, one.start, count, [&](int rank, int64_t i) { return exchanged(own, rank, i); });
    const Values before = input.values;
    Values output(one.dtype, one.count * comm.size(), one.start);
    comm.all_to_all(input.values.view(), output.view());
    const Slices expected =
        slices(comm.size(), one.dtype, one.start, count, [&](int rank, int64_t i) { return exchanged(rank, own, i); });
    expect_values(comm, output, expected.values, "all_to_all of " + one.text());
    expect_values(comm, input.values, before, "all_to_all's input of " + one.text());
  });
}

TEST_P(ContractTest, AllToAllVCombinations) {
  try_combinations(GetParam(), Has::kNothing, [](Communicator& comm, const Combination& one) {
    const int own = comm.rank();
    Slices input = slices(
        comm.size(), one.dtype, one.start, [&](int rank) { return elements_between(own, rank, one.count); },
        [&](int rank, int64_t i) { return exchanged(own, rank, i); });
    const Slices expected = slices(
        comm.size(), one.dtype, one.start, [&](int rank) { return elements_between(rank, own, one.count); },
        [&](int rank, int64_t i) { return exchanged(rank, own, i); });
    const int64_t total = std::accumulate(expected.counts.begin(), expected.counts.end(), int64_t{0});
    const Values before = input.values;
    Values output(one.dtype, total, one.start);
    comm.all_to_all_v(input.values.view(), output.view(), input.counts, expected.counts);
    expect_values(comm, output, expected.values, "all_to_all_v of " + one.text());
    expect_values(comm, input.values, before, "all_to_all_v's input of " + one.text());
  });
}

// Around the ring, with rank `root` as the tag.
TEST_P(ContractTest, MessageCombinations) {
  try_combinations(GetParam(), Has::kRoots, [](Communicator& comm, const Combination& one) {
    if (comm.size() == 1) return;
    const int next = (comm.rank() + 1) % comm.size();
    const int previous = (comm.rank() + comm.size() - 1) % comm.size();
    Values input(
        one.dtype, one.count, [&](int64_t i) { return datum(comm.rank(), i); }, one.start);
    Values output(one.dtype, one.count, one.start);
    const auto receive = comm.recv_async(output.view(), previous, one.root);
    comm.send(input.view(), next, one.root);
    receive->wait();
    const Values expected(one.dtype, one.count, [&](int64_t i) { return datum(previous, i); });
    expect_values(comm, output, expected, "message of " + one.text());
  });
}

// Collectives may be made of messages: these have a tag of their own.
TEST_P(ContractTest, MessagesAndCollectivesDoNotMeet) {
  run_case(GetParam(), [](Communicator& comm) {
    if (comm.size() == 1) return;
    const int next = (comm.rank() + 1) % comm.size();
    const int previous = (comm.rank() + comm.size() - 1) % comm.size();
    for (const int tag : {0, Transport::kCollectiveTag - 1}) {
      int32_t received = -1;
      const auto receive = comm.recv_async(view_of(std::span(&received, 1)), previous, tag);
      const int32_t own = comm.rank();
      const ConstBufferView mine{&own, 1, DType::kInt32};
      std::vector<int32_t> all(static_cast<size_t>(comm.size())), expected(all), swapped(all);
      std::iota(expected.begin(), expected.end(), 0);
      for (int root = 0; root < comm.size(); ++root) {
        all.assign(all.size(), -1);
        comm.gather(mine, view_of(std::span(all)), root);
        if (comm.rank() == root) {
          EXPECT_EQ(all, expected) << repeat_command();
        }
        int32_t part = -1;
        comm.scatter(view_of(std::span(expected)), view_of(std::span(&part, 1)), root);
        EXPECT_EQ(part, comm.rank()) << repeat_command();
      }
      all.assign(all.size(), own);
      comm.all_to_all(view_of(std::span(all)), view_of(std::span(swapped)));
      EXPECT_EQ(swapped, expected) << repeat_command();
      EXPECT_EQ(received, -1) << repeat_command();
      comm.barrier();  // nobody sends before all have looked
      const auto send = comm.send_async(mine, next, tag);
      receive->wait();
      send->wait();
      EXPECT_EQ(received, previous) << repeat_command();
    }
  });
}

// One rank after the other has nothing, or is the only one with something.
TEST_P(ContractTest, AllToAllVWithoutSome) {
  run_case(GetParam(), [](Communicator& comm) {
    const int own = comm.rank();
    for (int special = -1; special < comm.size(); ++special) {
      for (const bool alone : {false, true}) {
        const auto between = [&](int from, int to) -> int64_t {
          const bool concerned = from == special || to == special;
          return concerned == alone ? 3 : 0;
        };
        Slices input = slices(
            comm.size(), DType::kInt64, Start::kAligned, [&](int rank) { return between(own, rank); },
            [&](int rank, int64_t i) { return exchanged(own, rank, i); });
        const Slices expected = slices(
            comm.size(), DType::kInt64, Start::kAligned, [&](int rank) { return between(rank, own); },
            [&](int rank, int64_t i) { return exchanged(rank, own, i); });
        Values output(DType::kInt64, std::accumulate(expected.counts.begin(), expected.counts.end(), int64_t{0}));
        comm.all_to_all_v(input.values.view(), output.view(), input.counts, expected.counts);
        expect_values(comm, output, expected.values,
                      fmt::format("all_to_all_v {} rank {}", alone ? "with none but" : "without", special));
      }
    }
  });
}

// Zeroed, aligned, fit for every operation, and still there when the communicator is gone.
TEST_P(ContractTest, AllocatedMemory) {
  const int size = GetParam().size;
  std::vector<std::shared_ptr<std::byte>> kept(static_cast<size_t>(size));
  constexpr int64_t kCount = 100'003;
  run_case(GetParam(), [&](Communicator& comm) {
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{64}, size_t{4097}}) {
      const auto memory = comm.allocate(bytes);
      ASSERT_NE(memory, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % 64, 0U) << bytes << " bytes; " << repeat_command();
      EXPECT_TRUE(std::all_of(memory.get(), memory.get() + bytes, [](std::byte byte) { return byte == std::byte{}; }))
          << bytes << " bytes; " << repeat_command();
    }
    const auto memory = comm.allocate(static_cast<size_t>(kCount) * sizeof(float));
    kept[static_cast<size_t>(comm.rank())] = memory;
    const std::span<float> values(reinterpret_cast<float*>(memory.get()), static_cast<size_t>(kCount));
    for (const int64_t first : {0, 1, 50'000}) {
      const std::span<float> part = values.subspan(static_cast<size_t>(first));
      for (size_t i = 0; i < part.size(); ++i)
        part[i] = static_cast<float>(datum(comm.rank(), static_cast<int64_t>(i)));
      comm.all_reduce(view_of(part), ReduceOp::kSum);
      bool right = true;
      for (size_t i = 0; i < part.size(); ++i) {
        right &= part[i] == static_cast<float>(reduced(ReduceOp::kSum, size, static_cast<int64_t>(i)));
      }
      EXPECT_TRUE(right) << "from element " << first << "; " << repeat_command();
    }
  });
  for (const auto& memory : kept) {
    if (memory == nullptr) continue;  // of another process
    auto* values = reinterpret_cast<float*>(memory.get());
    EXPECT_EQ(values[kCount - 1],
              static_cast<float>(reduced(ReduceOp::kSum, size, kCount - 1 - 50'000)));  // of the last part
    values[0] = 1.0F;
  }
}

}  // namespace
}  // namespace mlbench::comm
