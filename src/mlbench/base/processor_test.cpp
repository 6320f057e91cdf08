#include "mlbench/base/processor.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "mlbench/base/files.h"

namespace mlbench {
namespace {

std::string processor(const std::string& model, const std::string& flags, const std::string& megahertz) {
  const std::string core = "vendor_id\t: AMaker\nmodel name\t: " + model + "\ncpu MHz\t\t: " + megahertz +
                           "\nflags\t\t: fpu " + flags + "\nbugs\t\t: spectre_v1\n";
  return "processor\t: 0\n" + core + "\nprocessor\t: 1\n" + core;
}

TEST(Processor, KindsDifferByModelAndInstructionSets) {
  const std::string kind = processor_kind(processor("A Processor", "avx2 avx512f", "2000.5"));
  EXPECT_EQ(kind, "vendor_id\t: AMaker\nmodel name\t: A Processor\nflags\t\t: fpu avx2 avx512f\n");
  EXPECT_EQ(processor_kind(processor("A Processor", "avx2 avx512f", "3141.6")), kind) << "its clock varies";
  EXPECT_NE(processor_kind(processor("A Processor", "avx2", "2000.5")), kind);
  EXPECT_NE(processor_kind(processor("Another", "avx2 avx512f", "2000.5")), kind);
  EXPECT_EQ(processor_kind("processor\t: 0\nFeatures\t: fp asimd bf16\n"), "Features\t: fp asimd bf16\n");
  EXPECT_EQ(processor_kind(""), "");
}

TEST(Processor, OneWhoseInstructionSetsAreHiddenIsOfAnotherKind) {
  const std::string kind = processor_kind();
  if (kind.empty()) GTEST_SKIP() << "missing capability: /proc/cpuinfo with the processor's model";
  setenv("ATEN_CPU_CAPABILITY", "default", 1);
  EXPECT_EQ(processor_kind(), kind + "ATEN_CPU_CAPABILITY=default\n");
  unsetenv("ATEN_CPU_CAPABILITY");
}

TEST(Firmware, IsWhatTheKernelKnows) {
  const TemporaryFolder root;
  EXPECT_EQ(firmware_version(root.path()), "");
  const std::filesystem::path folder = root / "sys/class/dmi/id";
  std::filesystem::create_directories(folder);
  write_file_atomically(folder / "bios_vendor", "A Maker\n");
  write_file_atomically(folder / "bios_version", "2.19.0\n");
  write_file_atomically(folder / "bios_date", "\n");
  EXPECT_EQ(firmware_version(root.path()), "A Maker 2.19.0");
}

}  // namespace
}  // namespace mlbench
