#include "mlbench/base/processor.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <sstream>
#include <string_view>

#include "mlbench/base/files.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/text.h"

namespace mlbench {

namespace {

// The names of lines of /proc/cpuinfo on x86-64 and on Arm.
constexpr std::string_view kLines[] = {"vendor_id", "cpu family",      "model",    "model name", "stepping",
                                       "flags",     "CPU implementer", "CPU part", "Features"};
constexpr const char* kHidingVariables[] = {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY"};

// The value in the first line "KEY : VALUE", between blanks; "" without one.
std::string value_of(const std::string& cpuinfo, std::string_view key) {
  for (size_t begin = 0; begin < cpuinfo.size();) {
    const size_t end = std::min(cpuinfo.find('\n', begin), cpuinfo.size());
    const std::string_view line = std::string_view(cpuinfo).substr(begin, end - begin);
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos && line.starts_with(key) &&
        line.substr(key.size(), colon - key.size()).find_first_not_of(" \t") == std::string_view::npos) {
      return std::string(line.substr(colon + 1)) + " ";
    }
    begin = end + 1;
  }
  return "";
}

}  // namespace

std::string why_bfloat16_is_slow(const std::string& cpuinfo) {
  const std::string flags = value_of(cpuinfo, "flags");
  const auto has = [&](std::string_view flag) {
    return flags.find(" " + std::string(flag) + " ") != std::string::npos;
  };
  if (flags.empty() || has("amx_bf16")) return "";
  if (!has("avx512_bf16")) {
    return "bfloat16 is usually slower than float32 on this processor, which has neither AMX nor AVX512-BF16";
  }
  // Intel's AVX512-BF16 has the rate of float32, and conversions come on top; AMD's has twice that rate.
  if (value_of(cpuinfo, "vendor_id").find("GenuineIntel") == std::string::npos) return "";
  return "bfloat16 is usually slower than float32 on this processor: of Intel, with AVX512-BF16 and without AMX";
}

std::string why_bfloat16_is_slow() {
  try {
    return why_bfloat16_is_slow(read_file("/proc/cpuinfo"));
  } catch (const std::exception&) {
    return "";
  }
}

std::string processor_kind(const std::string& cpuinfo) {
  std::string kind;
  std::istringstream lines(cpuinfo);
  for (std::string line; std::getline(lines, line) && !trimmed(line).empty();) {  // up to the second core
    const std::string name(trimmed(line.substr(0, line.find(':'))));
    if (std::ranges::find(kLines, name) != std::end(kLines)) kind += line + "\n";
  }
  return kind;
}

std::string processor_kind() {
  std::string kind;
  try {
    kind = processor_kind(read_file("/proc/cpuinfo"));
  } catch (const std::exception&) {
    return "";
  }
  for (const char* variable : kHidingVariables) {
    if (const auto value = environment_variable(variable); value && !kind.empty()) {
      kind += std::string(variable) + "=" + *value + "\n";
    }
  }
  return kind;
}

std::string firmware_version(const std::filesystem::path& root) {
  std::string text;
  for (const char* part : {"bios_vendor", "bios_version", "bios_date"}) {
    std::string word;
    try {
      word = read_file(root / "sys/class/dmi/id" / part);
    } catch (const std::exception&) {
      continue;
    }
    while (!word.empty() && (word.back() == '\n' || word.back() == ' ')) word.pop_back();
    if (!word.empty()) text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

}  // namespace mlbench
