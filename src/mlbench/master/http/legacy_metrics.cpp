#include "mlbench/base/choices.h"
#include "mlbench/master/http/legacy.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "mlbench/base/input.h"
#include "mlbench/base/log.h"
#include "mlbench/home/runs.h"
#include "mlbench/master/http/dates.h"
#include "mlbench/report/archive/zip.h"
#include "mlbench/report/records.h"

namespace mlbench::master::legacy {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostNameBytes = 50, kMostValueBytes = 255, kMostMetadataBytes = 10'000;
constexpr size_t kPieceBytes = 64 << 10;  // bytes of one piece of a long answer

// A value of a metric. It is small, since a run may have millions of points.
struct Value {
  int64_t time_us = 0;
  double number = 0;
  bool as_python = false;  // how `number` is written
  bool cumulative = false;
  std::shared_ptr<const store::PostedMetric> posted;  // what a client posted: its text and metadata replace `number`

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

// The values are in the order of measurement, which a clock that went back does not change. Then come those that
// clients posted, by the clients' own dates.
Metrics metrics_of_run(Services& services, const fs::path& run_dir, const record::Record& record) {
  Metrics metrics;
  for (const auto& [name, points] : report::run_series(run_dir, record)) {
    std::vector<Value>& values = metrics[name];
    values.reserve(points.size());
    for (const report::SeriesPoint& point : points) values.push_back({point.unix_us, point.value, false, false, {}});
  }
  if (const std::string official = report::official_result(record); !official.empty()) {
    const auto end = parse_date(record.finished_at);
    const auto said = std::make_shared<store::PostedMetric>();
    said->value = official;
    metrics["TaskResult @ 0"].push_back({end.value_or(now_us()), 0, false, false, said});
  }
  for (store::PostedMetric& posted : services.journal.posted(record.id.value_or(0))) {
    std::vector<Value>& values = metrics[posted.name];
    const int64_t time_us = posted.time_us;
    const bool cumulative = posted.cumulative;
    posted.name = {};
    values.push_back({time_us, 0, false, cumulative, std::make_shared<const store::PostedMetric>(std::move(posted))});
  }
  return metrics;
}

// The metrics of a pod. A pod is a slot of the host whose use is not measured by itself: these are the host's figures,
// and `pods` says so.
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

// Averages groups of ceil(count / parts) values; an incomplete last group is dropped, as in MLBench.
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

// Makes a member of an archive.
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

// Which values of a key a request asks for.
struct Selection {
  int64_t since = INT64_MIN, until = INT64_MAX;
  int64_t parts = 0;   // number of values to average to; 0: all as they are
  int64_t last_n = 0;  // 0: all
  std::optional<std::string> name;

