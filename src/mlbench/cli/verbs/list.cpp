#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/catalog/programs/programs.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/dataset/description.h"
#include "mlbench/models/model.h"
#include "mlbench/plan/choices.h"
#include "mlbench/plan/plan.h"
#include "mlbench/report/draw/table.h"
#include "mlbench/spec/task.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench::cli {

namespace {

Json model_row(const spec::TaskSpec& task) {
  const models::ModelDescription model = models::describe_model(task);
  return {{"task", task.name},
          {"rules", task.rules},
          {"variant", task.variant},
          {"model", task.model.name},
          {"options", task.model.options},
          {"parameters", model.parameter_count()},
          {"tensors", std::ranges::count(model.parameters, true, &models::ParameterSpec::trainable)}};
}

// The models that tasks train: that of the task that the options name, with its overrides, or those of all official
// tasks and variants. Throws UserError as plan::plan_frozen_task() does, and for a model that cannot be built.
Json list_models(const spec::RunOptions& options) {
  Json rows = Json::array();
  if (!options.task.empty()) {
    rows.push_back(model_row(plan::plan_frozen_task(options).task));
    return rows;
  }
  for (const spec::TaskSource& source : spec::embedded_tasks()) {
    std::vector<std::string> variants = spec::parse_task(source, "", {}).task.variants;
    if (variants.empty()) variants.emplace_back();
    for (const std::string& variant : variants) rows.push_back(model_row(spec::parse_task(source, variant, {}).task));
  }
  return rows;
}

// Each list is a JSON array of rows, and its table is made from these rows, so that the two never differ.
using report::Align;
using report::Table;

Json list_data() {
  Json rows = Json::array();
  for (const std::string& name : dataset::dataset_names()) {
    const dataset::DatasetDescription& data = dataset::find_description(name);
    Json samples = Json::object();
    for (const dataset::SplitSpec& split : data.splits) samples[split.name] = split.samples;
    rows.push_back({{"name", name},
                    {"title", data.title},
                    {"shape", data.sample_shape},
                    {"classes", data.classes},
                    {"samples", samples},
                    {"package", data.system_package},
                    {"licence", data.licence}});
  }
  return rows;
}

std::string tasks_table(const Json& rows) {
  Table table({{"task", "", Align::kLeft},
               {"rules", "", Align::kLeft},
               {"trains", "", Align::kLeft},
               {"goal", "", Align::kLeft},
               {"light", "", Align::kRight},
               {"workers", "", Align::kLeft},
               {"variants", "", Align::kLeft}});
  for (const Json& row : rows) {
    const Json& goal = row["goal"];
    std::string target, light;
    if (goal.is_object()) {
      target = fmt::format("{} {} {:g}", goal["metric"].get<std::string>(),
                           goal["higher_is_better"].get<bool>() ? ">=" : "<=", goal["target"].get<double>());
      light = fmt::format("{:g}", goal["light_target"].get<double>());
    }
    table.add_row({row["name"].get<std::string>(), row["rules"].get<std::string>(), row["title"].get<std::string>(),
                   target, light, fmt::format("{}", fmt::join(row["workers"].get<std::vector<int64_t>>(), " ")),
                   fmt::format("{}", fmt::join(row["variants"].get<std::vector<std::string>>(), " "))});
  }
  return table.render();
}

std::string models_table(const Json& rows) {
  Table table({{"task", "", Align::kLeft},
               {"rules", "", Align::kLeft},
               {"variant", "", Align::kLeft},
               {"model", "", Align::kLeft},
               {"parameters", "", Align::kRight}});
  for (const Json& row : rows) {
    const auto text = [&](const char* key) { return row[key].get<std::string>(); };
    table.add_row({text("task"), text("rules"), text("variant"), text("model"),
                   report::format_count(row["parameters"].get<int64_t>())});
  }
  return table.render();
}

std::string data_table(const Json& rows) {
  Table table({{"data set", "", Align::kLeft},
               {"samples", "", Align::kLeft},
               {"shape", "", Align::kLeft},
               {"classes", "", Align::kRight},
               {"", "", Align::kLeft}});
  for (const Json& row : rows) {
    std::vector<std::string> samples;
    for (const auto& [split, count] : row["samples"].items()) {
      samples.push_back(fmt::format("{} {}", report::format_count(count.get<int64_t>()), split));
    }
    table.add_row({row["name"].get<std::string>(), fmt::format("{}", fmt::join(samples, ", ")),
                   fmt::format("{}", fmt::join(row["shape"].get<std::vector<int64_t>>(), " x ")),
                   std::to_string(row["classes"].get<int64_t>()), row["title"].get<std::string>()});
  }
  return table.render();
}

// A table of rows {name, available, reason}, which may have a member "about", or of bare names.
std::string availability_table(const Json& rows) {
  std::string out;
  size_t width = 0;
  const auto name_of = [](const Json& row) { return row.is_string() ? row.get<std::string>() : row.value("name", ""); };
  for (const Json& row : rows) width = std::max(width, name_of(row).size());
  for (const Json& row : rows) {
    const bool available = row.is_string() || row.value("available", true);
    const std::string about = row.is_string() ? "" : row.value("about", "");
    const std::string text = available ? about : "not available: " + row.value("reason", "");
    out += text.empty() ? name_of(row) + "\n" : fmt::format("{:<{}}  {}\n", name_of(row), width, text);
  }
  return out;
}

// The words of a row's member, or the names of its elements.
std::string words_of(const Json& row, const std::string& member) {
  const Json words = row.value(member, Json(""));
  if (words.is_string()) return words;
  std::vector<std::string> names;
  for (const Json& one : words) names.push_back(one.value("name", ""));
  return fmt::format("{}", fmt::join(names, " "));
}

// Names and words of a row, in columns.
std::string words_table(const Json& rows, const std::vector<std::string>& columns) {
  std::vector<report::Column> heads;
  for (const std::string& column : columns) heads.push_back({column, "", Align::kLeft});
  Table table(heads);
  for (const Json& row : rows) {
    std::vector<std::string> words;
    for (const std::string& column : columns) words.push_back(words_of(row, column));
    table.add_row(words);
  }
  return table.render();
}

std::string optimizers_table(const Json& rows) {
  return words_table(rows, {"name", "rule", "compression", "pattern", "also"});
}
std::string rules_table(const Json& rows) { return words_table(rows, {"name", "source"}); }
std::string parts_table(const Json& rows) { return words_table(rows, {"name", "sends", "source", "also"}); }

struct List {
  const char* name;
  Json (*rows)(const spec::RunOptions& options);  // null: a table of the worker's catalog
  std::string (*table)(const Json& rows);
};
constexpr List kLists[] = {
    {"tasks", [](const spec::RunOptions&) { return plan::list_tasks(); }, tasks_table},
    {"models", list_models, models_table},
    {"frameworks", nullptr, availability_table},
    {"backends", nullptr, availability_table},
    {"executors", [](const spec::RunOptions&) { return plan::list_executors(); }, availability_table},
    {"optimizers", nullptr, optimizers_table},
    {"rules", nullptr, rules_table},
    {"coders", nullptr, parts_table},
    {"patterns", nullptr, parts_table},
    {"data", [](const spec::RunOptions&) { return list_data(); }, data_table},
};

ExitCode list(const Context& context, const std::string& wanted, const spec::RunOptions& options) {
  if (!wanted.empty()) check_choice("list", wanted, names_of(kLists));
  const bool of_one_task = !(options.task + options.rules + options.variant).empty() || !options.overrides.empty();
  if (of_one_task && wanted != "models") {
    throw UserError("--task, --rules, --variant and --set choose a model: give them with 'mlbench list models'");
  }

  Json worker = Json::object();
  std::string no_worker;
  bool asked = false;
  Json answer = Json::object();
  for (const List& one : kLists) {
    if (!wanted.empty() && wanted != one.name) continue;
    if (one.rows == nullptr && !asked) {
      asked = true;
      auto catalog = supervise::worker_catalog(context.worker(), context.home());
      no_worker = catalog.reason;
      if (catalog.catalog) worker = std::move(*catalog.catalog);
    }
    answer[one.name] = one.rows != nullptr ? one.rows(options) : worker.value(one.name, Json::array());
    if (context.json) continue;
    if (wanted.empty()) print(fmt::format("{}{}\n", &one == kLists ? "" : "\n", one.name));
    if (one.rows != nullptr || no_worker.empty()) {
      print(one.table(answer[one.name]));
    } else if (wanted.empty()) {
      print("unknown without a worker\n");
    }
  }
  if (context.json) print_json(wanted.empty() ? answer : answer[wanted]);
  if (!no_worker.empty()) {
    say(fmt::format("{}: what it offers is unknown; {}", no_worker, catalog::advice_for(catalog::programs().front())));
  }
  return ExitCode::kOk;
}

}  // namespace

void add_list(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "list", "What can be chosen");
  auto wanted = std::make_shared<std::string>();
  auto options = std::make_shared<spec::RunOptions>();
  verb->add_option("LIST", *wanted, fmt::format("{} (default: all)", fmt::join(names_of(kLists), ", ")));
  verb->add_option("--task", options->task, "models: of this task, or task file")->type_name("TASK");
  verb->add_option("--rules", options->rules, "its rule set (default: the newest)")->type_name("RULES");
  verb->add_option("--variant", options->variant, "its official variant (default: the first)")->type_name("VARIANT");
  verb->add_option("--set", options->overrides, "override a key of it (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  act(*verb, program, [wanted, options](const Context& context) { return list(context, *wanted, *options); });
}

}  // namespace mlbench::cli
