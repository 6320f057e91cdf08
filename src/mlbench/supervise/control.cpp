#include "mlbench/supervise/control.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "mlbench/base/run_folder.h"
#include "mlbench/base/signals.h"

namespace mlbench::supervise {
namespace {

volatile std::sig_atomic_t stop_signals = 0;

void note_signal(int /*number*/) { stop_signals = stop_signals + 1; }

constexpr std::array kStopSignals = {SIGINT, SIGTERM};
constexpr std::array kIgnoredSignals = {SIGHUP, SIGPIPE, SIGXFSZ};

}  // namespace

struct Control::SavedSignals {
  std::array<struct sigaction, kStopSignals.size()> stop;
  std::array<struct sigaction, kIgnoredSignals.size()> ignored;
};

Control::Control(std::filesystem::path run_dir, bool attached)
    : stop_file_(stop_path(run_dir)), attached_(attached), saved_(std::make_unique<SavedSignals>()) {
  stop_signals = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  for (size_t i = 0; i < kStopSignals.size(); ++i) sigaction(kStopSignals[i], &action, &saved_->stop[i]);
  action.sa_handler = SIG_IGN;
  for (size_t i = 0; i < kIgnoredSignals.size(); ++i) sigaction(kIgnoredSignals[i], &action, &saved_->ignored[i]);
  std::filesystem::create_directories(stop_file_.parent_path());
  std::filesystem::remove(stop_file_);
  release_end_signals();
}

Control::~Control() {
  for (size_t i = 0; i < kStopSignals.size(); ++i) sigaction(kStopSignals[i], &saved_->stop[i], nullptr);
  for (size_t i = 0; i < kIgnoredSignals.size(); ++i) sigaction(kIgnoredSignals[i], &saved_->ignored[i], nullptr);
}

std::optional<EndRequest> Control::poll() {
  if (stop_signals > 0) return stop_signals > 1 ? EndRequest::kStopNow : EndRequest::kStop;
  std::error_code unreadable;
  if (std::filesystem::exists(stop_file_, unreadable)) return EndRequest::kStop;
  return attached_ ? read_input() : std::nullopt;
}

std::optional<EndRequest> Control::read_input() {
  for (;;) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (::poll(&input, 1, 0) <= 0) return std::nullopt;
    char buffer[256];
    const ssize_t count = read(STDIN_FILENO, buffer, sizeof buffer);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return std::nullopt;
    if (count <= 0) return EndRequest::kLauncherLost;
    input_.append(buffer, static_cast<size_t>(count));
    if (input_.find("stop\n") != std::string::npos) return EndRequest::kStop;
    if (input_.size() > 1024) input_.erase(0, input_.size() - 8);
  }
}

}  // namespace mlbench::supervise
