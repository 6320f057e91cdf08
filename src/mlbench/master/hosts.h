#pragma once

// Samples processor, memory and network of this host every two seconds, and keeps the samples of the last 30 minutes.

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "mlbench/base/forward_clock.h"

namespace mlbench::master {

inline constexpr std::chrono::seconds kHostPeriod{2};
inline constexpr size_t kHostSamplesKept = 900;  // 30 minutes

struct HostSample {
  int64_t time_us = 0;  // Unix epoch; rises from sample to sample
  double cpu = 0;       // cores in use
  double memory = 0;    // MiB in use: of the host, or of the control group where its limit is lower
  double memory_total = 0;
  double network_in = 0;  // MiB received since the host started, without loopback
  double network_out = 0;
};

inline constexpr std::array<const char*, 4> kHostSeries = {"cpu", "memory", "network_in", "network_out"};
double value_of(const HostSample& sample, size_t series);

class HostSampler {
 public:
  explicit HostSampler(const Clock& clock);
  ~HostSampler();
  HostSampler(const HostSampler&) = delete;
  HostSampler& operator=(const HostSampler&) = delete;

  const std::string& host() const { return host_; }
  int cores() const { return cores_; }
  std::vector<HostSample> samples(int64_t from_time_us) const;  // oldest first

 private:
  void work();

  const std::string host_;
  const int cores_;
  const ForwardClock clock_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::deque<HostSample> samples_;
  std::thread thread_;
};

}  // namespace mlbench::master
