// MLflow's tracking protocol (https://mlflow.org/docs/latest/rest-api.html), as far as clients need it to record and to
// look: experiments, runs, metrics, parameters, tags. No artifacts, no models.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "mlbench/base/errors.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/to_number.h"
#include "mlbench/master/http/dates.h"
#include "mlbench/master/http/services.h"

namespace mlbench::master {

namespace {

constexpr size_t kMostBodyBytes = 1 << 20, kMostMetrics = 1000, kMostPairs = 100, kMostTogether = 1000;
constexpr size_t kMostKeyBytes = 250, kMostTextBytes = 8000;
constexpr int64_t kMostSearchResults = 50'000, kMostHistory = 25'000;
constexpr const char* kInvalid = "INVALID_PARAMETER_VALUE";
constexpr const char* kMissing = "RESOURCE_DOES_NOT_EXIST";
const std::vector<std::string> kStates = {"RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED"};

struct MlflowError : std::runtime_error {
  MlflowError(int http, std::string name, const std::string& message)
      : std::runtime_error(message), status(http), code(std::move(name)) {}
  int status;
  std::string code;
};

[[noreturn]] void invalid(const std::string& message) { throw MlflowError(400, kInvalid, message); }

// ---- fields of requests: the protocol's JSON writes 64-bit numbers as text, too -------------------------------------

std::string text_of(const Json& body, const char* key, size_t most = kMostTextBytes) {
  const auto found = body.find(key);
  if (found == body.end() || found->is_null()) return "";
  if (!found->is_string()) invalid(fmt::format("{} is no text", key));
  if (found->get_ref<const std::string&>().size() > most) {
    invalid(fmt::format("{} is longer than {} bytes", key, most));
  }
  return found->get<std::string>();
}

std::string needed(const Json& body, const char* key, size_t most = kMostKeyBytes) {
  std::string text = text_of(body, key, most);
  if (text.empty()) invalid(fmt::format("{} is needed", key));
  return text;
}

std::optional<int64_t> whole_of(const Json& body, const char* key) {
  const auto found = body.find(key);
  if (found == body.end() || found->is_null()) return std::nullopt;
  if (found->is_number_integer() && (found->is_number_unsigned() ? found->get<uint64_t>() <= INT64_MAX : true)) {
    return found->get<int64_t>();
  }
  const auto value = found->is_string() ? to_number<int64_t>(found->get<std::string>()) : std::nullopt;
  if (!value) invalid(fmt::format("{} is no whole number", key));
  return value;
}

double real_of(const Json& body, const char* key) {
  const auto found = body.find(key);
  if (found == body.end()) invalid(fmt::format("{} is needed", key));
  if (found->is_number()) return found->get<double>();
  const std::string text = found->is_string() ? found->get<std::string>() : "";
  if (text == "NaN") return std::nan("");
  if (text == "Infinity") return HUGE_VAL;
  if (text == "-Infinity") return -HUGE_VAL;
  const auto value = to_number<double>(text);
  if (!value) invalid(fmt::format("{} is no number", key));
  return *value;
}

const Json& list_of(const Json& body, const char* key, size_t most) {
  static const Json kNone = Json::array();
  const auto found = body.find(key);
  if (found == body.end() || found->is_null()) return kNone;
  if (!found->is_array()) invalid(fmt::format("{} is no list", key));
  if (found->size() > most) invalid(fmt::format("{} holds {} entries: at most {} are taken", key, found->size(), most));
  for (const Json& one : *found) {
    if (!one.is_object()) invalid(fmt::format("{} holds something else than objects", key));
  }
  return *found;
}

std::map<std::string, std::string> pairs_of(const Json& body, const char* key) {
  std::map<std::string, std::string> out;
  for (const Json& one : list_of(body, key, kMostPairs)) out[needed(one, "key")] = text_of(one, "value");
  return out;
}

store::TrackedMetric metric_of(const Json& one) {
  return {needed(one, "key"), real_of(one, "value"), whole_of(one, "timestamp").value_or(now_us() / 1000),
          whole_of(one, "step").value_or(0)};
}

// ---- answers --------------------------------------------------------------------------------------------------------

Json real_json(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

Json pairs_json(const std::map<std::string, std::string>& pairs) {
  Json out = Json::array();
  for (const auto& [key, value] : pairs) out.push_back({{"key", key}, {"value", value}});
  return out;
}

Json metric_json(const store::TrackedMetric& metric) {
  return {
      {"key", metric.key}, {"value", real_json(metric.value)}, {"timestamp", metric.time_ms}, {"step", metric.step}};
}

Json experiment_json(const store::Experiment& experiment) {
  return {{"experiment_id", std::to_string(experiment.id)},
          {"name", experiment.name},
          {"artifact_location", fmt::format("mlflow-artifacts:/{}", experiment.id)},
          {"lifecycle_stage", "active"},
          {"creation_time", experiment.created_ms},
          {"last_update_time", experiment.created_ms},
          {"tags", pairs_json(experiment.tags)}};
}

Json info_json(const store::TrackedRun& run) {
  Json info = {{"run_id", run.id},
               {"run_uuid", run.id},
               {"run_name", run.name},
               {"experiment_id", std::to_string(run.experiment)},
               {"user_id", run.user},
               {"status", run.status},
               {"start_time", run.start_ms},
               {"artifact_uri", fmt::format("mlflow-artifacts:/{}/{}/artifacts", run.experiment, run.id)},
               {"lifecycle_stage", "active"}};
  if (run.end_ms) info["end_time"] = *run.end_ms;
  return info;
}

Json run_json(const store::TrackedRun& run) {
  Json metrics = Json::array();
  for (const auto& [key, metric] : run.metrics) metrics.push_back(metric_json(metric));
  auto tags = run.tags;
  tags["mlflow.runName"] = run.name;
  return {{"info", info_json(run)},
          {"data", {{"metrics", metrics}, {"params", pairs_json(run.params)}, {"tags", pairs_json(tags)}}},
          {"inputs", Json::object()}};
}

// ---- searching ------------------------------------------------------------------------------------------------------

// The value of what a filter or an order names: a number, a text, or nothing.
struct Field {
  std::optional<double> number;
  std::optional<std::string> text;
};

Field field_of(const store::TrackedRun& run, const std::string& kind, const std::string& key) {
  const auto text_in = [&](const std::map<std::string, std::string>& pairs) -> Field {
    const auto found = pairs.find(key);
    return found == pairs.end() ? Field{} : Field{{}, found->second};
  };
  if (kind.starts_with("metric")) {
    const auto found = run.metrics.find(key);
    return found == run.metrics.end() ? Field{} : Field{found->second.value, {}};
  }
  if (kind.starts_with("param")) return text_in(run.params);
  if (kind.starts_with("tag")) return key == "mlflow.runName" ? Field{{}, run.name} : text_in(run.tags);
  if (key == "status") return {{}, run.status};
  if (key == "run_name" || key == "Run Name" || key == "run name") return {{}, run.name};
  if (key == "run_id") return {{}, run.id};
  if (key == "user_id") return {{}, run.user};
  if (key == "start_time") return {static_cast<double>(run.start_ms), {}};
  if (key == "end_time") return run.end_ms ? Field{static_cast<double>(*run.end_ms), {}} : Field{};
  invalid(fmt::format("unknown attribute '{}'", key.substr(0, 80)));
}

struct Condition {
  std::string kind, key, comparison;
  std::optional<double> number;
  std::string text;
};

// `metrics.acc > 0.5 and params."batch size" = '32' and attributes.status != 'FAILED'`
std::vector<Condition> parse_filter(const std::string& filter) {
  static const std::regex kCondition(
      R"re(^\s*(metrics?|params?|parameters?|tags?|attributes?|attr|run)\.(?:"([^"]+)"|`([^`]+)`|([\w.\-/@]+))\s*(!=|>=|<=|=|>|<)\s*(?:'([^']*)'|"([^"]*)"|([-+0-9.eE]+))\s*)re",
      std::regex::icase);
  static const std::regex kAnd(R"(^and\s)", std::regex::icase);
  std::vector<Condition> conditions;
  if (filter.size() > 1000) invalid("the filter is longer than 1000 bytes");
  std::string rest = filter;
  while (rest.find_first_not_of(" \t\n") != std::string::npos) {
    std::smatch match;
    if (!conditions.empty()) {
      if (!std::regex_search(rest, match, kAnd)) break;
      rest = match.suffix();
    }
    if (!std::regex_search(rest, match, kCondition)) break;
    Condition condition;
    condition.kind = match[1];
    for (const int group : {2, 3, 4}) {
      if (match[group].matched) condition.key = match[group];
    }
    condition.comparison = match[5];
    for (const int group : {6, 7}) {
      if (match[group].matched) condition.text = match[group];
    }
    if (match[8].matched) condition.number = real_of(Json{{"value", match[8].str()}}, "value");
    rest = match.suffix();
    conditions.push_back(std::move(condition));
  }
  if (rest.find_first_not_of(" \t\n") != std::string::npos) {
    invalid(fmt::format("the filter cannot be read from '{}' on: conditions are like metrics.acc > 0.5, joined by and",
                        rest.substr(0, 80)));
  }
  return conditions;
}

template <typename T>
bool compares(const T& left, const std::string& comparison, const T& right) {
  if (comparison == "=") return left == right;
  if (comparison == "!=") return left != right;
  if (comparison == ">") return left > right;
  if (comparison == "<") return left < right;
  return comparison == ">=" ? left >= right : left <= right;
}

bool holds(const store::TrackedRun& run, const Condition& condition) {
  const Field field = field_of(run, condition.kind, condition.key);
  if (condition.number) return field.number && compares(*field.number, condition.comparison, *condition.number);
  return field.text && compares(*field.text, condition.comparison, condition.text);
}

void sort_by(std::vector<store::TrackedRun>& runs, const std::string& order) {
  static const std::regex kOrder(
      R"re(^\s*(?:(metrics?|params?|tags?|attributes?)\.)?(?:"([^"]+)"|`([^`]+)`|([\w.\-/@]+))(?:\s+(asc|desc))?\s*$)re",
      std::regex::icase);
  std::smatch match;
  if (order.size() > 1000 || !std::regex_match(order, match, kOrder)) {
    invalid(fmt::format("order_by '{}' cannot be read: it is like metrics.acc DESC", order.substr(0, 80)));
  }
  const std::string kind = match[1].matched ? match[1].str() : "attributes";
  const std::string key = match[2].matched ? match[2] : match[3].matched ? match[3] : match[4];
  const bool descending = match[5].matched && std::tolower(match[5].str()[0]) == 'd';
  const auto none = [](const Field& field) { return !field.text && (!field.number || std::isnan(*field.number)); };
  std::stable_sort(runs.begin(), runs.end(), [&](const store::TrackedRun& a, const store::TrackedRun& b) {
    const Field left = field_of(a, kind, key), right = field_of(b, kind, key);
    if (none(left) || none(right)) return !none(left) && none(right);  // missing values come last in either order
    if (left.number && right.number) return descending ? *left.number > *right.number : *left.number < *right.number;
    if (left.text && right.text) return descending ? *left.text > *right.text : *left.text < *right.text;
    return false;
  });
}

// ---- the calls ------------------------------------------------------------------------------------------------------

class Calls {
 public:
  explicit Calls(Services& services) : tracking_(services.tracking) {}

  Json create_experiment(const Json& body) const {
    const std::string name = needed(body, "name", 500);
    const auto id = tracking_.create_experiment({0, name, pairs_of(body, "tags"), now_us() / 1000});
    if (!id)
      throw MlflowError(400, "RESOURCE_ALREADY_EXISTS", fmt::format("there is an experiment '{}' already", name));
    return {{"experiment_id", std::to_string(*id)}};
  }
  Json experiment_by_name(const Json& body) const {
    const std::string name = needed(body, "experiment_name", 500);
    const auto found = tracking_.experiment(name);
    if (!found) throw MlflowError(404, kMissing, fmt::format("there is no experiment '{}'", name));
    return {{"experiment", experiment_json(*found)}};
  }
  Json experiment(const Json& body) const {
    return {{"experiment", experiment_json(known_experiment(needed(body, "experiment_id")))}};
  }
  Json search_experiments(const Json& body) const {
    if (!text_of(body, "filter").empty()) invalid("experiments cannot be filtered here");
    Json list = Json::array();
    for (const store::Experiment& one : tracking_.experiments()) list.push_back(experiment_json(one));
    return {{"experiments", list}};
  }

  Json create_run(const Json& body) const {
    store::TrackedRun run;
    const std::string experiment = text_of(body, "experiment_id");
    run.experiment = known_experiment(experiment.empty() ? "0" : experiment).id;
    run.id = random_hex(16);
    run.user = text_of(body, "user_id");
    run.start_ms = whole_of(body, "start_time").value_or(now_us() / 1000);
    run.tags = pairs_of(body, "tags");
    run.name = text_of(body, "run_name");
    if (run.name.empty() && run.tags.contains("mlflow.runName")) run.name = run.tags["mlflow.runName"];
    if (run.name.empty()) run.name = "run-" + run.id.substr(0, 8);
    tracking_.create_run(run);
    return {{"run", run_json(run)}};
  }
  Json run(const Json& body) const { return {{"run", run_json(known_run(body))}}; }
  Json update_run(const Json& body) const {
    const std::string id = known_run(body).id, status = text_of(body, "status");
    if (!status.empty() && std::find(kStates.begin(), kStates.end(), status) == kStates.end()) {
      invalid(fmt::format("unknown status '{}'", status.substr(0, 40)));
    }
    tracking_.update_run(id, status, whole_of(body, "end_time"), text_of(body, "run_name"));
    return {{"run_info", info_json(*tracking_.run(id))}};
  }
  Json log_metric(const Json& body) const { return log(known_run(body), {{metric_of(body)}, {}, {}}); }
  Json log_parameter(const Json& body) const {
    return log(known_run(body), {{}, {{needed(body, "key"), text_of(body, "value")}}, {}});
  }
  Json set_tag(const Json& body) const {
    return log(known_run(body), {{}, {}, {{needed(body, "key"), text_of(body, "value")}}});
  }
  Json log_batch(const Json& body) const {
    const store::TrackedRun run = known_run(body);
    store::TrackedBatch batch;
    for (const Json& one : list_of(body, "metrics", kMostMetrics)) batch.metrics.push_back(metric_of(one));
    for (const Json& one : list_of(body, "params", kMostPairs)) {
      const std::string key = needed(one, "key"), value = text_of(one, "value");
      const auto [there, added] = batch.params.emplace(key, value);
      if (!added && there->second != value) invalid(fmt::format("the parameter '{}' is given twice", key));
    }
    batch.tags = pairs_of(body, "tags");
    if (batch.metrics.size() + batch.params.size() + batch.tags.size() > kMostTogether) {
      invalid(fmt::format("a batch holds at most {} metrics, parameters and tags together", kMostTogether));
    }
    return log(run, batch);
  }
  Json search_runs(const Json& body) const {
    std::vector<int64_t> experiments;
    const auto ids = body.find("experiment_ids");
    if (ids == body.end() || !ids->is_array() || ids->size() > 1000) invalid("experiment_ids is no list");
    for (const Json& id : *ids) {
      if (!id.is_string()) invalid("experiment_ids holds something else than texts");
      if (const auto value = to_number<int64_t>(id.get<std::string>())) experiments.push_back(*value);
    }
    const auto conditions = parse_filter(text_of(body, "filter"));
    std::vector<store::TrackedRun> runs;
    if (text_of(body, "run_view_type") != "DELETED_ONLY") runs = tracking_.runs(experiments);
    std::erase_if(runs, [&](const store::TrackedRun& run) {
      return !std::all_of(conditions.begin(), conditions.end(), [&](const auto& one) { return holds(run, one); });
    });
    if (const auto orders = body.find("order_by"); orders != body.end() && orders->is_array()) {
      if (orders->size() > 10) invalid("order_by holds more than 10 entries");
      for (auto order = orders->rbegin(); order != orders->rend(); ++order) {  // the first order counts most
        if (!order->is_string()) invalid("order_by holds something else than texts");
        sort_by(runs, order->get<std::string>());
      }
    }
    const int64_t most = std::clamp<int64_t>(whole_of(body, "max_results").value_or(1000), 1, kMostSearchResults);
    const int64_t from = page_of(body);
    Json list = Json::array();
    for (int64_t i = from; i < std::ssize(runs) && i < from + most; ++i) {
      list.push_back(run_json(runs[static_cast<size_t>(i)]));
    }
    Json answer = {{"runs", list}};
    if (from + most < std::ssize(runs)) answer["next_page_token"] = std::to_string(from + most);
    return answer;
  }
  Json history(const Json& body) const {
    const store::TrackedRun run = known_run(body);
    const int64_t most = std::clamp<int64_t>(whole_of(body, "max_results").value_or(kMostHistory), 1, kMostHistory);
    const int64_t from = page_of(body);
    const auto metrics = tracking_.history(run.id, needed(body, "metric_key"), from, most + 1);
    Json list = Json::array();
    for (int64_t i = 0; i < std::min(most, static_cast<int64_t>(metrics.size())); ++i) {
      list.push_back(metric_json(metrics[static_cast<size_t>(i)]));
    }
    Json answer = {{"metrics", list}};
    if (std::ssize(metrics) > most) answer["next_page_token"] = std::to_string(from + most);
    return answer;
  }

 private:
  static int64_t page_of(const Json& body) {
    const std::string token = text_of(body, "page_token");
    const auto from = token.empty() ? std::optional<int64_t>(0) : to_number<int64_t>(token);
    if (!from || *from < 0 || *from > (int64_t{1} << 40)) invalid("the page_token is none of ours");
    return *from;
  }
  store::Experiment known_experiment(const std::string& text) const {
    const auto id = to_number<int64_t>(text);
    const auto found = id ? tracking_.experiment(*id) : std::nullopt;
    if (!found)
      throw MlflowError(404, kMissing, fmt::format("there is no experiment with the id '{}'", text.substr(0, 80)));
    return *found;
  }
  store::TrackedRun known_run(const Json& body) const {
    std::string id = text_of(body, "run_id");
    if (id.empty()) id = needed(body, "run_uuid");
    const auto found = tracking_.run(id);
    if (!found) throw MlflowError(404, kMissing, fmt::format("there is no run with the id '{}'", id.substr(0, 80)));
    return *found;
  }
  Json log(const store::TrackedRun& run, const store::TrackedBatch& batch) const {
    tracking_.log(run.id, batch);
    return Json::object();
  }

  store::Tracking& tracking_;
};

// The body; for a GET request, its query in the form that a POST's body would have.
Json body_of(const Request& request) {
  if (request.method == "POST") {
    if (request.body.size() > kMostBodyBytes) invalid("the body is larger than 1 MB");
    return json_body(request);
  }
  Json body = Json::object();
  for (const auto& [key, value] : request.target.query) body[key] = value;
  return body;
}

}  // namespace

std::vector<Route> mlflow_routes(Services& services) {
  const auto route = [&services](const char* method, const char* path, Json (Calls::*call)(const Json&) const,
                                 Lane lane = Lane::kQuick) {
    const auto handler = [&services, call](const Call& request) {
      try {
        return json_response(200, (Calls(services).*call)(body_of(request.request)));
      } catch (const MlflowError& error) {
        return json_response(error.status, {{"error_code", error.code}, {"message", error.what()}});
      } catch (const HttpError& error) {
        return json_response(error.status, {{"error_code", kInvalid}, {"message", error.what()}});
      } catch (const UserError& error) {
        return json_response(400, {{"error_code", kInvalid}, {"message", error.what()}});
      }
    };
    return Route{method, std::string("/api/2.0/mlflow/") + path, Access::kToken, handler, lane, Body::kBatch};
  };
  return {
      route("POST", "experiments/create", &Calls::create_experiment),
      route("GET", "experiments/get-by-name", &Calls::experiment_by_name),
      route("GET", "experiments/get", &Calls::experiment),
      route("GET", "experiments/search", &Calls::search_experiments),
      route("POST", "experiments/search", &Calls::search_experiments),
      route("POST", "runs/create", &Calls::create_run),
      route("GET", "runs/get", &Calls::run),
      route("POST", "runs/update", &Calls::update_run),
      route("POST", "runs/log-metric", &Calls::log_metric),
      route("POST", "runs/log-batch", &Calls::log_batch),
      route("POST", "runs/log-parameter", &Calls::log_parameter),
      route("POST", "runs/set-tag", &Calls::set_tag),
      route("POST", "runs/search", &Calls::search_runs, Lane::kSlow),
      route("GET", "metrics/get-history", &Calls::history),
  };
}

}  // namespace mlbench::master
