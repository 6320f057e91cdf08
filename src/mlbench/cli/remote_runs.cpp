#include "mlbench/cli/remote_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/home/runs.h"
#include "mlbench/record/record.h"
#include "mlbench/report/draw/table.h"
#include "mlbench/report/records.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostLossPoints = 100'000;

[[noreturn]] void refuse_answer(const MasterClient& master, const std::string& why) {
  throw CommError(fmt::format("{} answers, but not as a master of mlbench does: {}", master.url(), why));
}

}  // namespace

Json remote_summaries(const MasterClient& master, const std::string& search) {
  Json runs = Json::array();
  for (size_t total = 1; runs.size() < total;) {
    const Json page = master.get(
        fmt::format("/runs?sort=id&limit=1000&q={}&offset={}", net::http::percent_encode(search), runs.size()));
    total = page.at("total").get<size_t>();
    if (page.at("runs").empty()) break;
    for (const Json& run : page.at("runs")) runs.push_back(run);
  }
  return runs;
}

Json remote_tracked_runs(const MasterClient& master, const std::string& search) {
  const std::string query = "/runs?tracked=true&label=mlflow&sort=-created_at&limit=1000&q=";
  Json runs = master.get(query + net::http::percent_encode(search)).at("runs");
  std::reverse(runs.begin(), runs.end());
  return runs;
}

record::Record remote_record(const MasterClient& master, const std::string& name) {
  const Json record = master.get(path_of_run(name));
  try {
    return record::record_from_json(record, "its record");
  } catch (const UserError& error) {
    refuse_answer(master, error.what());
  }
}

std::vector<record::Record> remote_repeats(const MasterClient& master, const std::string& name) {
  std::vector<record::Record> records = {remote_record(master, name)};
  for (const Json& run : remote_summaries(master, name)) {
    const auto other = run.value("name", std::string());
    if (other != name && home::without_repeat(other) == name) records.push_back(remote_record(master, other));
  }
  std::ranges::stable_sort(records, {}, &record::Record::id);
  return records;
}

report::MeasuredRun remote_run(const MasterClient& master, const std::string& name) {
  report::MeasuredRun run{remote_record(master, name), {}, master.url() + path_of_run(name)};
  const Json loss = master.get(path_of_run(name) + "/loss");
  const auto points = loss.find("points");
  if (points == loss.end() || !points->is_array() || points->size() > kMostLossPoints) {
    refuse_answer(master, "the loss of a run is no list");
  }
  for (const Json& point : *points) {
    if (!point.is_array() || point.size() != 2 || !point[0].is_number() || !point[1].is_number()) {
      refuse_answer(master, "a point of the loss is no pair of numbers");
    }
    run.loss.push_back({point[0].get<double>(), point[1].get<double>()});
  }
  return run;
}

void write_file_of_run(const Context& context, const FileOfRun& of, const std::string& name,
                       const std::string& output) {
  const std::string usual = name + std::string(of.ending);
  const fs::path file = fs::absolute(output.empty() ? usual : output).lexically_normal();
  if (fs::is_directory(file)) {
    throw UserError(fmt::format("{} is a folder: give a file, -o {}", file.string(), (file / usual).string()));
  }
  record::Record record;
  const UserUmask named;
  if (const auto master = given_master(context)) {
    master->get_file(path_of_run(name) + std::string(of.resource), file);
  } else {
    const fs::path run_dir = report::find_run(context.home_to_read(), name);
    record = home::current_record(run_dir);
    of.write(run_dir, record, file);
  }
  const auto bytes = static_cast<uint64_t>(fs::file_size(file));
  if (context.json) {
    print_json({{"name", name}, {"file", file.string()}, {"bytes", bytes}});
    return;
  }
  print(fmt::format("{} ({})\n", file.string(), report::format_bytes(bytes)));
  if (record::is_active(record)) {
    say(fmt::format("run '{}' is still {}: the {} holds what there is so far", name, record.state, of.what));
  }
}

}  // namespace mlbench::cli
