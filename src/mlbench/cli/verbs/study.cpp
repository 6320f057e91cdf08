#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "mlbench/base/choices.h"
#include "mlbench/base/files.h"
#include "mlbench/base/or_null.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/catalog/options/options.h"
#include "mlbench/cli/clusters/defaults.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/terminal/interrupt.h"
#include "mlbench/cli/verbs/kept_runs.h"
#include "mlbench/cli/verbs/option_flags.h"
#include "mlbench/cli/verbs/start_runs.h"
#include "mlbench/cli/verbs/study_files.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/dataset/locate.h"
#include "mlbench/objects/measure.h"
#include "mlbench/plan/ddl_plan.h"
#include "mlbench/plan/sweep_plan.h"
#include "mlbench/report/notes.h"
#include "mlbench/report/study/ddl.h"

namespace mlbench::cli {

using report::DdlAnswer;
using report::DdlPoint;

namespace {

const std::vector<std::string> kDdlFormats = {"png", "svg", "csv", "markdown", "latex", "json"};
// The longest time for which a place is read alone, and the least that is read at once.
constexpr std::chrono::seconds kReadTime{3};
constexpr double kLeastRange = 4096;

struct DdlWords {
  spec::RunOptions run;
  StartOptions start;
  std::vector<std::string> workers = {"1", "2", "4"}, variants = {""}, inputs = {report::kSyntheticInput},
                           networks = {report::kRealNetwork}, notes, formats;
  std::string output;
};

void check_once(const char* flag, const std::vector<std::string>& values) {
  for (const std::string& value : values) {
    if (std::ranges::count(values, value) > 1) throw UserError(fmt::format("{} has '{}' twice", flag, value));
  }
}

plan::DdlOptions ddl_options_of(const DdlWords& words) {
  plan::DdlOptions options;
  options.run = words.run;
  options.workers = plan::parse_counts(words.workers, "--workers", spec::run_option(&spec::RunOptions::workers).range);
  options.variants = words.variants;
  options.inputs = words.inputs;
  options.networks = words.networks;
  check_once("--variants", options.variants);
  check_once("--input", options.inputs);
  check_once("--network", options.networks);
  return options;
}

// Notes in the words of `mlbench note`: "cluster=TEXT".
report::RunNotes notes_of(const std::vector<std::string>& words) {
  report::RunNotes notes;
  for (const std::string& word : words) {
    const auto equals = word.find('=');
    const auto texts = report::note_texts();
    const std::string name = word.substr(0, equals);
    check_choice("name of --note", name, names_of(texts));
    if (equals == std::string::npos)
      throw UserError(fmt::format("--note '{}' has no text: expected {}=TEXT", word, name));
    const auto row = std::ranges::find_if(texts, [&](const report::NoteText& one) { return name == one.name; });
    notes.*row->text = word.substr(equals + 1);
  }
  report::check_notes(notes);
  return notes;
}

// How fast places are read by themselves.
class PlaceReader {
 public:
  // Bytes per second with so many threads; empty where `run` has no data that can be read from here.
  std::optional<double> rate(const spec::RunSpec& run, int64_t threads, double range_bytes) {
    const std::string place = place_of(run);
    if (place.empty()) return std::nullopt;
    auto& known = rates_[{place, threads}];
    if (known) return known;
    say(fmt::format("{} is read alone by {} threads", place, threads));
    try {
      known = measured_rate(place, threads, range_bytes);
    } catch (const std::exception& error) {  // the runs are worth more
      say(fmt::format("{}: {}", place, error.what()));
    }
    return known;
  }

 private:
  static std::optional<double> measured_rate(const std::string& place, int64_t threads, double range_bytes) {
    const auto store = dataset::open_data_store(place, static_cast<int>(threads));
    const objects::Measured measured = objects::measure(*store, {.threads = static_cast<int>(threads),
                                                                 .range_bytes = static_cast<int64_t>(range_bytes),
                                                                 .most_time = kReadTime});
    return measured.seconds > 0 ? std::optional(static_cast<double>(measured.bytes) / measured.seconds) : std::nullopt;
  }

