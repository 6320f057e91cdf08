#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "mlbench/base/or_null.h"
#include "mlbench/base/text.h"
#include "mlbench/report/draw/figure.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/study/ddl.h"

namespace mlbench::report {

namespace {

std::string ddl_remarks(const DdlRow& row) {
  std::vector<std::string> words;
  if (!row.finished()) words.push_back(row.why.empty() ? row.state : fmt::format("{} ({})", row.state, row.why));
  words.insert(words.end(), row.labels.begin(), row.labels.end());
  if (row.waiting_steps && row.waiting_steps->rank > 0) {
    words.push_back(fmt::format("rank {} waited most", row.waiting_steps->rank));
  }
  if (row.finished() && !row.no_efficiency.empty()) words.push_back(row.no_efficiency);
  return fmt::format("{}", fmt::join(words, ", "));
}

// A getter: the time of a stage alone, or null.
auto time_alone(Stage stage) {
  return [stage](const DdlRow& row) { return row.alone[static_cast<size_t>(stage)]; };
}

std::optional<double> share_of_waiting(const DdlRow& row) {
  return row.waiting_steps ? std::optional(row.waiting_steps->share) : std::nullopt;
}
std::optional<int64_t> rank_of_waiting(const DdlRow& row) {
  return row.waiting_steps ? std::optional(row.waiting_steps->rank) : std::nullopt;
}

// The figures of a row, in the order of JSON and CSV.
const Figures<DdlRow>& ddl_figures() {
  using Row = DdlRow;
  static const Figures<Row> kFigures = {
      {"input", "input", "", [](const Row& row) { return row.point.input; }, forms::kText},
      {"network", "network", "", [](const Row& row) { return row.point.network; }, forms::kText},
      {"variant", "variant", "", [](const Row& row) { return row.point.variant; }, forms::kText},
      {"workers", "workers", "", [](const Row& row) { return row.point.workers; }, forms::kNumber},
      {"runs", &Row::runs},
      {"state", &Row::state},
      {"why", &Row::why},
      {"samples_per_s", "samples/s", "", &Row::samples_per_s, forms::kRate},
      {"efficiency", "efficiency", "", &Row::efficiency, forms::kPercent},
      {"no_efficiency", &Row::no_efficiency},
      {"waiting_steps", "waiting", "of steps", share_of_waiting, forms::kPercent},
      {"waiting_rank", rank_of_waiting},
      {"accelerator_utilisation", "accelerator", "used", &Row::utilisation, forms::kPercent},
      {"step_s", "step", "s", [](const Row& row) { return row.step.seconds; }, forms::kSeconds},
      {"waited_for_data_s", [](const Row& row) { return row.step.waited_for_data_s; }},
      {"read_alone_s", "read", "s alone", time_alone(Stage::kRead), forms::kSeconds},
      {"decode_alone_s", "decode", "s alone", time_alone(Stage::kDecode), forms::kSeconds},
      {"compute_alone_s", "compute", "s alone", time_alone(Stage::kCompute), forms::kSeconds},
      {"exchange_alone_s", "exchange", "s alone", time_alone(Stage::kExchange), forms::kSeconds},
      {"bottleneck", "bottleneck", "", [](const Row& row) { return row.verdict.text; }, forms::kText},
      {"labels", &Row::labels},
  };
  return kFigures;
}

// The rows of each input, in the order in which inputs come first.
std::vector<std::pair<std::string, std::vector<DdlRow>>> rows_by_input(const Ddl& ddl) {
  std::vector<std::pair<std::string, std::vector<DdlRow>>> inputs;
  for (const DdlRow& row : ddl.rows) {
    auto found = std::ranges::find(inputs, row.point.input, [](const auto& one) { return one.first; });
    if (found == inputs.end()) {
      inputs.emplace_back(row.point.input, std::vector<DdlRow>());
      found = inputs.end() - 1;
    }
    found->second.push_back(row);
  }
  return inputs;
}

std::optional<Section> last_evaluations(const Ddl& ddl) {
  std::vector<std::string> names;
  for (const DdlRow& row : ddl.rows) {
    for (const auto& [name, value] : row.metrics) add_label(names, name);
  }
  if (names.empty()) return std::nullopt;
  const Figures<DdlRow> figures = chosen(ddl_figures(), {"input", "network", "variant", "workers", "samples_per_s"});
  std::vector<Column> columns = columns_of(figures);
  for (const std::string& name : names) columns.push_back({name, "", Align::kRight});
  Table table(std::move(columns));
  for (const DdlRow& row : ddl.rows) {
    if (row.metrics.empty()) continue;
    std::vector<std::string> cells = cells_of(figures, row);
    for (const std::string& name : names) {
      const auto value = spec::find_number(row.metrics, name);
      cells.push_back(value ? format_metric(*value) : std::string(kNone));
    }
    table.add_row(std::move(cells));
  }
  return Section{"Last evaluation", {}, std::move(table)};
}

// The values of `get` of all records, each once: "a, b"; "" where all are empty.
std::string each_once(const std::vector<record::Record>& records,
                      const std::function<std::string(const record::Record&)>& get) {
  std::vector<std::string> values;
  for (const record::Record& record : records) {
    if (std::string value = get(record); !value.empty()) add_label(values, value);
  }
  return fmt::format("{}", fmt::join(values, ", "));
}

std::string words_of_server(const record::Host& host) {
  std::vector<std::string> words = {host.name};
  if (!host.cpu.empty()) words.push_back(host.cpu);
  if (host.cores) words.push_back(counted(*host.cores, "core"));
  if (host.ram_bytes) words.push_back(format_bytes(static_cast<uint64_t>(*host.ram_bytes)));
  for (const record::Gpu& gpu : host.gpus) words.push_back(gpu.name);
  for (const record::NetworkCard& card : host.nics) {
    words.push_back(card.speed_mbit ? fmt::format("{} {:g} Mbit/s", card.name, *card.speed_mbit) : card.name);
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::vector<record::Host> servers_of(const std::vector<record::Record>& records) {
  std::vector<record::Host> servers;
  for (const record::Record& record : records) {
    for (const record::Host& host : record.hosts) {
      const bool known = std::ranges::any_of(servers, [&](const auto& one) { return one.name == host.name; });
      if (!known) servers.push_back(host);
    }
  }
  return servers;
}

std::string words_of_data(const record::Record& record) {
  std::string words = record.data.synthetic ? "made samples" : record.data.name;
  if (record.storage.objects) words += fmt::format(", {}", counted(*record.storage.objects, "object"));
  if (record.data.samples.is_number_integer()) {
    words += fmt::format(", {} samples", format_count(record.data.samples.get<int64_t>()));
  }
  if (!record.data.fingerprint.empty()) words += ", fingerprint " + record.data.fingerprint;
  return words;
}

std::string words_of_workload(const record::Record& record) {
  std::string words = record.task + (record.variant.empty() ? "" : " " + record.variant);
  words += fmt::format(" ({}, {})", record.framework, record.backend);
  return record.environment ? fmt::format("{}, mlbench {}", words, record.environment->git_describe) : words;
}

// Makes charts over workers, in which the numbers of workers are one step apart.
Chart chart_over_workers(const Ddl& ddl, const char* id, const char* title, const char* y_label,
                         const std::function<std::optional<double>(const DdlRow&)>& value) {
  std::vector<int64_t> counts;
  Chart chart;
  for (const DdlRow& row : ddl.rows) {
    if (std::ranges::find(counts, row.point.workers) == counts.end()) counts.push_back(row.point.workers);
    for (const std::string& label : row.labels) add_label(chart.labels, label);
  }
  std::ranges::sort(counts);
  chart.id = id;
  chart.title = title;
  chart.subtitle = ddl.task;
  chart.x_label = "workers";
  chart.y_label = y_label;
  for (const int64_t count : counts) chart.ticks.push_back(std::to_string(count));
  for (const DdlRow& row : ddl.rows) {
    const auto y = value(row);
    if (!y) continue;
    std::string name = fmt::format("{}, network {}", row.point.input, row.point.network);
    if (!row.point.variant.empty()) name += ", " + row.point.variant;
    auto series = std::ranges::find(chart.series, name, &ChartSeries::name);
    if (series == chart.series.end()) {
      chart.series.push_back({name, {}, false});
      series = chart.series.end() - 1;
    }
    const auto place = std::ranges::find(counts, row.point.workers) - counts.begin();
    series->points.push_back({static_cast<double>(place), *y});
  }
  for (ChartSeries& series : chart.series) std::ranges::sort(series.points, {}, &ChartPoint::x);
  return chart;
}

}  // namespace

std::vector<Section> sections_of(const Ddl& ddl) {
  std::vector<Section> sections;
  for (const auto& [input, rows] : rows_by_input(ddl)) {
    Figures<DdlRow> figures = chosen(ddl_figures(), {"network", "variant", "workers", "samples_per_s", "efficiency",
                                                     "waiting_steps", "accelerator_utilisation", "bottleneck"});
    figures.emplace_back("", "remarks", "", ddl_remarks, forms::kText);
    sections.push_back(
        {input == kSyntheticInput ? "Synthetic data" : "Data from " + input, {}, table_of(figures, rows)});
  }
  if (auto section = last_evaluations(ddl)) sections.push_back(std::move(*section));
  const Figures<DdlRow> stages =
      chosen(ddl_figures(), {"input", "network", "variant", "workers", "step_s", "read_alone_s", "decode_alone_s",
                             "compute_alone_s", "exchange_alone_s"});
  if (!ddl.rows.empty()) sections.push_back({"Stages alone, per step of a rank", {}, table_of(stages, ddl.rows)});
  return sections;
}

std::vector<FormLine> experiment_form(const std::vector<record::Record>& records, const RunNotes& notes) {
  std::string begin, end;
  for (const record::Record& record : records) {
    if (begin.empty() || (!record.started_at.empty() && record.started_at < begin)) begin = record.started_at;
    end = std::max(end, record.finished_at);
  }
  std::vector<std::string> addresses, servers;
  for (const record::Host& host : servers_of(records)) {
    addresses.push_back(fmt::format("{} {}", host.name, fmt::join(host.addresses, " ")));
    servers.push_back(words_of_server(host));
  }
  const auto storage = [](const record::Record& record) {
    return record.storage.endpoint.empty() ? record.storage.kind
                                           : fmt::format("{} at {}", record.storage.kind, record.storage.endpoint);
  };
  const auto results = [](const record::Record& record) {
    const auto rate = record.throughput.samples_per_s;
    return rate ? fmt::format("{} {} samples/s", record.name, format_rate(rate)) : record.name + " " + record.state;
  };
  return {{"description", notes.description},
          {"time (UTC)", begin.empty() ? "" : fmt::format("{} to {}", short_stamp(begin), short_stamp(end))},
          {"storage", each_once(records, storage)},
          {"workload", each_once(records, words_of_workload)},
          {"name of the cluster", notes.cluster},
          {"firewall", notes.firewall},
          {"number of servers", servers.empty() ? "" : std::to_string(servers.size())},
          {"addresses", fmt::format("{}", fmt::join(addresses, "; "))},
          {"servers", fmt::format("{}", fmt::join(servers, "; "))},
          {"results", each_once(records, results)},
          {"expected result", notes.expected},
          {"data", each_once(records, words_of_data)},
          {"summary", notes.summary},
          {"next steps", notes.next_steps}};
}

Section section_of(const std::vector<FormLine>& form) {
  Table table({{"of the experiment", "", Align::kLeft}, {"what is known", "", Align::kLeft}});
  for (const FormLine& line : form) table.add_row({line.name, line.text.empty() ? "not known" : line.text});
  return {"Experiment", {}, std::move(table)};
}

std::string csv_of(const Ddl& ddl) {
  Figures<DdlRow> figures = ddl_figures();
  std::erase_if(figures, [](const auto& one) { return one.key == "runs" || one.key == "labels"; });
  std::string out = csv_heading(figures);
  for (const DdlRow& row : ddl.rows) out += csv_line(figures, row);
  return out;
}

Json to_json(const Ddl& ddl) {
  Json rows = Json::array();
  for (const DdlRow& row : ddl.rows) {
    Json one = json_of(ddl_figures(), row);
    one["bottleneck"] = to_json(row.verdict);
    one["metrics"] = Json::object();
    for (const auto& [name, value] : row.metrics) one["metrics"][name] = value;
    rows.push_back(std::move(one));
  }
  return {{"task", text_or_null(ddl.task)}, {"rows", rows}};
}

std::vector<Chart> charts_of(const Ddl& ddl) {
  std::vector<Chart> charts = {
      chart_over_workers(ddl, "ddl_throughput", "Throughput over workers", "samples/s",
                         [](const DdlRow& row) { return row.samples_per_s; }),
      chart_over_workers(ddl, "ddl_efficiency", "Scaling efficiency", "efficiency",
                         [](const DdlRow& row) { return row.efficiency; }),
      chart_over_workers(ddl, "ddl_waiting", "Steps that waited for data", "share of steps", share_of_waiting)};
  std::erase_if(charts, [](const Chart& chart) { return chart.series.empty(); });
  return charts;
}

}  // namespace mlbench::report
