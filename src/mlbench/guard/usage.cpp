#include "mlbench/guard/usage.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/process_status.h"

namespace mlbench::guard {
namespace {

// An amount beyond all that a rank can have used; a sum of such amounts over all ranks does not overflow.
constexpr int64_t kMostUsed = 1'000'000'000'000'000;

// Adds the children of all threads of a process: each thread has its own. Returns false where the process is gone, or
// the kernel does not say.
bool add_children(pid_t pid, std::vector<pid_t>& children) {
  const std::string threads = "/proc/" + std::to_string(pid) + "/task/";
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(threads.c_str()), closedir);
  if (!folder) return false;
  bool known = false;
  while (const dirent* thread = readdir(folder.get())) {
    if (thread->d_name[0] == '.') continue;
    std::string list;
    try {
      list = read_file(threads + thread->d_name + "/children");
    } catch (const IoError&) {
      continue;  // the thread is gone
    }
    known = true;
    const char* const end = list.data() + list.size();
    for (const char* at = list.data(); at < end;) {
      pid_t child = 0;
      const auto [stop, error] = std::from_chars(at, end, child);
      if (error == std::errc()) children.push_back(child);
      at = stop + 1;  // behind a blank
    }
  }
  return known;
}

}  // namespace

std::optional<Usage> usage_below(pid_t root, std::span<const pid_t> left_out) {
  const auto above = process_status(root);
  std::vector<pid_t> found;
  if (!above || !add_children(root, found)) return std::nullopt;
  std::erase_if(found, [&](pid_t pid) { return std::find(left_out.begin(), left_out.end(), pid) != left_out.end(); });
  int64_t ticks = above->waited_ticks, pages = 0;
  // A parent comes before its children: one that ends meanwhile is not counted twice.
  for (size_t i = 0; i < found.size(); ++i) {
    const auto status = process_status(found[i]);
    if (!status) continue;
    ticks += status->processor_ticks + status->waited_ticks;
    pages += status->pages;
    add_children(found[i], found);
  }
  return Usage{std::chrono::microseconds(ticks * (1'000'000 / sysconf(_SC_CLK_TCK))), pages * sysconf(_SC_PAGESIZE)};
}

std::optional<NetworkBytes> network_here() {
  try {
    return parse_network_bytes(read_file("/proc/net/dev"));
  } catch (const IoError&) {
    return std::nullopt;
  }
}

std::string Usage::text() const {
  std::string text = std::to_string(processor.count()) + " " + std::to_string(memory_bytes);
  if (network) text += " " + std::to_string(network->received) + " " + std::to_string(network->sent);
  return text;
}

std::optional<Usage> Usage::parse(std::string_view text) {
  const char* const end = text.data() + text.size();
  std::array<int64_t, 4> amounts{};
  size_t count = 0;
  for (const char* at = text.data(); count < amounts.size(); ++at) {
    const auto [stop, error] = std::from_chars(at, end, amounts[count]);
    if (error != std::errc() || amounts[count] < 0) return std::nullopt;
    // The counters of a network are as old as its host, and nobody adds them up: they have no such bound.
    if (count < 2 && amounts[count] > kMostUsed) return std::nullopt;
    ++count;
    at = stop;
    if (at == end) break;
    if (*at != ' ' || count == amounts.size()) return std::nullopt;
  }
  if (count != 2 && count != 4) return std::nullopt;
  Usage usage{std::chrono::microseconds(amounts[0]), amounts[1]};
  if (count == 4) usage.network = NetworkBytes{amounts[2], amounts[3]};
  return usage;
}

}  // namespace mlbench::guard
