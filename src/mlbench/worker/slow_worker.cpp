// The worker, except that the rank which the environment names as
//   SLOW_RANK                waits for SLOW_MS before every batch, as for a slow disk, and writes the sum of its waits,
//                            in nanoseconds, to SLOW_FILE, where this is set
//   MLBENCH_TEST_CLOCK_RANK  has a clock that is MLBENCH_TEST_CLOCK_OFFSET_S ahead at its start, and that gains
//                            MLBENCH_TEST_CLOCK_DRIFT_PPM on the true clock

#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/base/files.h"
#include "mlbench/base/paths.h"
#include "mlbench/catalog/worker/frameworks.h"
#include "mlbench/worker/program.h"

namespace mlbench::worker {
namespace {

class SlowLoader final : public data::TrainLoader {
 public:
  SlowLoader(std::unique_ptr<data::TrainLoader> loader, std::chrono::milliseconds delay,
             std::optional<std::string> file)
      : loader_(std::move(loader)), delay_(delay), file_(std::move(file)) {}
  ~SlowLoader() override {
    if (file_) write_file_atomically(*file_, std::to_string(slept_.count()));
  }

  const data::Batch& next() override {
    const auto start = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(delay_);
    slept_ += std::chrono::steady_clock::now() - start;
    return loader_->next();
  }

 private:
  std::unique_ptr<data::TrainLoader> loader_;
  std::chrono::milliseconds delay_;
  std::optional<std::string> file_;
  std::chrono::nanoseconds slept_{0};
};

class SkewedClock final : public Clock {
 public:
  SkewedClock(double offset_s, double drift_ppm) : offset_s_(offset_s), drift_(1e-6 * drift_ppm) {}
  TimePoint now() const override {
    const TimePoint true_time = clock_.now();
    const double ahead_s = offset_s_ + drift_ * to_seconds(true_time - start_);
    return true_time + std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(ahead_s));
  }
  std::chrono::system_clock::time_point wall_now() const override { return clock_.wall_now(); }

 private:
  const SystemClock clock_;
  const TimePoint start_ = clock_.now();
  const double offset_s_, drift_;
};

double number_in(const char* variable) { return std::stod(environment_variable(variable).value_or("0")); }

int run(int argc, char** argv) {
  const auto of_mpi = environment_variable("OMPI_COMM_WORLD_RANK");
  const auto rank = of_mpi ? of_mpi : environment_variable("RANK");
  RankOptions options;
  if (rank && rank == environment_variable("SLOW_RANK")) {
    options.wrap_loader = [](std::unique_ptr<data::TrainLoader> loader) {
      const std::chrono::milliseconds delay(static_cast<int64_t>(number_in("SLOW_MS")));
      return std::make_unique<SlowLoader>(std::move(loader), delay, environment_variable("SLOW_FILE"));
    };
  }
  const SkewedClock skewed(number_in("MLBENCH_TEST_CLOCK_OFFSET_S"), number_in("MLBENCH_TEST_CLOCK_DRIFT_PPM"));
  if (rank && rank == environment_variable("MLBENCH_TEST_CLOCK_RANK")) options.clock = &skewed;
  return run_program(argc, argv, {"mlbench-worker", catalog::frameworks()}, options);
}

}  // namespace
}  // namespace mlbench::worker

int main(int argc, char** argv) { return mlbench::worker::run(argc, argv); }
