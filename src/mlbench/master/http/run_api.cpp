#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <regex>
#include <set>

#include "mlbench/base/growing_lines.h"
#include "mlbench/base/log.h"
#include "mlbench/base/paths.h"
#include "mlbench/master/http/dates.h"
#include "mlbench/master/http/points.h"
#include "mlbench/master/http/services.h"
#include "mlbench/master/runs.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/records.h"
#include "mlbench/report/scaling.h"
#include "mlbench/report/tensorboard.h"
#include "mlbench/report/zip.h"
#include "mlbench/spec/variables.h"

namespace mlbench::master {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kMostRunsPerPage = 1000;
constexpr int64_t kMostLogBytes = 4 << 20;
constexpr int64_t kMostBuckets = 20'000;

fs::path existing_run(const fs::path& home, const std::string& name) {
  try {
    check_name(name, "run name");
  } catch (const UserError&) {
    return {};
  }
  fs::path folder = report::runs_dir(home) / name;
  return report::is_run(folder) ? folder : fs::path();
}

// ---- lists and records ----------------------------------------------------------------------------------------------

// {"total", "limit", "offset", "runs": [...]} without reading a summary that is JSON already.
Response list_runs(const Services& services, const Request& request) {
  store::RunQuery query;
  query.state = request.query("state").value_or("");
  query.task = request.query("task").value_or("");
  query.search = request.query("q").value_or("");
  query.limit = whole_number(request, "limit", 100, 1, kMostRunsPerPage);
  query.offset = whole_number(request, "offset", 0, 0, INT64_MAX / 2);
  const std::string order = request.query("order").value_or("newest");
  if (order != "newest" && order != "oldest") throw HttpError(400, "order: valid are newest and oldest");
  query.newest_first = order == "newest";
  const store::RunPage page = services.index.find(query);
  std::string body =
      fmt::format(R"({{"total":{},"limit":{},"offset":{},"runs":[)", page.total, query.limit, query.offset);
  for (size_t i = 0; i < page.summaries.size(); ++i) body += (i == 0 ? "" : ",") + page.summaries[i];
  return {200, "application/json", {}, body + "]}", {}};
}

Json created(const std::vector<spec::RunSpec>& runs, const std::vector<std::string>& notes) {
  Json answer = {{"runs", Json::array()}, {"warnings", notes}};
  for (const spec::RunSpec& run : runs) answer["runs"].push_back(summary_of(first_record(run)));
  return answer;
}

PlannedRuns plan(const Services& services, const Json& request) {
  try {
    return services.hooks.plan(request);
  } catch (const UserError& error) {
    throw HttpError(422, error.what());
  }
}

// Secrets: out of the request before anything else sees it.
std::map<std::string, std::string> take_env_values(Json& request) {
  std::map<std::string, std::string> values;
  const auto found = request.find("env_values");
  if (found == request.end()) return values;
  if (!found->is_object()) throw HttpError(400, "env_values is no object of texts");
  for (const auto& [name, value] : found->items()) {
    if (!value.is_string()) throw HttpError(400, "env_values is no object of texts");
    values[name] = value.get<std::string>();
    if (values[name].find('\0') != std::string::npos) throw HttpError(400, "a value of env_values holds a zero byte");
  }
  request.erase(found);
  return values;
}

void check_values(const std::vector<spec::RunSpec>& runs, const std::map<std::string, std::string>& values) {
  std::set<std::string> needed;
  for (const spec::RunSpec& run : runs) {
    for (std::string& name : spec::names_to_give(run)) needed.insert(std::move(name));
  }
  for (const std::string& name : needed) {
    if (values.contains(name)) continue;
    throw HttpError(422,
                    fmt::format("the run needs the value of {}, which no run stores: give it in env_values", name));
  }
  for (const auto& [name, value] : values) {
    if (!needed.contains(name)) {
      throw HttpError(422, fmt::format("env_values has {}, which env does not name (as NAME alone)", name));
    }
  }
}

bool take_no_wait(Json& request) {
  const auto found = request.find("no_wait");
  if (found == request.end()) return false;
  if (!found->is_boolean()) throw HttpError(400, "no_wait is neither true nor false");
  const bool no_wait = found->get<bool>();
  request.erase(found);
  return no_wait;
}

void check_fits(const Services& services, const std::vector<spec::RunSpec>& runs) {
  for (const spec::RunSpec& run : runs) {
    if (const auto reason = refusal(services.scheduler.cluster(), run.workers)) throw HttpError(422, *reason);
  }
}

Response create_runs(Services& services, const Request& request) {
  Json body = json_body(request);
  const bool no_wait = take_no_wait(body);
  const auto values = take_env_values(body);
  PlannedRuns planned = plan(services, body);
  return json_response(201, created(submit(services, std::move(planned.runs), no_wait, values), planned.warnings));
}

// What a request would make; nothing is started, no name is taken.
Response preview_runs(Services& services, const Request& request) {
  Json body = json_body(request);
  take_no_wait(body);
  take_env_values(body);
  const PlannedRuns planned = plan(services, body);
  check_fits(services, planned.runs);
  Json answer = {{"runs", Json::array()}, {"warnings", planned.warnings}};
  for (const spec::RunSpec& run : planned.runs) {
    const spec::TaskSpec& task = run.task.task;
    Json overrides = Json::array();
    for (const spec::Override& one : run.overrides) overrides.push_back({{"key", one.key}, {"value", one.value}});
    answer["runs"].push_back({{"name", run.name},
                              {"taken", fs::exists(report::runs_dir(services.home) / run.name)},
                              {"task", task.name},
                              {"rules", task.rules},
                              {"variant", task.variant},
                              {"division", run.division},
                              {"framework", run.framework},
                              {"backend", run.backend},
                              {"executor", run.executor},
                              {"device", run.device},
                              {"workers", run.workers},
                              {"threads_per_worker", run.threads_per_worker},
                              {"seed", run.seed},
                              {"data", run.data_name},
                              {"light", run.limits.light},
                              {"overrides", std::move(overrides)}});
  }
  return json_response(200, answer);
}

// A run of the same specification: NAME-K.2, NAME-K.3, ...
Response retry(Services& services, const Call& call) {
  spec::RunSpec run = read_spec(find_run_folder(services, call.parameters[0]));
  const std::string base = without_repeat(run.name);
  for (int64_t number = 2;; ++number) {
    run.name = fmt::format("{}.{}", base, number);
    check_name(run.name, "run name");  // a long one may have no room for a number
    if (fs::exists(report::runs_dir(services.home) / run.name)) continue;
    try {
      return json_response(201, created(submit(services, {run}, false), {}));
    } catch (const NameTaken&) {
      continue;  // somebody was faster
    }
  }
}

// What would make this run again, as a request.
Json request_of(const spec::RunSpec& run) {
  if (spec::is_custom(run)) {
    return {{"workers", {run.workers}}, {"command", run.command},
            {"work_dir", run.work_dir}, {"env", run.environment},
            {"backend", run.backend},   {"executor", run.executor},
            {"seed", run.seed},         {"threads_per_worker", run.threads_per_worker}};
  }
  Json request = {{"workers", {run.workers}},
                  {"task", run.task.task.name},
                  {"rules", run.task.task.rules},
                  {"variant", run.task.task.variant},
                  {"framework", run.framework},
                  {"backend", run.backend},
                  {"executor", run.executor},
                  {"set", Json::array()},
                  {"seed", run.seed},
                  {"threads_per_worker", run.threads_per_worker},
                  {"light", run.limits.light},
                  {"synthetic", run.synthetic},
                  {"fixed_batch", run.fixed_batch},
                  {"gpu", run.device == "cuda"},
                  {"comm_timeout", run.comm_timeout_s}};
  for (const spec::Override& one : run.overrides) request["set"].push_back(one.key + "=" + one.value);
  if (run.data_name != run.task.task.data.name) request["data"] = run.data_name;
  if (run.limits.max_steps > 0) request["max_steps"] = run.limits.max_steps;
  if (run.limits.max_epochs > 0) request["max_epochs"] = run.limits.max_epochs;
  if (run.limits.max_time_s > 0) request["max_time"] = run.limits.max_time_s;
  if (run.checkpoint.every_epoch) request["checkpoint_every"] = "epoch";
  if (run.checkpoint.every_steps > 0) request["checkpoint_every"] = run.checkpoint.every_steps;
  return request;
}

// A run like this one, with another name and what else the body says.
Response clone(Services& services, const Call& call) {
  Json request = request_of(read_spec(find_run_folder(services, call.parameters[0])));
  Json changes = json_body(call.request);
  if (!changes.contains("name")) throw HttpError(400, "name is needed: that of the new run");
  for (const auto& [key, value] : changes.items()) request[key] = value;
  const bool no_wait = take_no_wait(request);
  const auto values = take_env_values(request);
  PlannedRuns planned = plan(services, request);
  return json_response(201, created(submit(services, std::move(planned.runs), no_wait, values), planned.warnings));
}

Response stop(Services& services, const Call& call) {
  const fs::path run_dir = find_run_folder(services, call.parameters[0]);
  if (!is_active_run(run_dir)) {
    throw HttpError(409, fmt::format("run '{}' is not active: it is {}", run_dir.filename().string(),
                                     report::read_record(run_dir).value("state", "unknown")));
  }
  stop_run(services.home, run_dir);
  services.watcher.refresh(run_dir.filename());
  return json_response(202, summary_of(report::read_record(run_dir)));
}

// ---- logs -----------------------------------------------------------------------------------------------------------

struct Log {
  int64_t rank = -1;  // -1: the supervisor
  int64_t segment = 1;
  fs::path path;
};

std::vector<Log> logs_of(const fs::path& run_dir) {
  static const std::regex kName(R"(rank-(\d{1,9})\.seg-(\d{1,9})\.log)");
  std::vector<Log> logs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run_dir / "logs", error)) {
    const std::string name = entry.path().filename();
    std::smatch match;
    if (std::regex_match(name, match, kName))
      logs.push_back({std::stoll(match[1]), std::stoll(match[2]), entry.path()});
    if (name == "supervisor.log") logs.push_back({-1, 1, entry.path()});
  }
  std::sort(logs.begin(), logs.end(),
            [](const Log& a, const Log& b) { return std::pair(a.segment, a.rank) < std::pair(b.segment, b.rank); });
  return logs;
}

