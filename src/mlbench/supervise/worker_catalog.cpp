#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "mlbench/base/build_info.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/process.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/text.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench::supervise {
namespace {

std::optional<Json> read_cached(const std::filesystem::path& path) {
  try {
    if (std::filesystem::exists(path)) return read_json_file(path, inputs::kWorkerCatalog);
  } catch (const std::runtime_error&) {
    // The worker is asked again where the cache cannot be read.
  }
  return std::nullopt;
}

bool lacks_a_framework(const Json& catalog) {
  return std::ranges::any_of(catalog.value("frameworks", Json::array()),
                             [](const Json& row) { return !row.value("available", true); });
}

// What the worker program prints with these arguments. Throws UserError and IoError, saying why where it is no JSON.
Json ask(const std::filesystem::path& worker, const std::vector<std::string>& arguments, const Input& answer) {
  ProcessOptions options;
  options.arguments = {worker.string()};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  const ProcessOutput output = run_process(options, std::chrono::seconds(60));
  if (output.end.code != 0) {
    const std::string said = last_line(output.standard_error);
    throw UserError(fmt::format("{} {} failed (exit code {}): {}", worker.string(), arguments.front(), output.end.code,
                                said.empty() ? "no message" : said));
  }
  try {
    return parse_json(output.standard_output, answer);
  } catch (const UserError& error) {
    throw UserError(fmt::format("{} {} printed no answer: {}", worker.string(), arguments.front(), error.what()));
  }
}

// What the program at `worker` prints with --catalog.
WorkerCatalog catalog_of(const std::filesystem::path& worker, const std::filesystem::path& home) {
  if (!std::filesystem::exists(worker)) return {std::nullopt, "there is no worker program at " + worker.string()};
  const auto build_id = elf_build_id(worker);
  if (!build_id) return {std::nullopt, worker.string() + " is no program with a build id"};
  const std::filesystem::path cached = cache_dir_of(home) / "catalog" / (*build_id + ".json");
  if (auto catalog = read_cached(cached)) return {std::move(catalog), ""};
  try {
    Json catalog = ask(worker, {"--catalog"}, inputs::kWorkerCatalog);
    if (lacks_a_framework(catalog)) return {std::move(catalog), ""};
    try {
      std::filesystem::create_directories(cached.parent_path());
      write_json_file(cached, catalog);
    } catch (const std::runtime_error&) {
      // Where the home cannot be written, the worker is started again next time.
    }
    return {std::move(catalog), ""};
  } catch (const std::runtime_error& error) {
    return {std::nullopt, error.what()};
  }
}

}  // namespace

void add_framework(Json& catalog, const catalog::ProgramRow& program, const WorkerCatalog& its) {
  std::string reason = its.reason;
  if (its.catalog) {
    for (Json row : its.catalog->value("frameworks", Json::array())) {
      if (row.value("name", "") != program.framework) continue;
      row["program"] = program.name;
      catalog["frameworks"].push_back(std::move(row));
      return;
    }
    reason = fmt::format("{} is of another build: it lists no framework '{}'", program.name, program.framework);
  }
  catalog["frameworks"].push_back({{"name", program.framework},
                                   {"available", false},
                                   {"reason", fmt::format("{}; {}", reason, catalog::advice_for(program))},
                                   {"about", program.about},
                                   {"program", program.name}});
}

WorkerCatalog worker_catalog(const std::filesystem::path& worker, const std::filesystem::path& home) {
  const auto programs = catalog::programs();
  WorkerCatalog all = catalog_of(worker, home);
  if (!all.catalog) return all;
  for (Json& row : (*all.catalog)["frameworks"]) row["program"] = programs.front().name;
  for (const catalog::ProgramRow& program : programs.subspan(1)) {
    add_framework(*all.catalog, program, catalog_of(catalog::path_of(program, worker), home));
  }
  return all;
}

record::Bfloat16Speed bfloat16_speed(const std::filesystem::path& worker, const std::filesystem::path& home,
                                     const std::string& framework, std::string_view work) {
  const std::filesystem::path program = catalog::path_of(catalog::program_with(framework), worker);
  const record::Bfloat16Place place{cache_dir_of(home), elf_build_id(program).value_or(""), framework};
  if (auto kept = record::kept_bfloat16_speed(place, work)) return *kept;
  try {
    record::Bfloat16Speed wanted = record::bfloat16_speed_not_known(work, program.string() + " does not measure it");
    for (const Json& row : ask(program, {"--bfloat16-speed", framework}, inputs::kWorkerAnswer)) {
      const auto speed = record::bfloat16_speed_from_json(row, program.string() + " --bfloat16-speed");
      record::keep_bfloat16_speed(place, speed);
      if (speed.work == work) wanted = speed;
    }
    return wanted;
  } catch (const std::runtime_error& error) {
    return record::bfloat16_speed_not_known(work, error.what());
  }
}

}  // namespace mlbench::supervise
