#pragma once

// What can be asked for with `mlbench bench collectives`: one row per option. The command line and its help are made of
// these rows; names are those of nccl-tests where it has the option.

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/spec/collectives.h"

namespace mlbench::spec {

// As given: operations, and texts by the names of their rows; "" is not given.
struct CollectivesOptions {
  std::vector<std::string> operations;
  std::map<std::string, std::string, std::less<>> given;  // of a flag without a value: any text
};

// What was given of one option, and the flag for messages.
struct GivenValue {
  const std::string& text;
  std::string flag;
};

struct CollectivesOption {
  std::string_view flags;  // as CLI11 writes them; OP: positional, the operations
  // Takes it into the specification; UserError. Null: it is of none.
  void (*read)(const GivenValue& given, CollectivesSpec& spec) = nullptr;
  std::string_view value = {};  // what help calls a value; empty: a flag without one
  std::string_view usual = {};  // the default, in words
  std::string_view group = {};
  std::string_view help = {};

  std::string name() const;  // its long flag, without dashes: "iters"
};

// All of them, in the order of help.
std::span<const CollectivesOption> collectives_options();

// The specification that these options ask for, checked (check_collectives without a number of ranks). UserError with
// the flag, what was given, and what can be. "output-file" is for whoever writes the result.
CollectivesSpec collectives_spec(const CollectivesOptions& options);

}  // namespace mlbench::spec
