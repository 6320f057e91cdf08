#include "mlbench/cli/remote_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/cli/runs.h"
#include "mlbench/report/records.h"

namespace mlbench::cli {

namespace {

constexpr size_t kMostLossPoints = 100'000;

std::string path_of(const std::string& name) { return "/runs/" + net::http::percent_encode(name); }

[[noreturn]] void refuse_answer(const MasterClient& master, const std::string& why) {
  throw CommError(fmt::format("{} answers, but not as a master of mlbench does: {}", master.url(), why));
}

}  // namespace

Json remote_summaries(const MasterClient& master, const std::string& search) {
  Json runs = Json::array();
  for (size_t total = 1; runs.size() < total;) {
    const Json page = master.get(
        fmt::format("/runs?order=oldest&limit=1000&q={}&offset={}", net::http::percent_encode(search), runs.size()));
    total = page.at("total").get<size_t>();
    if (page.at("runs").empty()) break;
    for (const Json& run : page.at("runs")) runs.push_back(run);
  }
  return runs;
}

Json remote_record(const MasterClient& master, const std::string& name) {
  Json record = master.get(path_of(name));
  try {
    report::check_record(record);
  } catch (const UserError& error) {
    refuse_answer(master, error.what());
  }
  return record;
}

std::vector<Json> remote_repeats(const MasterClient& master, const std::string& name) {
  std::vector<Json> records = {remote_record(master, name)};
  for (const Json& run : remote_summaries(master, name)) {
    const auto other = run.value("name", std::string());
    if (other != name && without_repeat(other) == name) records.push_back(remote_record(master, other));
  }
  std::ranges::stable_sort(records, {}, [](const Json& record) { return record.value("id", int64_t{0}); });
  return records;
}

report::MeasuredRun remote_run(const MasterClient& master, const std::string& name) {
  report::MeasuredRun run{remote_record(master, name), {}, master.url() + path_of(name)};
  const Json loss = master.get(path_of(name) + "/loss");
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

}  // namespace mlbench::cli
