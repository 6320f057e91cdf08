#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>

#include "mlbench/base/errors.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/verbs/data_images.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/fetch.h"
#include "mlbench/dataset/locate.h"
#include "mlbench/dataset/prepare.h"
#include "mlbench/dataset/text/prepared_text.h"
#include "mlbench/dataset/text/text_files.h"
#include "mlbench/dataset/verify.h"
#include "mlbench/plan/plan.h"
#include "mlbench/report/draw/table.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

struct DataOptions {
  std::vector<std::string> names;  // empty: all
  std::string data_dir;
  bool dry_run = false;
  // For text files that are given instead of names.
  std::string languages = "en-de";
  dataset::text::TextFileOptions files;
};

// ---- list -----------------------------------------------------------------------------------------------------------

ExitCode list(const Context& context, const DataOptions& options) {
  const auto dirs = plan::data_dirs(options.data_dir, context.home());
  Json rows = Json::array();
  report::Table table({{"data set", "", report::Align::kLeft}, {"found", "", report::Align::kLeft}});
  for (const std::string& name : dataset::dataset_names()) {
    Json row = {{"name", name}, {"found", false}, {"folder", nullptr}, {"origin", nullptr}, {"misfits", nullptr}};
    const dataset::DatasetDescription& description = dataset::find_description(name);
    std::string where = "no: " + dataset::way_to_get(description, dirs);
    const dataset::SearchResult search = dataset::search(description, dirs);
    if (description.only_made()) {
      where = "no files: made by --synthetic";
    } else if (!search.misfits.empty()) {
      row["misfits"] = search.misfits.substr(search.misfits.find_first_not_of("\n "));
      where = "does not fit: " + row["misfits"].get<std::string>();
    } else if (search.found) {
      row["found"] = true;
      row["folder"] = search.found->folder.string();
      row["origin"] = search.found->origin;
      where = fmt::format("{} ({})", search.found->folder.string(), search.found->origin);
    }
    rows.push_back(row);
    table.add_row({name, where});
  }
  if (context.json) {
    print_json(rows);
  } else {
    print(table.render());
  }
  return ExitCode::kOk;
}

// ---- fetch ----------------------------------------------------------------------------------------------------------

// Shows the progress of a download: one line for each file, which is redrawn on a terminal.
class FetchProgress {
 public:
  ~FetchProgress() { end_line(); }
  void show(const std::string& file, int64_t done, int64_t total) {
    if (file != file_) {
      end_line();
      file_ = file;
      if (!terminal_) tell(stderr, fmt::format("fetching {} ({})\n", file, size(total)));
    }
    if (!terminal_) return;
    tell(stderr, fmt::format("\r\x1b[Kfetching {}  {} of {}", file, report::format_bytes(uint64_t(done)), size(total)));
  }

 private:
  static std::string size(int64_t total) {
    return total > 0 ? report::format_bytes(static_cast<uint64_t>(total)) : "unknown size";
  }
  void end_line() {
    if (terminal_ && !file_.empty()) tell(stderr, "\n");
    file_.clear();
  }
  bool terminal_ = is_terminal(STDERR_FILENO);
  std::string file_;
};

ExitCode fetch(const Context& context, const DataOptions& options) {
  Json rows = Json::array();
  const fs::path data_dir = data_dir_of(context.home());
  for (const std::string& name : options.names) {
    const dataset::DatasetDescription& description = dataset::find_description(name);
    fs::path folder;
    {
      FetchProgress progress;
      folder = dataset::fetch(description, data_dir, [&](const std::string& file, int64_t done, int64_t total) {
        progress.show(file, done, total);
      });
    }
    rows.push_back({{"name", name}, {"folder", folder.string()}});
    if (!context.json) print(fmt::format("{} in {}\n", name, folder.string()));
  }
  if (context.json) print_json(rows);
  return ExitCode::kOk;
}

// ---- verify, prepare ------------------------------------------------------------------------------------------------