int64_t size_of(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  return error ? 0 : static_cast<int64_t>(size);
}

Response list_logs(const Services& services, const Call& call) {
  Json list = Json::array();
  for (const Log& log : logs_of(find_run_folder(services, call.parameters[0]))) {
    const Json rank = log.rank < 0 ? Json("supervisor") : Json(log.rank);
    list.push_back({{"rank", rank}, {"segment", log.segment}, {"bytes", size_of(log.path)}});
  }
  return json_response(200, {{"logs", list}});
}

Response read_log(Services& services, const Call& call) {
  const fs::path run_dir = find_run_folder(services, call.parameters[0]);
  const std::string& wanted = call.parameters[1];
  const int64_t segment = whole_number(call.request, "segment", 0, 1, 1'000'000);
  std::optional<Log> found;
  for (Log& log : logs_of(run_dir)) {
    const std::string rank = log.rank < 0 ? "supervisor" : std::to_string(log.rank);
    if (rank == wanted && (segment == 0 || segment == log.segment)) found = std::move(log);
  }
  if (!found) {
    throw HttpError(404,
                    fmt::format("run '{}' has no such log: valid are its ranks and 'supervisor', once they started",
                                run_dir.filename().string()));
  }
  const int64_t size = size_of(found->path);
  int64_t offset = whole_number(call.request, "offset", 0, -(int64_t{1} << 40), int64_t{1} << 40);
  if (offset < 0) offset = std::max<int64_t>(0, size + offset);
  constexpr const char* kType = "text/plain; charset=utf-8";
  if (yes_or_no(call.request, "follow")) {
    Response response{200, kType, {}, "", {}};
    response.open_stream = [&services, name = run_dir.filename().string(), path = found->path,
                            offset](std::shared_ptr<Stream> stream) {
      services.live.follow_file(name, path, static_cast<uintmax_t>(offset), std::move(stream));
    };
    return response;
  }
  const int64_t limit = whole_number(call.request, "limit", 1 << 20, 1, kMostLogBytes);
  std::string text = read_from(found->path, static_cast<uintmax_t>(offset), static_cast<size_t>(limit));
  Response response{200, kType, {}, "", {}};
  response.headers = {{"X-Next-Offset", std::to_string(offset + std::ssize(text))},
                      {"X-Total-Bytes", std::to_string(size)}};
  response.body = std::move(text);
  return response;
}

