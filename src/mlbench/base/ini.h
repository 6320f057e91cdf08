#pragma once

// Files of sections and settings, as other programs write them.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mlbench {

struct IniSection {
  std::string name;                                           // what stands between [ and ]
  std::vector<std::pair<std::string, std::string>> settings;  // in order, without blanks at their ends
};

// The sections of a text, in order: lines "[NAME]", "KEY = VALUE" or "KEY: VALUE", comments behind # or ; at the
// beginning of a line. Other lines, and settings before the first section, are ignored. A value keeps all characters. A
// "[" without its "]" begins a section without a name.
std::vector<IniSection> parse_ini(std::string_view text);

}  // namespace mlbench