ExitCode verify(const Context& context, const DataOptions& options) {
  const auto dirs = plan::data_dirs(options.data_dir, context.home());
  Json rows = Json::array();
  bool good = true;
  for (const std::string& name : options.names) {
    const dataset::DatasetDescription& description = dataset::find_description(name);
    const auto located = dataset::locate(description, dirs);
    Json files = Json::array();
    for (const dataset::VerifyResult& result : dataset::verify(description, located)) {
      good = good && result.ok;
      files.push_back({{"file", result.file}, {"ok", result.ok}, {"message", result.message}});
      if (!context.json) print(fmt::format("{:<4}  {}  {}\n", result.ok ? "ok" : "BAD", result.file, result.message));
    }
    rows.push_back({{"name", name}, {"folder", located.folder.string()}, {"files", files}});
  }
  if (context.json) print_json(rows);
  if (!good)
    say("files differ from the published ones: remove them and type 'mlbench data fetch NAME', or train on them "
        "as unofficial data");
  return good ? ExitCode::kOk : ExitCode::kUserError;
}

// The data set that a name, or text files, stand for.
struct Chosen {
  dataset::DatasetDescription description;
  std::optional<dataset::LocatedDataset> files;  // only for text files
};

std::vector<Chosen> choose(const DataOptions& options) {
  const auto known = dataset::dataset_names();
  const auto is_file = [&](const std::string& name) {
    std::error_code ignored;
    return std::ranges::find(known, name) == known.end() &&
           (name.find('/') != std::string::npos || fs::exists(name, ignored));
  };
  std::vector<Chosen> chosen;
  if (std::ranges::none_of(options.names, is_file)) {
    for (const std::string& name : options.names) chosen.push_back({dataset::find_description(name), std::nullopt});
    return chosen;
  }
  if (!std::ranges::all_of(options.names, is_file)) {
    throw UserError("names of data sets beside text files: expected one or the other");
  }
  const size_t dash = options.languages.find('-');
  if (dash == std::string::npos) {
    throw UserError(fmt::format("--languages '{}': expected SOURCE-TARGET, as en-de", options.languages));
  }
  dataset::text::TextFileOptions files = options.files;
  files.source_language = options.languages.substr(0, dash);
  files.target_language = options.languages.substr(dash + 1);
  auto made = dataset::text::describe_files({options.names.begin(), options.names.end()}, files);
  chosen.push_back({std::move(made.description), std::move(made.located)});
  return chosen;
}

// Says from where a data set would be read and where it would be written, without doing either.
Json dry_row(const Chosen& one, const std::vector<std::string>& dirs, const fs::path& cache) {
  const auto located = one.files ? *one.files : dataset::locate(one.description, dirs);
  Json row = {{"name", one.description.name},
              {"format", one.description.format},
              {"folder", located.folder.string()},
              {"cache", cache.string()},
              {"prepared", nullptr}};
  if (dataset::is_text(one.description)) {
    const auto place = dataset::text::place_of_text(one.description, located, cache);
    row["cache"] = place.folder.string();
    row["prepared"] = place.prepared;
  }
  return row;
}

std::string dry_line(const Json& row) {
  const bool prepared = row["prepared"] == true;
  return fmt::format("{} {} from {}, {} {}\n", prepared ? "is prepared:" : "would prepare",
                     row["name"].get<std::string>(), row["folder"].get<std::string>(), prepared ? "in" : "into",
                     row["cache"].get<std::string>());
}

Json text_row(const dataset::text::PreparedText& text) {
  return {{"folder", text.folder().string()},
          {"vocabulary", text.vocabulary().tokens().size()},
          {"padded_to", text.vocabulary().spec().size},
          {"splits", text.facts()["splits"]}};
}

// "train: 29000 lines, 28994 kept, 6 words"
std::string counts_line(const std::string& split, const Json& counts) {
  std::string line = "  " + split + ":";
  for (const auto& [name, count] : counts.items()) {
    if (count != 0) line += fmt::format("{} {} {}", line.ends_with(':') ? "" : ",", count.dump(), name);
  }
  return line + "\n";
}