// ---- series ---------------------------------------------------------------------------------------------------------

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

struct Found {
  store::SeriesStore* source;
  store::SeriesInfo info;
};

std::vector<Found> all_series(Services& services, const fs::path& run_dir, int64_t run) {
  services.ingest.catch_up(run_dir);
  std::vector<Found> out;
  for (store::SeriesStore* source : {&services.series, &services.journal.series()}) {
    for (store::SeriesInfo& info : source->list(run)) out.push_back({source, std::move(info)});
  }
  return out;
}

// Without ?name a list of the series, else their points, at most ?points per series: columns of one length.
Response series(Services& services, const Call& call) {
  const fs::path run_dir = find_run_folder(services, call.parameters[0]);
  const int64_t run = read_spec(run_dir).id;
  const auto name = call.request.query("name");
  const int64_t rank = whole_number(call.request, "rank", -1, 0, 1'000'000);
  store::SeriesRange range;
  range.buckets = static_cast<size_t>(whole_number(call.request, "points", 1000, 1, kMostBuckets));
  range.from_step = whole_number(call.request, "from_step", INT64_MIN, 0, INT64_MAX);
  range.to_step = whole_number(call.request, "to_step", INT64_MAX, 0, INT64_MAX);
  range.from_time_us = whole_number(call.request, "from_time_us", INT64_MIN, 0, INT64_MAX);
  range.to_time_us = whole_number(call.request, "to_time_us", INT64_MAX, 0, INT64_MAX);
  std::vector<Found> wanted = all_series(services, run_dir, run);
  std::erase_if(wanted, [&](const Found& found) {
    return (name && found.info.name.name != *name) || (rank >= 0 && found.info.name.rank != rank);
  });
  std::vector<std::vector<store::Bucket>> charts;
  for (store::SeriesStore* source : {&services.series, &services.journal.series()}) {
    std::vector<store::SeriesName> names;
    for (const Found& found : wanted) {
      if (name && found.source == source) names.push_back(found.info.name);
    }
    for (std::vector<store::Bucket>& chart : source->read(run, names, range)) charts.push_back(std::move(chart));
  }
  Json list = Json::array();
  for (size_t i = 0; i < wanted.size(); ++i) {
    const store::SeriesInfo& info = wanted[i].info;
    Json one = {{"name", info.name.name}, {"rank", info.name.rank}, {"count", info.count}};
    if (!name) {
      one["last"] = {
          {"time_us", info.last.time_us}, {"step", info.last.step}, {"value", number_or_null(info.last.value)}};
    } else {
      Json step = Json::array(), time = Json::array(), mean = Json::array(), min = Json::array(), max = Json::array(),
           count = Json::array();
      for (const store::Bucket& bucket : charts[i]) {
        step.push_back(bucket.last_step);
        time.push_back(bucket.last_time_us);
        mean.push_back(number_or_null(bucket.mean()));
        min.push_back(number_or_null(bucket.min));
        max.push_back(number_or_null(bucket.max));
        count.push_back(bucket.count);
      }
      one["points"] = {{"step", std::move(step)}, {"time_us", std::move(time)}, {"mean", std::move(mean)},
                       {"min", std::move(min)},   {"max", std::move(max)},      {"points", std::move(count)}};
    }
    list.push_back(std::move(one));
  }
  return json_response(200, {{"run", run_dir.filename().string()},
                             {"left_out_lines", services.ingest.left_out(run_dir)},
                             {"series", std::move(list)}});
}

