#include "mlbench/report/archive/result.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/or_null.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/text.h"
#include "mlbench/report/archive/derivation.h"
#include "mlbench/report/archive/events.h"
#include "mlbench/report/collectives/result.h"
#include "mlbench/report/collectives/table.h"
#include "mlbench/report/draw/table.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/notes.h"

namespace mlbench::report {

namespace {

Json derive_events(const ArchiveEvents& events) {
  // The events of a custom run are what its script recorded, in the form in which a dashboard would have stored them.
  const bool custom = events.record() && events.record()->division == "custom";
  if (!events.record() || custom) {
    Json result = is_of_task_0(events) ? derive_task_0(events) : derive_dashboard(events);
    if (!custom) return result;
    result["format"] = "custom";
    result["name"] = text_or_null(events.record()->name);
    return result;
  }
  return derive_mlbench(events);
}

}  // namespace

Json derive_result(const std::vector<ZipMember>& members) {
  Json result = derive_events(ArchiveEvents(members));
  result["run_notes"] = nullptr;
  const auto notes = std::ranges::find(members, kNotesFile, &ZipMember::name);
  if (notes == members.end()) return result;
  try {
    result["run_notes"] = to_json(notes_from_json(parse_json(notes->content, inputs::kNotes)));
  } catch (const UserError& error) {
    ArchiveEvents::fail(notes->name, error.what());
  }
  return result;
}

namespace {

// Which program made the archive.
const char* source_of(const Json& result) {
  if (result["format"] == "mlbench") return "mlbench";
  return result["format"] == "custom" ? "mlbench, a custom run" : "MLBench's dashboard";
}

std::string task_0_text(const Json& result) {
  const auto workers = result["workers"].get<int64_t>();
  const std::vector<record::CollectiveRow> rows = collective_rows_of(result["collectives"]["results"], "the archive");
  std::string out =
      fmt::format("MLBench's task 0a: all-reduce, {} (archive of {})\n", counted(workers, "worker"), source_of(result));
  out += means_table(rows);
  for (const Json& note : result["notes"]) out += fmt::format("note: {}\n", note.get<std::string>());
  return printable_lines(out, "");
}

}  // namespace

std::string result_text(const Json& result) {
  if (result.contains("collectives")) return task_0_text(result);
  const Json& goal = result["goal"];
  const auto workers = result["workers"].get<int64_t>();
  std::string out;
  if (result["name"].is_string()) out += result["name"].get<std::string>() + ": ";
  out += result["task"].is_string() ? "task " + result["task"].get<std::string>() : std::string("unknown task");
  if (goal.is_object()) {
    out +=
        fmt::format(", {}goal {} {} {:g}", result["light"].is_boolean() && result["light"].get<bool>() ? "light " : "",
                    goal["metric"].get<std::string>(),
                    goal["higher_is_better"].get<bool>() ? ">=" : "<=", goal["target"].get<double>());
  }
  out += fmt::format(", {} (archive of {})\n", counted(workers, "worker"), source_of(result));
  if (result["official_result"].is_string()) {
    out += result["official_result"].get<std::string>() + "\n";
  } else if (goal.is_object()) {
    out += fmt::format("no result of MLBench's: the goal was not reached{}\n",
                       goal["value"].is_number() ? fmt::format(" (best {})", format_metric(goal["value"].get<double>()))
                                                 : std::string());
  } else {
    out += "no result of MLBench's: a run without a goal\n";
  }

  if (result["run_notes"].is_object()) out += notes_text(notes_from_json(result["run_notes"]));

  const Json& seconds = result["seconds"];
  const double whole = seconds[seconds["train"].is_number() ? "train" : "total"].get<double>();
  Table table({{"", "", Align::kLeft}, {"seconds", "", Align::kRight}, {"share", "", Align::kRight}});
  const std::pair<const char*, const char*> rows[] = {{"train", "train clock"}, {"total", "MLBench's clock"},
                                                      {"compute", "compute"},   {"communication", "communication"},
                                                      {"metrics", "metrics"},   {"preprocessing", "pre-processing"},
                                                      {"other", "other"}};
  for (const auto& [key, title] : rows) {
    if (!seconds[key].is_number()) continue;
    const double value = seconds[key].get<double>();
    const bool is_part = std::string_view(key) != "train" && std::string_view(key) != "total";
    table.add_row({title, format_seconds(value), is_part && whole > 0 ? format_percent(value / whole) : std::string()});
  }
  out += table.render();
  const auto epochs = result["epochs"].get<int64_t>(), evaluations = result["evaluations"].get<int64_t>();
  out += counted(epochs, "epoch") + ", " + counted(evaluations, "evaluation");
  if (goal.is_object() && goal["evaluation"].is_number()) {
    out += fmt::format("; the goal was met at evaluation {} with {}", goal["evaluation"].get<int64_t>(),
                       format_metric(goal["value"].get<double>()));
  }
  out += "\n";
  for (const Json& note : result["notes"]) out += fmt::format("note: {}\n", note.get<std::string>());
  if (result["differences"].empty())
    return printable_lines(out + "what the archive claims is what its events give\n", "");
  out += "the archive claims otherwise than its events give:\n";
  for (const Json& one : result["differences"]) {
    out += fmt::format("  {}\n    claimed  {}\n    derived  {}\n", one["what"].get<std::string>(),
                       one["claimed"].get<std::string>(), one["derived"].get<std::string>());
  }
  return printable_lines(out, "");
}

}  // namespace mlbench::report
