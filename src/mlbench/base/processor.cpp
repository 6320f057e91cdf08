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

}  // namespace

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