  bool in_time(const Value& value) const { return value.time_us >= since && value.time_us <= until; }
  std::vector<Value> in_time(std::vector<Value> values) const {
    std::erase_if(values, [&](const Value& value) { return !in_time(value); });
    return values;
  }
};

Selection selection_of(const Request& request) {
  Selection selection;
  if (const auto text = request.query("since")) {
    const auto time = parse_date(*text);
    if (!time) {
      throw HttpError(400,
                      fmt::format("since '{}' is no date: expected 2026-01-31T12:00:00.000Z or 2026-01-31 12:00:00",
                                  text->substr(0, 40)));
    }
    selection.since = *time;
  }
  selection.parts = whole_number(request, "summarize", 0, 1, 1'000'000'000);
  selection.last_n = whole_number(request, "last_n", 0, 1, 1'000'000'000);
  selection.name = request.query("metric_filter");
  return selection;
}

// An archive of what a run measured, and of what clients posted and `slots` pods used in the time of `selection`.
Response archive_of(const Services& services, const Metrics& metrics, const Selection& selection, int64_t slots,
                    const std::string& name) {
  std::vector<report::ZipPart> parts;
  std::set<std::string> names;
  Response response{200, "application/octet-stream", {}, "", {}};
  const auto add = [&](std::string member, std::vector<Value> values) {
    response.held_bytes += values.size() * sizeof(Value);
    if (names.insert(member).second) parts.push_back(part_of(std::move(member), std::move(values)));
  };
  for (auto [metric, values] : metrics) {
    if (metric == "TaskResult @ 0") parts.push_back(report::text_part("official_result.txt", values.back().text()));
    if (metric.find("TaskResult") != std::string::npos) continue;
    std::erase_if(values, [&](const Value& value) { return value.posted && !selection.in_time(value); });
    if (!values.empty()) add(member_name("result_", metric), std::move(values));
  }
  for (int64_t slot = 0; slot < slots; ++slot) {
    for (const auto& [metric, values] : metrics_of_host(services, 0)) {
      if (auto kept = selection.in_time(values); !kept.empty())
        add(member_name(pod_name(services, slot) + "_", metric), std::move(kept));
    }
  }
  const auto zip = std::make_shared<report::ZipStream>(std::move(parts), now_us() / 1'000'000);
  response.next = [zip] { return zip->next(); };
  response.headers = {{"content-disposition", fmt::format("attachment; filename=metrics_{}.zip", plain_name(name))}};
  return response;
}

Response lists_of(Metrics metrics, const Selection& selection) {
  Lists lists;
  for (auto& [metric, all] : metrics) {
    if (selection.name && metric != *selection.name) continue;
    std::vector<Value> values = selection.in_time(std::move(all));
    if (selection.parts > 0) values = summarised(metric, values, selection.parts);
    if (selection.last_n > 0 && std::ssize(values) > selection.last_n) {
      values.erase(values.begin(), values.end() - selection.last_n);
    }
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

// The metrics of all pods and runs, piece by piece: each run is read when the answer gets to it.
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
  // Returns the text before the next pod or run.
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
  size_t at_ = 0;  // index of the next pod or, after all pods, run
  std::function<std::string()> current_;
  bool any_run_ = false, ended_ = false;
};

bool truth(const std::string& text) {
  for (const char* yes : {"True", "true", "1", "t", "T", "TRUE"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"False", "false", "0", "f", "F", "FALSE"}) {
    if (text == no) return false;
  }
  throw HttpError(400, unknown_text("cumulative", text, {"True", "False"}));
}

}  // namespace

Response metrics_of_key(Services& services, const Call& call) {
  std::string suffix;
  const std::string key = take_suffix(call.parameters[0], suffix);
  const std::string format = format_of(call.request, suffix, true);
  const bool of_pod = call.request.query("metric_type").value_or("pod") == "pod";
  Selection selection = selection_of(call.request);

  Metrics metrics;
  std::string name = key;
  int64_t slots = 0;  // number of pods whose figures go into a run's archive, too
  if (of_pod) {
    if (!is_pod(services, key)) throw HttpError(404, fmt::format("there is no pod '{}'", key.substr(0, 80)));
    metrics = metrics_of_host(services, selection.since);
  } else {
    const fs::path run_dir = folder_of(services, key);
    const record::Record record = home::current_record(run_dir);
    name = record.name;
    slots = std::min<int64_t>(record.workers.value_or(0), services.hosts.cores());
    metrics = metrics_of_run(services, run_dir, record);
    if (format == "zip") {  // a run's archive covers the run's time, whatever the request says
      selection.since = parse_date(record.created_at).value_or(INT64_MIN);
      if (!record.finished_at.empty()) selection.until = parse_date(record.finished_at).value_or(INT64_MAX);
    }
  }
  return format == "zip" ? archive_of(services, metrics, selection, slots, name)
                         : lists_of(std::move(metrics), selection);
}

Response all_metrics(Services& services, const Call& call) {
  format_of(call.request, "", false);
  Response response{200, "application/json", {}, "", {}};
  const auto all = std::make_shared<AllMetrics>(services);
  response.next = [all] { return all->next(); };
  return response;
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
  // The index knows ids without reading a file, and this call may come many times a second.
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

}  // namespace mlbench::master::legacy
