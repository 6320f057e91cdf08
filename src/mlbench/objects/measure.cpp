#include "mlbench/objects/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/base/read_bytes.h"

namespace mlbench::objects {

namespace {

constexpr int64_t kMostRanges = 50'000'000;

// Which ranges there are: those of the first object, of the second, and so on.
class Ranges {
 public:
  Ranges(const std::vector<Object>& objects, int64_t range_bytes) : objects_(objects), range_bytes_(range_bytes) {
    for (const Object& object : objects) {
      const int64_t size = size_of(object);
      count_ += size == 0 ? 0 : (object.bytes + size - 1) / size;
      ends_.push_back(count_);
    }
  }
  int64_t count() const { return count_; }

  struct Range {
    const Object& object;
    int64_t offset, bytes;
  };
  Range at(int64_t number) const {
    const auto object = static_cast<size_t>(std::ranges::upper_bound(ends_, number) - ends_.begin());
    const int64_t size = size_of(objects_[object]);
    const int64_t offset = (number - (object == 0 ? 0 : ends_[object - 1])) * size;
    return {objects_[object], offset, std::min(size, objects_[object].bytes - offset)};
  }

 private:
  int64_t size_of(const Object& object) const { return range_bytes_ == 0 ? object.bytes : range_bytes_; }

  const std::vector<Object>& objects_;
  const int64_t range_bytes_;
  std::vector<int64_t> ends_;  // by object: how many ranges it and those before it have
  int64_t count_ = 0;
};

// What the threads share.
struct Progress {
  std::atomic<int64_t> next{0};
  std::mutex mutex;  // guards what follows
  Measured measured;
  std::exception_ptr failure;
};

void read_ranges(ObjectStore& store, const Ranges& ranges, const std::vector<int64_t>& order, TimePoint deadline,
                 Progress& progress) {
  std::vector<std::byte> buffer;
  std::vector<double> read_s;
  int64_t bytes = 0;
  try {
    for (TimePoint now = std::chrono::steady_clock::now(); now < deadline;) {
      const int64_t number = progress.next++;
      if (number >= std::ssize(order)) break;
      const Ranges::Range range = ranges.at(order[static_cast<size_t>(number)]);
      buffer.resize(static_cast<size_t>(range.bytes));
      store.read(range.object, range.offset, buffer);
      const TimePoint end = std::chrono::steady_clock::now();
      read_s.push_back(to_seconds(end - now));
      bytes += range.bytes;
      now = end;
    }
  } catch (...) {
    progress.next = std::ssize(order);  // the others stop
    const std::lock_guard lock(progress.mutex);
    if (!progress.failure) progress.failure = std::current_exception();
  }
  const std::lock_guard lock(progress.mutex);
  progress.measured.ranges += std::ssize(read_s);
  progress.measured.bytes += bytes;
  progress.measured.read_s.insert(progress.measured.read_s.end(), read_s.begin(), read_s.end());
}

}  // namespace

Measured measure(ObjectStore& store, const MeasureOptions& options) {
  MLBENCH_CHECK(options.threads > 0 && options.range_bytes >= 0, "options that were checked");
  const std::vector<Object> objects = store.list();
  const Ranges ranges(objects, options.range_bytes);
  if (ranges.count() == 0) throw UserError(fmt::format("{}: no objects with bytes to read", store.place()));
  if (ranges.count() > kMostRanges) {
    throw UserError(
        fmt::format("{}: {} ranges, at most {}: give a larger --range", store.place(), ranges.count(), kMostRanges));
  }
  const std::vector<int64_t> order = permutation(ranges.count(), options.seed);
  Progress progress;
  const auto read_before = read_bytes_so_far();
  const TimePoint begin = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int i = 0; i < options.threads; ++i) {
    threads.emplace_back([&] { read_ranges(store, ranges, order, begin + options.most_time, progress); });
  }
  for (std::thread& thread : threads) thread.join();
  if (progress.failure) std::rethrow_exception(progress.failure);

  Measured& measured = progress.measured;
  measured.seconds = to_seconds(std::chrono::steady_clock::now() - begin);
  measured.objects = std::ssize(objects);
  for (const Object& object : objects) measured.object_bytes += object.bytes;
  measured.complete = measured.ranges == ranges.count();
  std::ranges::sort(measured.read_s);
  if (read_before) {
    if (const auto after = read_bytes_so_far()) measured.device_bytes = after->devices - read_before->devices;
  }
  return std::move(measured);
}

}  // namespace mlbench::objects
