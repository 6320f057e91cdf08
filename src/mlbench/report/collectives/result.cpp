#include "mlbench/report/collectives/result.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <type_traits>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/or_null.h"
#include "mlbench/record/collectives_fields.h"
#include "mlbench/report/collectives/stalls.h"
#include "mlbench/report/figures.h"
#include "mlbench/spec/communication.h"

namespace mlbench::report {

namespace {

constexpr int kDocumentVersion = 1;

Json config_json(const CollectivesResult& result) {
  const spec::CollectivesSpec& spec = result.spec;
  Json config = {{"nthreads", 1},
                 {"ngpus", result.gpus},
                 {"minimum_bytes", spec.sizes.begin_bytes},
                 {"maximum_bytes", spec.sizes.end_bytes}};
  if (spec.sizes.factor > 1) {
    config["step_factor"] = spec.sizes.factor;
  } else {
    config["step_bytes"] = spec.sizes.step_bytes;
  }
  config.update({{"warmup_iters", spec.warm_up},
                 {"iterations", spec.iterations},
                 {"aggregated_iterations", spec.aggregated},
                 {"validation", spec.check},
                 {"graph", 0},
                 {"blocking_collectives", spec.blocking},
                 {"parallel_init", false},
                 {"spec", spec::to_json(spec)}});
  return config;
}

// Writes the members that are derived from the rows of a result.
void write_derived(spec::FieldWriter& v, const CollectivesResult& result) {
  const int64_t wrong = wrong_rows(result.rows);
  Json stalled = Json::array();
  for (const Stall& stall : stalls_of(result.rows)) stalled.push_back(to_json(stall));
  v.any("out_of_bounds", {{"count", wrong}, {"okay", wrong == 0}});
  v.any("stalled", stalled);
  v.any("average_bus_bandwidth", {{"bandwidth", or_null(mean_bus_bandwidth(result.rows))}, {"okay", nullptr}});
}

// The device of each rank. A rank has the GPU with its local rank as number, unless its executor gave it another.
std::vector<CollectiveDevice> devices_of_record(const record::Record& record, bool on_gpus) {
  std::vector<CollectiveDevice> devices;
  for (const record::RankPlace& place : record.placement.value_or(std::vector<record::RankPlace>{})) {
    CollectiveDevice& device = devices.emplace_back(CollectiveDevice{.host = place.host});
    if (!on_gpus) continue;
    device.gpu = place.gpu.value_or(place.local_rank);
    device.info = "cuda";
    const auto host = std::ranges::find(record.hosts, place.host, &record::Host::name);
    const auto number = static_cast<size_t>(*device.gpu);
    if (host != record.hosts.end() && number < host->gpus.size() && !host->gpus[number].name.empty()) {
      device.info = host->gpus[number].name;
    }
  }
  return devices;
}

// The version of NCCL as NCCL counts it: 22703 for "2.27.3".
std::optional<int64_t> nccl_version_of(const record::Record& record) {
  const record::NamedTexts libraries = record.environment.value_or(record::Environment()).libraries;
  const auto nccl = std::ranges::find(libraries, "nccl", &record::NamedTexts::value_type::first);
  const std::string version = nccl == libraries.end() ? "" : nccl->second;
  int64_t parts[3] = {};
  const char *at = version.data(), *const end = at + version.size();
  for (int64_t& part : parts) {
    const auto [next, error] = std::from_chars(at, end, part);
    if (error != std::errc() || part < 0 || part > 99) return std::nullopt;
    at = next != end && *next == '.' ? next + 1 : next;
  }
  return at == end ? std::optional(parts[0] * 10000 + parts[1] * 100 + parts[2]) : std::nullopt;
}

}  // namespace

// Names each member of the document once, for reading and for writing.
template <typename V, record::Either<CollectivesResult> T>
void describe(V& v, T& result) {
  constexpr bool kWrites = std::is_const_v<T>;
  if constexpr (kWrites) v.field("version", kDocumentVersion);
  record::text(v, "start_time", result.start_time);
  v.field("args", result.args);
  v.field("env", result.env);
  v.field("nccl_version", result.nccl_version);
  v.table("config", [&] {
    if constexpr (kWrites) {
      v.others(config_json(result));
    } else {
      Json spec;
      v.field("ngpus", result.gpus);
      v.any("spec", spec);
      record::checked(v, [&] { result.spec = spec::collectives_from_json(spec, "config.spec"); });
    }
  });
  v.list("devices", result.devices,
         [&](auto& device) {
           if constexpr (kWrites) v.others({{"rank", &device - result.devices.data()}, {"group", 0}, {"pid", nullptr}});
           v.field("hostname", device.host);
           v.field("device", device.gpu);
           if constexpr (kWrites) v.any("device_hex", nullptr);
           v.field("device_info", device.info);
         },
         {});
  v.structures("results", result.rows);
  if constexpr (kWrites) write_derived(v, result);
  v.field("errors", result.errors);
  record::text(v, "end_time", result.end_time);
  v.field("name", result.name);
  v.field("workers", result.workers);
  record::text(v, "backend", result.backend);
  record::text(v, "comm_stack", result.comm_stack);
  v.field("oversubscribed", result.oversubscribed);
  v.structure("pairs", result.pairs);
}

int64_t wrong_rows(const std::vector<record::CollectiveRow>& rows) {
  int64_t wrong = 0;
  for (const record::CollectiveRow& row : rows) {
    for (const auto* form : {&row.out_of_place, &row.in_place}) {
      if (*form && (*form)->wrong.value_or(0) > 0) ++wrong;
    }
  }
  return wrong;
}

int64_t wrong_rows(const record::Record& record) {
  return record.collectives ? wrong_rows(record.collectives->rows) : 0;
}

std::vector<record::CollectiveRow> collective_rows_of(const Json& list, const std::string& where) {
  if (!list.is_array()) throw UserError(where + ": 'results' is no list");
  std::vector<record::CollectiveRow> rows;
  for (const Json& one : list) {
    rows.push_back(record::collective_row_from_json(one, fmt::format("{}: results[{}]", where, rows.size())));
  }
  return rows;
}

std::string labels_of(const CollectivesResult& result) {
  std::vector<std::string> labels;
  if (spec::on_made_network(result.comm_stack)) labels.emplace_back("synthetic network");
  if (result.oversubscribed) labels.emplace_back("oversubscribed");
  return fmt::format("{}", fmt::join(labels, ", "));
}

std::optional<double> mean_bus_bandwidth(const std::vector<record::CollectiveRow>& rows) {
  double sum = 0;
  int64_t count = 0;
  for (const record::CollectiveRow& row : rows) {
    if (row.operation == spec::traits_of(spec::Collective::kBarrier).name) continue;
    for (const auto* form : {&row.out_of_place, &row.in_place}) {
      if (!*form || !(*form)->bus_bw) continue;
      sum += *(*form)->bus_bw;
      ++count;
    }
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

Json to_json(const CollectivesResult& result) { return record::written(result); }

CollectivesResult collectives_result_from_json(const Json& json, const std::string& where) {
  if (!json.is_object() || !json.contains("results") || !number(json, "/workers")) {
    throw UserError(where + ": it is no result of 'mlbench bench collectives' (there, -J FILE writes one)");
  }
  if (json.value("version", Json(0)) != kDocumentVersion) {
    throw UserError(fmt::format("{}: it is of version {}; this program reads {}", where,
                                json.value("version", Json(nullptr)).dump(), kDocumentVersion));
  }
  return record::read_part<CollectivesResult>(json, where);
}

std::vector<CollectivesResult> read_collectives_results(const std::filesystem::path& file) {
  const auto read = [](const Json& json, const std::string& where) {
    const bool is_record = json.is_object() && json.contains("collectives");
    auto of_record = is_record ? collectives_of(record::record_from_json(json, where)) : std::nullopt;
    return of_record ? std::move(*of_record) : collectives_result_from_json(json, where);
  };
  const Json json = read_json_file(file, inputs::kCollectives);
  if (!json.is_array() || json.empty()) return {read(json, file.string())};
  std::vector<CollectivesResult> results;
  for (const Json& one : json) results.push_back(read(one, fmt::format("{}[{}]", file.string(), results.size())));
  return results;
}

std::optional<CollectivesResult> collectives_of(const record::Record& record) {
  if (!record.collectives) return std::nullopt;
  CollectivesResult found;
  found.name = record.name;
  found.rows = record.collectives->rows;
  found.pairs = record.collectives->pairs;
  found.spec = record.collectives->spec.value_or(spec::CollectivesSpec());
  found.workers = record.workers.value_or(0);
  found.backend = record.backend;
  found.comm_stack = record.comm_stack;
  found.oversubscribed = record.oversubscribed == true;
  const bool on_gpus = record.requested && record.requested->device == "cuda";
  found.gpus = on_gpus ? 1 : 0;
  found.devices = devices_of_record(record, on_gpus);
  found.nccl_version = nccl_version_of(record);
  if (record.effective) found.env = record.effective->variables;
  found.start_time = record.started_at;
  found.end_time = record.finished_at;
  if (record.failure && !record.failure->message.empty()) found.errors = {record.failure->message};
  if (record.state == "stopped") found.errors.emplace_back("stopped before all was measured");
  return found;
}

}  // namespace mlbench::report
