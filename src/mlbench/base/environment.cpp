#include "mlbench/base/environment.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "mlbench/base/build_info.h"
#include "mlbench/base/cgroups.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/or_null.h"
#include "mlbench/base/processor.h"
#include "mlbench/base/text.h"

namespace mlbench {

namespace {

namespace fs = std::filesystem;

std::optional<std::string> read_if_possible(const fs::path& path) {
  try {
    return read_file(path);
  } catch (const IoError&) {
    return std::nullopt;
  }
}

// Value of the first line "KEY<separator>VALUE" of a file; null if there is none.
Json value_in_file(const fs::path& path, const std::string& key, char separator) {
  std::istringstream lines(read_if_possible(path).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const size_t border = line.find(separator);
    if (border != std::string::npos && trimmed(line.substr(0, border)) == key) return trimmed(line.substr(border + 1));
  }
  return nullptr;
}

template <typename T>
std::optional<T> number_in(const std::optional<std::string>& text) {
  std::istringstream in(text.value_or(""));
  T value{};
  if (in >> value) return value;
  return std::nullopt;
}

struct NetworkInterfaces {
  std::set<std::string> names;
  std::vector<std::string> addresses;
};

NetworkInterfaces network_interfaces() {
  NetworkInterfaces found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if ((entry->ifa_flags & IFF_LOOPBACK) != 0) continue;
    found.names.insert(entry->ifa_name);
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    if (family == AF_INET6 &&
        IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr)) {
      continue;
    }
    char text[NI_MAXHOST];
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (getnameinfo(entry->ifa_addr, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0) {
      found.addresses.emplace_back(text);
    }
  }
  return found;
}

Json gpus() {
  Json list = Json::array();
  std::error_code none;
  std::vector<fs::path> devices;
  for (const auto& entry : fs::directory_iterator("/proc/driver/nvidia/gpus", none)) devices.push_back(entry.path());
  std::sort(devices.begin(), devices.end());
  for (const fs::path& device : devices) {
    list.push_back({{"name", value_in_file(device / "information", "Model", ':')}});
  }
  return list;
}

// The NUMA nodes that the kernel lists; empty where it lists none.
std::optional<int64_t> numa_nodes() {
  int64_t count = 0;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/sys/devices/system/node", none)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("node") && number_in<int64_t>(name.substr(4))) ++count;
  }
  return count > 0 ? std::optional(count) : std::nullopt;
}

// Whether a time service (NTP, PTP) keeps the kernel's clock, and its largest error by the service's own account.
Json clock_state() {
  timex state{};
  if (adjtimex(&state) < 0) return nullptr;
  return {{"synchronised", (state.status & STA_UNSYNC) == 0}, {"error_ms", static_cast<double>(state.maxerror) / 1e3}};
}

std::optional<CpuTicks> read_cpu_ticks() { return parse_cpu_ticks(read_if_possible("/proc/stat").value_or("")); }

std::optional<double> steal_percent(int sample_ms) {
  const auto before = sample_ms > 0 ? read_cpu_ticks() : CpuTicks{};
  if (sample_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(sample_ms));
  const auto after = read_cpu_ticks();
  if (!before || !after || after->all <= before->all) return std::nullopt;
  // The kernel's steal counter may step back a little.
  const int64_t stolen = std::max<int64_t>(0, after->steal - before->steal);
  return 100.0 * static_cast<double>(stolen) / static_cast<double>(after->all - before->all);
}

}  // namespace

std::optional<CpuTicks> parse_cpu_ticks(const std::string& stat) {
  std::istringstream in(stat);
  std::string label;
  in >> label;
  CpuTicks ticks;
  // user nice system idle iowait irq softirq steal; the guest times that follow are counted in user and nice already
  for (int column = 0; column < 8; ++column) {
    int64_t value = 0;
    if (!(in >> value)) return std::nullopt;
    ticks.all += value;
    if (column != 3 && column != 4) ticks.busy += value;
    if (column == 7) ticks.steal = value;
  }
  return ticks;
}

std::vector<int> allowed_cores() {
  for (int count = 1024; count <= 1 << 20; count *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(CPU_ALLOC(static_cast<size_t>(count)),
                                                                [](cpu_set_t* set) { CPU_FREE(set); });
    const size_t size = CPU_ALLOC_SIZE(static_cast<size_t>(count));
    if (sched_getaffinity(0, size, mask.get()) == 0) {
      std::vector<int> cores;
      for (int core = 0; core < count; ++core) {
        if (CPU_ISSET_S(core, size, mask.get())) cores.push_back(core);
      }
      return cores;
    }
    if (errno != EINVAL) break;  // EINVAL: the kernel's mask is larger
  }
  return {};
}

