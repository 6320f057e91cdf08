#include "mlbench/cli/clusters/port_forward.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "mlbench/base/errors.h"
#include "mlbench/base/system_error.h"
#include "mlbench/base/text.h"
#include "mlbench/cli/clusters/chart.h"
#include "mlbench/exec/executor.h"

namespace mlbench::cli {

using namespace std::chrono_literals;

namespace {
constexpr auto kOpenPoll = 20ms;
}

std::vector<std::string> port_forward_command(const Cluster& cluster, int port) {
  std::vector<std::string> words = {"kubectl"};
  const std::vector<std::string> to = kubectl_words(cluster);
  words.insert(words.end(), to.begin(), to.end());
  words.insert(words.end(), {"port-forward", "--address", "127.0.0.1", service_of(cluster),
                             port == 0 ? ":http" : fmt::format("{}:http", port)});
  return words;
}

std::optional<int> forwarded_port(const std::string& said) {
  constexpr std::string_view kWords = "Forwarding from 127.0.0.1:";
  const size_t at = said.find(kWords);
  if (at == std::string::npos || said.find('\n', at) == std::string::npos) return std::nullopt;
  const int port = std::atoi(said.c_str() + at + kWords.size());
  if (port < 1 || port > 65535) return std::nullopt;
  return port;
}

PortForward::PortForward(Cluster cluster, int port, std::chrono::milliseconds patience)
    : cluster_(std::move(cluster)), port_(port), patience_(patience) {
  if (!program_exists("kubectl")) {
    throw UserError("PATH lacks kubectl, the way to the chosen cluster: install it, or 'mlbench set-cluster local'");
  }
  open();
}

PortForward::~PortForward() {
  try {
    if (child_) child_->stop(2s);
  } catch (const std::exception&) {
    // kubectl dies with this process at the latest.
  }
}

void PortForward::open() {
  output_ = FileDescriptor(memfd_create("port-forward", MFD_CLOEXEC));
  if (!output_) throw_system_error("cannot keep the words of kubectl", errno);
  ProcessOptions options;
  options.arguments = port_forward_command(cluster_, port_);
  options.standard_output = options.standard_error = output_.get();
  options.die_with_parent = true;
  child_ = ChildProcess::start(options);
  const auto deadline = std::chrono::steady_clock::now() + patience_;
  for (;;) {
    const auto end = child_->wait(kOpenPoll);
    if (const auto port = forwarded_port(said()); port && !end) {
      port_ = *port;
      return;
    }
    if (!end && std::chrono::steady_clock::now() < deadline) continue;
    if (!end) child_->stop(2s);
    throw CommError(fmt::format(
        "no way to the master of the chosen cluster: '{}' {}: {}", exec::command_line({}, options.arguments),
        end ? fmt::format("ended with {}", end->code) : "did not open it in time", trimmed(said())));
  }
}

std::string PortForward::said() const {
  std::array<char, 4096> buffer;
  const ssize_t count = pread(output_.get(), buffer.data(), buffer.size(), 0);
  return count > 0 ? std::string(buffer.data(), static_cast<size_t>(count)) : "";
}

std::string PortForward::url() const { return fmt::format("http://127.0.0.1:{}", port_); }

void PortForward::keep_open() {
  if (child_->wait(0ms)) open();
}

}  // namespace mlbench::cli
