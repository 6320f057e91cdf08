#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <utility>

#include "mlbench/base/build_info.h"
#include "mlbench/base/choices.h"
#include "mlbench/base/clock.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/printable.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/remote_runs.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/report/collectives/charts.h"
#include "mlbench/report/draw/charts.h"
#include "mlbench/report/draw/gnuplot.h"
#include "mlbench/report/draw/page.h"
#include "mlbench/report/draw/section.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/study/comparison.h"
#include "mlbench/report/study/measured_run.h"
#include "mlbench/report/study/price.h"
#include "mlbench/report/study/study.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kFormats = {"png", "svg", "pdf", "csv", "html", "markdown", "latex"};
constexpr std::pair<const char*, report::ImageFormat> kImageFormats[] = {
    {"png", report::ImageFormat::kPng}, {"svg", report::ImageFormat::kSvg}, {"pdf", report::ImageFormat::kPdf}};
const std::vector<std::string> kWidths = {"one", "two"};
const std::vector<std::string> kClocks = {"wall", "train"};

struct ChartsOptions {
  std::vector<std::string> paths;
  std::string output = "charts", filter, prices, worker = "n1-standard-4", clock = "wall";
  std::string width, font = "sans";
  std::vector<std::string> formats = {"png", "svg", "csv", "html"}, lines;
  bool preemptible = false;
};

// The prefix of a study's files: "" where there is one study, else its number and task.
std::string prefix_of(const report::Study& study, size_t index, size_t count) {
  if (count == 1) return "";
  std::string name = study.task.substr(0, 40);
  std::replace_if(
      name.begin(), name.end(),
      [](char c) {
        const bool digit = c >= '0' && c <= '9', letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        return !digit && !letter && c != '-';
      },
      '_');
  return fmt::format("{}-{}-", index + 1, name);
}

std::vector<report::MeasuredRun> read_all_of(const MasterClient& master, const std::string& filter,
                                             std::vector<std::string>& notes) {
  std::vector<report::MeasuredRun> runs;
  for (const Json& summary : remote_summaries(master, filter)) {
    const auto name = summary.value("name", std::string());
    if (name.find(filter) == std::string::npos) continue;  // the master also searches notes, and ignores case
    try {
      runs.push_back(remote_run(master, name));
    } catch (const UserError& wrong) {
      notes.push_back(fmt::format("{} is left out: {}", name, wrong.what()));
    }
  }
  return runs;
}

std::vector<report::MeasuredRun> read_all(const Context& context, const ChartsOptions& options,
                                          std::vector<std::string>& notes) {
  std::vector<fs::path> paths(options.paths.begin(), options.paths.end());
  if (paths.empty()) paths.push_back(context.home_to_read());
  std::vector<report::MeasuredRun> runs;
  std::string where = fmt::format("{}", fmt::join(options.paths, ", "));
  if (const auto master = given_master(context); master && options.paths.empty()) {
    runs = read_all_of(*master, options.filter, notes);
    paths.clear();
    where = master->url();
  } else if (options.paths.empty()) {
    where = paths.front().string();
  }
  for (const fs::path& path : paths) {
    for (report::MeasuredRun& run : report::read_runs(path, notes)) {
      if (run.record.name.find(options.filter) != std::string::npos) runs.push_back(std::move(run));
    }
  }
  if (runs.empty()) {
    throw UserError(fmt::format("no run in {}{}", where,
                                options.filter.empty() ? "" : fmt::format(" has '{}' in its name", options.filter)));
  }
  return runs;
}

// Moves the benchmarks of collectives out of `runs`: they train nothing and have charts of their own.
std::vector<report::CollectivesResult> take_collectives(std::vector<report::MeasuredRun>& runs) {
  std::vector<report::CollectivesResult> found;
  for (const report::MeasuredRun& run : runs) {
    if (auto result = report::collectives_of(run.record)) found.push_back(std::move(*result));
  }
  std::erase_if(runs, [](const report::MeasuredRun& run) { return run.record.collectives.has_value(); });
  return found;
}

report::ImageStyle style_of(const ChartsOptions& options) {
  using report::FigureWidth;
  const FigureWidth width = options.width.empty()    ? FigureWidth::kScreen
                            : options.width == "one" ? FigureWidth::kOneColumn
                                                     : FigureWidth::kTwoColumns;
  return {width, options.font};
}

