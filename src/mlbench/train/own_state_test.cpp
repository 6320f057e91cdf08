#include "mlbench/train/own_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "mlbench/comm/test_group.h"

namespace mlbench::train {
namespace {

// A state with every type of value. Ranks have different names and lengths, and rank 1 has nothing.
NamedState state_of(int rank) {
  NamedState state;
  if (rank == 1) return state;
  const std::string number = std::to_string(rank);
  for (int elements = 0; elements <= rank; ++elements) {
    state.tensors["part" + std::to_string(elements)] = {
        DType::kInt8, {elements, 2}, std::vector<std::byte>(static_cast<size_t>(2 * elements), std::byte(rank))};
  }
  state.scalars["integer"] = std::numeric_limits<int64_t>::min() + rank;
  state.scalars["real" + number] = -0.1 * rank;
  state.scalars["infinite"] = HUGE_VAL;
  state.scalars["text"] = std::string(static_cast<size_t>(rank), 'x');
  return state;
}

bool equal(const NamedState& a, const NamedState& b) {
  if (a.scalars != b.scalars || a.tensors.size() != b.tensors.size()) return false;
  for (const auto& [name, tensor] : a.tensors) {
    const auto other = b.tensors.find(name);
    if (other == b.tensors.end() || other->second.dtype != tensor.dtype || other->second.shape != tensor.shape ||
        other->second.bytes != tensor.bytes) {
      return false;
    }
  }
  return true;
}

TEST(OwnState, OfEachRankIsOnRankZeroUnderItsPrefix) {
  for (const int size : {1, 2, 3, 12}) {
    NamedState all;
    all.scalars["shared"] = int64_t{5};
    comm::run_group(comm::make_in_process_group(size, std::chrono::seconds(20)), [&](comm::Communicator& comm) {
      const int rank = comm.rank();
      NamedState nothing;
      gather_own_state(state_of(rank), comm, rank == 0 ? all : nothing);
      EXPECT_TRUE(rank == 0 || (nothing.tensors.empty() && nothing.scalars.empty()));
    });
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_TRUE(equal(own_state_of(all, rank), state_of(rank))) << rank << " of " << size;
    }
    EXPECT_EQ(all.integer("shared"), 5);
    EXPECT_EQ(all.integer("rank0/integer"), std::numeric_limits<int64_t>::min());
    EXPECT_TRUE(own_state_of(all, size).scalars.empty());
  }
}

}  // namespace
}  // namespace mlbench::train
