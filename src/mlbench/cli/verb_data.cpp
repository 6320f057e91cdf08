#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "mlbench/cli/context.h"
#include "mlbench/cli/verbs.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/fetch.h"
#include "mlbench/dataset/locate.h"
#include "mlbench/dataset/prepare.h"
#include "mlbench/dataset/verify.h"
#include "mlbench/report/table.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

struct DataOptions {
  std::vector<std::string> names;  // empty: all
  std::string data_dir;
};

// ---- list -----------------------------------------------------------------------------------------------------------

ExitCode list(const Context& context, const DataOptions& options) {
  const auto dirs = data_dirs(options.data_dir, context.home());
  Json rows = Json::array();
  report::Table table({{"data set", "", report::Align::kLeft}, {"found", "", report::Align::kLeft}});
  for (const std::string& name : dataset::dataset_names()) {
    Json row = {{"name", name}, {"found", false}, {"folder", nullptr}, {"origin", nullptr}, {"misfits", nullptr}};
    std::string where = "no: mlbench data fetch " + name;
    const dataset::SearchResult search = dataset::search(dataset::find_description(name), dirs);
    if (!search.misfits.empty()) {
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

// One line per file, redrawn on a terminal.
class FetchProgress {
 public:
  ~FetchProgress() { end_line(); }
  void show(const std::string& file, int64_t done, int64_t total) {
    if (file != file_) {
      end_line();
      file_ = file;
      if (!terminal_) fmt::print(stderr, "fetching {} ({})\n", file, size(total));
    }
    if (!terminal_) return;
    fmt::print(stderr, "\r\x1b[Kfetching {}  {} of {}", file, report::format_bytes(uint64_t(done)), size(total));
    std::fflush(stderr);
  }

 private:
  static std::string size(int64_t total) {
    return total > 0 ? report::format_bytes(static_cast<uint64_t>(total)) : "unknown size";
  }
  void end_line() {
    if (terminal_ && !file_.empty()) fmt::print(stderr, "\n");
    file_.clear();
  }
  bool terminal_ = is_terminal(STDERR_FILENO);
  std::string file_;
};

ExitCode fetch(const Context& context, const DataOptions& options) {
  Json rows = Json::array();
  const fs::path data_dir = context.home() / "data";
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
  const auto dirs = data_dirs(options.data_dir, context.home());
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

ExitCode prepare(const Context& context, const DataOptions& options) {
  const auto dirs = data_dirs(options.data_dir, context.home());
  const fs::path cache = context.home() / "cache";
  fs::create_directories(cache);
  Json rows = Json::array();
  for (const std::string& name : options.names) {
    const auto prepared =
        dataset::prepare(dataset::find_description(name), dirs, cache, [](const std::string& line) { say(line); });
    rows.push_back(prepared.record());
    if (!context.json) {
      print(fmt::format("{}  {}  fingerprint {}\n", name, prepared.official() ? "official" : "unofficial",
                        prepared.fingerprint()));
    }
  }
  if (context.json) print_json(rows);
  return ExitCode::kOk;
}

using Body = ExitCode (*)(const Context&, const DataOptions&);

void add(CLI::App& group, Program& program, const char* name, const char* help, bool takes_names, bool takes_dir,
         Body body) {
  CLI::App* verb = add_verb(group, program, name, help);
  auto options = std::make_shared<DataOptions>();
  if (takes_names) verb->add_option("NAME", options->names, "data sets, see 'mlbench data list'")->required();
  if (takes_dir) {
    verb->add_option("--data-dir", options->data_dir, "where data sets lie (default: MLBENCH_DATA_DIR)")
        ->type_name("DIR");
  }
  verb->callback([&program, options, body] {
    program.action = [&program, options, body] { return body(program.context, *options); };
  });
}

}  // namespace

void add_data(CLI::App& app, Program& program) {
  CLI::App* group = app.add_subcommand("data", "Data sets: list, fetch, verify, prepare");
  group->require_subcommand(1);
  add(*group, program, "list", "Which data sets are here, and where", false, true, list);
  add(*group, program, "fetch", "Download into HOME/data", true, false, fetch);
  add(*group, program, "verify", "Compare the files with the published checksums", true, true, verify);
  add(*group, program, "prepare", "Decode into the cache, as the first run does", true, true, prepare);
}

}  // namespace mlbench::cli
