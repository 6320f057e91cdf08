// Tests of a master in this process, without runs: who may ask, what is answered, and that its description is complete.

#include "mlbench/master/master.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/paths.h"
#include "mlbench/catalog/options/options.h"
#include "mlbench/home/owner.h"
#include "mlbench/home/runs.h"
#include "mlbench/master/hosts.h"
#include "mlbench/master/http/api.h"
#include "mlbench/master/http/dates.h"
#include "mlbench/master/http/openapi.h"
#include "mlbench/master/http/points.h"
#include "mlbench/master/run_list.h"
#include "mlbench/net/http/client.h"
#include "mlbench/report/study/study.h"
#include "mlbench/report/study/test_comparisons.h"
#include "mlbench/report/test_records.h"
#include "mlbench/spec/hosts.h"
#include "mlbench/spec/run_options.h"
#include "mlbench/spec/run_spec.h"
#include "mlbench/spec/task.h"

namespace mlbench::master {
namespace {

namespace fs = std::filesystem;
using net::http::ClientRequest;
using net::http::ClientResponse;
using net::http::Fields;
using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

template <typename Error, typename Action>
void expect_error(const Action& action, const std::string& part) {
  try {
    action();
    ADD_FAILURE() << "no error; expected one with: " << part;
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(part));
  }
}

// A planner that answers what each test sets.
struct FakePlanner final : plan::Planner {
  FakePlanner() : Planner({}) {}
  std::string obstacle(const spec::RunSpec& /*run*/) override { return what_keeps_runs; }
  std::string what_keeps_runs;
  plan::PlannedRuns plan(const Json& request) override { return on_plan(request); }
  Json tasks() override { return on_tasks(); }
  Json catalog() override { return on_catalog(); }
  std::string executor() override { return usual; }
  plan::ClusterOffer offer() override { return on_offer(); }
  exec::ClusterNodes nodes(const std::string& executor, const Json& engine) override {
    return on_nodes(executor, engine);
  }

  std::function<plan::PlannedRuns(const Json&)> on_plan;
  std::function<Json()> on_tasks, on_catalog;
  std::function<plan::ClusterOffer()> on_offer;
  std::function<exec::ClusterNodes(const std::string&, const Json&)> on_nodes;
  std::string usual = "local";
};

class MasterTest : public testing::Test {
 protected:
  MasterTest() {
    fs::create_directories(home());
    options_.home = home();
    options_.port = 0;
    options_.program = "/nonexistent";
    options_.worker = "/nonexistent";
    options_.core_lock = folder_.path() / "cores";
    planner_.on_plan = [](const Json&) -> plan::PlannedRuns { throw UserError("nothing can be planned here"); };
    planner_.on_tasks = [] { return Json::array({{{"name", "2a"}, {"rules", "2021"}}}); };
    planner_.on_catalog = []() -> Json { throw UserError("there is no worker"); };
    planner_.on_offer = [] { return plan::ClusterOffer{"local", {.gpus = 0, .cores = 8, .cores_on_host = 8}}; };
  }
  fs::path home() const { return folder_.path() / "home"; }
  Master& master() {
    if (!master_) master_ = std::make_unique<Master>(options_, planner_);
    return *master_;
  }
  ClientResponse send(const std::string& method, const std::string& path, const std::string& body = "",
                      const std::string& type = "application/json", Fields headers = {}, bool token = true) {
    ClientRequest request;
    request.method = method;
    request.url = master().url() + path;
    request.body = body;
    request.content_type = type;
    request.headers = std::move(headers);
    if (token) request.headers.emplace_back("Authorization", "Bearer " + master().token());
    return net::http::Client().send(request);
  }
  int status(const std::string& method, const std::string& path, const std::string& body = "") {
    return send(method, path, body).status;
  }
  Json get(const std::string& path) {
    const ClientResponse response = send("GET", path);
    EXPECT_EQ(response.status, 200) << path << ": " << response.body;
    return Json::parse(response.body);
  }
  std::string message(const ClientResponse& response) {
    const Json json = Json::parse(response.body, nullptr, false);
    return json.is_object() ? json.value("message", "") : "no JSON: " + response.body;
  }
  // A run whose specification says nothing.
  void write_run(const Json& record) const {
    const fs::path folder = home() / "runs" / record["name"].get<std::string>();
    fs::create_directories(folder);
    write_json_file(folder / "spec.json", Json::object());
    write_json_file(folder / "run.json", record);
  }

