#include "mlbench/comm/shm/regions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <future>

#include "mlbench/comm/shm/collectives.h"
#include "mlbench/comm/shm/meeting.h"

namespace mlbench::comm::shm_backend {
namespace {

// Runs `body` on two ranks that are threads.
void run_pair(const std::function<void(Group&)>& body) {
  std::promise<std::string> invitation;
  const auto run = [&](int rank) -> std::string {
    try {
      Membership own;
      own.rank = rank;
      own.size = 2;
      own.run = "test";
      const auto group = rank == 0 ? host(own, [&](const std::string& text) { invitation.set_value(text); })
                                   : join(own, invitation.get_future().get());
      body(*group);
      collectives::barrier(*group);
      return "";
    } catch (const std::exception& error) {
      return error.what();
    }
  };
  auto other = std::async(std::launch::async, run, 1);
  EXPECT_EQ(run(0), "");
  EXPECT_EQ(other.get(), "");
}

TEST(Regions, HaveAPlaceForWhatLiesInTheOwnPart) {
  run_pair([](Group& group) {
    Regions regions;
    const auto first = regions.allocate(group, "test", 10'000), second = regions.allocate(group, "test", 100);
    const uint64_t begin = group.rank() == 0 ? 0 : round_up(10'000, kPageBytes);
    const Place place = regions.place_of(first.get() + 24, 9'976);
    EXPECT_EQ(place.region, 0);
    EXPECT_EQ(place.offset, begin + 24);
    EXPECT_EQ(regions.address_of(place, 9'976), first.get() + 24);
    EXPECT_EQ(regions.place_of(second.get(), 100).region, 1);

    EXPECT_EQ(regions.place_of(first.get() - 1, 100).region, -1);
    EXPECT_EQ(regions.place_of(first.get() + 24, round_up(10'000, kPageBytes)).region, -1) << "reaches beyond the part";
    std::vector<std::byte> heap(100);
    EXPECT_EQ(regions.place_of(heap.data(), heap.size()).region, -1);
    // This rank cannot offer the peer's part.
    const Place peers{0, group.rank() == 0 ? round_up(10'000, kPageBytes) : 0};
    EXPECT_EQ(regions.place_of(regions.address_of(peers, 100), 100).region, -1);
  });
}

TEST(Regions, ShowEachRankWhatTheOtherWrites) {
  run_pair([](Group& group) {
    Regions regions;
    const auto own = regions.allocate(group, "test", 5'000);
    own.get()[4'999] = std::byte(group.rank() + 1);
    collectives::barrier(group);
    const Place peers{0, (group.rank() == 0 ? round_up(5'000, kPageBytes) : 0) + 4'999};
    EXPECT_EQ(*regions.address_of(peers, 1), std::byte(2 - group.rank()));
  });
}

TEST(Regions, AreForgottenWithTheirMemory) {
  run_pair([](Group& group) {
    Regions regions;
    auto memory = regions.allocate(group, "test", 5'000);
    const std::byte* address = memory.get();
    memory.reset();
    EXPECT_EQ(regions.place_of(address, 5'000).region, -1);
    const auto next = regions.allocate(group, "test", 5'000);
    EXPECT_EQ(regions.place_of(next.get(), 5'000).region, 1);
  });
}

}  // namespace
}  // namespace mlbench::comm::shm_backend