Response add_points(Services& services, const Call& call) {
  const fs::path run_dir = find_run_folder(services, call.parameters[0]);
  const std::string type = call.request.content_type();
  if (type != "application/x-ndjson" && type != "application/jsonl" && type != "application/json") {
    throw HttpError(
        415, fmt::format("the body is '{}': expected application/x-ndjson, one record per line", type.substr(0, 80)));
  }
  const ParsedBatch batch = parse_points(call.request.body, now_us());
  // The index spares reading the whole specification, batch by batch.
  const auto known = services.index.id_of(run_dir.filename());
  const int64_t run = known ? *known : read_spec(run_dir).id;
  const store::BatchResult result = services.journal.add_batch(run, batch.records);
  Json last = Json::object();
  for (const auto& [rank, sequence] : services.journal.last_sequences(run)) last[std::to_string(rank)] = sequence;
  return json_response(200, {{"accepted", result.accepted},
                             {"duplicates", result.duplicates},
                             {"points", result.points},
                             {"last_sequence", last}});
}

// ---- the rest -------------------------------------------------------------------------------------------------------

Response events(std::function<void(std::shared_ptr<Stream>)> open) {
  Response response{200, "text/event-stream", {}, "", {}};
  response.open_stream = std::move(open);
  return response;
}

Response download(const Services& services, const Call& call) {
  const fs::path run_dir = find_run_folder(services, call.parameters[0]);
  const Json record = current_record(run_dir);
  Response response{200, "application/zip", {}, "", {}};
  response.headers = {
      {"Content-Disposition", fmt::format("attachment; filename=\"{}.zip\"", run_dir.filename().string())}};
  report::Download content = report::download_of(run_dir, record);
  response.held_bytes = content.held_bytes;
  const auto zip = std::make_shared<report::ZipStream>(std::move(content.parts), now_us() / 1'000'000);
  response.next = [zip] { return zip->next(); };
  return response;
}