std::string caption_of(const report::Chart& chart) {
  std::string caption = chart.title + ". ";
  if (!chart.subtitle.empty()) caption += chart.subtitle + ". ";
  if (!chart.labels.empty()) caption += fmt::format("Labels: {}. ", fmt::join(chart.labels, ", "));
  return printable(caption);
}

// Where, when and by which program the runs were measured, for captions.
std::string conditions_of(const std::vector<report::MeasuredRun>& runs) {
  std::set<std::string> machines, programs, days;
  std::vector<std::string> names;
  for (const report::MeasuredRun& run : runs) {
    const record::Record& record = run.record;
    names.push_back(record.name);
    if (record.created_at.size() >= 10) days.insert(record.created_at.substr(0, 10));
    for (const record::Host& host : record.hosts) {
      machines.insert(host.cores ? fmt::format("{} with {} cores", host.cpu, *host.cores) : host.cpu);
    }
    const std::string& stack = record.comm_stack.empty() ? record.backend : record.comm_stack;
    programs.insert(fmt::format("mlbench {}, {}, {}",
                                record.environment ? record.environment->git_describe : "of unknown version",
                                record.framework, stack));
  }
  return printable(fmt::format("Runs: {}. Machines: {}. Software: {}. Measured: {}.", fmt::join(names, ", "),
                               fmt::join(machines, "; "), fmt::join(programs, "; "), fmt::join(days, ", ")));
}

bool is_wanted(const ChartsOptions& options, const char* format) {
  return std::ranges::count(options.formats, format) > 0;
}
bool has_images(const ChartsOptions& options) {
  return std::ranges::any_of(kImageFormats, [&](const auto& row) { return is_wanted(options, row.first); });
}

// Throws UserError for options that are not valid, and for images where gnuplot is absent.
void check_options_of_charts(const ChartsOptions& options) {
  for (const std::string& format : options.formats) check_choice("format", format, kFormats);
  for (const std::string& key : options.lines) check_choice("key of --lines", key, report::keys_of_lines());
  check_choice("clock", options.clock, kClocks);
  if (!options.width.empty()) check_choice("width", options.width, kWidths);
  if (has_images(options) && !report::gnuplot_exists()) {
    throw UserError(
        "PNG, SVG and PDF charts need the program gnuplot, which is not installed: apt-get install gnuplot-nox "
        "(without it: --format html,csv)");
  }
}

// A page that has nothing but the prices.
report::Page priced_page(const ChartsOptions& options) {
  report::Page page;
  page.prices = options.prices.empty() ? report::default_prices()
                                       : report::prices_from_json(read_json_file(options.prices, inputs::kPrices));
  page.worker = options.worker;
  page.preemptible = options.preemptible;
  page.price_note = report::price_note(page.prices, options.worker, options.preemptible, options.clock);
  return page;
}