  static std::string place_of(const spec::RunSpec& run) {
    if (!catalog::facts_of(run.executor).on_this_host) return "";
    return dataset::locate(dataset::find_description(run.data_name), run.data_dirs).folder.string();
  }

  std::map<std::pair<std::string, int64_t>, std::optional<double>> rates_;
};

// Makes the runs of the study that do not exist yet.
class DdlRunner {
 public:
  DdlRunner(const Context& context, const DdlWords& words, const plan::DdlOptions& options)
      : home_(context.home()),
        options_(options),
        runs_(context, words.start),
        repeats_(spec::count_of(options.run, &spec::RunOptions::repeat, 1)) {}

  bool interrupted() const { return runs_.interrupted(); }

  // Throws UserError for runs that cannot be made, before any run is made.
  void check() const {
    for (const DdlPoint& point : plan::ddl_points(options_)) {
      const spec::RunSpec run = runs_.plan(plan::ddl_options(options_, point, 0));
      for (const spec::RunOptions& stage : stages_of(point, share_of(run, nullptr))) runs_.plan(stage);
    }
  }

  DdlAnswer answer(const DdlPoint& point) {
    DdlAnswer answer{.point = point};
    KeptRuns::Made made =
        runs_.make_repeats(repeats_, [&](int64_t repeat) { return plan::ddl_options(options_, point, repeat); });
    answer.records = std::move(made.records);
    answer.refused = std::move(made.refused);
    const record::Record* const finished = report::finished_run(answer);
    if (finished == nullptr) return answer;
    answer.waiting_steps = report::waiting_steps_of(runs_dir(home_) / finished->name, finished->workers.value_or(1),
                                                    record::segment_count(*finished));
    measure_stages(answer, *finished);
    return answer;
  }

  // The records of runs that exist, for --dry-run. Adds the runs that would be made to `missing`, each once.
  std::vector<record::Record> look_at(const DdlPoint& point, std::vector<spec::RunSpec>& missing) const {
    std::vector<spec::RunOptions> wanted;
    for (int64_t repeat = 0; repeat < repeats_; ++repeat) wanted.push_back(plan::ddl_options(options_, point, repeat));
    std::vector<record::Record> records = runs_.look_at(wanted, missing);
    const spec::RunSpec run = runs_.plan(wanted.front());
    const record::Record* known = records.empty() ? nullptr : &records.front();
    std::ranges::move(runs_.look_at(stages_of(point, share_of(run, known)), missing), std::back_inserter(records));
    return records;
  }

 private:
  static plan::DdlShare share_of(const spec::RunSpec& run, const record::Record* record) {
    plan::DdlShare share = plan::ddl_share(run);
    if (record != nullptr && record->effective)
      share.decoding_threads = record->effective->decoding_threads.value_or(0);
    return share;
  }

  std::vector<spec::RunOptions> stages_of(const DdlPoint& point, const plan::DdlShare& share) const {
    std::vector<spec::RunOptions> stages = {plan::ddl_compute_options(options_, point, share)};
    if (point.workers > 1) stages.push_back(plan::ddl_exchange_options(options_, point, share));
    if (point.input != report::kSyntheticInput) stages.push_back(plan::ddl_input_options(options_, point, share));
    return stages;
  }

  // The record of a finished run of a stage alone. A run that serves several points is made once.
  std::optional<record::Record> stage(const spec::RunOptions& options) {
    if (interrupted()) return std::nullopt;
    const std::string key = options.name + plan::specification_hash(runs_.plan(options));
    const auto known = stages_.find(key);
    if (known != stages_.end()) return known->second;
    KeptRuns::Made made = runs_.make(options);
    std::optional<record::Record>& record = stages_[key];
    if (!made.records.empty() && made.records.front().state == "finished") record = std::move(made.records.front());
    return record;
  }

