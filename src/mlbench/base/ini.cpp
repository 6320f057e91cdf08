#include "mlbench/base/ini.h"

#include "mlbench/base/text.h"

namespace mlbench {

std::vector<IniSection> parse_ini(std::string_view text) {
  std::vector<IniSection> sections;
  for (const std::string& untrimmed : split_at(text, '\n')) {
    const std::string line = trimmed(untrimmed);
    if (line.starts_with('#') || line.starts_with(';')) continue;
    if (line.starts_with('[')) {
      const size_t end = line.find(']');
      sections.push_back({trimmed(line.substr(1, end == std::string::npos ? 0 : end - 1)), {}});
      continue;
    }
    const size_t sign = line.find_first_of("=:");
    if (sections.empty() || sign == std::string::npos) continue;
    sections.back().settings.emplace_back(trimmed(line.substr(0, sign)), trimmed(line.substr(sign + 1)));
  }
  return sections;
}

}  // namespace mlbench
