#pragma once

// Samples the NVIDIA GPUs of this host every two seconds, from the output of the driver's nvidia-smi. There are no GPUs
// and no samples where that program is missing.

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "mlbench/base/forward_clock.h"
#include "mlbench/base/process.h"

namespace mlbench::master {

struct GpuSample {
  int64_t time_us = 0;     // Unix epoch; rises from sample to sample
  double utilisation = 0;  // percent of the time in which a kernel ran
  double memory = 0;       // MiB in use
};

struct Gpu {
  int64_t index = 0;
  std::string name;
  double memory_mib = 0;
  std::vector<GpuSample> samples;  // oldest first
};

class GpuSampler {
 public:
  explicit GpuSampler(const Clock& clock);
  ~GpuSampler();
  GpuSampler(const GpuSampler&) = delete;
  GpuSampler& operator=(const GpuSampler&) = delete;

  std::vector<Gpu> gpus(int64_t from_time_us) const;

 private:
  struct Row {
    Gpu gpu;  // its `samples` are empty: they are kept below
    std::deque<GpuSample> samples;
  };
  void work(FileDescriptor lines);

  const ForwardClock clock_;
  std::optional<ChildProcess> process_;
  mutable std::mutex mutex_;
  std::vector<Row> rows_;
  std::thread thread_;
};

// Reads a line "0, NVIDIA H100 80GB HBM3, 81559, 37, 1024" into a GPU with one sample at `time_us`; empty for any other
// line. A value that the driver does not know ("[N/A]") is 0.
std::optional<Gpu> parse_gpu_line(std::string_view line, int64_t time_us);

}  // namespace mlbench::master
