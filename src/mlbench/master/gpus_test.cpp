#include "mlbench/master/gpus.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "mlbench/base/files.h"

namespace mlbench::master {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;
using testing::SizeIs;

TEST(GpuLines, AreRead) {
  const auto gpu = parse_gpu_line("1, NVIDIA H100 80GB HBM3, 81559, 37, 1024", 7);
  ASSERT_TRUE(gpu);
  EXPECT_EQ(gpu->index, 1);
  EXPECT_EQ(gpu->name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(gpu->memory_mib, 81559);
  ASSERT_THAT(gpu->samples, SizeIs(1));
  EXPECT_EQ(gpu->samples[0].time_us, 7);
  EXPECT_EQ(gpu->samples[0].utilisation, 37);
  EXPECT_EQ(gpu->samples[0].memory, 1024);
  EXPECT_EQ(parse_gpu_line("0, A, with a comma, 10, 1, 2", 7)->name, "A, with a comma");
  EXPECT_EQ(parse_gpu_line("0, X, [N/A], [N/A], 2\r", 7)->samples[0].utilisation, 0);
  for (const char* bad :
       {"", "No devices were found", "x, X, 1, 2, 3", "0, 1, 2, 3", "NVIDIA-SMI has failed, a, b, c, d"}) {
    EXPECT_FALSE(parse_gpu_line(bad, 7)) << bad;
  }
}

class FakeProgram : public testing::Test {
 protected:
  explicit FakeProgram(const std::string& script) {
    setenv("PATH", (folder_.path().string() + ":" + old_path_).c_str(), 1);
    const fs::path program = folder_.path() / "nvidia-smi";
    std::ofstream(program) << "#!/bin/sh\n" << script;
    chmod(program.c_str(), 0755);
  }
  ~FakeProgram() override { setenv("PATH", old_path_.c_str(), 1); }

  TemporaryFolder folder_;
  const std::string old_path_ = getenv("PATH");
};

struct TwoGpus : FakeProgram {
  TwoGpus() : FakeProgram("while :; do echo '0, A, 100, 10, 20'; echo '1, B, 200, 30, 40'; sleep 0.05; done\n") {}
};

TEST_F(TwoGpus, AreSampledAndTheProgramIsEnded) {
  const SystemClock clock;
  std::optional<GpuSampler> sampler(std::in_place, clock);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto sampled = [&] {
    const auto gpus = sampler->gpus(0);
    return gpus.size() == 2 && gpus[1].samples.size() >= 3;
  };
  while (!sampled()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "no samples";
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const auto gpus = sampler->gpus(0);
  EXPECT_EQ(gpus[0].name, "A");
  EXPECT_EQ(gpus[1].name, "B");
  EXPECT_EQ(gpus[1].samples[0].memory, 40);
  EXPECT_LE(gpus[0].samples[0].time_us, gpus[0].samples[1].time_us);
  const auto later = sampler->gpus(gpus[0].samples[1].time_us);
  EXPECT_GE(later[0].samples.front().time_us, gpus[0].samples[1].time_us);
  EXPECT_THAT(sampler->gpus(INT64_MAX)[0].samples, IsEmpty());
  sampler.reset();  // returns: the program is gone
}

struct BrokenDriver : FakeProgram {
  BrokenDriver() : FakeProgram("echo 'NVIDIA-SMI has failed'; exit 9\n") {}
};

TEST_F(BrokenDriver, HasNoGpus) {
  const SystemClock clock;
  const GpuSampler sampler(clock);
  EXPECT_THAT(sampler.gpus(0), IsEmpty());
}

}  // namespace
}  // namespace mlbench::master
