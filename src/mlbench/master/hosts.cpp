#include "mlbench/master/hosts.h"

#include <sstream>
#include <tuple>

#include "mlbench/base/cgroups.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/log.h"

namespace mlbench::master {

namespace {
constexpr double kMiB = 1024.0 * 1024.0;
}  // namespace

double value_of(const HostSample& sample, size_t series) {
  return std::array{sample.cpu, sample.memory, sample.network_in, sample.network_out}.at(series);
}

std::pair<double, double> parse_memory_mib(const std::string& text) {
  std::istringstream in(text);
  double total = 0, available = 0;
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string name;
    double kib = 0;
    fields >> name >> kib;
    if (name == "MemTotal:") total = kib;
    if (name == "MemAvailable:") available = kib;
  }
  return {(total - available) / 1024, total / 1024};
}

std::pair<double, double> parse_network_mib(const std::string& text) {
  const NetworkBytes bytes = parse_network_bytes(text);
  return {static_cast<double>(bytes.received) / kMiB, static_cast<double>(bytes.sent) / kMiB};
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
      const auto ticks = parse_cpu_ticks(read_file("/proc/stat"));
      if (!ticks) throw IoError("/proc/stat has not all columns");
      const CpuTicks& now = *ticks;
      const auto all = static_cast<double>(now.all - before.all);
      // The sum over all cores of the machine, of which we may be allowed fewer.
      const double machine = static_cast<double>(std::thread::hardware_concurrency());
      if (all > 0) sample.cpu = static_cast<double>(now.busy - before.busy) / all * machine;
      good = before.all > 0;
      before = now;
      std::tie(sample.memory, sample.memory_total) = parse_memory_mib(read_file("/proc/meminfo"));
      const auto group = cgroup_memory();
      if (group && static_cast<double>(group->limit_bytes) < sample.memory_total * kMiB) {
        sample.memory = static_cast<double>(group->used_bytes) / kMiB;
        sample.memory_total = static_cast<double>(group->limit_bytes) / kMiB;
      }
      std::tie(sample.network_in, sample.network_out) = parse_network_mib(read_file("/proc/net/dev"));
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
