#pragma once

// Names of what lies in a container, a folder or a store of somebody else.

#include <string_view>

namespace mlbench {

// Throws UserError "WHERE: KEY: REASON" unless the key is a relative path that stays below where it begins, in UTF-8,
// without control characters and of at most 1,024 bytes.
void check_key(std::string_view where, std::string_view key);

}  // namespace mlbench
