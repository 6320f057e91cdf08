#pragma once

// The energy that the processors and the memory of this host use, by all programs together, as RAPL counts it: Linux
// has a folder per zone below /sys/class/powercap ("intel-rapl:0", also for processors of AMD), with a counter in
// microjoules that begins anew at the zone's greatest value. Since 2020 kernels let only root read the counters.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace mlbench {

inline constexpr const char* kPowercap = "/sys/class/powercap";

// Counts from the construction on. Must be asked more often than a counter runs through its range, which takes some
// minutes under load.
class EnergyMeter {
 public:
  // Takes the zones of whole processors ("package-0") and their memory ("dram"), which overlap with no other zone.
  explicit EnergyMeter(const std::filesystem::path& folder = kPowercap);

  // Why there is no meter; "" where there is one.
  const std::string& problem() const { return problem_; }
  // "RAPL: package-0, dram"; "" where there is no meter.
  std::string name() const;
  // Joules since the construction; those before a zone could not be read any more. 0 where there is no meter.
  double joules();

 private:
  struct Zone {
    std::filesystem::path counter;
    std::string name;
    uint64_t range_uj = 0;  // greatest value of the counter
    uint64_t last_uj = 0;
  };
  void add_zone(const std::filesystem::path& folder);

  std::vector<Zone> zones_;
  std::string problem_;
  double joules_ = 0;
};

}  // namespace mlbench
