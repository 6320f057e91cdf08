#include "mlbench/report/summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "mlbench/base/input.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/text.h"
#include "mlbench/record/spool.h"
#include "mlbench/report/collectives/table.h"
#include "mlbench/report/draw/section.h"
#include "mlbench/report/draw/step_words.h"
#include "mlbench/report/feed.h"
#include "mlbench/report/study/scaling.h"
#include "mlbench/report/study/study.h"

namespace mlbench::report {

using record::Record;

namespace {

constexpr int64_t kNamedBadImages = 3;

std::string plural(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", format_count(count), noun, count == 1 ? "" : "s");
}

// The cells of times in the table of results, one more where there is a column `hidden`. A run that shared its host has
// no times to show.
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

// A table of speed-ups, each against its baseline, and notes why other runs have none.
Section scaling_section(const ScaledRuns& scaled) {
  const bool one_baseline = scaled.baseline_workers > 0;
  std::vector<Column> columns = {{"run", "", Align::kLeft},
                                 {"workers", "", Align::kRight},
                                 {"speed-up", "to goal", Align::kRight},
                                 {"efficiency", "to goal", Align::kRight},
                                 {"speed-up", "throughput", Align::kRight},
                                 {"efficiency", "throughput", Align::kRight}};
  if (!one_baseline) columns.push_back({"against", "", Align::kLeft});
  Section section;
  Table table(std::move(columns));
  for (const ScaledRun& run : scaled.runs) {
    if (run.baseline_workers == 0) {
      section.notes.push_back(fmt::format("{}: {}", run.figures.name, run.no_ratio));
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
  section.notes.insert(section.notes.end(), scaled.notes.begin(), scaled.notes.end());
  if (one_baseline) {
    section.title =
        fmt::format("Scaling against {} ({})", scaled.baseline_names, plural(scaled.baseline_workers, "worker"));
  } else if (!table.empty()) {
    section.title = "Scaling";
  }
  if (!table.empty()) section.table = std::move(table);
  return section;
}

// What runs say together: with repeats a row for each worker count, with several counts whether more are worth it.
std::vector<Section> answers(const std::vector<Record>& records) {
  std::vector<MeasuredRun> runs;
  for (const Record& record : records) runs.push_back({record, {}, ""});
  std::vector<Section> sections;
  for (const Study& study : priced_studies(runs).studies) {
    bool repeated = false, several_counts = false;
    for (const StudyLine& line : study.lines) {
      several_counts = several_counts || line.points.size() > 1;
      for (const StudyPoint& point : line.points) repeated = repeated || point.runs.size() > 1;
    }
    if (repeated) sections.push_back({"Repeats: geometric means and 95 % intervals", {}, repeats_table(study)});
    if (several_counts) sections.push_back({"", answer_lines(study)});
  }
  return sections;
}

}  // namespace

std::string results_table(const std::vector<Record>& records, const TableStyle& style) {
  const ScaledRuns scaled = scale_runs(records);
  std::vector<Column> columns = {{"run", "", Align::kLeft},
                                 {"state", "", Align::kLeft, 1},
                                 {"workers", "x threads", Align::kLeft, 1},
                                 {"time to goal", "s", Align::kRight},
                                 {"train", "s", Align::kRight, 1},
                                 {"legacy", "s", Align::kRight, 5},
                                 {"wall", "s", Align::kRight, 3},
                                 {"throughput", "samples/s", Align::kRight},
                                 {"comm.", "of train", Align::kRight, 2},
                                 {"waiting", "of train", Align::kRight, 4},
                                 {"transfer", "of train", Align::kRight, 4}};
  const bool hidden = std::ranges::any_of(scaled.runs, [](const ScaledRun& run) { return run.figures.hides(); });
  if (hidden) columns.push_back({"hidden", "of train", Align::kRight, 4});
  const bool metered = std::ranges::any_of(
      scaled.runs, [](const ScaledRun& run) { return run.figures.energy_to_goal_joules.has_value(); });
  if (metered) columns.push_back({"energy", "kJ to goal", Align::kRight, 4});
  columns.push_back({"evaluation", "", Align::kLeft, 2});
  columns.push_back({"notes", "", Align::kLeft});
  Table results(std::move(columns));
  bool several_counts = false;
  for (const ScaledRun& run : scaled.runs) {
    const RunFigures& figures = run.figures;
    several_counts = several_counts || figures.workers != scaled.runs.front().figures.workers;
    std::vector<std::string> cells = {figures.name, figures.state,
                                      fmt::format("{} x {}", figures.workers, figures.threads_per_worker)};
    for (std::string& cell : time_cells(figures, hidden)) cells.push_back(std::move(cell));
    if (metered) cells.push_back(format_kilojoules(figures.energy_to_goal_joules));
    cells.push_back(figures.evaluation.empty() ? std::string(kNone) : figures.evaluation);
    cells.push_back(fmt::format("{}", fmt::join(figures.labels, ", ")));
    results.add_row(std::move(cells));
  }
  std::vector<Section> sections = {{"", {}, std::move(results)}};
  if (several_counts) sections.push_back(scaling_section(scaled));
  for (Section& answer : answers(records)) sections.push_back(std::move(answer));
  return written(sections, style);
}

std::string failure_text(const Record& record) {
  if (record.state != "failed" && !record.failure) return "";
  std::string out = record.name + " failed";
  if (record.failure) {
    const record::Failure& failure = *record.failure;
    out += ": " + failure.kind;
    if (failure.rank >= 0) out += fmt::format(", rank {}", failure.rank);
    if (!failure.host.empty()) out += " on " + printable(failure.host);
    if (!failure.operation.empty()) {
      out += " in " + printable(failure.operation);
      if (failure.sequence >= 0) out += fmt::format(" #{}", failure.sequence);
    }
    if (!failure.message.empty()) out += "\n  " + printable_lines(failure.message, "  ");
  }
  if (!record.exit_codes.empty()) {
    std::vector<std::string> words;
    for (const std::optional<int64_t>& code : record.exit_codes) {
      std::string word = code ? std::to_string(*code) : "unknown";
      if (code && *code > 128) word += fmt::format(" (signal {})", *code - 128);
      words.push_back(fmt::format("rank {}: {}", words.size(), word));
    }
    out += fmt::format("\n  exit codes  {}", fmt::join(words, ", "));
  }
  if (record.failure && !record.failure->log_tail.empty()) {
    out += "\n  last log lines";
    for (const std::string& line : record.failure->log_tail) out += "\n    " + printable(line);
  }
  return out + "\n";
}

namespace {

std::string outcome(const Record& record) {
  if (!record.goal || record.division == "throughput") return record.state;
  const record::Goal& goal = *record.goal;
  const std::string target =
      goal.target ? fmt::format("{} {:g} on {} data", goal.metric, *goal.target, goal.split) : goal.metric;
  if (!goal.reached) return fmt::format("{}, goal not reached ({})", record.state, target);
  std::string out = fmt::format("{}, goal reached ({})", record.state, target);
  if (goal.value) out += ": " + format_metric(*goal.value);
  if (goal.step) out += fmt::format(" at step {}", format_count(*goal.step));
  if (goal.epoch) out += fmt::format(", epoch {:.2f}", *goal.epoch);
  if (goal.best && goal.best->value != goal.value) out += "; best " + format_metric(goal.best->value);
  return out;
}

std::optional<Section> kinds_section(const Record& record) {
  const RunFigures figures = figures_of(record);
  const auto train = figures.train_s;
  if (!train || *train <= 0) return std::nullopt;
  const record::Exchange exchange = record.exchange.value_or(record::Exchange{});
  Table table({{"step kind", "", Align::kLeft}, {"time", "s", Align::kRight}, {"share", "of train", Align::kRight}});
  const auto add = [&](std::string_view name, const std::optional<double>& seconds) {
    if (seconds) table.add_row({std::string(name), format_seconds(seconds), format_percent(*seconds / *train)});
  };
  for (const std::string_view kind : record::kStepKindNames) {
    add(word_of_kind(kind), spec::find_number(record.steps_s, kind));
    // Wait and transfer are parts of agg only where no communication runs beside the computation.
    if (kind == "backprop" && figures.hides()) add("  hidden", of_rank_0(exchange.hidden_s));
    if (kind == "agg" && figures.hides()) add("  exposed", of_rank_0(exchange.exposed_s));
    if (kind == "agg" && figures.wait_share && !figures.hides()) {
      const bool exact = figures.exchange_exact;
      table.add_row({"  waiting", format_seconds(of_rank_0(exchange.wait_s)), format_wait(figures.wait_share, exact)});
      table.add_row({"  transfer", format_seconds(of_rank_0(exchange.transfer_s)),
                     format_transfer(figures.transfer_share, exact)});
    }
  }
  if (table.empty()) return std::nullopt;
  return Section{"Where rank 0's train clock goes", {}, std::move(table)};
}

// "transfer 1.20 s; wait 0.10 s (rank 1) to 12.3 s (rank 0)"; with overlap, behind that "; of rank 0's 3.00 s exposed,
// 10.5 s hidden".
std::string exchange_words(const Record& record) {
  if (!record.exchange || record.exchange->wait_s.empty() || record.exchange->transfer_s.empty()) return "";
  const record::Exchange& exchange = *record.exchange;
  const auto [least, most] = std::ranges::minmax_element(exchange.wait_s);
  const auto words = [&](const auto& wait) {
    return fmt::format("{} s (rank {})", format_seconds(*wait), wait - exchange.wait_s.begin());
  };
  std::string out = fmt::format("transfer {}{} s; wait {}{} to {}", exchange.exact ? "" : "at most ",
                                format_seconds(exchange.transfer_s.front()), exchange.exact ? "" : "at least ",
                                words(least), words(most));
  const auto exposed = of_rank_0(exchange.exposed_s), hidden = of_rank_0(exchange.hidden_s);
  if (exposed && hidden.value_or(0) > 0) {
    out += fmt::format("; of rank 0's {} s exposed, {} s hidden", format_seconds(exposed), format_seconds(hidden));
  }
  return out;
}

std::optional<Section> evaluations_section(const Record& record) {
  if (record.evaluations.empty()) return std::nullopt;
  std::vector<Column> columns = {{"step", "", Align::kRight},
                                 {"epoch", "", Align::kRight},
                                 {"samples", "", Align::kRight},
                                 {"split", "", Align::kLeft},
                                 {"train", "s", Align::kRight}};
  const record::NamedNumbers& metrics = record.evaluations.front().metrics;
  for (const auto& [metric, value] : metrics) columns.push_back({metric, "", Align::kRight});
  const auto at_limit = [](const record::Evaluation& evaluation) { return evaluation.cadence == false; };
  const bool marked = std::ranges::any_of(record.evaluations, at_limit);
  if (marked) columns.push_back({"", "", Align::kLeft});
  Table table(std::move(columns));
  const auto count = [](const std::optional<int64_t>& value) {
    return value ? format_count(*value) : std::string(kNone);
  };
  for (const record::Evaluation& evaluation : record.evaluations) {
    std::vector<std::string> cells = {count(evaluation.step),
                                      evaluation.epoch ? fmt::format("{:.2f}", *evaluation.epoch) : std::string(kNone),
                                      count(evaluation.samples), evaluation.split, format_seconds(evaluation.train_s)};
    for (const auto& [metric, unused] : metrics) {
      const auto value = spec::find_number(evaluation.metrics, metric);
      cells.push_back(value && !std::isnan(*value) ? format_metric(*value) : std::string(kNone));
    }
    if (marked) cells.emplace_back(at_limit(evaluation) ? "at the limit: meets no goal" : "");
    table.add_row(std::move(cells));
  }
  return Section{"Evaluations", {}, std::move(table)};
}

// The sum where both parts are known; else empty.
std::optional<double> sum_where_known(const std::optional<double>& a, const std::optional<double>& b) {
  return a && b ? std::optional(*a + *b) : std::nullopt;
}

std::optional<Section> operations_section(const Record& record) {
  if (record.operations.empty()) return std::nullopt;
  const bool timed = std::ranges::any_of(record.operations,
                                         [](const record::OperationCost& one) { return one.forward_s.has_value(); });
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
  const auto row = [&](const record::OperationCost& one, std::vector<std::string>& cells) {
    const auto time = sum_where_known(one.forward_s, one.backward_s);
    const auto floor = sum_where_known(one.forward_floor_s, one.backward_floor_s);
    cells.insert(
        cells.end(),
        {milliseconds(one.forward_s), rate(one.forward_flops, one.forward_s), milliseconds(one.backward_s),
         rate(one.backward_flops, one.backward_s),
         one.bytes ? fmt::format("{:.2f}", static_cast<double>(*one.bytes) * 1e-6) : std::string(kNone),
         milliseconds(floor), floor && time && *time > 0 ? format_percent(*floor / *time) : std::string(kNone)});
  };
  record::OperationCost total;
  for (const record::OperationCost& one : record.operations) {
    std::vector<std::string> cells = {one.name};
    if (timed) row(one, cells);
    cells.push_back(one.implementation);
    table.add_row(std::move(cells));
    using Cost = record::OperationCost;
    for (const auto part : {&Cost::forward_s, &Cost::backward_s, &Cost::forward_floor_s, &Cost::backward_floor_s}) {
      total.*part = (total.*part).value_or(0) + (one.*part).value_or(0);
    }
  }
  if (timed) {
    std::vector<std::string> cells = {"all"};
    row(total, cells);
    cells.emplace_back();
    table.add_row(std::move(cells));
  }
  const char* heading = timed ? "A step, operation by operation: rank 0's first thread; floor: the same kernels alone"
                              : "The operations of a step";
  return Section{fmt::format("{}, {}", record.name, heading), {}, std::move(table)};
}

// "n1, n2, n3 and 5 more".
std::string host_words(std::vector<std::string> names) {
  constexpr size_t kMostHosts = 3;
  const size_t more = names.size() - std::min(names.size(), kMostHosts);
  names.resize(names.size() - more);
  return fmt::format("{}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

// "12.3 kJ, 8.10 kJ to the goal (all programs of n1, n2; RAPL: package-0)", or "not known: no meter can be read on n2".
// "" where no host has a meter.
std::string energy_words(const Record& record, const RunFigures& figures) {
  if (!record.energy) return "";
  std::vector<std::string> hosts, without;
  std::set<std::string> meters;
  for (const record::HostEnergy& one : record.energy->hosts) {
    (one.joules ? hosts : without).push_back(one.host);
    if (one.joules) meters.insert(one.meter);
  }
  if (hosts.empty()) return "";
  if (!without.empty()) return "not known: no meter can be read on " + host_words(std::move(without));
  std::string words = format_kilojoules(figures.energy_joules) + " kJ";
  if (figures.energy_to_goal_joules) {
    words += fmt::format(", {} kJ to the goal", format_kilojoules(figures.energy_to_goal_joules));
  }
  return words + fmt::format(" (all programs of {}; {})", host_words(std::move(hosts)), fmt::join(meters, "; "));
}

// "2 of at most 5: NAME (REASON), ..."; "" where every image could be decoded.
std::string bad_image_words(const Record& record) {
  const int64_t count = bad_images_of(record);
  if (count == 0) return "";
  std::vector<std::string> named;
  for (const record::BadImage& bad : record.data.bad_images->first) {
    if (std::ssize(named) == kNamedBadImages) break;
    named.push_back(fmt::format("{} ({})", printable(bad.image), printable(bad.message)));
  }
  std::string words = fmt::format("{} of at most {}: {}", format_count(count),
                                  format_count(record.data.bad_images->allowed), fmt::join(named, ", "));
  if (count > std::ssize(named)) words += fmt::format(" and {} more", format_count(count - std::ssize(named)));
  return words;
}

// What one run is: its task, settings, clocks and outcome.
Section run_section(const Record& record) {
  const RunFigures figures = figures_of(record);
  Section section{fmt::format("{}: {}", figures.name, outcome(record)), {}};
  const auto line = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) section.notes.push_back(fmt::format("{:<11} {}", key, value));
  };
  const auto stamp = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) line(key, short_stamp(value) + " UTC");
  };

  std::string task = record.task;
  if (!record.rules.empty()) task += ", rules " + record.rules;
  if (!record.variant.empty()) task += ", variant " + record.variant;
  task += ", " + record.division;
  for (const auto& [key, value] : record.overrides.value_or(std::vector<spec::Override>{})) {
    task += fmt::format(", {}={}", key, value);
  }
  line("task", task);
  const auto cpus = cpus_of(record);
  line("run",
       fmt::format("{} x {}{}, {}, {}, {}, seed {}", plural(figures.workers, "worker"),
                   plural(figures.threads_per_worker, "thread"), cpus ? fmt::format(" with {:.7g} CPUs", *cpus) : "",
                   record.framework, record.backend, record.executor, record.seed.value_or(0)));
  if (record.hosts.size() > 1) {
    std::vector<std::string> names;
    for (const record::Host& host : record.hosts) names.push_back(host.name);
    line("hosts", fmt::format("{}", fmt::join(names, ", ")));
  }
  line("labels", fmt::format("{}", fmt::join(figures.labels, ", ")));
  line("data", record.data.name);
  line("bad images", bad_image_words(record));
  line("created", short_stamp(record.created_at) + " UTC");
  stamp("started", record.started_at);
  stamp("finished", record.finished_at);
  const double queue_s = record.clocks.queue_s.value_or(0);
  line("clocks", fmt::format("train {} s, legacy {} s, wall {} s, prepare {} s{}", format_seconds(figures.train_s),
                             format_seconds(figures.train_legacy_s), format_seconds(figures.wall_s),
                             format_seconds(record.clocks.prepare_s),
                             queue_s > 0 ? fmt::format(", queue {} s", format_seconds(queue_s)) : ""));
  if (figures.samples_per_s) {
    std::string rate = format_rate(figures.samples_per_s) + " samples/s";
    if (const auto median = record.throughput.median_samples_per_s) {
      rate += fmt::format(" (median step {})", format_rate(median));
    }
    if (const auto rss = record.throughput.peak_rss) {
      rate += ", peak memory " + format_bytes(static_cast<uint64_t>(*rss));
    }
    line("throughput", rate);
  }
  line("accelerator", accelerator_words(record, figures));
  line("ring", ring_words(record));
  line("checksums", checks_words(record));
  line("energy", energy_words(record, figures));
  line("exchange", exchange_words(record));
  line("weights", record.weights_sha256);
  if (record.segments.size() > 1) {
    std::vector<std::string> words;
    for (const record::Segment& segment : record.segments) {
      words.push_back(fmt::format("from step {}", segment.start_step));
    }
    line("segments", fmt::format("{}: {}", record.segments.size(), fmt::join(words, ", ")));
  }
  for (const std::string& note : record.notes) line("note", note);
  return section;
}

}  // namespace

std::string operations_table(const Record& record) {
  const std::optional<Section> section = operations_section(record);
  return section ? "\n" + written({*section}) : "";
}

std::string run_details(const Record& record, const TableStyle& style) {
  std::vector<Section> sections = {run_section(record)};
  for (auto* part : {kinds_section, operations_section, feed_section, evaluations_section}) {
    if (std::optional<Section> section = part(record)) sections.push_back(std::move(*section));
  }
  const auto result = collectives_of(record);
  if (result && (!result->rows.empty() || result->pairs)) {
    // Programs read these lines as nccl-tests and OSU's benchmarks write them.
    const auto lines = [&] { return split_at(trimmed(collectives_table(*result)), '\n'); };
    sections.push_back(style.format == TableFormat::kText ? Section{"", lines()}
                                                          : Section{"Collectives", {}, means_table(result->rows)});
  }
  const std::string failure = failure_text(record);
  if (!failure.empty()) sections.push_back({"", split_at(trimmed(failure), '\n')});
  return written(sections, style);
}

}  // namespace mlbench::report
