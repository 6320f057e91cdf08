// The API of MLBench's dashboard, for its clients: paths, fields, types and spellings are theirs. Where their server
// answers 304 or 500, this one says what is wrong: 400, 404, 409 or 422 with a JSON message.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "mlbench/base/input.h"
#include "mlbench/base/log.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/sha256.h"
#include "mlbench/home/runs.h"
#include "mlbench/master/http/dates.h"
#include "mlbench/master/http/services.h"
#include "mlbench/report/records.h"
#include "mlbench/report/zip.h"
#include "mlbench/spec/run_options.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench::master {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostNameBytes = 50, kMostValueBytes = 255, kMostMetadataBytes = 10'000;
constexpr size_t kMostLogLines = 10'000;
constexpr size_t kPieceBytes = 64 << 10;  // of a long answer
constexpr std::chrono::seconds kStopPatience{20};

struct Image {
  std::string_view image, task;
};
constexpr std::array<Image, 8> kImages = {{
    {"mlbench/pytorch-cifar10-resnet20-all-reduce:latest", "1a"},
    {"mlbench/pytorch-cifar10-resnet20-ddp:latest", "1a-ddp"},
    {"mlbench/pytorch-epsilon-logistic-regression-all-reduce:latest", "2a"},
    {"mlbench/pytorch-wikitext2-lstm-all-reduce:latest", "3a"},
    {"mlbench/pytorch-wmt16-gnmt-all-reduce:latest", "4a"},
    {"mlbench/pytorch-wmt17-transformer-all-reduce:latest", "4b"},
    {"mlbench/tensorflow-cifar10-resnet:latest", "1a-tf"},
    {"mlbench/pytorch-backend-benchmark:latest", "0a"},
}};

// ---- fields of a request --------------------------------------------------------------------------------------------

// A form or a JSON object, as texts. JSON booleans are "true" and "false"; objects stay JSON text.
class FieldsOf {
 public:
  explicit FieldsOf(const Request& request) {
    const std::string type = request.content_type();
    if (type == "application/x-www-form-urlencoded" || type == "multipart/form-data") {
      size_t bytes = 0;
      for (const auto& [name, value] : request.form) bytes += name.size() + value.size();
      if (bytes > inputs::kForm.most_bytes) {
        throw HttpError(413, fmt::format("a form of {} bytes: at most {}", bytes, inputs::kForm.most_bytes));
      }
      fields_ = request.form;
      return;
    }
    if (type != "application/json") {
      throw HttpError(415, fmt::format("Unsupported media type \"{}\" in request.", type.substr(0, 80)));
    }
    is_json_ = true;
    const Json body = json_body(request);
    for (const auto& [key, value] : body.items()) {
      fields_.emplace_back(key, value.is_string() ? value.get<std::string>()
                                                  : value.dump(-1, ' ', false, Json::error_handler_t::replace));
    }
  }
  std::optional<std::string> find(std::string_view name) const {
    for (auto one = fields_.rbegin(); one != fields_.rend(); ++one) {
      if (one->first == name) return one->second;
    }
    return std::nullopt;
  }
  std::string need(std::string_view name) const {
    if (auto value = find(name)) return *value;
    throw HttpError(400, fmt::format("{} has to be supplied", name));
  }
  // "true" is the only text that means it; a JSON true does not, as in MLBench.
  bool flag(std::string_view name) const { return !is_json_ && find(name) == "true"; }

 private:
  net::http::Fields fields_;
  bool is_json_ = false;
};

int64_t whole(const std::string& text, std::string_view name) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw HttpError(400, fmt::format("{} '{}' is no whole number", name, text.substr(0, 40)));
  }
  return value;
}

double real(const std::string& text, std::string_view name) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    throw HttpError(400, fmt::format("{} '{}' is no number", name, text.substr(0, 40)));
  }
  return value;
}

// "1.json" -> "1" and "json". Run ids and pod names of this server hold no such ending.
std::string take_suffix(std::string key, std::string& format) {
  for (const char* suffix : {".json", ".zip"}) {
    if (!key.ends_with(suffix)) continue;
    format = suffix + 1;
    key.resize(key.size() - std::string_view(suffix).size());
    break;
  }
  return key;
}

