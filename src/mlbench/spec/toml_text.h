#pragma once

// The one way to read TOML. toml++ destroys its tables by recursion. It limits the depth of brackets, but not the parts
// of dotted keys, so the depth of the text is checked before it is parsed.

#include <toml++/toml.h>

#include <string>
#include <string_view>

#include "mlbench/base/input.h"

namespace mlbench::spec {

// Parses a text. Throws UserError "FILE:LINE:COLUMN: ..." for a text that is no TOML or nested deeper than
// kDeepestNesting (brackets, tables and parts of dotted keys together). Throws UserError, too, for one larger than
// `input` allows, and as TextBlocks does.
toml::table parse_toml(std::string_view text, const std::string& file, const Input& input);

}  // namespace mlbench::spec