Response tensorboard(const Services& services, const Call& call) {
  const fs::path run_dir = find_run_folder(services, call.parameters[0]);
  const Json record = current_record(run_dir);
  const int64_t rank = whole_number(call.request, "rank", 0, 0, record.value("workers", int64_t{1}) - 1);
  Response response{200, "application/octet-stream", {}, "", {}};
  response.headers = {{"Content-Disposition", fmt::format("attachment; filename=\"{}\"",
                                                          report::tensorboard_path(record, rank).filename().string())}};
  response.body = report::tensorboard_events(run_dir, record, rank);
  return response;
}

Json scaling_json(const std::optional<report::Scaling>& scaling) {
  if (!scaling) return nullptr;
  return {{"speed_up", scaling->speed_up}, {"efficiency", scaling->efficiency}};
}

Response compare_runs(const Services& services, const Request& request) {
  const std::string names = request.query("runs").value_or("");
  std::vector<Json> records;
  for (size_t begin = 0; begin <= names.size() && !names.empty();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    records.push_back(current_record(find_run_folder(services, names.substr(begin, end - begin))));
    begin = end + 1;
    if (records.size() > 100) throw HttpError(400, "runs: at most 100 can be compared");
  }
  if (records.empty()) throw HttpError(400, "runs is needed: names with commas between them");
  const report::ScaledRuns scaled = report::scale_runs(records);
  Json rows = Json::array();
  for (size_t i = 0; i < records.size(); ++i) {
    Json row = summary_of(records[i]);
    row["to_goal"] = scaling_json(scaled.runs[i].to_goal);
    row["rate"] = scaling_json(scaled.runs[i].rate);
    rows.push_back(std::move(row));
  }
  return json_response(
      200,
      {{"baseline_workers", scaled.baseline_workers}, {"baseline", scaled.baseline_names}, {"runs", std::move(rows)}});
}

}  // namespace

fs::path find_run_folder(const Services& services, const std::string& name_or_id) {
  fs::path folder = existing_run(services.home, name_or_id);
  int64_t id = 0;
  const auto [end, error] = std::from_chars(name_or_id.data(), name_or_id.data() + name_or_id.size(), id);
  if (folder.empty() && error == std::errc() && end == name_or_id.data() + name_or_id.size()) {
    if (const auto name = services.index.name_of(id)) folder = existing_run(services.home, *name);
  }
  if (folder.empty()) throw HttpError(404, fmt::format("there is no run '{}'", name_or_id.substr(0, 80)));
  return folder;
}

