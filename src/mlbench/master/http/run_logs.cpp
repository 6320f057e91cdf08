#include "mlbench/master/http/run_handlers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <regex>

#include "mlbench/base/growing_lines.h"

namespace mlbench::master {

namespace fs = std::filesystem;

namespace run_handlers {
namespace {

constexpr int64_t kMostLogBytes = 4 << 20;

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

}  // namespace

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

}  // namespace run_handlers

}  // namespace mlbench::master