std::string format_of(const Request& request, const std::string& by_suffix, bool zip) {
  const std::string format = by_suffix.empty() ? request.query("format").value_or("json") : by_suffix;
  if (format == "json" || (zip && format == "zip")) return format;
  throw HttpError(404, fmt::format("format '{}': valid are json{}", format.substr(0, 20), zip ? " and zip" : ""));
}

// ---- runs -----------------------------------------------------------------------------------------------------------

std::string date_or(const Json& record, const char* key) {
  const std::string stamp = record.contains(key) && record[key].is_string() ? record[key].get<std::string>() : "";
  const auto time = parse_date(stamp);
  return time ? format_date(*time, Fraction::kSixOrNone) : "";
}

std::string state_of(const std::string& state) {
  if (state == "queued") return "initialized";
  if (state == "running") return "started";
  return state == "finished" ? "finished" : "failed";
}

// The same for a run for ever; MLBench's is that of a queue.
std::string job_id(const Json& record) {
  const std::string hash = sha256_hex(record.value("name", "") + record.value("created_at", ""));
  return fmt::format("{}-{}-4{}-8{}-{}", hash.substr(0, 8), hash.substr(8, 4), hash.substr(13, 3), hash.substr(17, 3),
                     hash.substr(20, 12));
}

// From a record or a summary of it.
Json run_object(const Json& record) {
  const std::string state = state_of(record.value("state", ""));
  const std::string finished = date_or(record, "finished_at");
  return {{"id", record.contains("id") ? record["id"] : Json(0)},
          {"name", record.value("name", "")},
          {"created_at", date_or(record, "created_at")},
          {"finished_at", state == "finished" && !finished.empty() ? Json(finished) : Json(nullptr)},
          {"state", state},
          {"job_id", state == "initialized" ? "" : job_id(record)},
          {"job_metadata", Json::object()},
          {"num_workers", record.contains("workers") ? record["workers"] : Json(0)}};
}

fs::path folder_of(const Services& services, const std::string& id) {
  if (id.empty() || id.find_first_not_of("0123456789") != std::string::npos) {
    throw HttpError(404, fmt::format("there is no run with id '{}'", id.substr(0, 40)));
  }
  return find_run_folder(services, id);
}

std::string pod_name(const Services& services, int64_t slot) {
  return fmt::format("{}-{}", services.hosts.host(), slot);
}

std::string labels_of(const Services& services, int64_t slot) {
  return fmt::format("{{'app': 'mlbench', 'component': 'worker', 'slot': '{}', 'host': '{}'}}", slot,
                     services.hosts.host());
}

Json job_metadata(const Services& services, const fs::path& run_dir, const Json& record) {
  const auto lines = [](const fs::path& file) { return Json(report::last_lines(file, kMostLogLines)); };
  const int64_t segments = report::segment_count(record);
  Json metadata = {{"stdout", lines(run_dir / "logs" / fmt::format("rank-0.seg-{}.log", segments))},
                   {"stderr", lines(run_dir / "logs" / "supervisor.log")}};
  if (record.value("state", "") == "queued") return metadata;
  metadata["pods"] = Json::array();
  for (int64_t rank = 0; rank < record.value("workers", int64_t{0}); ++rank) {
    metadata["pods"].push_back({"127.0.0.1", "default", pod_name(services, rank), labels_of(services, rank)});
  }
  metadata["command"] = fmt::format("mlbench-worker --run-dir {} --segment {}", run_dir.string(), segments);
  metadata["master_name"] = pod_name(services, 0);
  return metadata;
}

Response one_run(const Services& services, const Call& call) {
  std::string suffix;
  const std::string id = take_suffix(call.parameters[0], suffix);
  format_of(call.request, suffix, false);
  const fs::path run_dir = folder_of(services, id);
  const Json record = home::current_record(run_dir);
  Json run = run_object(record);
  run["job_metadata"] = job_metadata(services, run_dir, record);
  return json_response(200, run);
}

Response all_runs(const Services& services, const Call& call) {
  format_of(call.request, "", false);
  Json runs = Json::array();
  store::RunQuery query;
  query.newest_first = false;
  query.limit = 1'000'000;
  for (const std::string& summary : services.index.find(query).summaries) {
    const Json record = try_parse_json(summary, inputs::kSummary).value_or(Json::object());
    if (record.value("state", "damaged") != "damaged") runs.push_back(run_object(record));
  }
  return json_response(200, runs);
}

