#include "mlbench/report/collectives/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "mlbench/base/printable.h"
#include "mlbench/base/text.h"
#include "mlbench/report/collectives/stalls.h"
#include "mlbench/report/draw/figure.h"
#include "mlbench/report/draw/table.h"

namespace mlbench::report {

namespace {

using record::CollectiveForm;
using record::CollectiveRow;
using spec::Collective;

// As nccl-tests fits a number into a column: as many of two decimals as there is room for.
std::string fitted(double value, int width) {
  int digits = 0;
  for (double power = 1; value >= power && digits < 20; power *= 10) ++digits;
  if (digits < width - 2) return fmt::format("{:.2f}", value);
  if (digits < width - 1) return fmt::format("{:.1f}", value);
  if (digits < width + 1) return fmt::format("{:.0f}", value);
  return width >= 7 ? fmt::format("{:.1e}", value) : fmt::format("{:.0e}", value);
}

std::string form_cells(const std::optional<CollectiveForm>& form) {
  const std::string none = "N/A";
  if (!form) return fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", none, none, none, none);
  return fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", fitted(form->time_us, 7), fitted(form->alg_bw, 6),
                     form->bus_bw ? fitted(*form->bus_bw, 6) : none,
                     form->wrong ? fmt::format("{}", *form->wrong) : none);
}

Collective operation_of(const CollectiveRow& row) { return spec::collective_named(row.operation); }
bool is_osu(const CollectiveRow& row) {
  return operation_of(row) == Collective::kBarrier || spec::traits_of(operation_of(row)).point_to_point;
}
std::string reduction_of(const CollectiveRow& row) { return row.reduction.empty() ? "none" : row.reduction; }

std::string osu_heading(const CollectiveRow& first) {
  switch (operation_of(first)) {
    case Collective::kBarrier:
      return fmt::format("# Barrier Latency Test\n#{:>16}{:>18}{:>18}{:>12}\n", "Avg Latency(us)", "Min Latency(us)",
                         "Max Latency(us)", "Iterations");
    case Collective::kLatency:
      return fmt::format("# Latency Test, ranks 0 and 1, {}\n# {:<10}{:>18}{:>18}{:>18}{:>12}\n", nccl_type_of(first),
                         "Size", "Avg Latency(us)", "Min Latency(us)", "Max Latency(us)", "Iterations");
    case Collective::kBandwidth:
      return fmt::format("# Bandwidth Test, ranks 0 and 1, {}\n# {:<10}{:>18}{:>12}\n", nccl_type_of(first), "Size",
                         "Bandwidth (MB/s)", "Iterations");
    default:
      return fmt::format("# Bi-Directional Bandwidth Test, ranks 0 and 1, {}\n# {:<10}{:>18}{:>12}\n",
                         nccl_type_of(first), "Size", "Bandwidth (MB/s)", "Iterations");
  }
}

std::string osu_line(const CollectiveRow& row) {
  const CollectiveForm form = row.out_of_place.value_or(CollectiveForm());
  const record::TimeSummary times = form.iterations.value_or(record::TimeSummary());
  const std::string latencies = fmt::format("{:>18.2f}{:>18.2f}", times.min_us, times.max_us);
  switch (operation_of(row)) {
    case Collective::kBarrier:
      return fmt::format("{:>17.2f}{}{:>12}\n", form.time_us, latencies, times.count);
    case Collective::kLatency:
      return fmt::format("{:<12}{:>18.2f}{}{:>12}\n", row.size_bytes, form.time_us, latencies, times.count);
    default:
      return fmt::format("{:<12}{:>18.2f}{:>12}\n", row.size_bytes, form.alg_bw * 1000, times.count);
  }
}

// A row in one of its two forms.
struct FormRow {
  const CollectiveRow* row;
  const char* name;
  const CollectiveForm* form;
};
std::vector<FormRow> forms_of(std::span<const CollectiveRow> rows) {
  std::vector<FormRow> forms;
  for (const CollectiveRow& row : rows) {
    if (row.out_of_place) forms.push_back({&row, "out_of_place", &*row.out_of_place});
    if (row.in_place) forms.push_back({&row, "in_place", &*row.in_place});
  }
  return forms;
}

auto of_row(auto CollectiveRow::*member) {
  return [member](const FormRow& one) { return one.row->*member; };
}
auto of_form(auto CollectiveForm::*member) {
  return [member](const FormRow& one) { return one.form->*member; };
}
auto of_times(auto record::TimeSummary::*member) {
  return [member](const FormRow& one) -> Json {
    return one.form->iterations ? figure_value((*one.form->iterations).*member) : Json(nullptr);
  };
}

std::string form_words(const FormRow& one) {
  return fmt::format("{}{}{}", one.name, one.form->copies ? " +copy" : "", one.form->capped ? " capped" : "");
}

// The figures of a row in one form, in the order of CSV; times in microseconds, bandwidths in GB/s.
const Figures<FormRow>& form_figures() {
  using record::TimeSummary;
  static const Figures<FormRow> kFigures = {
      {"operation", "operation", "", of_row(&CollectiveRow::operation), forms::kText},
      {"cycle", of_row(&CollectiveRow::cycle)},
      {"size", "size", "B", of_row(&CollectiveRow::size_bytes), forms::kNumber},
      {"count", of_row(&CollectiveRow::count)},
      {"type", "type", "", [](const FormRow& one) { return nccl_type_of(*one.row); }, forms::kText},
      {"redop", "redop", "", [](const FormRow& one) { return reduction_of(*one.row); }, forms::kText},
      {"root", of_row(&CollectiveRow::root)},
      {"device", "device", "", of_row(&CollectiveRow::device), forms::kText},
      {"form", "form", "", &FormRow::name, form_words, Align::kLeft},
      {"iterations", "iterations", "", of_times(&TimeSummary::count), forms::kNumber},
      {"time_us", "time", "us", of_form(&CollectiveForm::time_us), forms::kFixed1},
      {"min_us", "min", "us", of_times(&TimeSummary::min_us), forms::kFixed2},
      {"p50_us", "p50", "us", of_times(&TimeSummary::p50_us), forms::kFixed2},
      {"p95_us", "p95", "us", of_times(&TimeSummary::p95_us), forms::kFixed2},
      {"p99_us", "p99", "us", of_times(&TimeSummary::p99_us), forms::kFixed2},
      {"max_us", "max", "us", of_times(&TimeSummary::max_us), forms::kFixed2},
      {"stdev_us", of_times(&TimeSummary::stdev_us)},
      {"cv", "cv", "", of_times(&TimeSummary::cv), forms::kFixed2},
      {"p50_low_us", of_times(&TimeSummary::p50_low_us)},
      {"p50_high_us", of_times(&TimeSummary::p50_high_us)},
      {"alg_bw", "algbw", "GB/s", of_form(&CollectiveForm::alg_bw), forms::kFixed4},
      {"bus_bw", "busbw", "GB/s", of_form(&CollectiveForm::bus_bw), forms::kFixed4},
      {"wrong", of_form(&CollectiveForm::wrong)},
      {"copies", of_form(&CollectiveForm::copies)},
      {"capped", of_form(&CollectiveForm::capped)},
  };
  return kFigures;
}

std::string matrix_text(const std::vector<std::vector<double>>& values, int decimals) {
  std::vector<Column> columns = {{"from \\ to", "", Align::kLeft}};
  for (size_t to = 0; to < values.size(); ++to) columns.push_back({fmt::format("{}", to), "", Align::kRight});
  Table table(std::move(columns));
  for (size_t from = 0; from < values.size(); ++from) {
    std::vector<std::string> cells = {fmt::format("{}", from)};
    for (size_t to = 0; to < values.size(); ++to) {
      cells.push_back(from == to ? std::string(kNone) : fmt::format("{:.{}f}", values[from][to], decimals));
    }
    table.add_row(std::move(cells));
  }
  return table.render();
}

std::string collectives_preamble(const CollectivesResult& result) {
  const spec::CollectivesSpec& spec = result.spec;
  std::string out;
  if (spec.counts.empty()) {
    out = fmt::format("# nThread 1 nGpus {} minBytes {} maxBytes {} step: {}({})", result.gpus, spec.sizes.begin_bytes,
                      spec.sizes.end_bytes, spec.sizes.factor > 1 ? spec.sizes.factor : spec.sizes.step_bytes,
                      spec.sizes.factor > 1 ? "factor" : "bytes");
  } else {
    out = fmt::format("# nThread 1 nGpus {} {} sizes in elements", result.gpus, spec.counts.size());
  }
  out += fmt::format(" warmup iters: {} iters: {} agg iters: {} validation: {} graph: 0\n", spec.warm_up,
                     spec.iterations, spec.aggregated, spec.check);
  if (spec.blocking) out += "# Blocking Enabled: a barrier behind each operation, within its time\n";
  const std::string labels = labels_of(result);
  out += fmt::format("# {}, {}{}{}, time of an iteration: {} of the ranks'\n#\n", counted(result.workers, "rank"),
                     result.comm_stack.empty() ? result.backend : result.comm_stack, labels.empty() ? "" : ", ", labels,
                     spec::name_of(spec.average));
  if (!result.devices.empty()) out += "# Using devices\n";
  for (size_t rank = 0; rank < result.devices.size(); ++rank) {
    const CollectiveDevice& device = result.devices[rank];
    out += fmt::format("#  Rank {:>2} Group  0 on {:>10} device {}{}\n", rank, printable(device.host),
                       device.gpu ? fmt::format("{:>2} ", *device.gpu) : "", printable(device.info));
  }
  return printable_lines(out, "");
}

bool same_section(const CollectiveRow& a, const CollectiveRow& b) {
  return a.operation == b.operation && (!is_osu(a) || a.dtype == b.dtype);
}

std::string section_heading(const CollectiveRow& first) {
  if (is_osu(first)) return "#\n" + osu_heading(first);
  std::string out = fmt::format("#\n# Collective test starting: {}\n#\n", first.operation);
  out += fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}           out-of-place                       in-place\n",
                     "", "", "", "", "");
  const std::string form = fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "time", "algbw", "busbw", "#wrong");
  out +=
      fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n", "size", "count", "type", "redop", "root", form, form);
  const std::string units = fmt::format("  {:>7}  {:>6}  {:>6}", "(us)", "(GB/s)", "(GB/s)");
  out += fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}  {:>6}{}\n", "(B)", "(elements)", "", "", "", units, "",
                     units);
  return out;
}