  void measure_stages(DdlAnswer& answer, const record::Record& whole) {
    const DdlPoint& point = answer.point;
    const spec::RunSpec run = runs_.plan(plan::ddl_options(options_, point, 0));
    const plan::DdlShare share = share_of(run, &whole);
    answer.compute = stage(plan::ddl_compute_options(options_, point, share));
    if (point.workers > 1) answer.exchange = stage(plan::ddl_exchange_options(options_, point, share));
    if (point.input == report::kSyntheticInput) return;
    answer.input = stage(plan::ddl_input_options(options_, point, share));
    const auto bytes = answer.input ? report::bytes_per_sample(*answer.input) : std::nullopt;
    if (!bytes || interrupted()) return;
    const int64_t threads = std::max<int64_t>(1, share.decoding_threads);
    const double range = std::max(*bytes, kLeastRange);
    answer.read_by_one_per_s = reader_.rate(run, threads, range);
    answer.read_by_all_per_s = reader_.rate(run, threads * point.workers, range);
  }

  const std::filesystem::path home_;
  const plan::DdlOptions& options_;
  KeptRuns runs_;
  const int64_t repeats_;
  PlaceReader reader_;
  std::map<std::string, std::optional<record::Record>> stages_;
};

// The seconds of a run's steps, by the emulated step or by `known`, runs that have finished with the same variant and
// compute. Empty without either, and where the number of steps is not set.
std::optional<double> estimated_s(const spec::RunSpec& run, const std::vector<record::Record>& known) {
  if (run.limits.max_steps <= 0) return std::nullopt;
  double step = run.emulated_step_s;
  for (const record::Record& record : known) {
    const bool alike =
        record.variant == run.task.task.variant && record.emulated_step_s.value_or(0) == run.emulated_step_s;
    const int64_t steps = record.throughput.steps.value_or(0);
    if (alike && steps > 0) step = std::max(step, record.clocks.train_s.value_or(0) / static_cast<double>(steps));
  }
  return step > 0 ? std::optional(step * static_cast<double>(run.limits.max_steps)) : std::nullopt;
}

ExitCode print_ddl_plan(const Context& context, const plan::DdlOptions& options, const DdlRunner& runner) {
  std::vector<spec::RunSpec> missing;
  std::vector<record::Record> known;
  for (const DdlPoint& point : plan::ddl_points(options)) {
    std::ranges::move(runner.look_at(point, missing), std::back_inserter(known));
  }
  double seconds = 0;
  int64_t without = 0;
  for (const spec::RunSpec& run : missing) {
    const auto estimate = estimated_s(run, known);
    seconds += estimate.value_or(0);
    if (!estimate) ++without;
  }
  if (context.json) {
    print_json({{"runs", plans_of(context, missing, 1, std::nullopt)},
                {"least_minutes", seconds / 60},
                {"runs_without_estimate", without}});
    return ExitCode::kOk;
  }
  print(fmt::format("{} runs, at least {:.1f} minutes; of {} runs no time is known\n", missing.size(), seconds / 60,
                    without));
  print_dry_run(context, missing, 1, std::nullopt);
  return ExitCode::kOk;
}

std::vector<record::Record> records_of(const std::vector<DdlAnswer>& answers) {
  std::vector<record::Record> records;
  for (const DdlAnswer& answer : answers) records.insert(records.end(), answer.records.begin(), answer.records.end());
  return records;
}

Json form_json(const std::vector<report::FormLine>& form) {
  Json lines = Json::object();
  for (const report::FormLine& line : form) lines[line.name] = text_or_null(line.text);
  return lines;
}

ExitCode finish_ddl(const Context& context, const std::vector<DdlAnswer>& answers, const report::RunNotes& notes,
                    bool interrupted, StudyFiles& files) {
  const report::Ddl ddl = report::analyse_ddl(answers);
  const std::vector<report::FormLine> form = report::experiment_form(records_of(answers), notes);
  std::vector<report::Section> sections = report::sections_of(ddl);
  sections.push_back(report::section_of(form));
  Json document = report::to_json(ddl);
  document["experiment"] = form_json(form);
  {
    const UserUmask named;
    files.write({"ddl", "Distributed training of " + ddl.task, report::charts_of(ddl), sections, report::csv_of(ddl),
                 document});
  }
  if (context.json) {
    document["folder"] = files.folder().string();
    document["files"] = files.files();
    document["interrupted"] = interrupted;
    print_json(document);
  } else {
    print(report::written(sections, context.table_style()) + "\n");
    print(fmt::format("{} files in {}\n", files.files().size(), files.folder().string()));
  }
  if (interrupted) {
    say("the study was interrupted: type the same again to go on with what is missing");
    return ExitCode::kStopped;
  }
  return std::ranges::all_of(ddl.rows, &report::DdlRow::finished) ? ExitCode::kOk : ExitCode::kRunFailed;
}

ExitCode study_ddl(const Context& context, DdlWords words) {
  if (!words.start.local) apply_cluster(context, words.start.executor_given, words.run);
  words.start.executor_given = true;
  const plan::DdlOptions options = ddl_options_of(words);
  const report::RunNotes notes = notes_of(words.notes);
  const InterruptGuard guard;
  outlive_readers();
  refuse_master_elsewhere(context, words.start, "a study");
  StudyFiles files(words.formats, kDdlFormats, words.output.empty() ? words.run.name : words.output);
  DdlRunner runner(context, words, options);
  runner.check();
  if (words.start.dry_run) return print_ddl_plan(context, options, runner);
  std::vector<DdlAnswer> answers;
  for (const DdlPoint& point : plan::ddl_points(options)) {
    if (runner.interrupted()) break;
    answers.push_back(runner.answer(point));
  }
  return finish_ddl(context, answers, notes, runner.interrupted(), files);
}

void add_study_ddl(CLI::App& group, Program& program) {
  CLI::App* verb = add_verb(group, program, "ddl", "Scaling over workers, networks and storage, and the bottleneck");
  auto words = std::make_shared<DdlWords>();
  words->run.name = "ddl";
  words->run.task = "1b-resnet50";
  // With other runs on the hosts, times are useless.
  add_run_options(*verb, words->run,
                  {"workers", "variant", "netem", "synthetic", "fixed_batch", "data_dir", "share_host"});
  verb->get_option("NAME")->required(false)->description("the runs are called NAME.POINT-K (default: ddl)");
  const char* where = "Study";
  const auto list = [&](const char* flag, std::vector<std::string>& values, const char* type, const char* help) {
    return verb->add_option(flag, values, help)->allow_extra_args(false)->type_name(type)->group(where);
  };
  list("--workers", words->workers, "LIST", "numbers of workers (default: 1,2,4)")->delimiter(',');
  list("--variants", words->variants, "LIST", "variants of the task, such as b32,b64 (default: its first)")
      ->delimiter(',');
  list("--input", words->inputs, "PLACE",
       "synthetic, or a folder or s3://BUCKET/PREFIX of data (repeatable; default: synthetic)");
  list("--network", words->networks, "NETWORK",
       "real, settings such as links=16,socket_buffer=12M or host_network, or what run --netem takes (repeatable; "
       "default: real)");
  list("--note", words->notes, "NAME=TEXT", "a text of the experiment's form, as 'mlbench note' has them (repeatable)");
  list("--format", words->formats, "LIST", "of png, svg, csv, markdown, latex, json (default: all)")->delimiter(',');
  verb->add_option("-o,--output", words->output, "the folder of tables and charts (default: NAME)")->type_name("DIR");
  verb->add_flag("--local", words->start.local, "start runs from here even when a master serves this home");
  verb->add_flag("--dry-run", words->start.dry_run, "print what would run and for how long, and start nothing");
  add_wide_option(*verb, program);
  verb->footer(
      "Example:  mlbench study ddl --variants b32 --workers 1,2 --input synthetic --input /data\n"
      "Runs that have finished with the same specification are kept: type the same again to go on.\n"
      "See docs/study-ddl.md");
  const auto action = [words, verb](const Context& context) {
    words->start.executor_given = verb->count("--executor") > 0;
    return study_ddl(context, *words);
  };
  act(*verb, program, action, Signals::kRead);
}

}  // namespace

void add_study(CLI::App& app, Program& program) {
  CLI::App* group = app.add_subcommand("study", "Published studies, made anew: distributed training (ddl)");
  group->require_subcommand(1);
  add_study_ddl(*group, program);
}

}  // namespace mlbench::cli
