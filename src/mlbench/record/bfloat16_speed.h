#pragma once

// How fast a framework computes in bfloat16 beside float32 on one kind of processor, as its worker program measured it
// (worker/bfloat16.h). What was measured is kept in a home, once for each kind of processor, build and framework, and
// read from there by whoever plans a run and by the ranks of that run.

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "mlbench/base/json.h"

namespace mlbench::record {

struct Bfloat16Speed {
  std::string work;     // what was computed in either precision (models::main_work)
  std::string verdict;  // of bfloat16: "slower", "faster", "undecided" or "not known"
  // The rate in bfloat16 over that in float32: the median of the pairs, and the interval of TimeSummary::p50_low_us.
  // Empty where the speed is not known.
  std::optional<double> ratio = {}, low = {}, high = {};
  std::string reason = {};  // why the speed is not known
  Json others = nullptr;
};
inline constexpr std::string_view kSlower = "slower", kFaster = "faster", kUndecided = "undecided",
                                  kNotKnown = "not known";

// Two steps that were measured one right after the other, in seconds.
struct TimedPair {
  double float32_s = 0, bfloat16_s = 0;
};

// bfloat16 is slower or faster where the whole interval of the ratio is on that side of 1. Fewer than 7 pairs have no
// interval, and decide nothing. Precondition: there is at least one pair.
Bfloat16Speed bfloat16_speed(std::string_view work, std::span<const TimedPair> pairs);
Bfloat16Speed bfloat16_speed_not_known(std::string_view work, const std::string& reason);

// A sentence for people, without a full stop. `framework` is the name of the one that was measured.
std::string describe_bfloat16(const Bfloat16Speed& speed, std::string_view framework);

// Where the speeds of a framework lie: a file for each kind of work. `build_id` is that of the framework's worker
// program.
struct Bfloat16Place {
  std::filesystem::path cache_dir;
  std::string build_id, framework;
};
// What is kept for this machine's processor; empty where nothing is, and where the kernel does not name the processor.
std::optional<Bfloat16Speed> kept_bfloat16_speed(const Bfloat16Place& place, std::string_view work);
// Keeps it, unless the place cannot be written or the kernel does not name the processor.
void keep_bfloat16_speed(const Bfloat16Place& place, const Bfloat16Speed& speed);

Json to_json(const Bfloat16Speed& speed);
// Throws UserError naming `where` for JSON of another form.
Bfloat16Speed bfloat16_speed_from_json(const Json& json, const std::string& where);

}  // namespace mlbench::record