std::string section_line(const CollectiveRow& row) {
  if (is_osu(row)) return osu_line(row);
  return fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n", row.size_bytes, row.count, nccl_type_of(row),
                     printable(reduction_of(row)), row.root, form_cells(row.out_of_place), form_cells(row.in_place));
}

std::string section_footer(std::span<const CollectiveRow> rows) {
  const std::vector<CollectiveRow> all(rows.begin(), rows.end());
  const int64_t wrong = wrong_rows(all);
  std::string out;
  for (const Stall& stall : stalls_of(rows)) out += fmt::format("# Stalled: {}\n", in_words(stall));
  out += fmt::format("# Out of bounds values : {} {}\n", wrong, wrong == 0 ? "OK" : "FAILED");
  if (all.empty() || is_osu(all.front())) return out + "#\n";
  if (const auto bandwidth = mean_bus_bandwidth(all)) out += fmt::format("# Avg bus bandwidth    : {:g}\n", *bandwidth);
  return out + fmt::format("#\n# Collective test concluded: {}\n", all.front().operation);
}

}  // namespace

CollectivesLines::CollectivesLines(CollectivesResult head) : head_(std::move(head)) {
  head_.rows.clear();
  head_.pairs.reset();
}

std::string CollectivesLines::begin() { return std::exchange(begun_, true) ? "" : collectives_preamble(head_); }

