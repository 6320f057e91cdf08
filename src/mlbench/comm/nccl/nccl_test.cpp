// What can be told without a GPU.

#include "mlbench/comm/nccl/nccl.h"

#include <gmock/gmock.h>

#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/comm/nccl/gpu_memory.h"
#include "mlbench/comm/nccl/gpu_places.h"

namespace mlbench::comm::nccl_backend {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(GpuPlaces, RanksOnOneGpuAreRefused) {
  std::vector<GpuPlace> ranks = {{"a", "0000:3B:00.0"}, {"a", "0000:5E:00.0"}, {"b", "0000:3B:00.0"}};
  EXPECT_EQ(why_refused(ranks), "") << "the same number on another host is another GPU";
  ranks.push_back({"a", "0000:5E:00.0"});
  EXPECT_EQ(why_refused(ranks),
            "ranks 1 and 3 are both on GPU 0000:5E:00.0 of host a, and NCCL wants one for each: start at most as many "
            "workers per host as it has GPUs, or choose --backend gloo");
  EXPECT_EQ(why_refused({}), "");
}

TEST(Nccl, WithoutAGpuItSaysSo) {
  const Availability availability = available();
  if (availability.available) GTEST_SKIP() << "missing capability: a host without NVIDIA GPUs";
  EXPECT_THAT(availability.reason, HasSubstr("no NVIDIA GPU"));
  EXPECT_THAT([] { make({}); }, ThrowsMessage<UserError>(HasSubstr("no NVIDIA GPU")));
  EXPECT_THAT([] { make_memory({}); }, ThrowsMessage<UserError>(HasSubstr("no NVIDIA GPU")));
}

}  // namespace
}  // namespace mlbench::comm::nccl_backend
