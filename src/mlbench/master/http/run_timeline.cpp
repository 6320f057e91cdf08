#include <fmt/format.h>

#include <memory>
#include <optional>

#include "mlbench/home/runs.h"
#include "mlbench/master/http/run_handlers.h"
#include "mlbench/report/timeline/summary.h"
#include "mlbench/report/timeline/trace.h"

namespace mlbench::master::run_handlers {

namespace {

report::TimelineRun timeline_of(const Services& services, const Call& call) {
  const std::filesystem::path run_dir = find_run_folder(services, call.parameters[0]);
  const record::Record record = home::current_record(run_dir);
  if (!report::has_timeline(run_dir)) {
    throw HttpError(404, fmt::format("run '{}' has no timeline: record one with 'mlbench run NAME K --timeline FILE'",
                                     run_dir.filename().string()));
  }
  return report::read_timeline_run(run_dir, record);
}

}  // namespace

Response timeline(const Services& services, const Call& call) {
  report::TimelineRun run = timeline_of(services, call);
  Response response{200, "application/json", {}, "", {}};
  response.headers = {{"Content-Disposition",
                       fmt::format("attachment; filename=\"{}.timeline.json\"", run.run_dir.filename().string())}};
  std::optional<int64_t> step;
  if (call.request.query("step")) step = whole_number(call.request, "step", 0, 0, record::kMostInteger);
  const Json summary = report::summarize_timeline(run);
  const auto trace = std::make_shared<report::TraceStream>(std::move(run), summary, step);
  response.held_bytes = trace->held_bytes();
  response.next = [trace] { return trace->next(); };
  return response;
}

Response timeline_summary(const Services& services, const Call& call) {
  report::TimelineRun run = timeline_of(services, call);
  return json_response(200, report::summarize_timeline(run));
}

}  // namespace mlbench::master::run_handlers