std::vector<spec::RunSpec> submit(Services& services, std::vector<spec::RunSpec> runs, bool no_wait,
                                  const std::map<std::string, std::string>& values) {
  check_fits(services, runs);
  check_values(runs, values);
  runs = create_runs(services.home, std::move(runs), Waiting{no_wait});
  // They are there now, so no error may say that they are not.
  for (const spec::RunSpec& run : runs) {
    services.scheduler.submit(run, no_wait, values);
    try {
      services.watcher.refresh(run.name);
    } catch (const std::exception& error) {
      spdlog::warn("run {} is listed a little later: {}", run.name, error.what());
    }
  }
  return runs;
}

void delete_everywhere(Services& services, const fs::path& run_dir) {
  const std::string name = run_dir.filename();
  if (is_active_run(run_dir)) throw HttpError(409, fmt::format("run '{}' is active: stop it first", name));
  int64_t id = 0;
  try {
    id = read_spec(run_dir).id;
  } catch (const UserError&) {
    // A damaged run can be deleted all the same.
  }
  delete_run(services.home, run_dir);
  if (id > 0) {
    services.series.remove_run(id);
    services.journal.remove_run(id);
  }
  services.watcher.refresh(name);
}

std::vector<Route> run_routes(Services& services) {
  Services* s = &services;
  const auto folder = [s](const Call& call) { return find_run_folder(*s, call.parameters[0]); };
  return {
      {"GET", "/api/v1/runs", Access::kToken, [s](const Call& call) { return list_runs(*s, call.request); }},
      {"POST", "/api/v1/runs", Access::kToken, [s](const Call& call) { return create_runs(*s, call.request); },
       Lane::kSlow, Body::kRequest},
      {"POST", "/api/v1/plan", Access::kToken, [s](const Call& call) { return preview_runs(*s, call.request); },
       Lane::kSlow, Body::kRequest},
      {"GET", "/api/v1/runs/{run}", Access::kToken,
       [folder](const Call& call) { return json_response(200, current_record(folder(call))); }},
      {"DELETE", "/api/v1/runs/{run}", Access::kToken,
       [s, folder](const Call& call) {
         delete_everywhere(*s, folder(call));
         return Response{204, "", {}, "", {}};
       },
       Lane::kSlow},
      {"POST", "/api/v1/runs/{run}/stop", Access::kToken, [s](const Call& call) { return stop(*s, call); },
       Lane::kSlow},
      {"POST", "/api/v1/runs/{run}/retry", Access::kToken, [s](const Call& call) { return retry(*s, call); },
       Lane::kSlow},
      {"POST", "/api/v1/runs/{run}/clone", Access::kToken, [s](const Call& call) { return clone(*s, call); },
       Lane::kSlow, Body::kRequest},
      {"GET", "/api/v1/runs/{run}/logs", Access::kToken, [s](const Call& call) { return list_logs(*s, call); }},
      {"GET", "/api/v1/runs/{run}/logs/{rank}", Access::kToken, [s](const Call& call) { return read_log(*s, call); }},
      {"GET", "/api/v1/runs/{run}/series", Access::kToken, [s](const Call& call) { return series(*s, call); },
       Lane::kBulk},
      {"POST", "/api/v1/runs/{run}/points", Access::kToken, [s](const Call& call) { return add_points(*s, call); },
       Lane::kBulk, Body::kBatch},
      {"GET", "/api/v1/runs/{run}/events", Access::kToken,
       [s, folder](const Call& call) {
         const std::string name = folder(call).filename();
         return events([s, name](std::shared_ptr<Stream> stream) { s->live.follow_run(name, std::move(stream)); });
       }},
      {"GET", "/api/v1/runs/{run}/download", Access::kToken, [s](const Call& call) { return download(*s, call); },
       Lane::kSlow},
      {"GET", "/api/v1/runs/{run}/tensorboard", Access::kToken, [s](const Call& call) { return tensorboard(*s, call); },
       Lane::kSlow},
      {"GET", "/api/v1/events", Access::kToken,
       [s](const Call&) {
         return events([s](std::shared_ptr<Stream> stream) { s->live.follow_all(std::move(stream)); });
       }},
      {"GET", "/api/v1/compare", Access::kToken, [s](const Call& call) { return compare_runs(*s, call.request); },
       Lane::kSlow},
  };
}

}  // namespace mlbench::master
