#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/report/archive/result.h"
#include "mlbench/report/archive/zip.h"
#include "mlbench/report/draw/table.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

ExitCode result(const Context& context, const std::string& given) {
  const fs::path file = given;
  if (!fs::is_regular_file(file)) {
    throw UserError(fmt::format("{} is no file: give an archive that 'mlbench download' or MLBench's dashboard wrote",
                                file.string()));
  }
  Json answer;
  try {
    answer = report::derive_result(report::read_zip(read_file(file, inputs::kArchive)));
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", file.string(), error.what()));
  }
  if (context.json) {
    Json with_file = {{"file", fs::absolute(file).lexically_normal().string()}};
    with_file.update(answer);
    print_json(with_file);
  } else {
    print(report::result_text(answer, context.table_style()));
  }
  // `data verify` has the same exit code for files that are not what they should be.
  return answer["differences"].empty() ? ExitCode::kOk : ExitCode::kUserError;
}

}  // namespace

void add_result(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "result", "Derive MLBench's result of a run from its archive's raw events");
  add_table_options(*verb, program);
  auto file = std::make_shared<std::string>();
  verb->add_option("FILE.zip", *file, "of 'mlbench download' or of MLBench's dashboard")->required();
  act(*verb, program, [file](const Context& context) { return result(context, *file); });
}

}  // namespace mlbench::cli