bool bind_thread(std::span<const int> cores) {
  MLBENCH_CHECK(!cores.empty(), "a thread runs on some core");
  const auto count = static_cast<size_t>(*std::ranges::max_element(cores)) + 1;
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(CPU_ALLOC(count), [](cpu_set_t* set) { CPU_FREE(set); });
  const size_t size = CPU_ALLOC_SIZE(count);
  CPU_ZERO_S(size, mask.get());
  for (const int core : cores) CPU_SET_S(static_cast<size_t>(core), size, mask.get());
  return sched_setaffinity(0, size, mask.get()) == 0;
}

int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

namespace {

int within_quota(int cores) {
  const auto quota = cgroup_cpu_quota();
  return std::max(1, quota && *quota < cores ? static_cast<int>(std::floor(*quota)) : cores);
}

}  // namespace

int host_cores() { return within_quota(static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN))); }

int available_cores() {
  const size_t allowed = allowed_cores().size();
  return allowed > 0 ? within_quota(static_cast<int>(allowed)) : host_cores();
}

std::optional<int64_t> host_memory_bytes() {
  const Json text = value_in_file("/proc/meminfo", "MemTotal", ':');  // "8011092 kB"
  constexpr int64_t kUnknown = int64_t{1} << 60;
  int64_t bytes = kUnknown;
  if (text.is_string()) bytes = number_in<int64_t>(text.get<std::string>()).value_or(kUnknown / 1024) * 1024;
  if (const auto group = cgroup_memory()) bytes = std::min(bytes, group->limit_bytes);
  return bytes == kUnknown ? std::nullopt : std::optional(bytes);
}

NetworkBytes parse_network_bytes(const std::string& text) {
  std::istringstream in(text);
  NetworkBytes bytes;
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || trimmed(line.substr(0, colon)) == "lo") continue;
    std::istringstream fields(line.substr(colon + 1));
    const auto add = [](int64_t& sum, int64_t value) {
      if (value >= 0 && value <= std::numeric_limits<int64_t>::max() - sum) sum += value;
    };
    int64_t value = 0;
    for (int field = 0; fields >> value; ++field) {
      if (field == 0) add(bytes.received, value);
      if (field == 8) add(bytes.sent, value);
    }
  }
  return bytes;
}

std::string host_name() {
  utsname names{};
  return uname(&names) == 0 ? names.nodename : "unknown";
}

std::string boot_id() {
  const auto boot = read_if_possible("/proc/sys/kernel/random/boot_id");
  struct stat name_space {};
  const bool known = stat("/proc/self/ns/net", &name_space) == 0;
  return fmt::format("{}:{}", boot ? trimmed(*boot) : "unknown-" + host_name(), known ? name_space.st_ino : 0);
}

Json capture_host(int sample_ms) {
  const NetworkInterfaces interfaces = network_interfaces();
  Json nics = Json::array();
  for (const std::string& name : interfaces.names) {
    const auto speed = number_in<int64_t>(read_if_possible(fs::path("/sys/class/net") / name / "speed"));
    const bool known = speed.value_or(-1) > 0;  // the kernel says -1 for unknown
    nics.push_back({{"name", name}, {"speed_mbit", known ? Json(*speed) : Json(nullptr)}});
  }
  const std::string firmware = firmware_version();
  return {{"name", host_name()},
          {"addresses", interfaces.addresses},
          {"cpu", value_in_file("/proc/cpuinfo", "model name", ':')},
          {"cores", available_cores()},
          {"ram_bytes", or_null(host_memory_bytes())},
          {"firmware", text_or_null(firmware)},
          {"nics", nics},
          {"gpus", gpus()},
          {"numa_nodes", or_null(numa_nodes())},
          {"clock", clock_state()},
          {"load_1m", or_null(number_in<double>(read_if_possible("/proc/loadavg")))},
          {"steal_percent", or_null(steal_percent(sample_ms))}};
}

Json capture_environment() {
  const BuildInfo& build = build_info();
  utsname names{};
  const bool known = uname(&names) == 0;
  Json os = value_in_file("/etc/os-release", "PRETTY_NAME", '=');
  if (os.is_string()) {
    auto text = os.get<std::string>();
    std::erase(text, '"');
    os = text;
  }
  const auto driver = read_if_possible("/sys/module/nvidia/version");
  return {{"version", build.version},
          {"git_describe", build.git_describe},
          {"build_id", build.build_id},
          {"build_type", build.build_type},
          {"compiler", build.compiler},
          {"libraries", build.libraries},
          {"kernel", known ? Json(names.release) : Json(nullptr)},
          {"os", os},
          {"gpu_driver", driver ? Json(trimmed(*driver)) : Json(nullptr)}};
}

}  // namespace mlbench