std::string prepared_text(const std::string& name, const dataset::PreparedDataset& data) {
  std::string lines =
      fmt::format("{}  {}  fingerprint {}\n", name, data.official() ? "official" : "unofficial", data.fingerprint());
  if (!data.text()) return lines;
  const Json row = text_row(*data.text());
  for (const auto& [split, counts] : row["splits"].items()) lines += counts_line(split, counts);
  return lines + fmt::format("  vocabulary of {}, padded to {}, in {}\n", row["vocabulary"].dump(),
                             row["padded_to"].dump(), data.text()->folder().string());
}

ExitCode prepare(const Context& context, const DataOptions& options) {
  const auto dirs = plan::data_dirs(options.data_dir, context.home());
  const fs::path cache = cache_dir_of(context.home());
  const dataset::Progress progress = [](const std::string& line) { say(line); };
  Json rows = Json::array();
  for (const Chosen& one : choose(options)) {
    if (options.dry_run) {
      rows.push_back(dry_row(one, dirs, cache));
      if (!context.json) print(dry_line(rows.back()));
      continue;
    }
    fs::create_directories(cache);
    const auto prepared = one.files ? dataset::text::prepare_text(one.description, *one.files, cache, progress)
                                    : dataset::prepare(one.description, dirs, cache, progress);
    rows.push_back(prepared.record());
    if (prepared.text()) rows.back()["text"] = text_row(*prepared.text());
    if (!context.json) print(prepared_text(one.description.name, prepared));
  }
  if (context.json) print_json(rows);
  return ExitCode::kOk;
}

using Body = ExitCode (*)(const Context&, const DataOptions&);

std::pair<CLI::App*, std::shared_ptr<DataOptions>> add(CLI::App& group, Program& program, const char* name,
                                                       const char* help, bool takes_names, bool takes_dir, Body body) {
  CLI::App* verb = add_verb(group, program, name, help);
  auto options = std::make_shared<DataOptions>();
  if (takes_names) verb->add_option("NAME", options->names, "data sets, see 'mlbench data list'")->required();
  if (takes_dir) {
    verb->add_option("--data-dir", options->data_dir,
                     fmt::format("where data sets lie (default: {})", variables::kDataDir))
        ->type_name("DIR");
  }
  act(*verb, program, [options, body](const Context& context) { return body(context, *options); });
  return {verb, options};
}

void add_prepare_options(CLI::App& verb, DataOptions& options) {
  verb.add_flag("--dry-run", options.dry_run, "say what would be read and written");
  verb.add_option("--languages", options.languages, "of text files: source and target")->capture_default_str();
  verb.add_option("--vocabulary", options.files.vocabulary, "of text files: pieces of words to learn, or words")
      ->check(CLI::Range(int64_t{8}, int64_t{10'000'000}))
      ->capture_default_str();
  verb.add_option("--most-words", options.files.most_words, "of text files: longer pairs are left out; 0: none are")
      ->check(CLI::Range(int64_t{0}, int64_t{1'000'000}))
      ->capture_default_str();
}

}  // namespace

void add_data(CLI::App& app, Program& program) {
  CLI::App* group = app.add_subcommand("data", "Data sets: list, fetch, verify, prepare, shard, index");
  group->require_subcommand(1);
  add(*group, program, "list", "Which data sets are here, and where", false, true, list);
  add(*group, program, "fetch", "Download into HOME/data", true, false, fetch);
  add(*group, program, "verify", "Compare the files with the published checksums", true, true, verify);
  const auto [verb, options] =
      add(*group, program, "prepare", "Decode into the cache, as the first run does; NAME may be text files", true,
          true, prepare);
  add_prepare_options(*verb, *options);
  add_data_images(*group, program);
}

}  // namespace mlbench::cli
