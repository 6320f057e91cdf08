// The worker, but one of its ranks waits before every batch, as for a slow disk: SLOW_RANK, for SLOW_MS (environment).
// What it waited in all, in nanoseconds, it writes to slept_ns in the run's folder.

#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "mlbench/base/files.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/signals.h"
#include "mlbench/worker/rank.h"

namespace mlbench::worker {
namespace {

class SlowLoader final : public data::TrainLoader {
 public:
  SlowLoader(std::unique_ptr<data::TrainLoader> loader, std::chrono::milliseconds delay, std::filesystem::path file)
      : loader_(std::move(loader)), delay_(delay), file_(std::move(file)) {}
  ~SlowLoader() override { write_file_atomically(file_, std::to_string(slept_.count())); }

  const data::Batch& next() override {
    const auto start = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(delay_);
    slept_ += std::chrono::steady_clock::now() - start;
    return loader_->next();
  }

 private:
  std::unique_ptr<data::TrainLoader> loader_;
  std::chrono::milliseconds delay_;
  std::filesystem::path file_;
  std::chrono::nanoseconds slept_{0};
};

}  // namespace
}  // namespace mlbench::worker

int main(int, char** argv) {
  mlbench::hold_end_signals();
  mlbench::worker::RankOptions options;
  options.run_dir = argv[1];
  const auto own = mlbench::environment_variable("OMPI_COMM_WORLD_RANK");
  const std::string rank = own ? *own : mlbench::environment_variable("RANK").value();
  if (rank == mlbench::environment_variable("SLOW_RANK")) {
    const std::chrono::milliseconds delay(std::stoll(mlbench::environment_variable("SLOW_MS").value()));
    options.wrap_loader = [&](std::unique_ptr<mlbench::data::TrainLoader> loader) {
      return std::make_unique<mlbench::worker::SlowLoader>(std::move(loader), delay,
                                                           std::filesystem::path(options.run_dir) / "slept_ns");
    };
  }
  return mlbench::worker::run_rank(options);
}
