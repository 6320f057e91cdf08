#include "mlbench/record/bfloat16_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/processor.h"
#include "mlbench/base/sha256.h"
#include "mlbench/record/collectives.h"
#include "mlbench/record/record_fields.h"

namespace mlbench::record {

namespace {

// Empty where the kernel does not name the processor. The name says nothing that is not hashed: it is safe in a path.
std::optional<std::filesystem::path> file_of(const Bfloat16Place& place, std::string_view work) {
  const std::string processor = processor_kind();
  if (processor.empty()) return std::nullopt;
  const Json key = {place.build_id, processor, place.framework, work};
  return place.cache_dir / "bfloat16" / (sha256_hex(canonical_json(key)) + ".json");
}

}  // namespace

Bfloat16Speed bfloat16_speed(std::string_view work, std::span<const TimedPair> pairs) {
  MLBENCH_CHECK(!pairs.empty(), "a speed of no pairs");
  std::vector<double> ratios;
  for (const TimedPair& pair : pairs) ratios.push_back(pair.float32_s / pair.bfloat16_s);
  std::ranges::sort(ratios);
  Bfloat16Speed speed{.work = std::string(work), .verdict = std::string(kUndecided), .ratio = percentile(ratios, 0.5)};
  if (const auto interval = median_interval(ratios.size())) {
    speed.low = ratios[interval->first];
    speed.high = ratios[interval->second];
    if (*speed.high < 1) speed.verdict = kSlower;
    if (*speed.low > 1) speed.verdict = kFaster;
  }
  return speed;
}

Bfloat16Speed bfloat16_speed_not_known(std::string_view work, const std::string& reason) {
  return {.work = std::string(work), .verdict = std::string(kNotKnown), .reason = reason};
}

std::string describe_bfloat16(const Bfloat16Speed& speed, std::string_view framework) {
  if (!speed.ratio) {
    return fmt::format("how fast {} of framework {} are in bfloat16 is not known: {}", speed.work, framework,
                       speed.reason);
  }
  const bool decided = speed.verdict == kSlower || speed.verdict == kFaster;
  const std::string interval =
      speed.low && speed.high ? fmt::format(" ({:.2f} to {:.2f})", *speed.low, *speed.high) : "";
  return fmt::format("bfloat16 is {} than float32 on this processor: {} of framework {} have {:.2f}{} times the rate",
                     decided ? speed.verdict : "neither slower nor faster", speed.work, framework, *speed.ratio,
                     interval);
}

std::optional<Bfloat16Speed> kept_bfloat16_speed(const Bfloat16Place& place, std::string_view work) {
  const auto file = file_of(place, work);
  if (!file) return std::nullopt;
  try {
    if (!std::filesystem::exists(*file)) return std::nullopt;
    return bfloat16_speed_from_json(read_json_file(*file, inputs::kWorkerAnswer), file->string());
  } catch (const std::runtime_error&) {
    return std::nullopt;  // a file that cannot be read is written anew
  }
}

void keep_bfloat16_speed(const Bfloat16Place& place, const Bfloat16Speed& speed) {
  const auto file = file_of(place, speed.work);
  if (!file) return;
  try {
    std::filesystem::create_directories(file->parent_path());
    write_json_file(*file, to_json(speed));
  } catch (const std::runtime_error&) {
    // Where the home cannot be written, the speed is measured again next time.
  }
}

Json to_json(const Bfloat16Speed& speed) { return written(speed); }

Bfloat16Speed bfloat16_speed_from_json(const Json& json, const std::string& where) {
  return read_part<Bfloat16Speed>(json, where);
}

}  // namespace mlbench::record
