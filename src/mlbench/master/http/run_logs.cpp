#include "mlbench/master/http/run_handlers.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "mlbench/base/choices.h"
#include "mlbench/base/growing_lines.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/to_number.h"
#include "mlbench/home/runs.h"
#include "mlbench/report/logs.h"

namespace mlbench::master {

namespace fs = std::filesystem;

namespace run_handlers {
namespace {

constexpr int64_t kMostLogBytes = 4 << 20;
constexpr const char* kText = "text/plain; charset=utf-8";

std::optional<LogStream> wanted_stream(const Request& request) {
  const auto given = request.query("stream");
  if (!given) return std::nullopt;
  std::vector<std::string> valid;
  for (const LogStream stream : kLogStreams) {
    if (*given == name_of(stream)) return stream;
    valid.emplace_back(name_of(stream));
  }
  throw HttpError(400, unknown_text("stream", *given, valid));
}

// Answers all logs merged, in pages: each continues from the cursor of the one before.
Response read_all_logs(const Request& request, const fs::path& run_dir) {
  if (yes_or_no(request, "follow")) {
    throw HttpError(400, "follow: all logs together come in pages only; ask again with the cursor of the last one");
  }
  const std::string cursor = request.query("cursor").value_or("");
  const int64_t limit = whole_number(request, "limit", 1 << 20, 1, kMostLogBytes);
  const int64_t last_bytes = whole_number(request, "last_bytes", 0, 1, kMostLogBytes);
  // The state is read first: what is written between the two is in the next page.
  const bool over = !home::is_active_run(run_dir);
  const auto only = wanted_stream(request);
  const auto log = !cursor.empty()  ? std::make_unique<report::CombinedLog>(run_dir, only, cursor)
                   : last_bytes > 0 ? std::make_unique<report::CombinedLog>(run_dir, only, last_bytes)
                                    : std::make_unique<report::CombinedLog>(run_dir, only);
  Response response{200, kText, {}, "", {}};
  log->read(over, limit, [&](const report::LogFile& one, std::string_view line) {
    response.body += report::line_with_writer(one, line) + "\n";
  });
  response.headers = {{"X-Next-Cursor", log->cursor()}};
  return response;
}

}  // namespace

Response list_logs(const Services& services, const Call& call) {
  Json list = Json::array();
  const fs::path run_dir = find_run_folder(services, call.parameters[0]);
  for (const report::LogFile& log : report::log_files(run_dir, wanted_stream(call.request))) {
    const Json rank = log.rank < 0 ? Json("supervisor") : Json(log.rank);
    list.push_back(
        {{"rank", rank}, {"segment", log.segment}, {"stream", name_of(log.stream)}, {"bytes", bytes_in(log.path)}});
  }
  return json_response(200, {{"logs", list}});
}

Response read_log(Services& services, const Call& call) {
  const fs::path run_dir = find_run_folder(services, call.parameters[0]);
  const std::string& wanted = call.parameters[1];
  if (wanted == "all") return read_all_logs(call.request, run_dir);
  const int64_t segment = whole_number(call.request, "segment", 0, 1, 1'000'000);
  const auto stream = wanted_stream(call.request);
  if (!stream && to_number<int64_t>(wanted)) {
    throw HttpError(400, "stream: a rank has a log for each; give stream=stdout or stream=stderr, or read logs/all");
  }
  std::optional<report::LogFile> found;
  for (report::LogFile& log : report::log_files(run_dir, stream)) {
    const std::string rank = log.rank < 0 ? "supervisor" : std::to_string(log.rank);
    if (rank == wanted && (segment == 0 || segment == log.segment)) found = std::move(log);
  }
  if (!found) {
    throw HttpError(
        404, fmt::format("run '{}' has no such log: valid are its ranks and 'supervisor', once they started, and 'all'",
                         run_dir.filename().string()));
  }
  const int64_t size = bytes_in(found->path);
  int64_t offset = whole_number(call.request, "offset", 0, -(int64_t{1} << 40), int64_t{1} << 40);
  if (offset < 0) offset = std::max<int64_t>(0, size + offset);
  if (yes_or_no(call.request, "follow")) {
    Response response{200, kText, {}, "", {}};
    response.open_stream = [&services, name = run_dir.filename().string(), path = found->path,
                            offset](std::shared_ptr<Stream> stream) {
      services.live.follow_file(name, path, static_cast<uintmax_t>(offset), std::move(stream));
    };
    return response;
  }
  const int64_t limit = whole_number(call.request, "limit", 1 << 20, 1, kMostLogBytes);
  std::string text = read_from(found->path, static_cast<uintmax_t>(offset), static_cast<size_t>(limit));
  Response response{200, kText, {}, "", {}};
  response.headers = {{"X-Next-Offset", std::to_string(offset + std::ssize(text))},
                      {"X-Total-Bytes", std::to_string(size)}};
  response.body = std::move(text);
  return response;
}

}  // namespace run_handlers

}  // namespace mlbench::master