std::string CollectivesLines::row(const CollectiveRow& row) {
  std::string out = begin();
  if (!section_.empty() && !same_section(section_.front(), row)) {
    out += section_footer(section_);
    section_.clear();
  }
  if (section_.empty()) out += section_heading(row);
  section_.push_back(row);
  for (auto* form : {&section_.back().out_of_place, &section_.back().in_place}) {
    if (*form) (*form)->raw_times_us.clear();
  }
  return out + section_line(row);
}

std::string CollectivesLines::end(const CollectivesResult& whole) {
  std::string out = begin();
  if (!section_.empty()) out += section_footer(section_);
  section_.clear();
  if (whole.pairs) out += "#\n" + pairs_table(*whole.pairs);
  for (const std::string& error : whole.errors) out += fmt::format("# Ended early: {}\n", printable(error));
  return out;
}

std::string collectives_table(const CollectivesResult& result) {
  CollectivesLines lines(result);
  std::string out;
  for (const CollectiveRow& row : result.rows) out += lines.row(row);
  return out + lines.end(result);
}

std::string percentiles_table(std::span<const CollectiveRow> rows) {
  std::vector<FormRow> timed = forms_of(rows);
  std::erase_if(timed, [](const FormRow& one) { return !one.form->iterations; });
  const auto figures = chosen(form_figures(), {"operation", "size", "type", "redop", "form", "iterations", "min_us",
                                               "p50_us", "p95_us", "p99_us", "max_us", "cv"});
  return table_of(figures, timed).render();
}

Table means_table(std::span<const CollectiveRow> rows) {
  const auto other = [&](const CollectiveRow& row) { return row.operation != rows.front().operation; };
  Figures<FormRow> figures = chosen(form_figures(), {std::ranges::any_of(rows, other) ? "operation" : ""});
  figures.emplace_back("", "size", "elements", of_row(&CollectiveRow::count), forms::kCount);
  figures.emplace_back("", "size", "B", of_row(&CollectiveRow::size_bytes), forms::kCount);
  figures.emplace_back("", "type", "", of_row(&CollectiveRow::dtype), forms::kText);
  for (auto& figure : chosen(form_figures(), {"device", "time_us", "alg_bw", "bus_bw"})) figures.push_back(figure);
  return table_of(figures, forms_of(rows));
}

std::string pairs_table(const record::PairMatrix& pairs) {
  std::string out =
      fmt::format("# Latency between pairs of ranks, {} bytes, half the round trip (us)\n", pairs.latency_bytes);
  out += matrix_text(pairs.latency_us, 2);
  out += fmt::format("# Bandwidth between pairs of ranks, {} messages of {} bytes (GB/s){}\n", pairs.window,
                     pairs.bandwidth_bytes, pairs.disjoint ? ", several pairs at once" : "");
  out += matrix_text(pairs.bandwidth, 3);
  out += fmt::format("# Slow: {}\n", pairs.verdict);
  return printable_lines(out, "");
}

std::string collectives_csv_header() { return csv_heading(form_figures()); }

std::string collectives_csv_lines(const CollectiveRow& row) {
  std::string out;
  for (const FormRow& one : forms_of({&row, 1})) out += csv_line(form_figures(), one);
  return out;
}

}  // namespace mlbench::report
