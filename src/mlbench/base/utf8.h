#pragma once

#include <string>

namespace mlbench {

// Whether the text is UTF-8; JSON can hold no other text as it is.
bool is_utf8(const std::string& text);

}  // namespace mlbench
