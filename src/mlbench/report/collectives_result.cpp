#include "mlbench/report/collectives_result.h"

#include <fmt/format.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/report/figures.h"

namespace mlbench::report {

namespace {

constexpr int kDocumentVersion = 1;

Json named_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json config_json(const spec::CollectivesSpec& spec) {
  Json config = {{"nthreads", 1},
                 {"ngpus", 0},
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

Json rows_json(const std::vector<record::CollectiveRow>& rows) {
  Json list = Json::array();
  for (const record::CollectiveRow& row : rows) list.push_back(record::to_json(row));
  return list;
}

Json devices_json(const CollectivesResult& result) {
  Json devices = Json::array();
  for (const std::string& host : result.hosts) {
    devices.push_back({{"rank", devices.size()},
                       {"group", 0},
                       {"pid", nullptr},
                       {"hostname", host},
                       {"device", nullptr},
                       {"device_hex", nullptr},
                       {"device_info", result.rows.empty() ? "cpu" : result.rows.front().device}});
  }
  return devices;
}

std::vector<record::CollectiveRow> collective_rows_of(const Json& list, const std::string& where) {
  if (!list.is_array()) throw UserError(where + ": 'results' is no list");
  std::vector<record::CollectiveRow> rows;
  for (const Json& one : list) {
    rows.push_back(record::collective_row_from_json(one, fmt::format("{}: results[{}]", where, rows.size())));
  }
  return rows;
}

std::vector<std::string> text_list_of(const Json& json, const char* name, const std::string& where) {
  std::vector<std::string> texts;
  const auto found = json.find(name);
  if (found == json.end()) return texts;
  if (!found->is_array()) throw UserError(fmt::format("{}: '{}' is no list", where, name));
  for (const Json& one : *found) {
    if (!one.is_string()) throw UserError(fmt::format("{}: '{}' holds something that is no text", where, name));
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

std::optional<record::PairMatrix> pairs_of(const Json& json, const std::string& where) {
  const auto found = json.find("pairs");
  if (found == json.end() || found->is_null()) return std::nullopt;
  return record::pair_matrix_from_json(*found, where + ": pairs");
}

}  // namespace

int64_t wrong_rows(const std::vector<record::CollectiveRow>& rows) {
  int64_t wrong = 0;
  for (const record::CollectiveRow& row : rows) {
    for (const auto* form : {&row.out_of_place, &row.in_place}) {
      if (*form && (*form)->wrong.value_or(0) > 0) ++wrong;
    }
  }
  return wrong;
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

Json to_json(const CollectivesResult& result) {
  const int64_t wrong = wrong_rows(result.rows);
  const std::optional<double> bandwidth = mean_bus_bandwidth(result.rows);
  return {{"version", kDocumentVersion},
          {"start_time", named_or_null(result.start_time)},
          {"args", result.args},
          {"env", result.env},
          {"nccl_version", nullptr},
          {"config", config_json(result.spec)},
          {"devices", devices_json(result)},
          {"results", rows_json(result.rows)},
          {"out_of_bounds", {{"count", wrong}, {"okay", wrong == 0}}},
          {"average_bus_bandwidth", {{"bandwidth", bandwidth ? Json(*bandwidth) : Json(nullptr)}, {"okay", nullptr}}},
          {"errors", result.errors},
          {"end_time", named_or_null(result.end_time)},
          {"name", result.name},
          {"workers", result.workers},
          {"backend", named_or_null(result.backend)},
          {"comm_stack", named_or_null(result.comm_stack)},
          {"oversubscribed", result.oversubscribed},
          {"pairs", result.pairs ? record::to_json(*result.pairs) : Json(nullptr)}};
}

CollectivesResult collectives_result_from_json(const Json& json, const std::string& where) {
  if (!json.is_object() || !json.contains("results") || !number(json, "/workers")) {
    throw UserError(where + ": it is no result of 'mlbench bench collectives' (there, -J FILE writes one)");
  }
  if (json.value("version", Json(0)) != kDocumentVersion) {
    throw UserError(fmt::format("{}: it is of version {}; this program reads {}", where,
                                json.value("version", Json(nullptr)).dump(), kDocumentVersion));
  }
  CollectivesResult result;
  const Json::json_pointer spec_path("/config/spec");
  if (!json.contains(spec_path)) throw UserError(where + ": there is no config.spec");
  result.spec = spec::collectives_from_json(json.at(spec_path), where + ": config.spec");
  result.rows = collective_rows_of(json["results"], where);
  result.pairs = pairs_of(json, where);
  result.name = text(json, "/name");
  result.workers = integer_member(json, "workers");
  result.backend = text(json, "/backend");
  result.comm_stack = text(json, "/comm_stack");
  result.oversubscribed = json.value("oversubscribed", Json(false)) == true;
  result.start_time = text(json, "/start_time");
  result.end_time = text(json, "/end_time");
  result.args = text_list_of(json, "args", where);
  result.env = text_list_of(json, "env", where);
  result.errors = text_list_of(json, "errors", where);
  for (const Json& device : json.value("devices", Json::array())) result.hosts.push_back(text(device, "/hostname"));
  return result;
}

CollectivesResult read_collectives_result(const std::filesystem::path& file) {
  return collectives_result_from_json(read_json_file(file, inputs::kCollectives), file.string());
}

Json collectives_section(const CollectivesResult& result) {
  return {{"config", config_json(result.spec)},
          {"results", rows_json(result.rows)},
          {"pairs", result.pairs ? record::to_json(*result.pairs) : Json(nullptr)}};
}

std::optional<CollectivesResult> collectives_of(const Json& record) {
  if (!record.is_object()) return std::nullopt;
  const auto section = record.find("collectives");
  const Json& json = section != record.end() && section->is_object() ? *section : record;
  const auto results = json.find("results");
  if (results == json.end() || results->is_null()) return std::nullopt;
  CollectivesResult found;
  found.name = text(record, "/name");
  const std::string where = found.name.empty() ? "collectives" : found.name;
  found.rows = collective_rows_of(*results, where);
  found.pairs = pairs_of(json, where);
  found.workers = static_cast<int64_t>(number(record, "/workers").value_or(0));
  found.backend = text(record, "/backend");
  found.comm_stack = text(record, "/comm_stack");
  found.oversubscribed = record.value("oversubscribed", Json(false)) == true;
  found.start_time = text(record, "/started_at");
  found.end_time = text(record, "/finished_at");
  if (const std::string failure = text(record, "/failure/message"); !failure.empty()) found.errors = {failure};
  if (text(record, "/state") == "stopped") found.errors.emplace_back("stopped before all was measured");
  const Json::json_pointer spec_path("/config/spec");
  if (json.contains(spec_path)) found.spec = spec::collectives_from_json(json.at(spec_path), where + ": config.spec");
  return found;
}

}  // namespace mlbench::report
