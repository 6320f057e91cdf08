#include "mlbench/base/processor.h"

#include <gmock/gmock.h>

#include "mlbench/base/files.h"

namespace mlbench {
namespace {

using testing::HasSubstr;

std::string processor(const std::string& vendor, const std::string& flags) {
  return "processor\t: 0\nvendor_id\t: " + vendor + "\nmodel name\t: A Processor\nflags\t\t: fpu " + flags +
         "\nbugs\t\t: amx_bf16\n\nprocessor\t: 1\nvendor_id\t: " + vendor + "\n";
}

TEST(Processor, Bfloat16IsSlowWithoutFastProducts) {
  EXPECT_THAT(why_bfloat16_is_slow(processor("GenuineIntel", "avx2 avx512f avx512_bf16")),
              HasSubstr("AVX512-BF16 and without AMX"));
  EXPECT_THAT(why_bfloat16_is_slow(processor("GenuineIntel", "avx2 avx512f")), HasSubstr("neither AMX nor"));
  EXPECT_THAT(why_bfloat16_is_slow(processor("AuthenticAMD", "avx2")), HasSubstr("neither AMX nor"));
}

TEST(Processor, Bfloat16IsNotSlowElsewhere) {
  EXPECT_EQ(why_bfloat16_is_slow(processor("GenuineIntel", "avx2 avx512f avx512_bf16 amx_bf16 amx_tile")), "");
  EXPECT_EQ(why_bfloat16_is_slow(processor("AuthenticAMD", "avx2 avx512f avx512_bf16")), "");
  EXPECT_EQ(why_bfloat16_is_slow("processor\t: 0\nFeatures\t: fp asimd bf16\n"), "") << "no x86-64: not known";
  EXPECT_EQ(why_bfloat16_is_slow(""), "");
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
