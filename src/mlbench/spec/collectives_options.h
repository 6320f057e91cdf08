#pragma once

// What can be asked for with `mlbench bench collectives`: one row per option. The command line and its help are made of
// these rows; names are those of nccl-tests where it has the option.

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mlbench/spec/collectives.h"

namespace mlbench::spec {

// As given, numbers as text; empty where nothing was given.
struct CollectivesOptions {
  std::vector<std::string> operations;
  std::string begin, end, step, factor, counts;
  std::string reduction, dtype, root;
  std::string iterations, warm_up, aggregated, cycles, average;
  std::string check, check_every, blocking, local_register;
  std::string timeout, output_file;
  std::string form, misaligned, misaligned_bytes;
  std::string most_time, least_iterations, window;
  std::string pair_bytes, pair_latency_bytes, pair_iterations, pair_time;
  bool raw_times = false, pairs = false, pairs_disjoint = false;
};

struct CollectivesOption {
  using Member = std::variant<std::string CollectivesOptions::*, std::vector<std::string> CollectivesOptions::*,
                              bool CollectivesOptions::*>;

  std::string_view flags;  // as CLI11 writes them; OP: positional
  Member member;
  std::string_view value = {};  // what help calls a value
  std::string_view usual = {};  // the default, in words
  std::string_view group = {};
  std::string_view help = {};
};

// All of them, in the order of help.
std::span<const CollectivesOption> collectives_options();

// The specification that these options ask for, checked (check_collectives without a number of ranks). UserError with
// the flag, what was given, and what can be. `output_file` is for whoever writes the result.
CollectivesSpec collectives_spec(const CollectivesOptions& options);

}  // namespace mlbench::spec
