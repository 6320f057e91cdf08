#include "mlbench/record/usage_lines.h"

#include <cmath>

#include "mlbench/base/input.h"
#include "mlbench/base/or_null.h"
#include "mlbench/record/spool.h"

namespace mlbench::record {
namespace {

constexpr const char* kTime = "time_us";
constexpr const char* kWall = "wall_s";
constexpr const char* kCores = "cpu_cores";
constexpr const char* kMemory = "memory_bytes";
constexpr const char* kIn = "network_in_bytes_per_s";
constexpr const char* kOut = "network_out_bytes_per_s";
constexpr const char* kHost = "host";

// An amount; sums of such amounts do not overflow.
std::optional<double> amount_of(const Json& value) {
  if (!value.is_number()) return std::nullopt;
  const auto amount = value.get<double>();
  return amount >= 0 && amount <= static_cast<double>(kMostInteger) ? std::optional(amount) : std::nullopt;
}

UsageLine::Rank used_of(const Json& cores, const Json& memory, const Json& in, const Json& out) {
  const auto bytes = amount_of(memory);
  return {amount_of(cores), bytes ? std::optional(std::llround(*bytes)) : std::nullopt, amount_of(in), amount_of(out)};
}

}  // namespace

std::string to_text(const UsageLine& line) {
  Json cores = Json::array(), memory = Json::array(), in = Json::array(), out = Json::array();
  for (const UsageLine::Rank& rank : line.ranks) {
    cores.push_back(or_null(rank.cpu_cores));
    memory.push_back(or_null(rank.memory_bytes));
    in.push_back(or_null(rank.network_in));
    out.push_back(or_null(rank.network_out));
  }
  return Json({{kTime, line.time_us},
               {kWall, line.wall_s},
               {kCores, std::move(cores)},
               {kMemory, std::move(memory)},
               {kIn, std::move(in)},
               {kOut, std::move(out)},
               {kHost,
                {{kCores, or_null(line.host.cpu_cores)},
                 {kMemory, or_null(line.host.memory_bytes)},
                 {kIn, or_null(line.host.network_in)},
                 {kOut, or_null(line.host.network_out)}}}})
      .dump();
}

std::optional<UsageLine> parse_usage_line(std::string_view text) {
  const auto json = try_parse_json(text, inputs::kUsageLine);
  if (!json || !json->is_object()) return std::nullopt;
  const auto time = integer_of(json->value(kTime, Json()));
  const auto wall = amount_of(json->value(kWall, Json()));
  const Json cores = json->value(kCores, Json()), memory = json->value(kMemory, Json());
  const Json in = json->value(kIn, Json()), out = json->value(kOut, Json());
  const Json host = json->value(kHost, Json::object());  // earlier versions did not look at the host
  if (!time || !wall || !cores.is_array() || !host.is_object()) return std::nullopt;
  for (const Json* other : {&memory, &in, &out}) {
    if (!other->is_array() || other->size() != cores.size()) return std::nullopt;
  }
  UsageLine line{*time, *wall, {}, {}};
  for (size_t rank = 0; rank < cores.size(); ++rank) {
    line.ranks.push_back(used_of(cores[rank], memory[rank], in[rank], out[rank]));
  }
  const auto of_host = [&](const char* key) { return host.value(key, Json()); };
  line.host = used_of(of_host(kCores), of_host(kMemory), of_host(kIn), of_host(kOut));
  return line;
}

}  // namespace mlbench::record
