#include "mlbench/master/hosts.h"

#include <array>

#include "mlbench/base/environment.h"
#include "mlbench/base/host_usage.h"
#include "mlbench/base/log.h"

namespace mlbench::master {

namespace {
constexpr double kMiB = 1024.0 * 1024.0;
}  // namespace

double value_of(const HostSample& sample, size_t series) {
  return std::array{sample.cpu, sample.memory, sample.network_in, sample.network_out}.at(series);
}

HostSampler::HostSampler(const Clock& clock)
    : host_(host_name()), cores_(available_cores()), clock_(clock), thread_([this] { work(); }) {}

HostSampler::~HostSampler() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::vector<HostSample> HostSampler::samples(int64_t from_time_us) const {
  const std::lock_guard lock(mutex_);
  std::vector<HostSample> out;
  for (const HostSample& sample : samples_) {
    if (sample.time_us >= from_time_us) out.push_back(sample);
  }
  return out;
}

void HostSampler::work() {
  CpuTicks before;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    HostSample sample;
    bool good = false;
    try {
      const HostUsage now = read_host_usage();
      const auto all = static_cast<double>(now.ticks.all - before.all);
      // The sum over all cores of the machine, of which we may be allowed fewer.
      const double machine = static_cast<double>(std::thread::hardware_concurrency());
      if (all > 0) sample.cpu = static_cast<double>(now.ticks.busy - before.busy) / all * machine;
      good = before.all > 0;
      before = now.ticks;
      sample.memory = now.memory.used_bytes / kMiB;
      sample.memory_total = now.memory.total_bytes / kMiB;
      sample.network_in = static_cast<double>(now.network.received) / kMiB;
      sample.network_out = static_cast<double>(now.network.sent) / kMiB;
      sample.time_us = unix_us(clock_.now());
    } catch (const std::exception& error) {
      spdlog::debug("no host sample: {}", error.what());
      good = false;
    }
    lock.lock();
    if (good) samples_.push_back(sample);
    if (samples_.size() > kHostSamplesKept) samples_.pop_front();
    if (!stopping_)
      wake_.wait_for(lock, good ? std::chrono::milliseconds(kHostPeriod) : std::chrono::milliseconds(500));
  }
}

}  // namespace mlbench::master
