#include "mlbench/master/gpus.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "mlbench/base/log.h"
#include "mlbench/base/text.h"
#include "mlbench/base/to_number.h"
#include "mlbench/master/hosts.h"

namespace mlbench::master {

namespace {

constexpr const char* kProgram = "nvidia-smi";

double number_or_zero(std::string_view text) { return to_number<double>(text).value_or(0); }

}  // namespace

std::optional<Gpu> parse_gpu_line(std::string_view line, int64_t time_us) {
  // The name is what lies between the first field and the last three.
  std::array<std::string, 3> last;
  std::string_view rest = line;
  for (size_t i = last.size(); i > 0; --i) {
    const size_t comma = rest.rfind(',');
    if (comma == std::string_view::npos) return std::nullopt;
    last.at(i - 1) = trimmed(rest.substr(comma + 1));
    rest = rest.substr(0, comma);
  }
  const size_t comma = rest.find(',');
  if (comma == std::string_view::npos) return std::nullopt;
  const auto index = to_number<decltype(Gpu::index)>(trimmed(rest.substr(0, comma)));
  if (!index) return std::nullopt;
  Gpu gpu;
  gpu.index = *index;
  gpu.name = trimmed(rest.substr(comma + 1));
  gpu.memory_mib = number_or_zero(last[0]);
  gpu.samples.push_back({time_us, number_or_zero(last[1]), number_or_zero(last[2])});
  return gpu;
}

GpuSampler::GpuSampler(const Clock& clock) : clock_(clock) {
  if (!program_exists(kProgram)) return;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  FileDescriptor read_end(ends[0]), write_end(ends[1]);
  ProcessOptions options;
  options.arguments = {kProgram, "--query-gpu=index,name,memory.total,utilization.gpu,memory.used",
                       "--format=csv,noheader,nounits",
                       "--loop=" + std::to_string(std::chrono::seconds(kHostPeriod).count())};
  options.standard_output = write_end.get();
  options.die_with_parent = true;
  try {
    process_.emplace(ChildProcess::start(options));
  } catch (const std::exception& error) {
    spdlog::debug("no samples of GPUs: {}", error.what());
    return;
  }
  write_end = FileDescriptor();
  thread_ = std::thread([this, fd = read_end.release()] { work(FileDescriptor(fd)); });
}

GpuSampler::~GpuSampler() {
  if (process_) process_->stop(std::chrono::milliseconds(2000));  // the end of its output ends `thread_`
  if (thread_.joinable()) thread_.join();
}

std::vector<Gpu> GpuSampler::gpus(int64_t from_time_us) const {
  const std::lock_guard lock(mutex_);
  std::vector<Gpu> out;
  for (const Row& row : rows_) {
    out.push_back(row.gpu);
    for (const GpuSample& sample : row.samples) {
      if (sample.time_us >= from_time_us) out.back().samples.push_back(sample);
    }
  }
  return out;
}

void GpuSampler::work(FileDescriptor lines) {
  std::string waiting;
  std::array<char, 4096> buffer{};
  for (ssize_t count; (count = ::read(lines.get(), buffer.data(), buffer.size())) > 0;) {
    waiting.append(buffer.data(), static_cast<size_t>(count));
    size_t begin = 0;
    for (size_t end; (end = waiting.find('\n', begin)) != std::string::npos; begin = end + 1) {
      auto gpu = parse_gpu_line(std::string_view(waiting).substr(begin, end - begin), unix_us(clock_.now()));
      if (!gpu) continue;
      const std::lock_guard lock(mutex_);
      auto row = std::find_if(rows_.begin(), rows_.end(), [&](const Row& one) { return one.gpu.index == gpu->index; });
      if (row == rows_.end()) row = rows_.insert(rows_.end(), Row());
      row->samples.push_back(gpu->samples.front());
      if (row->samples.size() > kHostSamplesKept) row->samples.pop_front();
      gpu->samples.clear();
      row->gpu = std::move(*gpu);
    }
    waiting.erase(0, begin);
    if (waiting.size() > 64 * 1024) waiting.clear();
  }
}

}  // namespace mlbench::master