ExitCode charts(const Context& context, const ChartsOptions& options) {
  check_options_of_charts(options);
  const auto wanted = [&](const char* format) { return is_wanted(options, format); };
  report::Page page = priced_page(options);
  const double per_hour = report::price_of_worker(page.prices, options.worker, options.preemptible);

  std::vector<report::MeasuredRun> runs = read_all(context, options, page.notes);
  std::vector<report::Chart> collectives = report::collectives_charts(take_collectives(runs));
  const auto billed = options.clock == "wall" ? report::BilledClock::kWall : report::BilledClock::kTrain;
  const std::vector<report::Study> studies = report::make_studies(runs, {per_hour, billed, options.lines}, page.notes);
  if (studies.empty() && collectives.empty()) {
    throw UserError(fmt::format("none of the {} runs can be drawn: {}", runs.size(), fmt::join(page.notes, "; ")));
  }

  const fs::path folder = fs::absolute(options.output).lexically_normal();
  const UserUmask named;
  make_folder(folder);
  Json files = Json::array(), answer = Json::array();
  const auto write = [&](const std::string& name, const std::string& content) {
    write_file_atomically(folder / name, content);
    files.push_back((folder / name).string());
  };
  const report::ImageStyle style = style_of(options);
  const std::string measured = conditions_of(runs);
  const auto write_chart = [&](const report::Chart& chart) {
    for (const auto& [name, format] : kImageFormats) {
      if (wanted(name)) write(fmt::format("{}.{}", chart.id, name), report::draw(chart, format, style));
    }
    if (has_images(options) && style.width != report::FigureWidth::kScreen) {
      write(chart.id + ".caption.txt", caption_of(chart) + measured + "\n");
    }
    if (wanted("csv")) write(chart.id + ".csv", report::chart_csv(chart));
  };
  std::vector<report::Section> tables;
  for (size_t i = 0; i < studies.size(); ++i) {
    std::vector<report::Chart> drawn = report::charts_of(studies[i], runs, {page.prices.currency, page.price_note});
    const std::string prefix = prefix_of(studies[i], i, studies.size());
    for (report::Chart& chart : drawn) {
      chart.id = prefix + chart.id;
      write_chart(chart);
    }
    answer.push_back(report::to_json(studies[i], runs));
    tables.push_back(report::section_of(studies[i], page.prices.currency));
    page.studies.push_back({answer.back(), std::move(drawn)});
  }
  std::vector<report::Chart> together = report::charts_of_all(studies, runs, {page.prices.currency, page.price_note});
  for (report::Chart& chart : together) {
    chart.id = "all-" + chart.id;
    write_chart(chart);
  }
  if (!together.empty()) {
    const Json figures = {{"task", ""}, {"title", "All studies"}, {"lines", Json::array()}, {"notes", Json::array()}};
    page.studies.push_back({figures, std::move(together)});
  }
  for (const report::Chart& chart : collectives) write_chart(chart);
  if (!collectives.empty()) page.studies.push_back(report::collectives_study(std::move(collectives)));
  page.made = fmt::format("Made by mlbench {} ({}), {} UTC.", build_info().version, build_info().git_describe,
                          format_utc(std::chrono::system_clock::now()).substr(0, 16));
  if (wanted("html")) write("report.html", report::report_page(page));
  if (!studies.empty()) tables.push_back({"", {fmt::format("Each worker is priced as {}", page.price_note)}});
  if (wanted("markdown")) write("tables.md", report::written(tables, {report::TableFormat::kMarkdown}));
  if (wanted("latex")) write("tables.tex", report::written(tables, {report::TableFormat::kLatex}));

  if (context.json) {
    print_json({{"folder", folder.string()},
                {"files", files},
                {"worker_per_hour", per_hour},
                {"currency", page.prices.currency},
                {"billed_clock", options.clock},
                {"studies", answer},
                {"notes", page.notes}});
  } else {
    print(report::written(tables, context.table_style()));
    for (const std::string& note : page.notes) say(note);
    print(fmt::format("{} files in {}\n", files.size(), folder.string()));
  }
  return ExitCode::kOk;
}

}  // namespace

void add_charts(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "charts", "Draw how runs scale: PNG, SVG, CSV and an offline report.html");
  add_master_options(*verb, program);
  add_wide_option(*verb, program);
  auto options = std::make_shared<ChartsOptions>();
  verb->add_option("FOLDER", options->paths, "run folders, archives, records, homes (default: this home)");
  verb->add_option("-o,--output", options->output, "the folder of the charts (default: charts)")->type_name("DIR");
  verb->add_option("-f,--filter", options->filter, "only runs with this in their name")->type_name("TEXT");
  verb->add_option("--format", options->formats,
                   "of png, svg, pdf, csv, html, markdown, latex (default: png, svg, csv, html)")
      ->delimiter(',')
      ->type_name("LIST");
  verb->add_option("--width", options->width,
                   "one or two: images as wide as columns of a paper, each with a caption file in place of its title")
      ->type_name("COLUMNS");
  verb->add_option("--font", options->font, "of images, e.g. that of the paper (default: sans)")->type_name("NAME");
  verb->add_option("--lines", options->lines,
                   "what tells lines apart, e.g. hardware,network: runs that differ in more get charts of their own "
                   "(default: whatever differs)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("KEYS");
  verb->add_option("--prices", options->prices, "a price table (JSON, see docs/reports.md)")->type_name("FILE");
  verb->add_option("--worker", options->worker, "what each worker is, of the price table (default: n1-standard-4)")
      ->type_name("NAME[+NAME]");
  verb->add_option("--clock", options->clock, "of cost and price index: wall or train (default: wall)")
      ->type_name("CLOCK");
  verb->add_flag("--preemptible", options->preemptible, "preemptible prices");
  act(*verb, program, [options](const Context& context) { return charts(context, *options); });
}

}  // namespace mlbench::cli
