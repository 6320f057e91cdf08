#include "mlbench/report/summary.h"
#include "mlbench/report/scaling.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "mlbench/base/input.h"
#include "mlbench/base/printable.h"
#include "mlbench/record/spool.h"
#include "mlbench/report/collectives_table.h"
#include "mlbench/report/table.h"

namespace mlbench::report {

namespace {

std::string workers_by_threads(const RunFigures& figures) {
  return fmt::format("{} x {}", figures.workers, figures.threads_per_worker);
}

std::string plural(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", format_count(count), noun, count == 1 ? "" : "s");
}

// "2026-11-21T11:33:47.000000Z" -> "2026-11-21 11:33:47"
std::string short_stamp(const std::string& stamp) {
  if (stamp.size() < 19) return stamp.empty() ? std::string(kNone) : stamp;
  return stamp.substr(0, 10) + " " + stamp.substr(11, 8);
}

std::string goal_words(const Json& record) {
  if (text(record, "/division") == "throughput") return "none";
  if (!record.contains("goal") || !record["goal"].is_object()) return std::string(kNone);
  return record["goal"].value("reached", false) ? "reached" : "not reached";
}

const Json* member(const Json& record, const char* name, Json::value_t type) {
  const auto found = record.find(name);
  return found != record.end() && found->type() == type ? &*found : nullptr;
}

}  // namespace

std::string status_table(const std::vector<Json>& records) {
  Table table({{"id", "", Align::kRight},
               {"name", "", Align::kLeft},
               {"state", "", Align::kLeft},
               {"task", "", Align::kLeft},
               {"workers", "x threads", Align::kLeft},
               {"created", "UTC", Align::kLeft},
               {"train", "s", Align::kRight},
               {"evaluation", "", Align::kLeft},
               {"goal", "", Align::kLeft},
               {"notes", "", Align::kLeft}});
  for (const Json& record : records) {
    const RunFigures figures = figures_of(record);
    const auto id = number(record, "/id");
    table.add_row({id ? fmt::format("{:.0f}", *id) : std::string(kNone), figures.name, figures.state,
                   text(record, "/task"), workers_by_threads(figures), short_stamp(text(record, "/created_at")),
                   format_seconds(figures.train_s), figures.evaluation, goal_words(record),
                   fmt::format("{}", fmt::join(figures.labels, ", "))});
  }
  return table.render();
}

namespace {

// Of the columns of times in the table of results. Of a run that shared its host there are none to show.
std::vector<std::string> time_cells(const RunFigures& figures, bool hidden) {
  if (figures.shared_host) return std::vector<std::string>(hidden ? 9 : 8, std::string(kNone));
  const std::string goal = figures.time_to_goal_s ? format_seconds(figures.time_to_goal_s)
                           : figures.has_goal     ? "not reached"
                                                  : "no goal";
  std::vector<std::string> cells = {goal,
                                    format_seconds(figures.train_s),
                                    format_seconds(figures.train_legacy_s),
                                    format_seconds(figures.wall_s),
                                    format_rate(figures.samples_per_s),
                                    format_percent(figures.communication_share),
                                    format_wait(figures.wait_share, figures.exchange_exact),
                                    format_transfer(figures.transfer_share, figures.exchange_exact)};
  if (hidden) cells.push_back(format_percent(figures.hidden_share));
  return cells;
}

// Speed-ups, each against its baseline, and why others have none.
std::string scaling_table(const ScaledRuns& scaled) {
  const bool one_baseline = scaled.baseline_workers > 0;
  std::vector<Column> columns = {{"run", "", Align::kLeft},
                                 {"workers", "", Align::kRight},
                                 {"speed-up", "to goal", Align::kRight},
                                 {"efficiency", "to goal", Align::kRight},
                                 {"speed-up", "throughput", Align::kRight},
                                 {"efficiency", "throughput", Align::kRight}};
  if (!one_baseline) columns.push_back({"against", "", Align::kLeft});
  Table table(std::move(columns));
  std::string notes;
  for (const ScaledRun& run : scaled.runs) {
    if (run.baseline_workers == 0) {
      notes += fmt::format("  {}: {}\n", run.figures.name, run.no_ratio);
      continue;
    }
    std::vector<std::string> cells = {run.figures.name, fmt::format("{}", run.figures.workers)};
    for (const std::optional<Scaling>& value : {run.to_goal, run.rate}) {
      using Figure = std::optional<double>;
      cells.push_back(format_ratio(value ? Figure(value->speed_up) : Figure()));
      cells.push_back(format_percent(value ? Figure(value->efficiency) : Figure()));
    }
    if (!one_baseline) cells.push_back(run.baseline);
    table.add_row(std::move(cells));
  }
  for (const std::string& note : scaled.notes) notes += "  " + note + "\n";
  std::string out = "\n";
  if (one_baseline) {
    out += fmt::format("Scaling against {} ({})\n", scaled.baseline_names, plural(scaled.baseline_workers, "worker"));
  } else if (!table.empty()) {
    out += "Scaling\n";
  }
  if (!table.empty()) out += table.render();
  return printable_lines(out + notes, "");
}

}  // namespace

std::string results_table(const std::vector<Json>& records) {
  const ScaledRuns scaled = scale_runs(records);
  std::vector<Column> columns = {{"run", "", Align::kLeft},
                                 {"state", "", Align::kLeft},
                                 {"workers", "x threads", Align::kLeft},
                                 {"time to goal", "s", Align::kRight},
                                 {"train", "s", Align::kRight},
                                 {"legacy", "s", Align::kRight},
                                 {"wall", "s", Align::kRight},
                                 {"throughput", "samples/s", Align::kRight},
                                 {"comm.", "of train", Align::kRight},
                                 {"wait", "of train", Align::kRight},
                                 {"transfer", "of train", Align::kRight}};
  const bool hidden = std::ranges::any_of(scaled.runs, [](const ScaledRun& run) { return run.figures.hides(); });
  if (hidden) columns.push_back({"hidden", "of train", Align::kRight});
  columns.push_back({"evaluation", "", Align::kLeft});
  columns.push_back({"notes", "", Align::kLeft});
  Table results(std::move(columns));
  bool several_counts = false;
  for (const ScaledRun& run : scaled.runs) {
    const RunFigures& figures = run.figures;
    several_counts = several_counts || figures.workers != scaled.runs.front().figures.workers;
    std::vector<std::string> cells = {figures.name, figures.state, workers_by_threads(figures)};
    for (std::string& cell : time_cells(figures, hidden)) cells.push_back(std::move(cell));
    cells.push_back(figures.evaluation.empty() ? std::string(kNone) : figures.evaluation);
    cells.push_back(fmt::format("{}", fmt::join(figures.labels, ", ")));
    results.add_row(std::move(cells));
  }
  std::string out = results.render();
  if (several_counts) out += scaling_table(scaled);
  return out;
}

std::string failure_text(const Json& record) {
  const Json* failure = member(record, "failure", Json::value_t::object);
  if (text(record, "/state") != "failed" && failure == nullptr) return "";
  std::string out = text(record, "/name") + " failed";
  if (failure != nullptr) {
    out += ": " + text(*failure, "/kind");
    if (const auto rank = number(*failure, "/rank"); rank && *rank >= 0) out += fmt::format(", rank {:.0f}", *rank);
    if (const std::string host = text(*failure, "/host"); !host.empty()) out += " on " + printable(host);
    if (const std::string operation = text(*failure, "/operation"); !operation.empty()) {
      out += " in " + printable(operation);
      if (const auto sequence = number(*failure, "/sequence"); sequence && *sequence >= 0) {
        out += fmt::format(" #{:.0f}", *sequence);
      }
    }
    if (const std::string message = text(*failure, "/message"); !message.empty()) {
      out += "\n  " + printable_lines(message, "  ");
    }
  }
  if (const Json* codes = member(record, "exit_codes", Json::value_t::array); codes != nullptr && !codes->empty()) {
    std::vector<std::string> words;
    for (size_t rank = 0; rank < codes->size(); ++rank) {
      const Json& code = (*codes)[rank];
      const auto number = integer_of(code);
      std::string word = number ? std::to_string(*number) : "unknown";
      if (number && *number > 128) word += fmt::format(" (signal {})", *number - 128);
      words.push_back(fmt::format("rank {}: {}", rank, word));
    }
    out += fmt::format("\n  exit codes  {}", fmt::join(words, ", "));
  }
  if (failure != nullptr) {
    const Json* tail = member(*failure, "log_tail", Json::value_t::array);
    if (tail != nullptr && !tail->empty()) {
      out += "\n  last log lines";
      for (const Json& line : *tail) {
        if (line.is_string()) out += "\n    " + printable(line.get_ref<const std::string&>());
      }
    }
  }
  return out + "\n";
}

namespace {

std::string outcome(const Json& record) {
  const std::string state = text(record, "/state");
  const Json* goal = member(record, "goal", Json::value_t::object);
  if (goal == nullptr || text(record, "/division") == "throughput") return state;
  const std::string metric = text(*goal, "/metric");
  const std::string split = text(*goal, "/split");
  const auto target = number(*goal, "/target");
  const std::string target_words = target ? fmt::format("{} {:g} on {} data", metric, *target, split) : metric;
  if (!goal->value("reached", false)) return fmt::format("{}, goal not reached ({})", state, target_words);
  std::string out = fmt::format("{}, goal reached ({})", state, target_words);
  if (const auto value = number(*goal, "/value")) out += ": " + format_metric(*value);
  if (const auto step = number(*goal, "/step")) out += fmt::format(" at step {}", format_count(int64_t(*step)));
  if (const auto epoch = number(*goal, "/epoch")) out += fmt::format(", epoch {:.2f}", *epoch);
  const auto best = number(*goal, "/best/value");
  if (best && best != number(*goal, "/value")) out += "; best " + format_metric(*best);
  return out;
}

std::string kinds_table(const Json& record) {
  const RunFigures figures = figures_of(record);
  const auto train = figures.train_s;
  if (!train || *train <= 0) return "";
  Table table({{"step kind", "", Align::kLeft}, {"time", "s", Align::kRight}, {"share", "of train", Align::kRight}});
  for (const std::string_view kind : record::kStepKindNames) {
    const auto seconds = number(record, ("/steps_s/" + std::string(kind)).c_str());
    if (seconds) table.add_row({std::string(kind), format_seconds(seconds), format_percent(*seconds / *train)});
    // Wait and transfer are parts of agg where nothing runs beside the computation.
    const auto part = [&](const char* name, const char* pointer) {
      const auto of_part = number(record, pointer);
      if (of_part) table.add_row({name, format_seconds(of_part), format_percent(*of_part / *train)});
    };
    if (kind == "backprop" && figures.hides()) part("  hidden", "/exchange/hidden_s/0");
    if (kind == "agg" && figures.hides()) part("  exposed", "/exchange/exposed_s/0");
    if (kind == "agg" && figures.wait_share && !figures.hides()) {
      const bool exact = figures.exchange_exact;
      table.add_row(
          {"  wait", format_seconds(number(record, "/exchange/wait_s/0")), format_wait(figures.wait_share, exact)});
      table.add_row({"  transfer", format_seconds(number(record, "/exchange/transfer_s/0")),
                     format_transfer(figures.transfer_share, exact)});
    }
  }
  return table.empty() ? "" : "\nWhere rank 0's train clock goes\n" + table.render();
}

// "transfer 1.20 s; wait 0.10 s (rank 1) to 12.3 s (rank 0)", and with overlap "; of rank 0's 3.00 s exposed, 10.5 s
// hidden"
std::string exchange_words(const Json& record) {
  const auto exchange = record.find("exchange");
  if (exchange == record.end() || !exchange->is_object()) return "";
  const Json* waits = member(*exchange, "wait_s", Json::value_t::array);
  const auto transfer = number(*exchange, "/transfer_s/0");
  if (waits == nullptr || waits->empty() || !transfer) return "";
  if (!std::ranges::all_of(*waits, [](const Json& wait) { return wait.is_number(); })) return "";
  const auto [least, most] = std::minmax_element(waits->begin(), waits->end());
  const auto words = [&](const auto& wait) {
    return fmt::format("{} s (rank {})", format_seconds(wait->template get<double>()), wait - waits->begin());
  };
  const bool exact = exchange->value("exact", Json(false)) == true;
  std::string out = fmt::format("transfer {}{} s; wait {}{} to {}", exact ? "" : "at most ", format_seconds(transfer),
                                exact ? "" : "at least ", words(least), words(most));
  const auto exposed = number(*exchange, "/exposed_s/0"), hidden = number(*exchange, "/hidden_s/0");
  if (exposed && hidden.value_or(0) > 0) {
    out += fmt::format("; of rank 0's {} s exposed, {} s hidden", format_seconds(exposed), format_seconds(hidden));
  }
  return out;
}

// Sums where all parts are known.
std::optional<double> sum_of(const Json& operation, const char* forward, const char* backward) {
  const auto a = number(operation, forward), b = number(operation, backward);
  return a && b ? std::optional(*a + *b) : std::nullopt;
}

std::string evaluations_table(const Json& record) {
  const Json* evaluations = member(record, "evaluations", Json::value_t::array);
  if (evaluations == nullptr || evaluations->empty()) return "";
  std::vector<std::string> metrics;
  const Json first = evaluations->front().value("metrics", Json::object());
  for (const auto& [name, value] : first.items()) metrics.push_back(name);
  std::vector<Column> columns = {{"step", "", Align::kRight},
                                 {"epoch", "", Align::kRight},
                                 {"samples", "", Align::kRight},
                                 {"split", "", Align::kLeft},
                                 {"train", "s", Align::kRight}};
  for (const std::string& metric : metrics) columns.push_back({metric, "", Align::kRight});
  const auto at_limit = [](const Json& evaluation) { return evaluation.value("cadence", Json(true)) == false; };
  const bool marked = std::ranges::any_of(*evaluations, at_limit);
  if (marked) columns.push_back({"", "", Align::kLeft});
  Table table(std::move(columns));
  for (const Json& evaluation : *evaluations) {
    const auto count = [&](const char* pointer) {
      const auto value = number(evaluation, pointer);
      return value ? format_count(static_cast<int64_t>(*value)) : std::string(kNone);
    };
    const auto epoch = number(evaluation, "/epoch");
    std::vector<std::string> cells = {count("/step"), epoch ? fmt::format("{:.2f}", *epoch) : std::string(kNone),
                                      count("/samples"), text(evaluation, "/split"),
                                      format_seconds(number(evaluation, "/train_s"))};
    const Json values = evaluation.value("metrics", Json::object());
    for (const std::string& metric : metrics) {
      const bool there = values.contains(metric) && values[metric].is_number();
      cells.push_back(there ? format_metric(values[metric].get<double>()) : std::string(kNone));
    }
    if (marked) cells.emplace_back(at_limit(evaluation) ? "at the limit: meets no goal" : "");
    table.add_row(std::move(cells));
  }
  return "\nEvaluations\n" + table.render();
}

}  // namespace

std::string operations_table(const Json& record) {
  const Json* operations = member(record, "operations", Json::value_t::array);
  if (operations == nullptr || operations->empty()) return "";
  const bool timed =
      std::ranges::any_of(*operations, [](const Json& one) { return number(one, "/forward_s").has_value(); });
  std::vector<Column> columns = {{"operation", "", Align::kLeft}};
  if (timed) {
    for (const char* pass : {"forward", "backward"}) {
      columns.push_back({pass, "ms", Align::kRight});
      columns.push_back({"", "GFLOP/s", Align::kRight});
    }
    columns.push_back({"data", "MB", Align::kRight});
    columns.push_back({"floor", "ms", Align::kRight});
    columns.push_back({"floor", "of time", Align::kRight});
  }
  columns.push_back({"implementation", "", Align::kLeft});
  Table table(std::move(columns));
  const auto milliseconds = [](std::optional<double> seconds) {
    return seconds ? fmt::format("{:.3f}", *seconds * 1e3) : std::string(kNone);
  };
  const auto rate = [](std::optional<double> flops, std::optional<double> seconds) {
    return flops && seconds && *seconds > 0 ? fmt::format("{:.0f}", *flops / *seconds * 1e-9) : std::string(kNone);
  };
  const auto row = [&](const Json& one, std::vector<std::string>& cells) {
    const auto forward = number(one, "/forward_s"), backward = number(one, "/backward_s");
    const auto time = sum_of(one, "/forward_s", "/backward_s");
    const auto floor = sum_of(one, "/forward_floor_s", "/backward_floor_s");
    const auto bytes = number(one, "/bytes");
    cells.insert(cells.end(), {milliseconds(forward), rate(number(one, "/forward_flops"), forward),
                               milliseconds(backward), rate(number(one, "/backward_flops"), backward),
                               bytes ? fmt::format("{:.2f}", *bytes * 1e-6) : std::string(kNone), milliseconds(floor),
                               floor && time && *time > 0 ? format_percent(*floor / *time) : std::string(kNone)});
  };
  Json total = {{"forward_s", 0.0}, {"backward_s", 0.0}, {"forward_floor_s", 0.0}, {"backward_floor_s", 0.0}};
  for (const Json& one : *operations) {
    std::vector<std::string> cells = {text(one, "/name")};
    if (timed) row(one, cells);
    cells.push_back(text(one, "/implementation"));
    table.add_row(std::move(cells));
    for (auto& [name, value] : total.items())
      value = value.get<double>() + number(one, ("/" + name).c_str()).value_or(0);
  }
  if (timed) {
    std::vector<std::string> cells = {"all"};
    row(total, cells);
    cells.emplace_back();
    table.add_row(std::move(cells));
  }
  const char* heading = timed ? "A step, operation by operation: rank 0's first thread; floor: the same kernels alone"
                              : "The operations of a step";
  return fmt::format("\n{}, {}\n{}", text(record, "/name"), heading, table.render());
}

std::string run_details(const Json& record) {
  const RunFigures figures = figures_of(record);
  std::string out = fmt::format("{}: {}\n", figures.name, outcome(record));
  const auto line = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) out += fmt::format("  {:<11} {}\n", key, value);
  };

  std::string task = text(record, "/task");
  if (const std::string rules = text(record, "/rules"); !rules.empty()) task += ", rules " + rules;
  if (const std::string variant = text(record, "/variant"); !variant.empty()) task += ", variant " + variant;
  task += ", " + text(record, "/division");
  if (const Json* overrides = member(record, "overrides", Json::value_t::array)) {
    for (const Json& one : *overrides) task += fmt::format(", {}={}", text(one, "/key"), text(one, "/value"));
  }
  line("task", task);
  const auto cpus = number(record, "/engine/cpus");
  line("run", fmt::format("{} x {}{}, {}, {}, {}, seed {:.0f}", plural(figures.workers, "worker"),
                          plural(figures.threads_per_worker, "thread"),
                          cpus ? fmt::format(" with {:.7g} CPUs", *cpus) : "", text(record, "/framework"),
                          text(record, "/backend"), text(record, "/executor"), number(record, "/seed").value_or(0)));
  if (const Json* hosts = member(record, "hosts", Json::value_t::array); hosts && hosts->size() > 1) {
    std::vector<std::string> names;
    for (const Json& host : *hosts) names.push_back(text(host, "/name"));
    line("hosts", fmt::format("{}", fmt::join(names, ", ")));
  }
  line("labels", fmt::format("{}", fmt::join(figures.labels, ", ")));
  line("data", text(record, "/data/name"));
  line("created", short_stamp(text(record, "/created_at")) + " UTC");
  if (!text(record, "/started_at").empty()) line("started", short_stamp(text(record, "/started_at")) + " UTC");
  if (!text(record, "/finished_at").empty()) line("finished", short_stamp(text(record, "/finished_at")) + " UTC");
  const auto queue_s = number(record, "/clocks/queue_s");
  line("clocks", fmt::format("train {} s, legacy {} s, wall {} s, prepare {} s{}", format_seconds(figures.train_s),
                             format_seconds(figures.train_legacy_s), format_seconds(figures.wall_s),
                             format_seconds(number(record, "/clocks/prepare_s")),
                             queue_s && *queue_s > 0 ? fmt::format(", queue {} s", format_seconds(queue_s)) : ""));
  if (figures.samples_per_s) {
    std::string rate = format_rate(figures.samples_per_s) + " samples/s";
    if (const auto median = number(record, "/throughput/median_samples_per_s")) {
      rate += fmt::format(" (median step {})", format_rate(median));
    }
    if (const auto rss = number(record, "/throughput/peak_rss")) {
      rate += ", peak memory " + format_bytes(static_cast<uint64_t>(*rss));
    }
    line("throughput", rate);
  }
  line("exchange", exchange_words(record));
  line("weights", text(record, "/weights_sha256"));
  if (const Json* segments = member(record, "segments", Json::value_t::array); segments && segments->size() > 1) {
    std::vector<std::string> words;
    for (const Json& segment : *segments) {
      words.push_back(fmt::format("from step {:.0f}", number(segment, "/start_step").value_or(0)));
    }
    line("segments", fmt::format("{}: {}", segments->size(), fmt::join(words, ", ")));
  }
  if (const Json* notes = member(record, "notes", Json::value_t::array)) {
    for (const Json& note : *notes) {
      if (note.is_string()) line("note", note.get<std::string>());
    }
  }
  out += kinds_table(record) + operations_table(record) + evaluations_table(record);
  if (member(record, "collectives", Json::value_t::object) != nullptr) {
    const auto result = collectives_of(record);
    if (result && (!result->rows.empty() || result->pairs)) out += "\n" + collectives_table(*result);
  }
  if (const std::string failure = failure_text(record); !failure.empty()) out += "\n" + failure;
  return printable_lines(out, "");
}

}  // namespace mlbench::report
