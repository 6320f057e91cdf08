#include "mlbench/base/energy_meter.h"

#include <gmock/gmock.h>

#include <fstream>

#include "mlbench/base/files.h"

namespace mlbench {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

void put(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text << "\n";
}

void put_zone(const fs::path& folder, const std::string& name, uint64_t counter, uint64_t range = 1'000'000'000) {
  put(folder / "name", name);
  put(folder / "energy_uj", std::to_string(counter));
  put(folder / "max_energy_range_uj", std::to_string(range));
}

// Two processors with their memory. Cores are in the package, and the platform holds it: neither counts twice.
TEST(EnergyMeter, CountsProcessorsAndTheirMemory) {
  const TemporaryFolder made;
  const fs::path first = made / "intel-rapl:0", second = made / "intel-rapl:1";
  put_zone(first, "package-0", 5'000'000);
  put_zone(first / "intel-rapl:0:0", "core", 1'000'000);
  put_zone(first / "intel-rapl:0:1", "dram", 2'000'000);
  put_zone(made / "intel-rapl:0:1", "dram", 2'000'000);
  put_zone(second, "package-1", 7'000'000);
  put_zone(made / "intel-rapl:2", "psys", 50'000'000);
  put(made / "intel-rapl" / "enabled", "1");
  EnergyMeter meter(made.path());
  EXPECT_EQ(meter.problem(), "");
  EXPECT_EQ(meter.name(), "RAPL: package-0, dram, package-1");
  EXPECT_EQ(meter.joules(), 0);
  put_zone(first, "package-0", 8'000'000);
  put_zone(first / "intel-rapl:0:0", "core", 3'000'000);
  put_zone(first / "intel-rapl:0:1", "dram", 2'500'000);
  put_zone(second, "package-1", 8'000'000);
  put_zone(made / "intel-rapl:2", "psys", 90'000'000);
  EXPECT_DOUBLE_EQ(meter.joules(), 3 + 0.5 + 1);
  EXPECT_DOUBLE_EQ(meter.joules(), 4.5) << "nothing was used since";
}

TEST(EnergyMeter, ACounterBeginsAnewAtItsRange) {
  const TemporaryFolder made;
  put_zone(made / "intel-rapl:0", "package-0", 900'000'000);
  EnergyMeter meter(made.path());
  put_zone(made / "intel-rapl:0", "package-0", 100'000'000);
  EXPECT_DOUBLE_EQ(meter.joules(), 200);
  put_zone(made / "intel-rapl:0", "package-0", 50'000'000);
  EXPECT_DOUBLE_EQ(meter.joules(), 200 + 950);
  put(made / "intel-rapl:0" / "energy_uj", "not a number");
  EXPECT_DOUBLE_EQ(meter.joules(), 1150) << "what was counted stays";
}

TEST(EnergyMeter, SaysWhyThereIsNone) {
  const TemporaryFolder made;
  EnergyMeter none(made / "nowhere");
  EXPECT_THAT(none.problem(), HasSubstr("has no processor's counter"));
  EXPECT_EQ(none.name(), "");
  EXPECT_EQ(none.joules(), 0);
  put_zone(made / "intel-rapl:0", "package-0", 1);
  fs::remove(made / "intel-rapl:0" / "energy_uj");
  const EnergyMeter closed(made.path());
  EXPECT_THAT(closed.problem(), HasSubstr("energy_uj cannot be read: most kernels let only root do so"));
  EXPECT_EQ(closed.name(), "");
}

}  // namespace
}  // namespace mlbench
