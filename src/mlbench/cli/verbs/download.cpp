#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "mlbench/base/files.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/remote.h"
#include "mlbench/cli/remote_runs.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/home/runs.h"
#include "mlbench/report/archive/tensorboard.h"
#include "mlbench/report/archive/zip.h"
#include "mlbench/report/records.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

// Writes the event files of all ranks below a folder.
ExitCode download_tensorboard(const Context& context, const std::string& name, const std::string& output) {
  const fs::path folder = fs::absolute(output.empty() ? name + "-tensorboard" : output).lexically_normal();
  const auto master = given_master(context);
  const std::string path = path_of_run(name);
  const fs::path run_dir = master ? fs::path() : report::find_run(context.home_to_read(), name);
  const record::Record record = master ? remote_record(*master, name) : home::current_record(run_dir);
  Json files = Json::array();
  const UserUmask named;
  for (int64_t rank = 0; rank < record.workers.value_or(1); ++rank) {
    const fs::path file = folder / report::tensorboard_path(record, rank);
    fs::create_directories(file.parent_path());
    write_file_atomically(file, master ? master->get_bytes(fmt::format("{}/tensorboard?rank={}", path, rank))
                                       : report::tensorboard_events(run_dir, record, rank));
    files.push_back(file.string());
  }
  if (context.json) {
    print_json({{"name", name}, {"folder", folder.string()}, {"files", files}});
  } else {
    for (const Json& file : files) print(file.get<std::string>() + "\n");
    say(fmt::format("to look at it: tensorboard --logdir {}", folder.string()));
  }
  return ExitCode::kOk;
}

ExitCode download(const Context& context, const std::string& name, const std::string& output) {
  write_file_of_run(context, {"archive", ".zip", "/download", report::write_download}, name, output);
  return ExitCode::kOk;
}

}  // namespace

void add_download(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "download", "Write a run's results into a zip archive, or for TensorBoard");
  add_master_options(*verb, program);
  auto name = std::make_shared<std::string>();
  auto output = std::make_shared<std::string>();
  verb->add_option("NAME-K", *name, "the run")->required();
  verb->add_option("-o,--output", *output, "the archive (default: NAME-K.zip), or TensorBoard's folder")
      ->type_name("FILE");
  auto tensorboard = std::make_shared<bool>(false);
  verb->add_flag("--tensorboard", *tensorboard,
                 "event files of TensorBoard, a folder per rank (default: NAME-K-tensorboard)");
  act(*verb, program, [name, output, tensorboard](const Context& context) {
    return (*tensorboard ? download_tensorboard : download)(context, *name, *output);
  });
}

}  // namespace mlbench::cli
