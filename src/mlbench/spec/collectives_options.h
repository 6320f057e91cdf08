#pragma once

// The options of `mlbench bench collectives`, one row each. The command line and its help are made from these rows.
// Names are those of nccl-tests where that has the option.

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/spec/collectives.h"

namespace mlbench::spec {

// The options as they were given.
struct CollectivesOptions {
  std::vector<std::string> operations;
  // Texts by CollectivesOption::name(); "": not given. For a flag without a value, any text means that it was given.
  std::map<std::string, std::string, std::less<>> given;
};

// The text that was given for an option, and the option's flag for messages.
struct GivenValue {
  const std::string& text;
  std::string flag;
};

struct CollectivesOption {
  std::string_view flags;  // as CLI11 writes them; OP: the positional, which are the operations
  // Sets what the option says in `spec`. Throws UserError for a wrong text. Null: the option is not a part of `spec`.
  void (*read)(const GivenValue& given, CollectivesSpec& spec) = nullptr;
  std::string_view value = {};  // what help calls the value; empty: a flag without a value
  std::string_view usual = {};  // the default, in words
  std::string_view group = {};
  std::string_view help = {};

  std::string name() const;  // the long flag without dashes: "iters"
};

// All options, in the order of help.
std::span<const CollectivesOption> collectives_options();

// The specification that these options ask for, checked by check_collectives() without a number of ranks. Throws
// UserError with the flag, what was given, and what is valid. "output-file" is ignored; it is for the caller that
// writes the result.
CollectivesSpec collectives_spec(const CollectivesOptions& options);

}  // namespace mlbench::spec
