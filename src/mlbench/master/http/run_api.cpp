#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "mlbench/base/choices.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/to_number.h"
#include "mlbench/home/notes.h"
#include "mlbench/home/runs.h"
#include "mlbench/home/summary.h"
#include "mlbench/master/http/dates.h"
#include "mlbench/master/http/run_handlers.h"
#include "mlbench/master/run_list.h"
#include "mlbench/master/tracked_runs.h"
#include "mlbench/report/archive/tensorboard.h"
#include "mlbench/report/archive/zip.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/records.h"
#include "mlbench/report/study/measured_run.h"

namespace mlbench::master {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kMostRunsPerPage = 1000;

fs::path existing_run(const fs::path& home, const std::string& name) {
  try {
    check_name(name, "run name");
  } catch (const UserError&) {
    return {};
  }
  fs::path folder = runs_dir(home) / name;
  return report::is_run(folder) ? folder : fs::path();
}

// Throws HttpError 400 for a value that none of the runs can have.
void check_list_filter(const std::string& name, const std::string& value) {
  static const std::vector<std::string> kStates = {"queued", "running", "finished", "failed", "stopped", "damaged"};
  if (name == "state" && std::ranges::count(kStates, value) == 0) {
    throw HttpError(400, unknown_text("state", value, kStates));
  }
  if (name == "workers" && !to_number<int64_t>(value)) {
    throw HttpError(400, fmt::format("workers={} is no whole number", value.substr(0, 80)));
  }
}

Response list_runs(const Services& services, const Request& request) {
  ListQuery query;
  for (const std::string& filter : list_filters()) {
    const std::string value = request.query(filter).value_or("");
    if (value.empty()) continue;
    check_list_filter(filter, value);
    query.filters.emplace_back(filter, value);
  }
  query.search = request.query("q").value_or("");
  query.limit = whole_number(request, "limit", 100, 1, kMostRunsPerPage);
  query.offset = whole_number(request, "offset", 0, 0, INT64_MAX / 2);
  query.sort = request.query("sort").value_or("-id");
  query.descending = query.sort.starts_with('-');
  query.sort.erase(0, query.descending ? 1 : 0);
  if (std::ranges::count(list_orders(), query.sort) == 0) {
    throw HttpError(400, unknown_text("sort", query.sort, list_orders()));
  }
  const std::string repeats = request.query("repeats").value_or("apart");
  if (repeats != "apart" && repeats != "together") {
    throw HttpError(400, unknown_text("repeats", repeats, {"apart", "together"}));
  }
  query.together = repeats == "together";
  std::vector<store::IndexedRun> others;
  if (yes_or_no(request, "tracked")) others = tracked_runs(services.tracking);
  return {200, "application/json", {}, list_of_runs(services.index, query, others), {}};
}

// Refreshes the index, too, so that lists are never older than a record that was given out.
Response run_record(Services& services, const fs::path& run_dir) {
  const record::Record record = home::current_record(run_dir);
  services.watcher.refresh(run_dir.filename());
  return json_response(200, record::to_json(record));
}

Response stop(Services& services, const Call& call) {
  const fs::path run_dir = find_run_folder(services, call.parameters[0]);
  if (!home::is_active_run(run_dir)) {
    throw HttpError(409, fmt::format("run '{}' is not active: it is {}", run_dir.filename().string(),
                                     report::read_record(run_dir).state));
  }
  home::stop_run(services.home, run_dir);
  services.watcher.refresh(run_dir.filename());
  return json_response(202, home::summary_of(report::read_record(run_dir)));
}

Response events(std::function<void(std::shared_ptr<Stream>)> open) {
  Response response{200, "text/event-stream", {}, "", {}};
  response.open_stream = std::move(open);
  return response;
}

Response download(const Services& services, const Call& call) {
  const fs::path run_dir = find_run_folder(services, call.parameters[0]);
  const record::Record record = home::current_record(run_dir);
  Response response{200, "application/zip", {}, "", {}};
  response.headers = {
      {"Content-Disposition", fmt::format("attachment; filename=\"{}.zip\"", run_dir.filename().string())}};
  report::Download content = report::download_of(run_dir, record);
  response.held_bytes = content.held_bytes;
  const auto zip = std::make_shared<report::ZipStream>(std::move(content.parts), now_us() / 1'000'000);
  response.next = [zip] { return zip->next(); };
  return response;
}

Response put_notes(Services& services, const Call& call) {
  const fs::path run_dir = find_run_folder(services, call.parameters[0]);
  const report::RunNotes given = report::notes_from_json(json_body(call.request));
  home::change_notes(services.home, run_dir, [&](report::RunNotes& notes) { notes = given; });
  services.watcher.refresh(run_dir.filename());
  return json_response(200, report::to_json(given));
}

Response tensorboard(const Services& services, const Call& call) {
  const fs::path run_dir = find_run_folder(services, call.parameters[0]);
  const record::Record record = home::current_record(run_dir);
  const int64_t rank = whole_number(call.request, "rank", 0, 0, record.workers.value_or(1) - 1);
  Response response{200, "application/octet-stream", {}, "", {}};
  response.headers = {{"Content-Disposition", fmt::format("attachment; filename=\"{}\"",
                                                          report::tensorboard_path(record, rank).filename().string())}};
  response.body = report::tensorboard_events(run_dir, record, rank);
  return response;
}

// Answers rank 0's training loss as charts draw it.
Response loss(const Services& services, const Call& call) {
  Json points = Json::array();
  for (const report::LossPoint& point : report::read_run_folder(find_run_folder(services, call.parameters[0])).loss) {
    points.push_back({point.train_s, point.loss});
  }
  return json_response(200, {{"points", std::move(points)}});
}

}  // namespace

