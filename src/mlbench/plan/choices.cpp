#include "mlbench/plan/choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/or_null.h"
#include "mlbench/catalog/control/catalog.h"
#include "mlbench/catalog/options/options.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/format.h"
#include "mlbench/dataset/prepare.h"
#include "mlbench/metrics/metric.h"
#include "mlbench/models/layer_kinds.h"
#include "mlbench/spec/algorithm.h"
#include "mlbench/spec/former_names.h"
#include "mlbench/spec/task.h"

namespace mlbench::plan {

Json list_tasks() {
  spec::RunSpec measuring;
  measuring.workers = spec::kTask0aWorkers[0];
  spec::set_collectives(measuring, spec::task_0a());
  Json rows = Json::array();
  rows.push_back({{"name", spec::kTask0a},
                  {"rules", ""},
                  {"title", spec::kTask0aTitle},
                  {"variants", Json::array()},
                  {"workers", measuring.task.task.workers},
                  {"data", nullptr},
                  {"goal", nullptr},
                  {"max_time_s", nullptr},
                  {"hash", measuring.task.hash}});
  for (const spec::TaskSource& source : spec::embedded_tasks()) {
    const spec::FrozenTask frozen = spec::parse_task(source, "", {});
    const spec::TaskSpec& task = frozen.task;
    rows.push_back({{"name", task.name},
                    {"rules", task.rules},
                    {"title", task.title},
                    {"variants", task.variants},
                    {"workers", task.workers},
                    {"data", task.data.name},
                    {"goal",
                     {{"metric", task.goal.metric},
                      {"split", task.goal.split},
                      {"target", task.goal.target},
                      {"light_target", task.goal.light_target},
                      {"higher_is_better", task.goal.higher_is_better}}},
                    {"max_time_s", positive_or_null(task.max_time_s)},
                    {"hash", frozen.hash}});
  }
  return rows;
}

Json list_executors() {
  Json rows = Json::array();
  for (const auto& row : catalog::executors()) {
    const Availability here = row.available();
    rows.push_back({{"name", row.name},
                    {"about", row.about},
                    {"available", here.available},
                    {"options", names_of(catalog::options_of(row.name))}});
    if (!here.available) rows.back()["reason"] = here.reason;
  }
  return rows;
}

std::vector<std::string> available_names(const Json& catalog, const char* table) {
  std::vector<std::string> names;
  for (const Json& row : catalog.value(table, Json::array())) {
    if (row.is_string()) names.push_back(row.get<std::string>());
    if (row.is_object() && row.value("available", true)) names.push_back(row.value("name", ""));
  }
  return names;
}

std::string choose(const Json& catalog, const char* table, std::string_view what, const std::string& given,
                   const std::string& usual) {
  const std::vector<std::string> available = available_names(catalog, table);
  if (available.empty())
    throw UserError(fmt::format("this mlbench-worker has no {} that works here: see mlbench list {}", what, table));
  if (given.empty()) {
    const bool has_usual = std::find(available.begin(), available.end(), usual) != available.end();
    return has_usual ? usual : available.front();
  }
  for (const Json& row : catalog.at(table)) {
    if (row.value("name", "") != given || row.value("available", false)) continue;
    throw UserError(fmt::format("{} '{}' is not available here: {}; valid: {}", what, given,
                                row.value("reason", "no reason known"), fmt::join(available, ", ")));
  }
  std::vector<std::string> reasons;
  for (const Json& row : catalog.at(table)) {
    if (!row.value("available", false)) {
      reasons.push_back(fmt::format("{}: {}", row.value("name", ""), row.value("reason", "no reason known")));
    }
  }
  if (std::ranges::find(available, given) != available.end()) return given;
  if (reasons.empty()) refuse_unknown(what, given, available);
  throw UserError(
      fmt::format("{} (not available: {})", unknown_text(what, given, available), fmt::join(reasons, "; ")));
}

namespace {

// What to type for a framework that can: "give --framework native", of the available rows of which `can` is true.
std::string advice_of(const Json& rows, const std::function<bool(const Json& row)>& can) {
  std::vector<std::string> able;
  for (const Json& row : rows) {
    if (row.value("available", true) && can(row)) able.push_back(row.value("name", ""));
  }
  return able.empty() ? "none here can" : fmt::format("give --framework {}", fmt::join(able, " or "));
}

// Workers of earlier builds do not list them.
std::vector<std::string> convolutions_of(const Json& row) {
  return row.value("convolutions", std::vector<std::string>{"auto"});
}

bool has_layer(const Json& row, const std::string& kind) {
  const Json layers = row.value("layers", Json());
  return !layers.is_array() || std::ranges::find(layers, Json(kind)) != layers.end();
}

// Models are described only for a framework that lacks some kind of layer.
void check_model(const spec::RunSpec& run, const Json& row, const Json& rows) {
  const spec::TaskSpec& task = run.task.task;
  const bool translates =
      !run.synthetic && !spec::measures_throughput(run) && !metrics::of_translations(task.evaluation.metrics).empty();
  if (translates && !row.value("decodes", true)) {
    throw UserError(fmt::format("framework '{}' writes no translations, which task '{}' measures; {}", run.framework,
                                task.name,
                                advice_of(rows, [](const Json& other) { return other.value("decodes", true); })));
  }
  const auto takes_sparse = [](const Json& other) { return other.value("sparse_rows", false); };
  const bool sparse = dataset::is_sparse(dataset::find_description(run.data_name));
  if (sparse && !takes_sparse(row)) {
    throw UserError(fmt::format("framework '{}' takes no sparse rows, which data set '{}' has; {}", run.framework,
                                run.data_name, advice_of(rows, takes_sparse)));
  }
  if (sparse && run.device != "cpu") {
    throw UserError(fmt::format(
        "--gpu: data set '{}' has sparse rows, which frameworks multiply on the CPU; leave it out", run.data_name));
  }
  if (!row.value("layers", Json()).is_array()) return;
  for (const std::string& kind : models::kinds_in(models::describe_model(task))) {
    if (has_layer(row, kind)) continue;
    throw UserError(fmt::format(
        "framework '{}' has no layer '{}', which model '{}' of task '{}' has; it trains {}; for this task {}",
        run.framework, kind, task.model.name, task.name,
        fmt::join(row.value("tasks", std::vector<std::string>{"other tasks"}), ", "),
        advice_of(rows, [&](const Json& other) { return has_layer(other, kind); })));
  }
}

}  // namespace

std::string choose_framework(const Json& catalog, const std::string& given, const spec::TaskSpec& task,
                             const std::string& usual) {
  if (task.framework.empty()) return choose(catalog, "frameworks", "framework", given, usual);
  spec::refuse_former_framework(task.framework);
  std::vector<std::string> known;
  for (const Json& row : catalog.at("frameworks")) known.push_back(row.value("name", ""));
  if (std::ranges::count(known, task.framework) == 0) {
    throw UserError(fmt::format("task '{}': {}", task.name, unknown_text("framework", task.framework, known)));
  }
  return choose(catalog, "frameworks", "framework", given, task.framework);
}

int64_t inter_op_threads_of(const spec::RunOptions& options, const Json& catalog, const std::string& framework) {
  const auto has_them = [](const Json& row) { return row.value("inter_op", false); };
  const int64_t threads = spec::count_of(options, &spec::RunOptions::inter_op_threads, 1);
  const Json& rows = catalog.at("frameworks");
  for (const Json& row : rows) {
    if (threads == 1 || (row.value("name", "") == framework && has_them(row))) return threads;
  }
  throw UserError(
      fmt::format("--inter-op-threads {}: framework '{}' has no threads for operations beside each other; leave it "
                  "out; to have such threads: {}",
                  threads, framework, advice_of(rows, has_them)));
}

void check_image_options(const spec::RunOptions& options, const std::string& data_name) {
  if (dataset::find_format(dataset::find_description(data_name).format)->encoded) return;
  for (const auto member : {&spec::RunOptions::decoding_threads, &spec::RunOptions::max_bad}) {
    if (spec::count_of(options, member, 0) == 0) continue;
    throw UserError(fmt::format("{} {}: data set '{}' has no images that are decoded; leave it out",
                                spec::label_of(spec::run_option(member)), options.*member, data_name));
  }
}

void check_framework(const spec::RunSpec& run, const Json& catalog) {
  const Json& rows = catalog.at("frameworks");
  const auto expect = [&](const Json& row, const char* member, std::string_view what, const std::string& wanted) {
    const auto valid = row.value(member, std::vector<std::string>{wanted});
    if (std::ranges::find(valid, wanted) != valid.end()) return;
    throw UserError(
        fmt::format("framework '{}' has no {} '{}'{}", run.framework, what, wanted, valid_text(wanted, valid)));
  };
  for (const Json& row : rows) {
    if (row.value("name", "") != run.framework) continue;
    expect(row, "devices", "device", run.device);
    expect(row, "precisions", "precision", run.precision);
    if (const auto valid = convolutions_of(row); std::ranges::find(valid, run.convolution) == valid.end()) {
      const std::string advice = advice_of(
          rows, [&](const Json& other) { return std::ranges::count(convolutions_of(other), run.convolution) > 0; });
      throw UserError(fmt::format("--convolution {}: framework '{}' has no such convolutions{}; {}", run.convolution,
                                  run.framework, valid_text(run.convolution, valid), advice));
    }
    check_model(run, row, rows);
    if (run.profile == "off" || row.value("profile", true)) continue;
    throw UserError(fmt::format("--{}: framework '{}' cannot tell its operations apart; {}",
                                run.profile == "time" ? "profile" : "explain", run.framework,
                                advice_of(rows, [](const Json& other) { return other.value("profile", false); })));
  }
}

void check_algorithm(const spec::RunSpec& run, const Json& catalog) {
  const spec::OptimizerSpec& optimizer = run.task.task.optimizer;
  const spec::Algorithm algorithm = spec::algorithm_of(optimizer);
  std::vector<std::string> options;
  bool all_listed = true;  // a worker of another build may not list them
  const auto add = [&](const Json& rows) {
    all_listed = all_listed && rows.is_array();
    for (const Json& row : rows) options.push_back(row.value("name", ""));
  };
  const auto check = [&](const char* table, const char* chooses, const std::string& given) {
    options.emplace_back(chooses);
    const Json rows = catalog.value(table, Json::array());
    std::vector<std::string> valid;
    for (const Json& row : rows) valid.push_back(row.value("name", ""));
    if (!valid.empty()) spec::check_name(chooses, given, valid);
    const auto row = std::ranges::find(valid, given);
    add(row == valid.end() ? Json() : rows[static_cast<size_t>(row - valid.begin())].value("options", Json()));
  };
  check("rules", "rule", algorithm.rule);
  add(catalog.value("step_options", Json()));
  check("patterns", "pattern", algorithm.pattern);
  check("coders", "compression", algorithm.coder);
  if (!all_listed) return;
  for (const auto& [key, value] : optimizer.options.items()) {
    if (std::ranges::find(options, key) != options.end()) continue;
    throw UserError(fmt::format("optimizer '{}' has no option '{}'{}", optimizer.name, key, valid_text(key, options)));
  }
}

spec::Communication communication_of(const spec::RunOptions& options, const Json& catalog, const std::string& backend) {
  spec::Communication one;
  one.wire_dtype = options.wire_dtype;
  one.check = options.check_collectives;
  one.netem = options.netem;
  if (!options.algorithm.empty()) one.algorithm = options.algorithm;
  one.links = spec::count_of(options, &spec::RunOptions::links, one.links);
  one.socket_buffer_bytes = spec::bytes_of(options, &spec::RunOptions::socket_buffer, one.socket_buffer_bytes);
  one.network_interface = options.network_interface;
  if (!one.netem.empty()) {
    const spec::Netem netem = spec::parse_netem(one.netem);
    for (const int64_t workers : spec::workers_of(options)) spec::check_netem(netem, workers);
    if (one.algorithm != "auto" || one.links > 1) {
      throw UserError(
          fmt::format("--netem with --{}: collectives over a made network are those of the reference ring, "
                      "one message after the other on a link; leave one out",
                      one.links > 1 ? "links" : "algorithm"));
    }
  }
  for (const Json& row : catalog.value("backends", Json::array())) {
    if (row.value("name", "") == backend) spec::check_tuning(one, backend, row);
  }
  return one;
}

std::string gpu_buffers(const spec::RunOptions& options, const spec::CollectivesSpec& collectives, const Json& catalog,
                        const std::string& backend) {
  std::vector<std::string> able;
  for (const Json& row : catalog.at("backends")) {
    const auto devices = row.value("devices", std::vector<std::string>{"cpu"});
    if (std::ranges::find(devices, "cuda") != devices.end()) able.push_back(row.at("name"));
  }
  if (std::ranges::find(able, backend) == able.end()) {
    throw UserError(fmt::format("--gpu: backend '{}' takes buffers of the host alone; with buffers on GPUs: {}",
                                backend, able.empty() ? "none here" : fmt::format("{}", fmt::join(able, ", "))));
  }
  const std::pair<bool, const char*> of_the_host[] = {{collectives.communicator_memory, "--local-register"},
                                                      {!options.netem.empty(), "--netem"},
                                                      {!options.wire_dtype.empty(), "--wire-dtype"},
                                                      {options.check_collectives, "--check-collectives"}};
  for (const auto& [given, name] : of_the_host) {
    if (given) throw UserError(fmt::format("{} works on buffers of the host, and --gpu puts them on GPUs", name));
  }
  return "cuda";
}

}  // namespace mlbench::plan
