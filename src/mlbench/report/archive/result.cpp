#include "mlbench/report/archive/result.h"

#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/or_null.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/text.h"
#include "mlbench/report/archive/derivation.h"
#include "mlbench/report/archive/events.h"
#include "mlbench/report/collectives/result.h"
#include "mlbench/report/collectives/table.h"
#include "mlbench/report/draw/section.h"
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

Section task_0_section(const Json& result) {
  const auto workers = result["workers"].get<int64_t>();
  const std::vector<record::CollectiveRow> rows = collective_rows_of(result["collectives"]["results"], "the archive");
  Section section{
      fmt::format("MLBench's task 0a: all-reduce, {} (archive of {})", counted(workers, "worker"), source_of(result)),
      {},
      means_table(rows)};
  for (const Json& note : result["notes"]) section.notes.push_back("note: " + note.get<std::string>());
  return section;
}

// Whose result it is: run, task, goal, workers and archive.
std::string result_title(const Json& result) {
  const Json& goal = result["goal"];
  std::string out;
  if (result["name"].is_string()) out += result["name"].get<std::string>() + ": ";
  out += result["task"].is_string() ? "task " + result["task"].get<std::string>() : std::string("unknown task");
  if (goal.is_object()) {
    out +=
        fmt::format(", {}goal {} {} {:g}", result["light"].is_boolean() && result["light"].get<bool>() ? "light " : "",
                    goal["metric"].get<std::string>(),
                    goal["higher_is_better"].get<bool>() ? ">=" : "<=", goal["target"].get<double>());
  }
  return out +
         fmt::format(", {} (archive of {})", counted(result["workers"].get<int64_t>(), "worker"), source_of(result));
}

std::string official_words(const Json& result) {
  const Json& goal = result["goal"];
  if (result["official_result"].is_string()) return result["official_result"].get<std::string>();
  if (!goal.is_object()) return "no result of MLBench's: a run without a goal";
  return fmt::format("no result of MLBench's: the goal was not reached{}",
                     goal["value"].is_number() ? fmt::format(" (best {})", format_metric(goal["value"].get<double>()))
                                               : std::string());
}

Table seconds_table(const Json& seconds) {
  const double whole = seconds[seconds["train"].is_number() ? "train" : "total"].get<double>();
  Table table({{"time", "", Align::kLeft}, {"seconds", "", Align::kRight}, {"share", "", Align::kRight}});
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
  return table;
}

}  // namespace

std::string result_text(const Json& result, const TableStyle& style) {
  if (result.contains("collectives")) return written({task_0_section(result)}, style);
  Section about{result_title(result), {official_words(result)}, seconds_table(result["seconds"])};
  if (result["run_notes"].is_object()) {
    const std::string said = notes_text(notes_from_json(result["run_notes"]));
    for (std::string& line : split_at(trimmed(said), '\n')) about.sentences.push_back(std::move(line));
  }
  const Json& goal = result["goal"];
  const auto epochs = result["epochs"].get<int64_t>(), evaluations = result["evaluations"].get<int64_t>();
  about.notes.push_back(counted(epochs, "epoch") + ", " + counted(evaluations, "evaluation"));
  if (goal.is_object() && goal["evaluation"].is_number()) {
    about.notes.back() += fmt::format("; the goal was met at evaluation {} with {}", goal["evaluation"].get<int64_t>(),
                                      format_metric(goal["value"].get<double>()));
  }
  for (const Json& note : result["notes"]) about.notes.push_back("note: " + note.get<std::string>());
  Section claims;
  if (result["differences"].empty()) {
    claims.sentences.emplace_back("what the archive claims is what its events give");
  } else {
    claims.sentences.emplace_back("the archive claims otherwise than its events give:");
  }
  for (const Json& one : result["differences"]) {
    claims.sentences.push_back("  " + one["what"].get<std::string>());
    claims.sentences.push_back("    claimed  " + one["claimed"].get<std::string>());
    claims.sentences.push_back("    derived  " + one["derived"].get<std::string>());
  }
  return written({about, claims}, style);
}

}  // namespace mlbench::report