fs::path find_run_folder(const Services& services, const std::string& name_or_id) {
  fs::path folder = existing_run(services.home, name_or_id);
  if (const auto id = to_number<int64_t>(name_or_id); folder.empty() && id) {
    if (const auto name = services.index.name_of(*id)) folder = existing_run(services.home, *name);
  }
  if (folder.empty()) throw HttpError(404, fmt::format("there is no run '{}'", name_or_id.substr(0, 80)));
  return folder;
}

void delete_everywhere(Services& services, const fs::path& run_dir) {
  const std::string name = run_dir.filename();
  if (home::is_active_run(run_dir)) throw HttpError(409, fmt::format("run '{}' is active: stop it first", name));
  int64_t id = 0;
  try {
    id = home::read_spec(run_dir).id;
  } catch (const UserError&) {
    // A damaged run can be deleted all the same.
  }
  home::delete_run(services.home, run_dir);
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
      {"POST", "/api/v1/runs", Access::kToken,
       [s](const Call& call) { return run_handlers::create_runs(*s, call.request); }, Lane::kSlow, Body::kRequest},
      {"POST", "/api/v1/plan", Access::kToken,
       [s](const Call& call) { return run_handlers::preview_runs(*s, call.request); }, Lane::kSlow, Body::kRequest},
      {"GET", "/api/v1/runs/{run}", Access::kToken,
       [s, folder](const Call& call) { return run_record(*s, folder(call)); }},
      {"DELETE", "/api/v1/runs/{run}", Access::kToken,
       [s, folder](const Call& call) {
         delete_everywhere(*s, folder(call));
         return Response{204, "", {}, "", {}};
       },
       Lane::kSlow},
      {"GET", "/api/v1/runs/{run}/notes", Access::kToken,
       [folder](const Call& call) { return json_response(200, report::to_json(report::read_notes(folder(call)))); }},
      {"PUT", "/api/v1/runs/{run}/notes", Access::kToken, [s](const Call& call) { return put_notes(*s, call); },
       Lane::kSlow, Body::kRequest},
      {"POST", "/api/v1/runs/{run}/stop", Access::kToken, [s](const Call& call) { return stop(*s, call); },
       Lane::kSlow},
      {"POST", "/api/v1/runs/{run}/retry", Access::kToken,
       [s](const Call& call) { return run_handlers::retry(*s, call); }, Lane::kSlow},
      {"POST", "/api/v1/runs/{run}/clone", Access::kToken,
       [s](const Call& call) { return run_handlers::clone(*s, call); }, Lane::kSlow, Body::kRequest},
      {"GET", "/api/v1/runs/{run}/logs", Access::kToken,
       [s](const Call& call) { return run_handlers::list_logs(*s, call); }},
      {"GET", "/api/v1/runs/{run}/logs/{rank}", Access::kToken,
       [s](const Call& call) { return run_handlers::read_log(*s, call); }},
      {"GET", "/api/v1/runs/{run}/series", Access::kToken,
       [s](const Call& call) { return run_handlers::series(*s, call); }, Lane::kBulk},
      {"POST", "/api/v1/runs/{run}/points", Access::kToken,
       [s](const Call& call) { return run_handlers::add_points(*s, call); }, Lane::kBulk, Body::kBatch},
      {"GET", "/api/v1/runs/{run}/events", Access::kToken,
       [s, folder](const Call& call) {
         const std::string name = folder(call).filename();
         return events([s, name](std::shared_ptr<Stream> stream) { s->live.follow_run(name, std::move(stream)); });
       }},
      {"GET", "/api/v1/runs/{run}/download", Access::kToken, [s](const Call& call) { return download(*s, call); },
       Lane::kSlow},
      {"GET", "/api/v1/runs/{run}/loss", Access::kToken, [s](const Call& call) { return loss(*s, call); }, Lane::kSlow},
      {"GET", "/api/v1/runs/{run}/tensorboard", Access::kToken, [s](const Call& call) { return tensorboard(*s, call); },
       Lane::kSlow},
      {"GET", "/api/v1/runs/{run}/timeline", Access::kToken,
       [s](const Call& call) { return run_handlers::timeline(*s, call); }, Lane::kSlow},
      {"GET", "/api/v1/runs/{run}/timeline/summary", Access::kToken,
       [s](const Call& call) { return run_handlers::timeline_summary(*s, call); }, Lane::kSlow},
      {"GET", "/api/v1/events", Access::kToken,
       [s](const Call&) {
         return events([s](std::shared_ptr<Stream> stream) { s->live.follow_all(std::move(stream)); });
       }},
      {"GET", "/api/v1/compare", Access::kToken,
       [s](const Call& call) { return run_handlers::compare(*s, call.request); }, Lane::kSlow},
      {"GET", "/api/v1/scaling", Access::kToken,
       [s](const Call& call) { return run_handlers::scaling(*s, call.request); }, Lane::kSlow},
  };
}

}  // namespace mlbench::master