  TemporaryFolder folder_;
  MasterOptions options_;
  FakePlanner planner_;
  std::unique_ptr<Master> master_;
};

// ---- who may ask ----------------------------------------------------------------------------------------------------

TEST_F(MasterTest, AsksForTheTokenEverywhereButForHealthAndThePageThatLogsIn) {
  EXPECT_EQ(send("GET", "/api/v1/health", "", "", {}, false).status, 200);
  const std::set<std::string> open = {"GET /api/v1/health", "GET /", "GET /assets/{file}", "POST /api/v1/session"};
  for (const auto& [method, path] : master().routes()) {
    if (open.contains(method + " " + path)) continue;
    const ClientResponse none = send(method, path, "", "application/json", {}, false);
    EXPECT_EQ(none.status, 401) << method << " " << path;
    const ClientResponse wrong =
        send(method, path, "", "application/json", {{"Authorization", "Bearer " + std::string(64, '0')}}, false);
    EXPECT_EQ(wrong.status, 401) << method << " " << path;
  }
  // A request without a token does not learn which paths exist.
  EXPECT_EQ(send("GET", "/no/such/path", "", "", {}, false).status, 401);
  EXPECT_EQ(send("PUT", "/api/v1/runs", "", "", {}, false).status, 401);
}

TEST_F(MasterTest, OtherSitesAreRefused) {
  const auto with = [&](const char* name, const std::string& value) {
    return send("GET", "/api/v1/version", "", "", {{name, value}}).status;
  };
  EXPECT_EQ(with("Origin", "https://elsewhere.example"), 403);
  EXPECT_EQ(with("Origin", "null"), 403);
  EXPECT_EQ(with("Origin", master().url()), 200);
  EXPECT_EQ(with("Host", "elsewhere.example"), 421);
  EXPECT_EQ(with("Host", "elsewhere.example:8080"), 421);
  EXPECT_EQ(with("Host", "localhost:1"), 200);
  EXPECT_EQ(with("Host", "[::1]:1"), 200);
  EXPECT_EQ(with("Host", "10.0.0.1"), 200);
}

TEST_F(MasterTest, AnAllowedNameIsAnsweredTo) {
  options_.allowed_hosts = {"cluster.example"};
  EXPECT_EQ(send("GET", "/api/v1/version", "", "", {{"Host", "cluster.example:80"}}).status, 200);
}

TEST_F(MasterTest, SecretsAreComparedWhole) {
  EXPECT_TRUE(home::same_secret("0123456789abcdef", "0123456789abcdef"));
  for (const char* given : {"", "0", "0123456789abcde", "0123456789abcdeF", "0123456789abcdef0", "x123456789abcdef"}) {
    EXPECT_FALSE(home::same_secret(given, "0123456789abcdef")) << given;
  }
}

TEST_F(MasterTest, TheTokenIsTheUsersAlone) {
  master();
  struct stat info {};
  ASSERT_EQ(stat((home() / "token").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const std::string token = master().token();
  EXPECT_THAT(token, SizeIs(64));
  master_.reset();
  EXPECT_EQ(master().token(), token);
  master_.reset();
  fs::permissions(home() / "token", fs::perms(0644));
  expect_error<UserError>([&] { master(); }, "others may read the token");
  fs::permissions(home() / "token", fs::perms(0600));
  std::ofstream(home() / "token") << "short\n";
  expect_error<UserError>([&] { master(); }, "holds no token");
}

// ---- browsers -------------------------------------------------------------------------------------------------------

std::string field(const ClientResponse& response, const std::string& name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return "";
}

TEST_F(MasterTest, ThePageIsServedSealed) {
  const ClientResponse page = send("GET", "/", "", "", {}, false);
  EXPECT_EQ(page.status, 200);
  EXPECT_THAT(page.content_type, HasSubstr("text/html"));
  EXPECT_THAT(page.body, HasSubstr("<script type=\"module\""));
  EXPECT_THAT(page.body, Not(HasSubstr("//")));  // it loads nothing from another place
  const std::string tag = field(page, "ETag");
  EXPECT_EQ(send("GET", "/", "", "", {{"If-None-Match", tag}}, false).status, 304);
  EXPECT_THAT(send("GET", "/assets/app.js", "", "", {}, false).content_type, HasSubstr("text/javascript"));
  EXPECT_THAT(send("GET", "/assets/app.css", "", "", {}, false).content_type, HasSubstr("text/css"));
  for (const char* none : {"/assets/none.js", "/assets/..%2findex.html", "/assets/%2e%2e"}) {
    EXPECT_THAT(send("GET", none, "", "", {}, false).status, AnyOf(400, 404)) << none;
  }
  // Refusals have these headers, too.
  for (const ClientResponse& response : {page, send("GET", "/api/v1/runs", "", "", {}, false), send("GET", "/none")}) {
    EXPECT_THAT(field(response, "Content-Security-Policy"),
                AllOf(HasSubstr("default-src 'none'"), HasSubstr("script-src 'self';"), Not(HasSubstr("unsafe"))));
    EXPECT_EQ(field(response, "X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(field(response, "X-Frame-Options"), "DENY");
  }
}

class Browser : public MasterTest {
 protected:
  ClientResponse log_in(const Json& body) {
    return send("POST", "/api/v1/session", body.dump(), "application/json", {}, false);
  }
  void open() {
    const ClientResponse answer = log_in({{"token", master().token()}});
    ASSERT_EQ(answer.status, 201) << answer.body;
    secret_ = Json::parse(answer.body)["session"];
    EXPECT_EQ(Json::parse(answer.body)["expires_s"], 43'200);
    EXPECT_NE(secret_, master().token());
    // A browser would send it to every port of this host.
    EXPECT_EQ(field(answer, "Set-Cookie"), "");
  }
  // This request shows the secret of the login, not the token.
  ClientResponse browse(const std::string& method, const std::string& path, const Fields& more = {}) {
    Fields headers = more;
    headers.emplace_back("Authorization", "Bearer " + secret_);
    return send(method, path, method == "POST" ? "{}" : "", "application/json", headers, false);
  }
  std::string secret_;
};

TEST_F(Browser, LogsInWithTheTokenAndOut) {
  open();
  const std::string first = secret_;
  open();
  EXPECT_EQ(browse("GET", "/api/v1/version").status, 200);
  EXPECT_EQ(browse("POST", "/api/v1/runs").status, 422);  // it came through to the planning of runs
  EXPECT_EQ(browse("DELETE", "/api/v1/session").status, 204);
  EXPECT_EQ(browse("GET", "/api/v1/version").status, 401);
  EXPECT_EQ(browse("DELETE", "/api/v1/session").status, 401);
  secret_ = first;  // another browser
  EXPECT_EQ(browse("GET", "/api/v1/version").status, 200);
  EXPECT_EQ(send("DELETE", "/api/v1/session").status, 204);  // the token is no login
  EXPECT_EQ(send("GET", "/api/v1/version").status, 200);
}

TEST_F(Browser, WrongSecretsAreRefused) {
  for (const Json& body : {Json{{"token", std::string(64, '0')}}, Json{{"code", std::string(64, '0')}}}) {
    const ClientResponse answer = log_in(body);
    EXPECT_EQ(answer.status, 401) << body;
  }
  for (const Json& body :
       {Json::object(), Json{{"token", 1}}, Json{{"token", ""}}, Json{{"token", "x"}, {"code", "y"}}}) {
    EXPECT_EQ(log_in(body).status, 400) << body;
  }
  EXPECT_EQ(send("POST", "/api/v1/session", "token=x", "application/x-www-form-urlencoded", {}, false).status, 415);
  EXPECT_EQ(
      send("POST", "/api/v1/session", "{}", "application/json", {{"Origin", "http://evil.example"}}, false).status,
      403);
  for (const std::string& wrong : {std::string(), std::string(64, '0'), "x" + master().token()}) {
    secret_ = wrong;
    EXPECT_EQ(browse("GET", "/api/v1/version").status, 401) << wrong;
  }
}

TEST_F(Browser, ALinkLogsInOnce) {
  EXPECT_EQ(send("POST", "/api/v1/session/codes", "{}", "application/json", {}, false).status, 401);
  const ClientResponse made = send("POST", "/api/v1/session/codes", "{}");
  ASSERT_EQ(made.status, 201) << made.body;
  const Json code = Json::parse(made.body);
  EXPECT_EQ(code["expires_s"], 300);
  const Json body = {{"code", code["code"]}};
  EXPECT_EQ(log_in(body).status, 201);
  const ClientResponse again = log_in(body);
  EXPECT_EQ(again.status, 401);
  EXPECT_THAT(message(again), HasSubstr("mlbench dashboard"));
}

TEST_F(Browser, OtherPortsOfThisHostGetNothing) {
  open();
  // What a page of another port can make the browser send: cookies, no header of its own.
  const Fields cookies = {{"Cookie", "mlbench=" + secret_ + "; session=" + secret_}};
  for (const auto& [method, body] : {std::pair("GET", ""), std::pair("POST", "{}"), std::pair("DELETE", "")}) {
    EXPECT_EQ(send(method, "/api/v1/runs/x", body, "application/json", cookies, false).status, 401) << method;
    EXPECT_EQ(send(method, "/api/v1/session/codes", body, "application/json", cookies, false).status, 401) << method;
  }
  // Even with the secret, the browser says which site asks.
  for (const char* site : {"same-site", "cross-site"}) {
    EXPECT_EQ(browse("GET", "/api/v1/version", {{"Sec-Fetch-Site", site}}).status, 403);
    EXPECT_EQ(browse("POST", "/api/v1/session", {{"Sec-Fetch-Site", site}}).status, 403);
    EXPECT_EQ(browse("GET", "/", {{"Sec-Fetch-Site", site}}).status, 200);  // a link
  }
  for (const char* site : {"same-origin", "none"}) {
    EXPECT_EQ(browse("GET", "/api/v1/version", {{"Sec-Fetch-Site", site}}).status, 200);
  }
}

// ---- one master per home --------------------------------------------------------------------------------------------

TEST_F(MasterTest, AHomeHasOneMaster) {
  EXPECT_FALSE(home::find_master(home()));
  master();
  const auto found = home::find_master(home());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->url, master().url());
  EXPECT_EQ(home::read_token(found->token_file), master().token());
  expect_error<UserError>([&] { Master(options_, planner_); }, "another mlbench serve owns");
  master_.reset();
  EXPECT_FALSE(home::find_master(home()));
}

TEST_F(MasterTest, AUsedPortLeavesTheHomeFree) {
  master();
  MasterOptions other = options_;
  other.home = folder_.path() / "other";
  fs::create_directories(other.home);
  other.port = static_cast<uint16_t>(std::stoi(master().url().substr(master().url().rfind(':') + 1)));
  expect_error<UserError>([&] { Master(other, planner_); }, "another program uses this port");
  EXPECT_FALSE(home::find_master(other.home));
}

TEST(Listen, IsParsed) {
  EXPECT_EQ(parse_listen("127.0.0.1:8080"), std::pair(std::string("127.0.0.1"), uint16_t{8080}));
  EXPECT_EQ(parse_listen(":0"), std::pair(std::string("127.0.0.1"), uint16_t{0}));
  EXPECT_EQ(parse_listen("[::1]:80"), std::pair(std::string("::1"), uint16_t{80}));
  for (const char* bad : {"", "8080", "host:", "host:x", "host:70000", "host:-1"}) {
    EXPECT_THROW(parse_listen(bad), UserError) << bad;
  }
}

// ---- answers --------------------------------------------------------------------------------------------------------

// "/api/v1/runs/{run}/" and "/api/v1/runs/{id}" are one path.
std::string plain_path(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  for (size_t open; (open = path.find('{')) != std::string::npos;) path.replace(open, path.find('}') - open + 1, "*");
  return path;
}

TEST_F(MasterTest, TheDescriptionIsServedAndComplete) {
  const Json document = get("/api/v1/openapi.json");
  EXPECT_EQ(document["openapi"], "3.1.0");
  std::set<std::string> described, served;
  for (const auto& [path, operations] : document["paths"].items()) {
    for (const auto& [method, operation] : operations.items()) {
      std::string upper = method;
      for (char& c : upper) c = static_cast<char>(std::toupper(c));
      EXPECT_TRUE(described.insert(upper + " " + plain_path(path)).second) << path;
      EXPECT_FALSE(operation["responses"].empty()) << path;
      EXPECT_FALSE(operation.value("summary", "").empty()) << path;
    }
  }
  for (const auto& [method, path] : master().routes()) {
    EXPECT_TRUE(served.insert(method + " " + plain_path(path)).second) << path;
  }
  EXPECT_EQ(described, served);
}

void collect_references(const Json& value, std::set<std::string>& found) {
  if (value.is_object() && value.contains("$ref")) found.insert(value["$ref"].get<std::string>());
  for (const Json& child : value) {
    if (child.is_structured()) collect_references(child, found);
  }
}

TEST_F(MasterTest, EveryReferenceOfTheDescriptionExists) {
  const Json document = Json::parse(openapi_document());
  std::set<std::string> references;
  collect_references(document, references);
  EXPECT_THAT(references, Contains("#/components/schemas/RunSummary"));
  for (const std::string& reference : references) {
    EXPECT_TRUE(document.contains(Json::json_pointer(reference.substr(1)))) << reference;
  }
}

TEST_F(MasterTest, ServesTheFiguresThatAPageCanShow) {
  const Json figures = get("/api/v1/figures")["figures"];
  EXPECT_THAT(figures,
              Contains(Json{{"key", "energy_joules"}, {"title", "Energy"}, {"unit", "kJ"}, {"form", "kilojoules"}}));
  EXPECT_EQ(figures, list_figures());
}

// Compares row by row: names, types, ranges, units, defaults, and what a field goes with.
TEST_F(MasterTest, TheDescriptionOfARequestIsTheTableOfOptions) {
  Json described = Json::parse(openapi_document())["components"]["schemas"]["RunRequest"]["properties"];
  EXPECT_EQ(described.erase("env_values"), 1U);  // no option: it holds what `env` only names
  const Json table = spec::run_request_properties(catalog::run_options());
  for (auto& [name, property] : described.items()) {
    EXPECT_NE(property.value("description", ""), "") << name;
    property.erase("description");
    ASSERT_TRUE(table.contains(name)) << "api/openapi.json: RunRequest has '" << name << "', run_options.cpp has not";
    EXPECT_EQ(property, table[name]) << "api/openapi.json: RunRequest." << name << " should be " << table[name].dump();
  }
  for (const auto& [name, property] : table.items()) {
    EXPECT_TRUE(described.contains(name))
        << "api/openapi.json: RunRequest lacks \"" << name << "\": " << property.dump();
  }
}

// Another program may have written such a run: 1e308 hours are null in JSON, and the run could be neither ended nor
// removed.
TEST_F(MasterTest, ARunWithNumbersThatNobodyTakesCanBeEndedAndRemoved) {
  struct Wrong {
    const char *name, *field;
    Json value;
  };
  const Wrong wrong[] = {{"time-1", "/limits/max_time_s", nullptr},
                         {"threads-1", "/threads_per_worker", 70000},
                         {"repeat-1", "/repeat", 1e12},
                         {"workers-1", "/workers", int64_t{9'000'000'000'000'000'000}}};
  for (const auto& [name, field, value] : wrong) {
    SCOPED_TRACE(name);
    spec::RunSpec run;
    run.name = name;
    run.cache_dir = home() / "cache";
    spec::set_task(run, spec::find_task("fashion-mnist", "", "", {}), {});
    const fs::path folder = home::create_run(home(), run, home::Waiting{}).run_dir;
    Json damaged = read_json_file(folder / "spec.json");
    damaged[Json::json_pointer(field)] = value;
    write_json_file(folder / "spec.json", damaged);
    expect_error<UserError>([&] { home::read_spec(folder); }, (folder / "spec.json").string() + ": '");
  }
  // The run is stopped by hand, without a master.
  home::stop_run(home(), home() / "runs/time-1");
  const record::Record record = home::current_record(home() / "runs/time-1");
  EXPECT_EQ(record.state, "stopped");
  EXPECT_THAT(record.notes, Contains(HasSubstr("'limits.max_time_s' is null; expected a finite number")));
  home::delete_run(home(), home() / "runs/time-1");
  EXPECT_FALSE(fs::exists(home() / "runs/time-1"));
  // A master marks waiting runs as failed, and says why.
  for (const char* name : {"threads-1", "repeat-1", "workers-1"}) {
    Json made_long_ago = read_json_file(home() / "runs" / name / "run.json");
    made_long_ago["created_at"] = "2020-01-01T00:00:00.000000Z";
    write_json_file(home() / "runs" / name / "run.json", made_long_ago);
  }
  for (const char* name : {"threads-1", "repeat-1", "workers-1"}) {
    const std::string run = std::string("/api/v1/runs/") + name;
    const auto eventually = [](const std::function<bool()>& condition) {
      for (int i = 0; i < 1200 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    };
    eventually([&] { return get(run)["state"] == "failed"; });
    const Json record = get(run);
    EXPECT_EQ(record["state"], "failed") << name;
    EXPECT_THAT(record["failure"]["message"].dump(),
                HasSubstr(name == std::string("repeat-1") ? "expected an integer" : "expected a number from 1"));
    eventually([&] { return send("DELETE", run).status == 204; });  // once the one who settled it has let go
    EXPECT_EQ(send("GET", run).status, 404) << name;
  }
  EXPECT_EQ(get("/api/v1/runs")["total"], 0);
}

TEST_F(MasterTest, SaysWhatItIsAndHas) {
  EXPECT_EQ(get("/api/v1/version")["api"], 1);
  EXPECT_EQ(get("/api/v1/tasks")["tasks"][0]["name"], "2a");
  EXPECT_EQ(get("/api/v1/clusters")["clusters"][0]["name"], "local");
  Json runs = get("/api/v1/runs");
  runs.erase("choices");
  EXPECT_EQ(runs, Json({{"total", 0}, {"limit", 100}, {"offset", 0}, {"runs", Json::array()}, {"count", 0}}));
  EXPECT_EQ(get("/api/v1/runs/"), get("/api/v1/runs"));
  const ClientResponse metrics = send("GET", "/metrics");
  EXPECT_THAT(metrics.body, HasSubstr("# TYPE mlbench_runs gauge\n"));
  EXPECT_THAT(metrics.body, HasSubstr("mlbench_runs{state=\"running\"} 0\n"));
  EXPECT_THAT(metrics.body, HasSubstr("# TYPE mlbench_host_network_receive_bytes_total counter\n"));
  EXPECT_THAT(metrics.content_type, HasSubstr("text/plain; version=0.0.4"));
}

TEST_F(MasterTest, ErrorsAreJsonWithTheReason) {
  const auto expect = [&](const ClientResponse& response, int status, const std::string& part) {
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_THAT(message(response), HasSubstr(part));
  };
  expect(send("GET", "/nothing"), 404, "openapi.json");
  expect(send("PUT", "/api/v1/runs", "{}"), 405, "valid: GET, POST");
  expect(send("GET", "/api/v1/runs/no-such"), 404, "there is no run 'no-such'");
  expect(send("GET", "/api/v1/runs/7"), 404, "there is no run '7'");
  expect(send("GET", "/api/v1/runs/..%2f..%2fetc"), 404, "there is no run");
  expect(send("GET", "/api/v1/runs?limit=0"), 400, "limit=0 is no whole number from 1 to 1000");
  expect(send("GET", "/api/v1/runs?sort=-wal_s"), 400, "unknown sort 'wal_s': did you mean 'wall_s'?");
  expect(send("GET", "/api/v1/runs?sort="), 400, "valid: id, name, state");
  expect(send("GET", "/api/v1/runs?state=ended"), 400, "unknown state 'ended'");
  expect(send("GET", "/api/v1/runs?state=ended"), 400, "valid: queued, running, finished, failed, stopped, damaged");
  expect(send("GET", "/api/v1/runs?workers=two"), 400, "workers=two is no whole number");
  expect(send("GET", "/api/v1/runs?repeats=one"), 400, "valid: apart, together");
  expect(send("GET", "/api/v1/runs?limt=3"), 400,
         "unknown parameter of the query 'limt': did you mean 'limit'? valid: state, task, workers, executor, label, "
         "tag, q, sort, repeats, tracked, limit, offset");
  expect(send("GET", "/api/v1/runs?limit=3&Sort=id"), 400,
         "unknown parameter of the query 'Sort': did you mean 'sort'?");
  expect(send("GET", "/api/v1/runs?order=oldest"), 400,
         "unknown parameter of the query 'order'; valid: state, task, workers, executor, label, tag, q, sort");
  expect(send("GET", "/api/v1/tasks?all=1"), 400, "unknown parameter of the query 'all'; there is none");
  expect(send("POST", "/api/v1/plan?dry=1", "{}"), 400, "there is none");
  expect(send("GET", "/metrics?name=x"), 400, "there is none");
  EXPECT_EQ(send("GET", "/?utm=1").status, 200) << "the page itself";
  EXPECT_NE(send("GET", "/api/2.0/mlflow/experiments/search?max_results=5&more=1").status, 400);
  expect(send("POST", "/api/v1/runs", "{"), 400, "no JSON");
  expect(send("POST", "/api/v1/runs", "[]"), 400, "no object: array");
  expect(send("POST", "/api/v1/runs", "{}", "text/plain"), 415, "expected application/json");
  expect(send("POST", "/api/v1/runs", "{}"), 422, "nothing can be planned here");
  expect(send("POST", "/api/v1/runs", "{\"no_wait\": 1}"), 400, "neither true nor false");
  expect(send("POST", "/api/v1/runs", "{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}"), 400, "deeper");
  expect(send("POST", "/api/v1/plan", "{}"), 422, "nothing can be planned here");
  expect(send("GET", "/api/v1/catalog"), 400, "there is no worker");
  expect(send("GET", "/api/v1/compare"), 400, "runs is needed");
  expect(send("GET", "/api/v1/scaling"), 400, "runs is needed");
  expect(send("GET", "/api/runs/"), 404, "--legacy-api");
}

// Two runs that differ in one thing beside their number of workers have a speed-up, or a reason why there is none.
TEST_F(MasterTest, ComparesWhatMayBeCompared) {
  write_run(report::told_record("a-1", 1));
  std::vector<report::Change> changes = report::changes_of_one_key();
  for (const report::Change& change : report::changes_of_no_key()) changes.push_back(change);
  for (const report::Change& change : changes) {
    write_run(report::with(report::told_record("b-2", 2), change));
    const ClientResponse response = send("GET", "/api/v1/compare?runs=a-1,b-2");
    ASSERT_EQ(response.status, 200) << response.body;
    const Json answer = parse_json(response.body, inputs::kMasterAnswer);
    const Json& run = answer["runs"][1];
    const bool allowed = report::speed_up_allowed(change);
    EXPECT_EQ(run["rate"].is_object(), allowed) << change.what;
    EXPECT_EQ(run["baseline"], allowed ? "a-1" : "") << change.what;
    EXPECT_EQ(answer["baseline_workers"], allowed ? 1 : 0) << change.what;
    EXPECT_EQ(run["no_ratio"].get<std::string>().empty(), allowed) << change.what;
    if (allowed) continue;
    EXPECT_TRUE(run["to_goal"].is_null()) << change.what;
    EXPECT_TRUE(answer["runs"][0]["rate"].is_null()) << change.what;
    EXPECT_THAT(run["no_ratio"], HasSubstr(report::in_words({&report::key_named(change.key)}))) << change.what;
  }
}

// The page shows the figures that `mlbench charts` shows of the same runs, to the digit.
TEST_F(MasterTest, SaysHowRunsScale) {
  std::vector<report::MeasuredRun> runs;
  const auto write = [&](const std::string& name, int64_t workers, double time_s) {
    report::RecordJson record = report::told_record(name, workers);
    record["goal"]["train_s"] = time_s;
    record["clocks"]["train_s"] = time_s;
    write_run(record);
    runs.push_back({record, {}, ""});
  };
  write("a-1", 1, 60);
  write("a-1.2", 1, 66);
  write("a-2", 2, 35);
  write("a-2.2", 2, 36);
  const ClientResponse response = send("GET", "/api/v1/scaling?runs=a-1,a-2");
  ASSERT_EQ(response.status, 200) << response.body;
  const Json answer = parse_json(response.body, inputs::kMasterAnswer);
  const report::PricedStudies priced = report::priced_studies(runs);
  ASSERT_EQ(priced.studies.size(), 1U);
  EXPECT_EQ(answer["studies"], Json::array({report::to_json(priced.studies[0], runs)}));
  const Json& line = answer["studies"][0]["lines"][0];
  EXPECT_EQ(line["points"][1]["speed_up_interval"].size(), 2U);
  EXPECT_THAT(line["answer"][0].get<std::string>(), HasSubstr("2 workers reach"));
  EXPECT_EQ(answer["price"], "n1-standard-4: 0.2092 $/h per worker (price of 2021), wall clock");
}

// Runs are grouped as by `mlbench compare`: a run with its repeats, one that differs in a key by itself.
TEST_F(MasterTest, ComparesRunsWithTheirRepeats) {
  const auto write = [&](const std::string& name, int64_t id, double time_s, const std::string& backend) {
    report::RecordJson record = report::told_record(name, name.starts_with("a-1") ? 1 : 2);
    record["id"] = id;
    record["backend"] = backend;
    record["goal"]["train_s"] = time_s;
    record["clocks"]["train_s"] = time_s;
    write_run(record);
  };
  write("a-1", 1, 60, "gloo");
  write("a-1.2", 2, 70, "gloo");
  write("a-1.3", 3, 62, "gloo");
  write("a-1.4", 4, 50, "mpi");
  write("b-2", 5, 30, "gloo");
  const auto compare = [&](const std::string& names) {
    const ClientResponse response = send("GET", "/api/v1/compare?runs=" + names);
    EXPECT_EQ(response.status, 200) << response.body;
    return parse_json(response.body, inputs::kMasterAnswer);
  };
  const Json answer = compare("a-1,b-2,a-1.2");
  ASSERT_EQ(answer["runs"].size(), 5U);
  const Json& groups = answer["repeated"]["runs"];
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0]["name"], "a-1");
  EXPECT_EQ(groups[0]["repeats"], (Json{"a-1", "a-1.2", "a-1.3"}));
  EXPECT_EQ(groups[0]["shown"], "a-1.3") << "the median";
  EXPECT_EQ(groups[0]["time_to_goal_s"]["values"], (Json{60.0, 70.0, 62.0}));
  EXPECT_EQ(groups[1]["name"], "a-1.4");
  EXPECT_EQ(groups[1]["differs_in"], Json{"backend"});
  EXPECT_EQ(groups[2]["name"], "b-2");
  EXPECT_DOUBLE_EQ(groups[2]["scaling"]["to_goal"]["speed_up"].get<double>(), 62.0 / 30);
  EXPECT_EQ(groups[2]["scaling"]["baseline"], "a-1, a-1.2, a-1.3");
  // A page shows the words of the command line.
  EXPECT_THAT(groups[0]["words"]["time_to_goal_s"].get<std::string>(), testing::StartsWith("63.9 ["));
  EXPECT_EQ(groups[2]["words"]["time_to_goal_ratio"], "0.47, not known: needs repeats");
  EXPECT_EQ(groups[2]["words"]["paired_by_seed"], "as groups");
  // A repeat that is named is compared alone.
  EXPECT_EQ(compare("a-1.2")["repeated"]["runs"][0]["repeats"], Json{"a-1.2"});
}

TEST_F(MasterTest, TheApiOfTodaysClientsIsOffUnlessAsked) {
  options_.legacy_api = true;
  EXPECT_EQ(send("GET", "/api/runs", "", "", {}, false).body, "[]");
  EXPECT_EQ(send("GET", "/api/runs/", "", "", {}, false).body, "[]");
  EXPECT_EQ(send("GET", "/api/v1/runs", "", "", {}, false).status, 401);
  EXPECT_EQ(send("GET", "/api/runs/", "", "", {{"Origin", "http://evil.example"}}, false).status, 403);
}

TEST_F(MasterTest, AnOfficialImageBecomesARunOfItsTask) {
  options_.legacy_api = true;
  Json planned;
  planner_.on_plan = [&](const Json& request) {
    planned = request;
    spec::RunSpec run;
    run.name = "planned-2";
    run.workers = 2;
    run.cache_dir = home() / "cache";
    spec::set_task(run, spec::find_task("fashion-mnist", "", "", {}), {});
    return plan::PlannedRuns{{run}, {}};
  };
  const std::string form =
      "name=Mine-2&num_workers=2&num_cpus=1.0&max_bandwidth=1000&gpu_enabled=false&light_target=true&run_all_nodes="
      "false"
      "&backend=GLOO&image_name=mlbench%2Fpytorch-epsilon-logistic-regression-all-reduce%3Alatest";
  const ClientResponse created = send("POST", "/api/runs/", form, "application/x-www-form-urlencoded", {}, false);
  EXPECT_EQ(created.status, 201) << created.body;
  const Json run = Json::parse(created.body);
  EXPECT_EQ(run["name"], "Mine-2");
  EXPECT_EQ(run["state"], "initialized");
  EXPECT_EQ(run["finished_at"], nullptr);
  EXPECT_EQ(run["job_id"], "");
  EXPECT_EQ(run["num_workers"], 2);
  EXPECT_THAT(run, SizeIs(8));
  EXPECT_EQ(planned["task"], "2a");
  EXPECT_EQ(planned["backend"], "gloo");
  EXPECT_EQ(planned["light"], true);
  EXPECT_EQ(send("POST", "/api/runs/", form, "application/x-www-form-urlencoded", {}, false).status, 409);
}

// Its framework is the task's own, or what is there: the request names none.
TEST_F(MasterTest, TheTensorFlowImageBecomesARunOf1aTf) {
  options_.legacy_api = true;
  planner_.on_tasks = [] {
    Json tasks = Json::array();
    for (const spec::TaskName& one : spec::task_names()) tasks.push_back({{"name", one.name}});
    return tasks;
  };
  Json planned;
  planner_.on_plan = [&](const Json& request) {
    planned = request;
    spec::RunSpec run;
    run.name = "planned-4";
    run.workers = 4;
    run.cache_dir = home() / "cache";
    spec::set_task(run, spec::find_task(request["task"].get<std::string>(), "", "", {}), {});
    return plan::PlannedRuns{{run}, {}};
  };
  const auto create = [&](const std::string& image) {
    return send("POST", "/api/runs/",
                "name=Tf-4&num_workers=4&num_cpus=1.0&max_bandwidth=1000&gpu_enabled=false&light_target=false"
                "&run_all_nodes=false&backend=MPI&image_name=mlbench%2F" +
                    image,
                "application/x-www-form-urlencoded", {}, false);
  };
  const ClientResponse unknown = create("tensorflow%3Alatest");
  EXPECT_EQ(unknown.status, 422);
  EXPECT_THAT(unknown.body, HasSubstr("mlbench/tensorflow-cifar10-resnet:latest"));
  const ClientResponse created = create("tensorflow-cifar10-resnet%3Alatest");
  EXPECT_EQ(created.status, 201) << created.body;
  EXPECT_EQ(planned["task"], "1a-tf");
  EXPECT_EQ(planned["backend"], "mpi");
  EXPECT_FALSE(planned.contains("framework"));
  EXPECT_EQ(home::read_spec(home() / "runs/Tf-4").task.task.optimizer.options["pattern"], "server");
}

TEST_F(MasterTest, ALightGoalOfTask0aIsRefusedByTheNameThatItsClientKnows) {
  options_.legacy_api = true;
  planner_.on_tasks = [] { return Json::array({{{"name", "0a"}, {"rules", ""}}}); };
  Json planned;
  planner_.on_plan = [&](const Json& request) -> plan::PlannedRuns {
    planned = request;
    throw UserError("this much is seen");
  };
  const auto ask = [&](const std::string& light) {
    const ClientResponse answer =
        send("POST", "/api/runs/",
             "name=a&num_workers=2&num_cpus=1.0&gpu_enabled=false&backend=GLOO&light_target=" + light +
                 "&image_name=mlbench%2Fpytorch-backend-benchmark%3Alatest",
             "application/x-www-form-urlencoded", {}, false);
    EXPECT_EQ(answer.status, 422);
    return Json::parse(answer.body)["message"].get<std::string>();
  };
  EXPECT_THAT(ask("true"), AllOf(HasSubstr("light_target true: task 0a"), Not(HasSubstr("--light"))));
  EXPECT_EQ(ask("false"), "this much is seen");
  EXPECT_EQ(planned["light"], false);
}

TEST_F(MasterTest, MlbenchsClientsGetWhatTheHostsOfTheExecutorHave) {
  options_.legacy_api = true;
  Json planned;
  planner_.on_plan = [&](const Json& request) -> plan::PlannedRuns {
    planned = request;
    throw UserError("this much is seen");
  };
  plan::ClusterOffer offer;
  planner_.on_offer = [&] { return offer; };
  const auto ask = [&](const std::string& cpus, const std::string& gpu) {
    planned = nullptr;
    const ClientResponse answer =
        send("POST", "/api/runs/",
             "name=a&num_workers=4&num_cpus=" + cpus + "&gpu_enabled=" + gpu +
                 "&light_target=true&backend=GLOO&image_name=mlbench%2Fpytorch-epsilon-logistic-regression-all-reduce"
                 "%3Alatest",
             "application/x-www-form-urlencoded", {}, false);
    EXPECT_EQ(answer.status, 422);
    return Json::parse(answer.body)["message"].get<std::string>();
  };
  struct Case {
    exec::HostsOffer hosts;
    const char* cpus;
    int64_t each;
  };
  for (const Case& one : {Case{{0, 8, 8}, "3", 2}, Case{{0, 2, 2}, "3", 1}, Case{{4, 64, 12}, "64", 12},
                          Case{{4, 64, 64}, "3.0", 3}, Case{{}, "48", 48}, Case{{}, "0", 1}}) {
    offer = {"kubernetes", one.hosts};
    ask(one.cpus, "false");
    EXPECT_EQ(planned["threads_per_worker"], one.each) << one.cpus;
    EXPECT_EQ(planned["gpu"], false);
  }
  offer.hosts.gpus = 0;
  EXPECT_THAT(ask("1", "true"), HasSubstr("no host of the executor 'kubernetes'"));
  EXPECT_TRUE(planned.is_null());
  for (const std::optional<int64_t> gpus : {std::optional<int64_t>(1), std::optional<int64_t>()}) {
    offer.hosts.gpus = gpus;
    EXPECT_EQ(ask("1", "true"), "this much is seen");
    EXPECT_EQ(planned["gpu"], true);
  }
}

TEST_F(MasterTest, ACustomImageIsForThoseWhoShowTheToken) {
  options_.legacy_api = true;
  Json planned;
  planner_.on_plan = [&](const Json& request) {
    planned = request;
    spec::RunSpec run;
    run.name = "planned-2";
    run.workers = 2;
    run.cache_dir = home() / "cache";
    spec::set_command(run, {{"true"}});
    return plan::PlannedRuns{{run}, {}};
  };
  const std::string form =
      "name=Mine-2&num_workers=2&num_cpus=1.0&gpu_enabled=false&light_target=true&image_name=custom_image"
      "&custom_image_name=team%2Fimage%3A1&custom_image_command=python3+train.py+%22a+b%22+%7Brank%7D";
  const auto send_form = [&](const std::string& more, bool token) {
    return send("POST", "/api/runs/", form + more, "application/x-www-form-urlencoded", {}, token);
  };
  const ClientResponse stranger = send_form("&backend=GLOO", false);
  EXPECT_EQ(stranger.status, 422);
  EXPECT_THAT(stranger.body, HasSubstr("show the token"));
  EXPECT_TRUE(planned.is_null());
  EXPECT_EQ(send_form("&backend=custom_backend&custom_backend=ucx&run_all_nodes=false", true).status, 422);
  const ClientResponse created = send_form("&backend=custom_backend&custom_backend=UCX&run_all_nodes=true", true);
  EXPECT_EQ(created.status, 201) << created.body;
  EXPECT_EQ(planned["image"], "team/image:1");
  EXPECT_EQ(planned["command"], Json({"python3", "train.py", "a b", "{rank}"}));
  EXPECT_EQ(planned["backend"], "ucx");
  EXPECT_FALSE(planned.contains("task") || planned.contains("light"));
}

// The second segment's wall clock is an hour behind: its points stand before the run was made.
TEST_F(MasterTest, AClockThatWentBackNeitherSortsNorHidesARunsPoints) {
  options_.legacy_api = true;
  report::RecordJson record = report::make_record("r-1", 1, 40, 5400, true);
  record["segments"] = Json::array({Json::object(), Json::object()});
  write_run(record);
  const fs::path folder = home() / "runs" / "r-1";
  report::start_spool(folder, 1, 0);
  report::append_step(folder, 1, 0, report::make_step(0, 25, 0, 4.0, 1'000'000, 20'000'000));
  report::append_step(folder, 1, 0, report::make_step(25, 25, 1, 3.0, 1'000'000, 40'000'000));
  report::start_spool(folder, 2, 0, -3'600'000'000);
  report::append_step(folder, 2, 0, report::make_step(50, 25, 2, 2.0, 1'000'000, 20'000'000));
  report::append_step(folder, 2, 0, report::make_step(75, 25, 3, 1.0, 1'000'000, 40'000'000));

  const auto ask = [&](const std::string& query) {
    const ClientResponse answer = send("GET", "/api/metrics/1/?metric_type=run" + query, "", "", {}, false);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.body;
  };
  const auto values_of = [](const Json& points) {
    std::vector<std::string> values;
    for (const Json& point : points) values.push_back(point["value"]);
    return values;
  };
  // A client's value has the date that the client gave.
  const std::string posted =
      "run_id=1&name=posted+%40+0&value=7&metadata=&cumulative=False&date=2026-01-31+11%3A30%3A00";
  EXPECT_EQ(send("POST", "/api/metrics/", posted, "application/x-www-form-urlencoded", {}, false).status, 201);
  const Json lists = Json::parse(ask(""));
  EXPECT_THAT(lists["posted @ 0"], SizeIs(1));
  EXPECT_THAT(values_of(lists["train_loss @ 0"]), ElementsAre("4", "3", "2", "1"));
  EXPECT_THAT(lists["CumulativeTrainTimeEpoch @ 0"], SizeIs(4));
  const Json all = Json::parse(send("GET", "/api/metrics/", "", "", {}, false).body);
  EXPECT_THAT(values_of(all["run_metrics"]["r-1"]["train_loss @ 0"]), ElementsAre("4", "3", "2", "1"));
  // What a client asks for by date, it gets by date.
  EXPECT_THAT(Json::parse(ask("&since=2026-01-31T12:00:00.000Z"))["train_loss @ 0"], SizeIs(2));
  Json zipped;
  for (const report::ZipMember& member : report::read_zip(ask("&format=zip"))) {
    EXPECT_NE(member.name, "result_posted @ 0.json") << "before the run was made";
    if (member.name == "result_train_loss @ 0.json") zipped = Json::parse(member.content);
  }
  EXPECT_THAT(values_of(zipped), ElementsAre("4", "3", "2", "1"));
}

// MLBench's clients write CPUs with a fraction.
TEST_F(MasterTest, ClientsGetTheCpusThatTheExecutorCanGive) {
  options_.legacy_api = true;
  plan::ClusterOffer offer{"local", {.gpus = 0, .cores = 8, .cores_on_host = 8}};
  planner_.on_offer = [&] { return offer; };
  Json planned;
  planner_.on_plan = [&](const Json& request) {
    planned = request;
    spec::RunSpec run;
    run.name = "planned-1";
    run.executor = offer.executor;
    run.cache_dir = home() / "cache";
    spec::set_command(run, {{"true"}});
    return plan::PlannedRuns{{run}, {}};
  };
  int number = 0;
  const auto cpus_for = [&](const std::string& given, const std::string& image) {
    const std::string form = fmt::format(
        "name=c-{}&num_workers=1&num_cpus={}&gpu_enabled=false&light_target=true&backend=gloo&image_name={}", ++number,
        given, image);
    const ClientResponse answer = send("POST", "/api/runs/", form, "application/x-www-form-urlencoded");
    EXPECT_EQ(answer.status, 201) << answer.body;
    return planned["threads_per_worker"];
  };
  const std::string official = "mlbench%2Fpytorch-epsilon-logistic-regression-all-reduce%3Alatest";
  const std::string custom = "custom_image&custom_image_name=i&custom_image_command=true";
  EXPECT_EQ(cpus_for("1.5", official), 1) << "programs of this host";
  EXPECT_EQ(cpus_for("100000", official), 8) << "what there is";
  EXPECT_EQ(cpus_for("0.5", custom), 0.5) << "a container";
  offer = {"kubernetes", {}};
  EXPECT_EQ(cpus_for("2.5", official), 2.5);
  EXPECT_EQ(cpus_for("1e300", official), 1'000'000) << "nobody knows what there is";
  EXPECT_EQ(cpus_for("3.0", custom), 3);
  EXPECT_EQ(cpus_for("0", custom), 1);
}

TEST_F(MasterTest, ACloneHasTheLimitOfCpusWithTheSameExecutor) {
  spec::RunSpec run;
  run.name = "a-1";
  run.executor = "kubernetes";
  run.threads_per_worker = 2;
  run.cpus = 2.5;
  run.cache_dir = home() / "cache";
  run.asked = {{"executor", "kubernetes"}, {"threads_per_worker", 2.5}, {"command", {"true"}}};
  spec::set_command(run, {{"true"}});
  home::create_run(home(), run, home::Waiting{});
  Json planned;
  planner_.on_plan = [&](const Json& request) -> plan::PlannedRuns {
    planned = request;
    throw UserError("enough");
  };
  EXPECT_EQ(send("POST", "/api/v1/runs/a-1/clone", R"({"name": "b"})").status, 422);
  EXPECT_EQ(planned["threads_per_worker"], 2.5);
  EXPECT_FALSE(planned.contains("cpus"));
  EXPECT_EQ(send("POST", "/api/v1/runs/a-1/clone", R"({"name": "b", "executor": "local"})").status, 422);
  EXPECT_EQ(planned["threads_per_worker"], 2);
}

TEST_F(MasterTest, APlanShowsTheRunsAndMakesNone) {
  planner_.on_plan = [&](const Json&) {
    spec::RunSpec run;
    run.name = "planned-2";
    run.workers = 2;
    run.cpus = 2.5;
    run.cache_dir = home() / "cache";
    spec::set_task(run, spec::find_task("fashion-mnist", "", "", {}), {});
    return plan::PlannedRuns{{run}, {"a warning"}};
  };
  for (const bool taken : {false, true}) {
    const ClientResponse answer = send("POST", "/api/v1/plan", "{\"no_wait\": true}");
    ASSERT_EQ(answer.status, 200) << answer.body;
    const Json planned = Json::parse(answer.body);
    EXPECT_EQ(planned["warnings"], Json({"a warning"}));
    ASSERT_THAT(planned["runs"], SizeIs(1));
    const Json& run = planned["runs"][0];
    EXPECT_EQ(run["name"], "planned-2");
    EXPECT_EQ(run["taken"], taken);
    EXPECT_EQ(run["task"], "fashion-mnist");
    EXPECT_EQ(run["workers"], 2);
    EXPECT_EQ(run["device"], "cpu");
    EXPECT_EQ(run["cpus"], 2.5);
    EXPECT_EQ(run["overrides"], Json::array());
    EXPECT_EQ(fs::exists(home() / "runs" / "planned-2"), taken);
    fs::create_directories(home() / "runs" / "planned-2");
  }
  EXPECT_EQ(get("/api/v1/runs")["total"], 0);
}

TEST_F(MasterTest, WhatCannotStartIsRefusedAndAPlanSaysWhy) {
  planner_.on_plan = [&](const Json&) {
    spec::RunSpec run;
    run.name = "planned-1";
    run.cache_dir = home() / "cache";
    spec::set_command(run, {{"true"}});
    return plan::PlannedRuns{{run}, {}};
  };
  planner_.what_keeps_runs = "executor slurm: there is no sbatch in PATH";
  const std::string why = "planned-1 cannot start here: executor slurm: there is no sbatch in PATH";
  const ClientResponse refused = send("POST", "/api/v1/runs", "{}");
  EXPECT_EQ(refused.status, 422);
  EXPECT_THAT(refused.body, HasSubstr(why));
  EXPECT_FALSE(fs::exists(home() / "runs/planned-1"));
  const ClientResponse planned = send("POST", "/api/v1/plan", "{}");
  EXPECT_EQ(planned.status, 200);
  EXPECT_THAT(Json::parse(planned.body)["warnings"][0].get<std::string>(), HasSubstr(why));
}

// Nodes of the default executor's cluster are shown, and of those of active runs.
TEST_F(MasterTest, ShowsTheNodesOfTheClustersInUse) {
  planner_.usual = "kubernetes";
  planner_.on_nodes = [](const std::string& executor, const Json& engine) -> exec::ClusterNodes {
    if (executor == "kubernetes") return {.nodes = {}, .problem = "nobody answers"};
    return {.nodes = {{.name = spec::engine_text(engine, "hosts")}}};
  };
  int number = 0;
  for (const char* hosts : {"h1:2", "h2:4", "h1:2"}) {
    spec::RunSpec run;
    run.name = fmt::format("r{}-1", ++number);
    run.executor = "mpirun";
    run.engine["hosts"] = hosts;
    run.cache_dir = home() / "cache";
    spec::set_command(run, {{"true"}});
    home::create_run(home(), run, home::Waiting{});
  }
  Json shown;
  for (int i = 0; i < 1200 && (shown.is_null() || shown["clusters"].size() < 3); ++i) {
    shown = get("/api/v1/nodes");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(shown["ranks"], Json::array());
  ASSERT_EQ(shown["clusters"].size(), 3U);
  EXPECT_EQ(shown["clusters"][0], Json({{"executor", "kubernetes"},
                                        {"context", nullptr},
                                        {"usual", true},
                                        {"nodes", Json::array()},
                                        {"problem", "nobody answers"}}));
  std::set<std::string> hosts;
  for (const Json& cluster : {shown["clusters"][1], shown["clusters"][2]}) {
    EXPECT_EQ(cluster["usual"], false);
    hosts.insert(cluster["nodes"][0]["name"].get<std::string>());
  }
  EXPECT_THAT(hosts, testing::ElementsAre("h1:2", "h2:4"));
}

// ---- submissions ----------------------------------------------------------------------------------------------------

// Plans what a request names: its runs are queued, but only started after the test.
class Submissions : public MasterTest {
 protected:
  Submissions() {
    planner_.on_plan = [this](const Json& request) {
      plan::PlannedRuns planned;
      for (const Json& name : request.at("names")) planned.runs.push_back(run_named(name));
      return planned;
    };
  }
  spec::RunSpec run_named(const std::string& name) const {
    spec::RunSpec run;
    run.name = name;
    run.cache_dir = home() / "cache";
    spec::set_task(run, spec::find_task("fashion-mnist", "", "", {}), {});
    return run;
  }
  int submit(const std::vector<std::string>& names) {
    return send("POST", "/api/v1/runs", Json{{"names", names}}.dump()).status;
  }
  std::vector<std::string> run_names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(home() / "runs")) {
      if (const std::string name = entry.path().filename(); !name.starts_with('.')) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  // This run folder was made by another process.
  void make_folder(const std::string& name, const Json& spec) const {
    fs::create_directories(home() / "runs" / name);
    std::ofstream(home() / "runs" / name / "spec.json") << spec;
  }
};

TEST_F(Submissions, WhoLosesARaceForANameLeavesNothing) {
  master();
  for (int round = 0; round < 20; ++round) {
    const std::string first = fmt::format("r{}", round);
    int alone = 0, all = 0;
    std::thread other([&] { alone = submit({first + "-2"}); });
    all = submit({first + "-1", first + "-2", first + "-3"});
    other.join();
    EXPECT_THAT((std::vector<int>{alone, all}), testing::UnorderedElementsAre(201, 409)) << round;
    std::vector<std::string> made;
    for (const std::string& name : run_names()) {
      if (name.starts_with(first + "-")) made.push_back(name);
    }
    EXPECT_THAT(made, SizeIs(all == 201 ? 3 : 1)) << round;
  }
}

// Uses memory as the temporary folder, since the test makes thousands of folders.
struct InMemory {
  InMemory() {
    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 1);
  }
  ~InMemory() { before ? setenv("TMPDIR", before->c_str(), 1) : unsetenv("TMPDIR"); }
  const std::optional<std::string> before = environment_variable("TMPDIR");
};
class ManyRuns : InMemory, public Submissions {};

TEST_F(ManyRuns, ManyAtOnceSucceed) {
  constexpr int kRuns = 10'000, kAtOnce = 20, kElsewhere = 5'000'000;
  for (int i = 1; i <= kRuns; ++i) make_folder(fmt::format("old{}-1", i), {{"id", i}});
  master();
  ASSERT_EQ(submit({"first-1"}), 201);  // looks at them, once
  for (int i = 1; i <= kRuns; ++i) make_folder(fmt::format("old{}-1", i), {{"id", kElsewhere}});
  std::vector<int> answers(kAtOnce);
  std::vector<std::thread> clients;
  for (int i = 0; i < kAtOnce; ++i) {
    clients.emplace_back([&, i] { answers[i] = submit({fmt::format("new{}-1", i)}); });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_THAT(answers, testing::Each(201));
  std::set<int64_t> ids;
  for (int i = 0; i < kAtOnce; ++i) {
    ids.insert(read_json_file(home() / "runs" / fmt::format("new{}-1", i) / "spec.json")["id"].get<int64_t>());
  }
  EXPECT_THAT(ids, SizeIs(kAtOnce));
  EXPECT_GT(*ids.begin(), kRuns + 1);
  EXPECT_LT(*ids.rbegin(), kElsewhere) << "others were read";
}

// A master dies while it takes a set of runs.
TEST_F(Submissions, ASetThatWasCutShortIsWholeOrGoneUnderTheNextMaster) {
  for (const auto& [step, made] : {std::pair("written", 0), std::pair("moved", 3)}) {
    SCOPED_TRACE(step);
    const pid_t child = fork();
    if (child == 0) {
      home::create_runs(home(), {run_named("s-1"), run_named("s-2"), run_named("s-3")}, home::Waiting{},
                        [step = std::string(step)](const char* now) {
                          if (now == step) raise(SIGKILL);
                        });
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(get("/api/v1/runs")["total"], made);
    EXPECT_THAT(run_names(), SizeIs(made));
    EXPECT_TRUE(fs::is_empty(home() / "runs" / ".staging"));
    EXPECT_EQ(submit({"s-2", "t-1"}), made == 0 ? 201 : 409);
    master_.reset();
    fs::remove_all(home() / "runs");
  }
}

TEST_F(Submissions, ARetryKeepsTheNameOfTheRun) {
  ASSERT_EQ(submit({"resnet.v1-1", "resnet.v1-1.2", "resnet.7-1"}), 201);
  const auto retried = [&](const std::string& name) {
    return Json::parse(send("POST", "/api/v1/runs/" + name + "/retry", "{}").body)["runs"][0]["name"];
  };
  EXPECT_EQ(retried("resnet.v1-1"), "resnet.v1-1.3");
  EXPECT_EQ(retried("resnet.v1-1.2"), "resnet.v1-1.4");
  EXPECT_EQ(retried("resnet.7-1"), "resnet.7-1.2");
  const std::string longest = std::string(61, 'x') + "-1";
  ASSERT_EQ(submit({longest}), 201);
  EXPECT_EQ(send("POST", "/api/v1/runs/" + longest + "/retry", "{}").status, 400);
}

// ---- parts ----------------------------------------------------------------------------------------------------------

TEST(Dates, AreReadInTodaysSpellings) {
  const int64_t noon = 1'769'860'800'000'000;  // 2026-01-31 12:00 UTC
  for (const char* text : {"2026-01-31T12:00:00Z", "2026-01-31 12:00:00", "2026-01-31 12:00", "2026-01-31T12:00:00.0Z",
                           "2026-01-31T13:00:00+01:00", "2026-01-31 10:30:00-0130"}) {
    EXPECT_EQ(parse_date(text), noon) << text;
  }
  EXPECT_EQ(parse_date("2026-01-31 12:00:00.123456"), noon + 123'456);
  EXPECT_EQ(parse_date("2026-01-31T12:00:00.5Z"), noon + 500'000);
  for (const char* text :
       {"", "now", "2026-01-31", "2026-02-30 12:00:00", "2026-13-01 12:00", "2026-01-31 24:00:00",
        "2026-01-31 12:00:60", "2026-01-31T12:00:00.1234567Z", "2026-01-31T12:00:00Zx", "2026-01-31T12:00:00+x",
        "-2026-01-31 12:00", "2400-01-01 12:00", "2026-01-31T12:00:26-..-36Z", "2026-00-31 12:0-0:0\xe8:020+0",
        "2026-01-31T12:00:00Z+0100", "2026-01-31T12:00:00-", "2026-01-31T12:00.5Z"}) {
    EXPECT_EQ(parse_date(text), std::nullopt) << text;
  }
}

TEST(Dates, AreWrittenInTodaysSpellings) {
  const int64_t noon = 1'769'860'800'000'000;
  EXPECT_EQ(format_date(noon, Fraction::kSix), "2026-01-31T12:00:00.000000Z");
  EXPECT_EQ(format_date(noon, Fraction::kSixOrNone), "2026-01-31T12:00:00Z");
  EXPECT_EQ(format_date(noon + 1'999, Fraction::kSixOrNone), "2026-01-31T12:00:00.001999Z");
  EXPECT_EQ(format_date(noon + 1'999, Fraction::kThreeOrNone), "2026-01-31T12:00:00.001Z");
  EXPECT_EQ(format_date(noon + 999, Fraction::kThreeOrNone), "2026-01-31T12:00:00Z");
}

TEST(PointLines, AreRead) {
  const ParsedBatch batch = parse_points(
      "{\"rank\": 1, \"sequence\": 5, \"step\": 3, \"time\": 2.5, \"values\": {\"loss\": 0.5, \"n\\u0061n\": null}}\n"
      "\n"
      "  {\"sequence\":6,\"rank\":1,\"time\":\"1970-01-01T00:00:01Z\",\"values\":{\"loss\":1e3}}\r\n"
      "{\"rank\":0,\"sequence\":0}",
      77);
  ASSERT_THAT(batch.records, SizeIs(3));
  EXPECT_EQ(batch.records[0].rank, 1);
  EXPECT_EQ(batch.records[0].sequence, 5);
  EXPECT_EQ(batch.records[0].step, 3);
  EXPECT_EQ(batch.records[0].time_us, 2'500'000);
  ASSERT_THAT(batch.records[0].values, SizeIs(2));
  EXPECT_EQ(batch.records[0].values[0], std::pair(std::string_view("loss"), 0.5));
  EXPECT_EQ(batch.records[0].values[1].first, "nan");
  EXPECT_TRUE(batch.records[0].values[1].second != batch.records[0].values[1].second);
  EXPECT_EQ(batch.records[1].time_us, 1'000'000);
  EXPECT_EQ(batch.records[1].values[0].second, 1000);
  EXPECT_EQ(batch.records[2].time_us, 77);
  EXPECT_THAT(parse_points("", 0).records, IsEmpty());
}

TEST(PointLines, ErrorsNameTheLine) {
  const std::string good = "{\"rank\":0,\"sequence\":1,\"values\":{\"a\":1}}\n";
  for (const char* bad :
       {"{", "[]", "1", "null", "{\"rank\":0}", "{\"rank\":-1,\"sequence\":1}", "{\"rank\":0,\"sequence\":1.5}",
        "{\"rank\":0,\"sequence\":1,\"other\":1}", "{\"rank\":0,\"sequence\":1,\"values\":{\"a\":\"1\"}}",
        "{\"rank\":0,\"sequence\":1,\"values\":[1]}", "{\"rank\":0,\"sequence\":1,\"values\":{\"\":1}}",
        "{\"rank\":0,\"sequence\":1,\"time\":\"x\"}", "{\"rank\":0,\"sequence\":1,\"time\":1e300}",
        "{\"rank\":0,\"sequence\":1} {}", "{\"rank\":0,\"sequence\":1", "\xff\xfe",
        "{\"rank\":9999999999999999999,\"sequence\":1}"}) {
    SCOPED_TRACE(bad);
    expect_error<HttpError>([&] { parse_points(good + bad + "\n", 0); }, "line 2");
  }
}

}  // namespace
}  // namespace mlbench::master
