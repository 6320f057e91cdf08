#pragma once

// The one way to read TOML. toml++ destroys its tables by recursion and counts brackets, but not the dots of keys, so
// the text is looked over first.

#include <toml++/toml.h>

#include <string>
#include <string_view>

#include "mlbench/base/input.h"

namespace mlbench::spec {

// UserError "FILE:LINE:COLUMN: ..." for what is no TOML, is nested deeper than kDeepestNesting (brackets, tables and
// the parts of dotted keys together) or larger than its row says, and as TextBlocks does.
toml::table parse_toml(std::string_view text, const std::string& file, const Input& input);

}  // namespace mlbench::spec