void check_run_name(const std::string& name) {
  const auto plain = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const bool good = !name.empty() && plain(name.front()) && plain(name.back()) &&
                    std::all_of(name.begin(), name.end(), [&](char c) { return plain(c) || c == '-'; });
  if (!good || name.size() > 63) {
    throw HttpError(400, fmt::format("name '{}': expected 1 to 63 letters, digits and hyphens, with a letter or digit "
                                     "at both ends",
                                     name.substr(0, 80)));
  }
}

std::string task_of_image(const Services& services, const std::string& image) {
  std::vector<std::string> names;
  for (const Json& task : services.hooks.tasks()) names.push_back(task.value("name", ""));
  std::vector<std::string_view> valid;
  for (const Image& known : kImages) {
    const bool built = std::find(names.begin(), names.end(), known.task) != names.end();
    if (known.image == image && built) return std::string(known.task);
    if (known.image == image) {
      throw HttpError(422, fmt::format("image_name '{}' is task {}, which this mlbench has not", image, known.task));
    }
    if (built) valid.push_back(known.image);
  }
  throw HttpError(
      422, fmt::format("image_name '{}' is unknown: valid are {}", image.substr(0, 100), fmt::join(valid, ", ")));
}

Response create_run(Services& services, const Call& call) {
  const FieldsOf fields(call.request);
  const std::string name = fields.need("name");
  check_run_name(name);
  const int64_t workers = whole(fields.need("num_workers"), "num_workers");
  const double cpus = real(fields.need("num_cpus"), "num_cpus");
  if (workers < 1 || workers > spec::kMostWorkers)
    throw HttpError(400, fmt::format("num_workers {} is not from 1 to {}", workers, spec::kMostWorkers));
  if (cpus < 0) throw HttpError(400, fmt::format("num_cpus {} is less than 0", cpus));
  const std::string image = fields.need("image_name");
  std::string backend = fields.need("backend");
  const std::string light = fields.need("light_target");
  if (image == "custom_image") {
    throw HttpError(422, "custom images and commands are not started through this API, which asks for no token");
  }
  const std::string task = task_of_image(services, image);
  if (backend == "custom_backend") backend = fields.need("custom_backend");
  std::transform(backend.begin(), backend.end(), backend.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  if (fields.flag("gpu_enabled")) throw HttpError(422, "gpu_enabled: there is no GPU in the cluster of this server");

  const int64_t fair = std::max<int64_t>(1, services.hosts.cores() / workers);
  const Json request = {
      {"name", "api"},
      {"workers", {workers}},
      {"task", task},
      {"backend", backend},
      {"light", light == "true" && fields.flag("light_target")},
      {"threads_per_worker", std::clamp<int64_t>(static_cast<int64_t>(std::min(cpus, 1e6)), 1, fair)}};
  PlannedRuns planned;
  try {
    planned = services.hooks.plan(request);
  } catch (const UserError& error) {
    throw HttpError(422, error.what());
  }
  MLBENCH_CHECK(planned.runs.size() == 1, "one worker count, no repeats");
  planned.runs.front().name = name;
  const auto runs = submit(services, std::move(planned.runs), false);
  return json_response(201, run_object(home::first_record(runs.front())));
}

Response delete_run(Services& services, const Call& call) {
  const fs::path run_dir = folder_of(services, call.parameters[0]);
  if (home::is_active_run(run_dir)) {
    home::stop_run(services.home, run_dir);
    const auto deadline = std::chrono::steady_clock::now() + kStopPatience;
    while (home::is_active_run(run_dir) && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  delete_everywhere(services, run_dir);
  return {204, "", {}, "", {}};
}

// ---- metrics --------------------------------------------------------------------------------------------------------

// Of a run of millions of points: small.
struct Value {
  int64_t time_us = 0;
  double number = 0;
  bool as_python = false;  // how `number` is spelt
  bool cumulative = false;
  std::shared_ptr<const store::PostedMetric> posted;  // of a client: its text and metadata, instead of `number`

  std::string text() const {
    if (posted) return posted->value;
    return as_python ? Json(number).dump() : report::value_text(number);
  }
};
using Metrics = std::map<std::string, std::vector<Value>>;
using Lists = std::vector<std::pair<std::string, std::vector<Value>>>;

size_t bytes_of(const Lists& lists) {
  size_t values = 0;
  for (const auto& [name, list] : lists) values += list.size();
  return values * sizeof(Value);
}

std::string quoted(const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

// {"NAME": [VALUE, ...], ...}, piece by piece.
std::function<std::string()> json_of(Lists lists, std::function<std::string(const std::string&, const Value&)> text) {
  const auto shared = std::make_shared<const Lists>(std::move(lists));
  return [shared, text = std::move(text), list = size_t{0}, value = size_t{0}, ended = false]() mutable {
    std::string piece;
    if (ended) return piece;
    if (list == 0 && value == 0) piece = "{";
    while (list < shared->size() && piece.size() < kPieceBytes) {
      const auto& [name, values] = (*shared)[list];
      if (value == 0) piece += fmt::format("{}{}:[", list == 0 ? "" : ",", quoted(name));
      for (; value < values.size() && piece.size() < kPieceBytes; ++value) {
        piece += (value == 0 ? "" : ",") + text(name, values[value]);
      }
      if (value < values.size()) break;
      piece += "]";
      ++list;
      value = 0;
    }
    ended = list == shared->size();
    if (ended) piece += "}";
    return piece;
  };
}

Metrics metrics_of_run(Services& services, const fs::path& run_dir, const Json& record) {
  Metrics metrics;
  for (const auto& [name, points] : report::run_series(run_dir, record)) {
    std::vector<Value>& values = metrics[name];
    values.reserve(points.size());
    for (const report::SeriesPoint& point : points) values.push_back({point.unix_us, point.value, false, false, {}});
  }
  if (const std::string official = report::official_result(record); !official.empty()) {
    const auto end =
        parse_date(record.value("finished_at", Json()).is_string() ? record["finished_at"].get<std::string>() : "");
    const auto said = std::make_shared<store::PostedMetric>();
    said->value = official;
    metrics["TaskResult @ 0"].push_back({end.value_or(now_us()), 0, false, false, said});
  }
  for (store::PostedMetric& posted : services.journal.posted(record.value("id", int64_t{0}))) {
    std::vector<Value>& values = metrics[posted.name];
    const int64_t time_us = posted.time_us;
    const bool cumulative = posted.cumulative;
    posted.name = {};
    values.push_back({time_us, 0, false, cumulative, std::make_shared<const store::PostedMetric>(std::move(posted))});
  }
  for (auto& [name, values] : metrics) {
    std::stable_sort(values.begin(), values.end(),
                     [](const Value& a, const Value& b) { return a.time_us < b.time_us; });
  }
  return metrics;
}

// A pod is a slot of the host. What it uses is not measured apart: these are the host's figures, so `pods` says whose.
Metrics metrics_of_host(const Services& services, int64_t from_time_us) {
  Metrics metrics;
  for (const HostSample& sample : services.hosts.samples(from_time_us)) {
    for (size_t i = 0; i < kHostSeries.size(); ++i) {
      metrics[kHostSeries[i]].push_back({sample.time_us, value_of(sample, i), true, i >= 2, {}});
    }
  }
  return metrics;
}

bool is_pod(const Services& services, const std::string& name) {
  for (int64_t slot = 0; slot < services.hosts.cores(); ++slot) {
    if (pod_name(services, slot) == name) return true;
  }
  return false;
}

// Groups of ceil(count / parts); an incomplete last group is dropped, as in MLBench.
std::vector<Value> summarised(const std::string& name, const std::vector<Value>& values, int64_t parts) {
  if (std::ssize(values) <= parts) return values;
  const size_t group = (values.size() + static_cast<size_t>(parts) - 1) / static_cast<size_t>(parts);
  std::vector<Value> out;
  for (size_t begin = 0; begin + group <= values.size(); begin += group) {
    double sum = 0;
    for (size_t i = begin; i < begin + group; ++i) sum += real(values[i].text(), "a value of " + name);
    out.push_back({values[begin].time_us, sum / static_cast<double>(group), true, values[begin].cumulative, {}});
  }
  return out;
}

// A member of an archive.
report::ZipPart part_of(std::string name, std::vector<Value> values) {
  const auto shared = std::make_shared<const std::vector<Value>>(std::move(values));
  return {std::move(name), report::json_list(shared->size(), [shared](size_t i) {
            const Value& value = (*shared)[i];
            return report::point_text(format_date(value.time_us, Fraction::kThreeOrNone), value.text(),
                                      value.cumulative);
          })};
}

std::string member_name(std::string prefix, const std::string& metric) {
  for (const char c : metric) prefix += c == '/' || c == '\\' || static_cast<unsigned char>(c) < ' ' ? '_' : c;
  return prefix + ".json";
}

std::string plain_name(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool good =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '-';
    if (good) out += c;
  }
  return out;
}

Response metrics_of_key(Services& services, const Call& call) {
  const Request& request = call.request;
  std::string suffix;
  const std::string key = take_suffix(call.parameters[0], suffix);
  const std::string format = format_of(request, suffix, true);
  const bool of_pod = request.query("metric_type").value_or("pod") == "pod";
  int64_t since = INT64_MIN, until = INT64_MAX;
  if (const auto text = request.query("since")) {
    const auto time = parse_date(*text);
    if (!time) {
      throw HttpError(400,
                      fmt::format("since '{}' is no date: expected 2026-01-31T12:00:00.000Z or 2026-01-31 12:00:00",
                                  text->substr(0, 40)));
    }
    since = *time;
  }
  const int64_t parts = whole_number(request, "summarize", 0, 1, 1'000'000'000);
  const int64_t last_n = whole_number(request, "last_n", 0, 1, 1'000'000'000);
  const auto filter = request.query("metric_filter");

  Metrics metrics;
  Json record;
  std::string name = key;
  if (of_pod) {
    if (!is_pod(services, key)) throw HttpError(404, fmt::format("there is no pod '{}'", key.substr(0, 80)));
    metrics = metrics_of_host(services, 0);
  } else {
    const fs::path run_dir = folder_of(services, key);
    record = home::current_record(run_dir);
    name = record.value("name", "");
    metrics = metrics_of_run(services, run_dir, record);
    if (format == "zip") {  // a run's archive has the run's time, whatever is asked
      since = parse_date(record.value("created_at", "")).value_or(INT64_MIN);
      if (record.contains("finished_at") && record["finished_at"].is_string()) {
        until = parse_date(record["finished_at"].get<std::string>()).value_or(INT64_MAX);
      }
    }
  }
  const auto in_time = [&](std::vector<Value> values) {
    std::erase_if(values, [&](const Value& value) { return value.time_us < since || value.time_us > until; });
    return values;
  };

  if (format == "zip") {
    std::vector<report::ZipPart> parts;
    std::set<std::string> names;
    Response response{200, "application/octet-stream", {}, "", {}};
    const auto add = [&](std::string member, std::vector<Value> values) {
      response.held_bytes += values.size() * sizeof(Value);
      if (names.insert(member).second) parts.push_back(part_of(std::move(member), std::move(values)));
    };
    for (const auto& [metric, values] : metrics) {
      if (metric == "TaskResult @ 0") parts.push_back(report::text_part("official_result.txt", values.back().text()));
      if (metric.find("TaskResult") != std::string::npos) continue;
      if (auto kept = in_time(values); !kept.empty()) add(member_name("result_", metric), std::move(kept));
    }
    const int64_t workers = of_pod ? 0 : record.value("workers", int64_t{0});
    for (int64_t slot = 0; slot < std::min<int64_t>(workers, services.hosts.cores()); ++slot) {
      for (const auto& [metric, values] : metrics_of_host(services, 0)) {
        if (auto kept = in_time(values); !kept.empty())
          add(member_name(pod_name(services, slot) + "_", metric), std::move(kept));
      }
    }
    const auto zip = std::make_shared<report::ZipStream>(std::move(parts), now_us() / 1'000'000);
    response.next = [zip] { return zip->next(); };
    response.headers = {{"content-disposition", fmt::format("attachment; filename=metrics_{}.zip", plain_name(name))}};
    return response;
  }
  Lists lists;
  for (auto& [metric, all] : metrics) {
    if (filter && metric != *filter) continue;
    std::vector<Value> values = in_time(std::move(all));
    if (parts > 0) values = summarised(metric, values, parts);
    if (last_n > 0 && std::ssize(values) > last_n) values.erase(values.begin(), values.end() - last_n);
    if (!values.empty()) lists.emplace_back(metric, std::move(values));
  }
  Response response{200, "application/json", {}, "", {}};
  response.held_bytes = bytes_of(lists);
  response.next = json_of(std::move(lists), [](const std::string&, const Value& value) {
    return fmt::format(R"({{"date":{},"value":{},"cumulative":{}}})",
                       quoted(format_date(value.time_us, Fraction::kSixOrNone)), quoted(value.text()),
                       value.cumulative);
  });
  return response;
}

std::function<std::string()> full_metrics(Metrics metrics) {
  Lists lists;
  for (auto& [name, values] : metrics) lists.emplace_back(name, std::move(values));
  return json_of(std::move(lists), [](const std::string& name, const Value& value) {
    return fmt::format(R"({{"name":{},"value":{},"date":{},"metadata":{},"cumulative":{}}})", quoted(name),
                       quoted(value.text()), quoted(format_date(value.time_us, Fraction::kSix)),
                       quoted(value.posted ? value.posted->metadata : ""), value.cumulative);
  });
}

// Everything of all runs: one after the other is read when the answer has come to it.
class AllMetrics {
 public:
  explicit AllMetrics(Services& services) : services_(services), runs_(report::list_runs(services.home)) {}

  std::string next() {
    std::string piece;
    if (at_ == 0 && !current_) piece = R"({"pod_metrics":{)";
    while (!ended_ && piece.size() < kPieceBytes) {
      const std::string more = current_ ? current_() : "";
      if (more.empty()) piece += begin_next();
      piece += more;
    }
    return piece;
  }

 private:
  // What stands in front of the next pod or run.
  std::string begin_next() {
    const auto pods = static_cast<size_t>(services_.hosts.cores());
    current_ = nullptr;
    if (at_ == pods + runs_.size()) {
      ended_ = true;
      return pods == at_ ? R"(},"run_metrics":{}})" : "}}";
    }
    const size_t at = at_++;
    if (at < pods) {
      current_ = full_metrics(metrics_of_host(services_, 0));
      return (at == 0 ? "" : ",") + quoted(pod_name(services_, static_cast<int64_t>(at))) + ":";
    }
    const fs::path& run_dir = runs_[at - pods];
    std::string text = at == pods ? R"(},"run_metrics":{)" : "";
    try {
      current_ = full_metrics(metrics_of_run(services_, run_dir, report::read_record(run_dir)));
    } catch (const UserError& error) {
      spdlog::warn("run {}: {}", run_dir.filename().string(), error.what());
      return text;
    }
    text += (std::exchange(any_run_, true) ? "," : "") + quoted(run_dir.filename()) + ":";
    return text;
  }

  Services& services_;
  const std::vector<fs::path> runs_;
  size_t at_ = 0;  // the next pod, or behind them run
  std::function<std::string()> current_;
  bool any_run_ = false, ended_ = false;
};

Response all_metrics(Services& services, const Call& call) {
  format_of(call.request, "", false);
  Response response{200, "application/json", {}, "", {}};
  const auto all = std::make_shared<AllMetrics>(services);
  response.next = [all] { return all->next(); };
  return response;
}

bool truth(const std::string& text) {
  for (const char* yes : {"True", "true", "1", "t", "T", "TRUE"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"False", "false", "0", "f", "F", "FALSE"}) {
    if (text == no) return false;
  }
  throw HttpError(400, fmt::format("cumulative '{}': valid are True and False", text.substr(0, 40)));
}

Response post_metric(Services& services, const Call& call) {
  const FieldsOf fields(call.request);
  const auto run_id = fields.find("run_id");
  if (!run_id) {
    return json_response(400, {{"status", "Bad Request"},
                               {"message", "Run ID has to be supplied"},
                               {"data", {{"name", fields.find("name").value_or("")}}}});
  }
  store::PostedMetric metric;
  metric.name = fields.need("name");
  metric.value = fields.need("value");
  metric.metadata = fields.need("metadata");
  metric.cumulative = truth(fields.need("cumulative"));
  const std::string date = fields.need("date");
  const auto time = parse_date(date);
  if (!time) throw HttpError(400, fmt::format("date '{}' is no date", date.substr(0, 40)));
  metric.time_us = *time;
  const auto check_length = [](std::string_view what, const std::string& text, size_t most) {
    if (text.empty() || text.size() > most) {
      throw HttpError(400, fmt::format("{} has {} bytes: expected 1 to {}", what, text.size(), most));
    }
  };
  check_length("name", metric.name, kMostNameBytes);
  check_length("value", metric.value, kMostValueBytes);
  check_length("metadata", metric.metadata + ".", kMostMetadataBytes);
  // The index knows ids without touching a file: this call comes many times a second.
  if (!services.index.name_of(whole(*run_id, "run_id"))) {
    throw HttpError(404, fmt::format("there is no run with id '{}'", run_id->substr(0, 40)));
  }
  services.journal.post(whole(*run_id, "run_id"), metric);
  return json_response(201, {{"name", metric.name},
                             {"value", metric.value},
                             {"date", format_date(metric.time_us, Fraction::kSix)},
                             {"metadata", metric.metadata},
                             {"cumulative", metric.cumulative}});
}

// ---- pods -----------------------------------------------------------------------------------------------------------

Response pods(const Services& services, const Call& call) {
  format_of(call.request, "", false);
  int64_t held = 0;
  for (const std::string& name : services.index.names_in_state("running")) {
    try {
      held += home::read_spec(report::runs_dir(services.home) / name).workers;
    } catch (const std::exception&) {
      continue;  // deleted in this moment
    }
  }
  Json list = Json::array();
  for (int64_t slot = 0; slot < services.hosts.cores(); ++slot) {
    list.push_back({{"name", pod_name(services, slot)},
                    {"labels", labels_of(services, slot)},
                    {"phase", slot < held ? "Running" : "Pending"},
                    {"ip", "127.0.0.1"}});
  }
  return json_response(200, list);
}

Response root(const Call& call) {
  const std::string base =
      fmt::format("{}://{}/api/", call.request.secure ? "https" : "http", call.request.header("Host"));
  return json_response(200, {{"pods", base + "pods/"}, {"runs", base + "runs/"}, {"metrics", base + "metrics/"}});
}

}  // namespace

std::vector<Route> legacy_routes(Services& services) {
  Services* s = &services;
  std::vector<Route> routes = {
      {"GET", "/api/", Access::kLegacy, [](const Call& call) { return root(call); }, Lane::kAtOnce},
      {"GET", "/api/pods/", Access::kLegacy, [s](const Call& call) { return pods(*s, call); }},
      {"GET", "/api/runs/", Access::kLegacy, [s](const Call& call) { return all_runs(*s, call); }, Lane::kSlow},
      {"POST", "/api/runs/", Access::kLegacy, [s](const Call& call) { return create_run(*s, call); }, Lane::kSlow,
       Body::kForm},
      {"GET", "/api/runs/{id}/", Access::kLegacy, [s](const Call& call) { return one_run(*s, call); }},
      {"DELETE", "/api/runs/{id}/", Access::kLegacy, [s](const Call& call) { return delete_run(*s, call); },
       Lane::kSlow},
      {"GET", "/api/metrics/", Access::kLegacy, [s](const Call& call) { return all_metrics(*s, call); }, Lane::kSlow},
      {"POST", "/api/metrics/", Access::kLegacy, [s](const Call& call) { return post_metric(*s, call); }, Lane::kQuick,
       Body::kForm},
      {"GET", "/api/metrics/{key}/", Access::kLegacy, [s](const Call& call) { return metrics_of_key(*s, call); },
       Lane::kSlow},
  };
  for (const char* path : {"pods", "runs", "metrics"}) {  // "/api/runs.json"
    Route json = *std::find_if(routes.begin(), routes.end(), [&](const Route& route) {
      return route.method == "GET" && route.pattern == fmt::format("/api/{}/", path);
    });
    json.pattern = fmt::format("/api/{}.json", path);
    routes.push_back(std::move(json));
  }
  return routes;
}

}  // namespace mlbench::master
