#include "mlbench/base/energy_meter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>

#include "mlbench/base/files.h"
#include "mlbench/base/text.h"

namespace mlbench {
namespace {

namespace fs = std::filesystem;

std::string text_in(const fs::path& file) {
  std::ifstream stream(file);
  std::string text;
  std::getline(stream, text);
  return trimmed(text);
}

// The number in one of the kernel's files; empty where it cannot be read.
std::optional<uint64_t> counter_in(const fs::path& file) {
  const std::string text = text_in(file);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(number) : std::nullopt;
}

// The folders of zones in `folder`, "intel-rapl:0" or, in a zone, "intel-rapl:0:2".
std::vector<fs::path> zones_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with("intel-rapl:")) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace

EnergyMeter::EnergyMeter(const fs::path& folder) {
  for (const fs::path& zone : zones_in(folder)) {
    // A kernel lists zones within zones here, too: "intel-rapl:0:2".
    if (std::ranges::count(zone.filename().string(), ':') > 1 || !text_in(zone / "name").starts_with("package"))
      continue;
    add_zone(zone);
    for (const fs::path& part : zones_in(zone)) {
      if (text_in(part / "name") == "dram") add_zone(part);
    }
  }
  if (zones_.empty() && problem_.empty()) problem_ = fmt::format("{} has no processor's counter", folder.string());
  if (!problem_.empty()) zones_.clear();
}

void EnergyMeter::add_zone(const fs::path& folder) {
  const fs::path counter = folder / "energy_uj";
  const auto now = counter_in(counter), range = counter_in(folder / "max_energy_range_uj");
  if (now && range && *range > 0) {
    zones_.push_back({counter, text_in(folder / "name"), *range, *now});
  } else if (problem_.empty()) {
    problem_ = fmt::format("{} cannot be read: most kernels let only root do so", counter.string());
  }
}

std::string EnergyMeter::name() const {
  if (zones_.empty()) return "";
  std::vector<std::string> names;
  for (const Zone& zone : zones_) names.push_back(zone.name);
  return fmt::format("RAPL: {}", fmt::join(names, ", "));
}

double EnergyMeter::joules() {
  for (Zone& zone : zones_) {
    const auto now = counter_in(zone.counter);
    if (!now) continue;
    const uint64_t used = *now >= zone.last_uj ? *now - zone.last_uj : zone.range_uj - zone.last_uj + *now;
    joules_ += static_cast<double>(used) / 1e6;
    zone.last_uj = *now;
  }
  return joules_;
}

}  // namespace mlbench
