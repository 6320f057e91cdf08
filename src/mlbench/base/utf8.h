#pragma once

#include <string>

namespace mlbench {

// Whether the text is UTF-8, the only text that JSON can hold as it is.
bool is_utf8(const std::string& text);

}  // namespace mlbench
