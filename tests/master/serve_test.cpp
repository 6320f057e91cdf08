// `mlbench serve` as a program, with real supervisors and fake ranks: runs that come over HTTP, masters that die.

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <random>
#include <thread>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/process.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/home/owner.h"
#include "mlbench/net/http/client.h"
#include "mlbench/record/step_reader.h"
#include "mlbench/report/archive/zip.h"
#include "tests/support/processes.h"

namespace mlbench::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using net::http::ClientRequest;
using net::http::ClientResponse;
using test::eventually;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr auto kPatience = 120s;

class Serve : public testing::Test {
 protected:
  Serve()
      : mark_(folder_.path()),
        home_variable_("MLBENCH_HOME", home().string()),
        lock_variable_("MLBENCH_CORE_LOCK", (folder_.path() / "cores").string()),
        worker_variable_("MLBENCH_WORKER", FAKE_CLI_WORKER) {
    setenv("FAKE_STEPS", "20", 1);
    setenv("FAKE_STEP_MS", "2", 1);
    unsetenv("MLBENCH_DATA_DIR");
    fs::create_directories(home());
  }
  ~Serve() override { mark_.kill_all(); }

  fs::path home() const { return folder_.path() / "home"; }
  static std::string program() { return environment_variable("MLBENCH_TEST_MLBENCH").value(); }

  ChildProcess spawn(std::vector<std::string> arguments, const std::string& output) const {
    ProcessOptions options;
    options.arguments = std::move(arguments);
    options.arguments.insert(options.arguments.begin(), program());
    options.arguments.insert(options.arguments.begin(), before_.begin(), before_.end());
    options.output = folder_.path() / output;
    return ChildProcess::start(options);
  }
  ProcessOutput mlbench(std::vector<std::string> arguments) const {
    ProcessOptions options;
    options.arguments = std::move(arguments);
    options.arguments.insert(options.arguments.begin(), program());
    return run_process(options, kPatience);
  }
  std::string output_of(const std::string& name) const {
    return fs::exists(folder_.path() / name) ? read_file(folder_.path() / name) : "";
  }

  void start(std::vector<std::string> more = {}, const std::string& listen = "127.0.0.1:0") {
    std::vector<std::string> arguments = {"serve", "--listen", listen};
    arguments.insert(arguments.end(), more.begin(), more.end());
    serve_.emplace(spawn(arguments, "serve.log"));
    ASSERT_TRUE(eventually([&] { return home::find_master(home()).has_value() || serve_->wait(0ms); }));
    const auto address = home::find_master(home());
    ASSERT_TRUE(address) << output_of("serve.log");
    url_ = address->url;
    token_ = home::read_token(address->token_file);
  }
  void end_master(int signal = SIGTERM) {
    kill(serve_->pid(), signal);
    const auto end = serve_->wait(kPatience);
    ASSERT_TRUE(end);
    EXPECT_EQ(end->code, 0) << output_of("serve.log");
  }
  void kill_master() {
    kill(serve_->pid(), SIGKILL);
    ASSERT_TRUE(serve_->wait(kPatience));
  }

  ClientResponse send(const std::string& method, const std::string& path, const std::string& body = "",
                      const std::string& type = "application/json") const {
    ClientRequest request;
    request.method = method;
    request.url = url_ + path;
    request.body = body;
    request.content_type = type;
    request.headers = {{"Authorization", "Bearer " + token_}};
    return net::http::Client().send(request);
  }
  Json get(const std::string& path) const {
    const ClientResponse response = send("GET", "/api/v1" + path);
    EXPECT_EQ(response.status, 200) << path << ": " << response.body;
    return Json::parse(response.body);
  }
  Json post(const std::string& path, const Json& body, int status) const {
    const ClientResponse response = send("POST", "/api/v1" + path, body.dump());
    EXPECT_EQ(response.status, status) << path << ": " << response.body;
    return Json::parse(response.body);
  }
  static Json request(const std::string& name, std::vector<int> workers = {1}) {
    return {{"name", name}, {"workers", workers}, {"task", "fashion-mnist"}, {"synthetic", true}};
  }
  std::string state_of(const std::string& run) const {
    const fs::path file = home() / "runs" / run / "run.json";
    return fs::exists(file) ? read_json_file(file).value("state", "") : "";
  }
  bool becomes(const std::string& run, const std::string& state) const {
    return eventually([&] { return state_of(run) == state; });
  }
  uintmax_t spool_bytes(const std::string& run) const {
    std::error_code error;
    const auto size = fs::file_size(home() / "runs" / run / "spool" / "rank-0.seg-1.steps", error);
    return error ? 0 : size;
  }

  TemporaryFolder folder_;
  test::ProcessMark mark_;
  test::Variable home_variable_, lock_variable_, worker_variable_;
  std::optional<ChildProcess> serve_;
  std::string url_, token_;
  std::vector<std::string> before_;  // stands before `mlbench` in what spawn() starts
};

// ---- the program ----------------------------------------------------------------------------------------------------

TEST_F(Serve, EndsOrderlyAndSaysWhereItIs) {
  start();
  EXPECT_TRUE(eventually([&] { return output_of("serve.log").find("token in ") != std::string::npos; }));
  EXPECT_THAT(output_of("serve.log"), AllOf(HasSubstr("serving " + home().string() + " at http://127.0.0.1:"),
                                            HasSubstr("token in " + (home() / "token").string())));
  const ProcessOutput dashboard = mlbench({"dashboard"});
  EXPECT_EQ(dashboard.standard_output, url_ + "\n");
  EXPECT_THAT(dashboard.standard_error, HasSubstr(url_ + "/#login="));
  EXPECT_THAT(dashboard.standard_error, Not(HasSubstr(token_)));
  EXPECT_EQ(mlbench({"get-dashboard-url"}).standard_output, url_ + "\n");
  const Json links = Json::parse(mlbench({"dashboard", "--json"}).standard_output);
  EXPECT_EQ(links["url"], url_);
  const std::string link = links["login_url"];
  const Json code = {{"code", link.substr(link.find('=') + 1)}};
  post("/session", code, 201);
  post("/session", code, 401);
  for (const int signal : {SIGTERM, SIGINT}) {
    end_master(signal);
    EXPECT_EQ(mlbench({"dashboard"}).end.code, 2);
    start();
  }
}

TEST_F(Serve, WrongInputIsSaid) {
  start();
  const auto expect = [&](std::vector<std::string> arguments, const std::string& part) {
    arguments.insert(arguments.begin(), "serve");
    const ProcessOutput output = mlbench(arguments);
    EXPECT_EQ(output.end.code, 2);
    EXPECT_THAT(output.standard_error, HasSubstr(part));
  };
  const std::string port = url_.substr(url_.rfind(':') + 1);
  expect({}, "another mlbench serve owns");
  expect({"--home", (folder_.path() / "b").string(), "--listen", "127.0.0.1:" + port},
         "another program uses this port");
  expect({"--home", (folder_.path() / "b").string(), "--listen", "nonsense"}, "expected ADDRESS:PORT");
  expect({"--home", (folder_.path() / "b").string(), "--certificate", "x"}, "both --certificate and --key");
  expect({"--home", (folder_.path() / "b").string(), "--data-dir", "/no/such"}, "is not a folder");
  expect({"--home", (folder_.path() / "b").string(), "--stop-runs", "soon"}, "--stop-runs 'soon'");
  std::ofstream(folder_.path() / "file") << "x";
  expect({"--home", (folder_.path() / "file").string()}, "file");
}

// ---- runs -----------------------------------------------------------------------------------------------------------

// With real ranks: made by the command and over REST, watched, cloned, stopped, downloaded.
TEST_F(Serve, BenchmarksOfCollectivesAreRunsOfTheMaster) {
  const std::string worker = environment_variable("MLBENCH_TEST_WORKER").value_or("");
  if (!fs::exists(worker)) GTEST_SKIP() << "missing capability: mlbench-worker (MLBENCH_WORKER=OFF)";
  const test::Variable real_worker("MLBENCH_WORKER", worker);
  start();
  const std::vector<std::string> bench = {"bench", "collectives", "all_reduce", "barrier", "-k",     "2",
                                          "-e",    "64",          "-n",         "5",       "--name", "b"};
  for (const char* name : {"b-2", "b-2.2"}) {
    const ProcessOutput output = mlbench(bench);
    EXPECT_EQ(output.end.code, 0) << output.standard_error;
    EXPECT_THAT(output.standard_error, HasSubstr(name + std::string(" belongs to the master")));
    EXPECT_THAT(output.standard_output,
                AllOf(HasSubstr("Collective test starting: all_reduce"), HasSubstr("Barrier Latency Test")));
    EXPECT_EQ(get(std::string("/runs/") + name)["collectives"]["results"].size(), 5U);
  }
  std::vector<std::string> local = bench;
  local.emplace_back("--local");
  EXPECT_THAT(mlbench(local).standard_error, Not(HasSubstr("belongs")));
  EXPECT_EQ(state_of("b-2.3"), "finished");

  EXPECT_EQ(get("/tasks")["tasks"][0]["name"], "0a");
  const Json task = {{"name", "r"}, {"workers", {2}}, {"task", "0a"}};
  EXPECT_EQ(post("/plan", task, 200)["runs"][0]["division"], "closed");
  post("/runs", task, 201);
  ASSERT_TRUE(eventually([&] { return get("/runs/r-2")["collectives"]["results"].size() >= 2; }));
  post("/runs/r-2/stop", Json::object(), 202);
  ASSERT_TRUE(becomes("r-2", "stopped"));
  EXPECT_GE(get("/runs/r-2")["collectives"]["results"].size(), 2U);
  EXPECT_THAT(get("/runs?q=r-2")["runs"][0]["evaluation"].dump(), HasSubstr(" rows, "));
  EXPECT_EQ(send("GET", "/api/v1/runs/r-2/download").status, 200);
  post("/runs", task, 409);

  Json small = {{"name", "b"},
                {"workers", {2}},
                {"next_repeat", true},
                {"check_collectives", true},
                {"collectives", {{"operations", {"reduce"}}, {"sizes", {{"end_bytes", 16}}}, {"iterations", 5}}}};
  EXPECT_EQ(post("/runs", small, 201)["runs"][0]["name"], "b-2.4");
  ASSERT_TRUE(becomes("b-2.4", "finished"));
  post("/runs/b-2.4/clone", {{"name", "c"}}, 201);
  ASSERT_TRUE(becomes("c-2", "finished"));
  EXPECT_EQ(get("/runs/c-2")["collectives"]["config"], get("/runs/b-2.4")["collectives"]["config"]);
  EXPECT_EQ(get("/runs/c-2")["comm_stack"], "check(gloo)");
  small["collectives"]["opperations"] = 1;
  EXPECT_THAT(post("/runs", small, 422)["message"].dump(), HasSubstr("unknown key 'opperations'"));
}

TEST_F(Serve, ARunFromItsRequestToItsDeletion) {
  start();
  const Json created = post("/runs", request("r", {1, 2}), 201);
  ASSERT_THAT(created["runs"], SizeIs(2));
  EXPECT_EQ(created["runs"][0]["name"], "r-1");
  EXPECT_EQ(created["runs"][0]["state"], "queued");
  ASSERT_TRUE(becomes("r-1", "finished"));
  ASSERT_TRUE(becomes("r-2", "finished"));
  // One after the other.
  const Json first = get("/runs/r-1"), second = get("/runs/r-2");
  EXPECT_LT(first["finished_at"].get<std::string>(), second["started_at"].get<std::string>());
  EXPECT_EQ(get("/runs/" + std::to_string(second["id"].get<int>())), second);
  EXPECT_FALSE(second["oversubscribed"].is_null());

  ASSERT_TRUE(eventually([&] { return get("/runs?state=finished")["total"] == 2; }));
  EXPECT_EQ(get("/runs?limit=1")["runs"][0]["name"], "r-2");
  EXPECT_EQ(get("/runs?limit=1&offset=1")["runs"][0]["name"], "r-1");
  EXPECT_EQ(get("/runs?q=-2")["total"], 1);

  const Json logs = get("/runs/r-2/logs")["logs"];
  EXPECT_THAT(logs, SizeIs(5)) << "two of each rank, and the supervisor's";
  EXPECT_THAT(get("/runs/r-2/logs?stream=stdout")["logs"], SizeIs(2));
  const ClientResponse log = send("GET", "/api/v1/runs/r-2/logs/1?stream=stderr");
  EXPECT_THAT(log.body, HasSubstr("fake worker, rank 1 of 2\n"));
  EXPECT_EQ(send("GET", "/api/v1/runs/r-2/logs/1?stream=stderr&offset=5&limit=6").body, log.body.substr(5, 6));
  EXPECT_EQ(send("GET", "/api/v1/runs/r-2/logs/1?stream=stderr&offset=-3").body, log.body.substr(log.body.size() - 3));
  EXPECT_EQ(send("GET", "/api/v1/runs/r-2/logs/1?stream=stderr&follow=true").body, log.body);
  EXPECT_EQ(send("GET", "/api/v1/runs/r-2/logs/1?stream=stdout").body, "");
  EXPECT_EQ(send("GET", "/api/v1/runs/r-2/logs/1").status, 400) << "which of the two?";
  EXPECT_EQ(send("GET", "/api/v1/runs/r-2/logs/1?stream=both").status, 400);
  EXPECT_EQ(send("GET", "/api/v1/runs/r-2/logs/2?stream=stdout").status, 404);
  EXPECT_EQ(send("GET", "/api/v1/runs/r-2/logs/all?stream=stdout").body, "");
  const std::string all = send("GET", "/api/v1/runs/r-2/logs/all").body;
  EXPECT_THAT(all, AllOf(HasSubstr("rank 0 err | fake worker, rank 0 of 2\n"),
                         HasSubstr("rank 1 err | fake worker, rank 1 of 2\n")));
  std::string paged, cursor;
  for (size_t before = 1; paged.size() != before;) {
    before = paged.size();
    const ClientResponse page = send("GET", "/api/v1/runs/r-2/logs/all?limit=10&cursor=" + cursor);
    for (const auto& [name, value] : page.headers) {
      if (name == "X-Next-Cursor") cursor = value;
    }
    paged += page.body;
  }
  EXPECT_EQ(paged, all);
  EXPECT_EQ(send("GET", "/api/v1/runs/r-2/logs/all?cursor=1:x:2").status, 400);
  EXPECT_EQ(send("GET", "/api/v1/runs/r-2/logs/all?follow=true").status, 400);
  EXPECT_EQ(send("GET", "/api/v1/runs/r-2/logs/..%2f..%2fspec").status, 404);

  const auto members = report::read_zip(send("GET", "/api/v1/runs/r-2/download").body);
  EXPECT_THAT(members, Contains(testing::Field(&report::ZipMember::name, "run.json")));
  const ClientResponse events = send("GET", "/api/v1/runs/r-2/tensorboard?rank=1");
  EXPECT_THAT(events.body, HasSubstr("brain.Event:2"));
  EXPECT_THAT(events.body, HasSubstr("train_loss"));
  EXPECT_EQ(send("GET", "/api/v1/runs/r-2/tensorboard?rank=2").status, 400);
  EXPECT_EQ(get("/compare?runs=r-1,r-2")["baseline_workers"], 1);
  EXPECT_EQ(get("/scaling?runs=r-1,r-2")["studies"][0]["lines"][0]["points"][1]["workers"], 2);

  post("/runs", request("r", {1}), 409);
  EXPECT_EQ(post("/runs/r-1/retry", Json::object(), 201)["runs"][0]["name"], "r-1.2");
  Json clone = {{"name", "c"}, {"seed", 7}};
  EXPECT_EQ(post("/runs/r-2/clone", clone, 201)["runs"][0]["name"], "c-2");
  ASSERT_TRUE(becomes("c-2", "finished"));
  EXPECT_EQ(get("/runs/c-2")["seed"], 7);
  const fs::path file = home() / "runs/r-1/spec.json";
  Json older = read_json_file(file);
  older.erase("asked");
  write_json_file(file, older);
  EXPECT_THAT(post("/runs/r-1/clone", clone, 422)["message"].get<std::string>(),
              HasSubstr("does not hold the request that made it"));
  post("/runs/r-1/stop", Json::object(), 409);
  EXPECT_EQ(send("DELETE", "/api/v1/runs/r-2").status, 204);
  EXPECT_EQ(send("GET", "/api/v1/runs/r-2").status, 404);
  EXPECT_FALSE(fs::exists(home() / "runs/r-2"));
}

TEST_F(Serve, WhatCannotRunIsRefusedWithTheReason) {
  start();
  const auto refused = [&](Json body, int status) { return post("/runs", body, status)["message"].get<std::string>(); };
  EXPECT_THAT(refused({{"name", "x"}}, 422), HasSubstr("no worker count"));
  Json body = request("x");
  body["task"] = "no-such";
  EXPECT_THAT(refused(body, 422), HasSubstr("no-such"));
  body = request("x");
  body["task"] = "/etc/passwd.toml";
  EXPECT_THAT(refused(body, 422), HasSubstr("task_text"));
  body = request("../x");
  EXPECT_THAT(refused(body, 422), HasSubstr("run name"));
  body = request("x");
  body["backend"] = "nccl";
  EXPECT_THAT(refused(body, 422), HasSubstr("built without CUDA"));
  body = request("x");
  body["wrokers"] = 1;
  EXPECT_THAT(refused(body, 422), HasSubstr("unknown field 'wrokers': did you mean 'workers'?"));
  body = request("x");
  body["data_dir"] = "relative";
  EXPECT_THAT(refused(body, 422), HasSubstr("neither an absolute path nor s3://BUCKET/PREFIX"));
  EXPECT_EQ(get("/runs")["total"], 0);
}

// By its own description: what is in the range of a field is planned, and nothing else.
TEST_F(Serve, NumbersBeyondTheirRangesAreRefused) {
  start();
  const Json fields = get("/openapi.json")["components"]["schemas"]["RunRequest"]["properties"];
  int checked = 0;
  for (const auto& [name, field] : fields.items()) {
    const bool list = field["type"] == "array";
    const Json& number = list ? field["items"] : field;
    if (!number.contains("minimum")) continue;
    ++checked;
    const auto with = [&, key = name](const Json& value) {
      Json body = request("x", {1});
      if (key == "ranks_per_host" || key == "requeue") body.update({{"executor", "mpirun"}, {"hosts", "localhost"}});
      if (key == "requeue") body["checkpoint_every"] = "10";
      if (key == "threads_per_worker") body.update({{"executor", "kubernetes"}, {"image", "worker:1"}});
      if (key == "decoding_threads" || key == "max_bad") body["task"] = "1b-resnet50";
      body[key] = list ? Json::array({value}) : value;
      return body;
    };
    const double least = number["minimum"].get<double>(), most = number["maximum"].get<double>();
    for (const Json& value : {Json(least - 1e-7), Json(most * 1.5), Json(-1), Json(1e308), Json(1e20), Json("9e18"),
                              Json("1e308h"), Json("nan"), Json("inf"), Json("abc"), Json(" "), Json(false)}) {
      EXPECT_THAT(post("/plan", with(value), 422)["message"].get<std::string>(), HasSubstr(list ? "worker" : ""))
          << name << " " << value;
    }
    EXPECT_EQ(post("/plan", with(number["minimum"]), 200)["runs"].size(), 1U) << name;
  }
  EXPECT_EQ(checked, 16);
  EXPECT_THAT(post("/plan", request("x", {9'000}), 422)["message"].get<std::string>(), HasSubstr("starts at most"));
  EXPECT_EQ(get("/runs")["total"], 0);
}

TEST_F(Serve, WaitingRunsStartInOrderAndCanBeStopped) {
  setenv("FAKE_STEPS", "100000", 1);
  start();
  post("/runs", request("first"), 201);
  ASSERT_TRUE(becomes("first-1", "running"));
  post("/runs", request("second"), 201);
  post("/runs", request("third"), 201);
  EXPECT_THAT(get("/clusters")["clusters"][0]["waiting"].get<std::vector<std::string>>(),
              ElementsAre("second-1", "third-1"));
  // `status` of another process does not take a waiting run for lost.
  EXPECT_THAT(mlbench({"status"}).standard_output, HasSubstr("queued"));
  EXPECT_EQ(send("DELETE", "/api/v1/runs/second-1").status, 409);
  EXPECT_EQ(post("/runs/second-1/stop", Json::object(), 202)["state"], "stopped");
  EXPECT_EQ(send("DELETE", "/api/v1/runs/second-1").status, 204);
  EXPECT_EQ(state_of("third-1"), "queued");
  post("/runs/first-1/stop", Json::object(), 202);
  ASSERT_TRUE(becomes("first-1", "stopped"));
  ASSERT_TRUE(becomes("third-1", "running"));

  Json beside = request("beside");
  beside["no_wait"] = true;
  post("/runs", beside, 201);
  ASSERT_TRUE(becomes("beside-1", "running"));
  EXPECT_EQ(state_of("third-1"), "running");
  EXPECT_EQ(get("/runs/beside-1")["oversubscribed"], true);
  EXPECT_EQ(mlbench({"stop", "third-1", "beside-1"}).end.code, 0);
}

TEST_F(Serve, RunsThatShareTheHostGoTogetherAndAPlainOneWaitsForBoth) {
  if (allowed_cores().size() < 2) GTEST_SKIP() << "missing capability: two cores";
  setenv("FAKE_STEPS", "100000", 1);
  start();
  const auto submit = [&](const std::string& name, bool shares) {
    Json body = request(name);
    body["threads_per_worker"] = 1;
    if (shares) body["share_host"] = true;
    const Json answer = post("/runs", body, 201);
    EXPECT_EQ(answer["warnings"].dump().find("--share-host") != std::string::npos, shares);
  };
  const auto core_of = [&](const std::string& run) { return get("/runs/" + run)["placement"][0]["cores"]; };
  submit("one", true);
  submit("two", true);
  ASSERT_TRUE(becomes("one-1", "running"));
  ASSERT_TRUE(becomes("two-1", "running"));
  ASSERT_TRUE(eventually([&] { return spool_bytes("one-1") > 0 && spool_bytes("two-1") > 0; }));
  EXPECT_EQ(get("/runs/one-1")["shared_host"], true);
  EXPECT_NE(core_of("one-1"), core_of("two-1"));
  submit("plain", false);
  submit("later", true);
  post("/runs/one-1/stop", Json::object(), 202);
  ASSERT_TRUE(becomes("one-1", "stopped"));
  EXPECT_THAT(get("/clusters")["clusters"][0]["waiting"].get<std::vector<std::string>>(),
              ElementsAre("plain-1", "later-1"));
  post("/runs/two-1/stop", Json::object(), 202);
  ASSERT_TRUE(becomes("plain-1", "running"));
  EXPECT_EQ(state_of("later-1"), "queued");
  EXPECT_EQ(get("/runs/plain-1")["shared_host"], false);
  EXPECT_EQ(mlbench({"stop", "plain-1"}).end.code, 0);
  ASSERT_TRUE(becomes("later-1", "running"));
  EXPECT_EQ(mlbench({"stop", "later-1"}).end.code, 0);
  EXPECT_THAT(mlbench({"status"}).standard_output, HasSubstr("shared host"));
}

TEST_F(Serve, ShowsTheNodesAndWhatRanksUse) {
  setenv("FAKE_STEPS", "100000", 1);
  start();
  post("/runs", request("long"), 201);
  Json shown;
  ASSERT_TRUE(eventually([&] {
    shown = get("/nodes");
    return shown["ranks"].size() == 1 && shown["ranks"][0]["cpu_cores"].is_number();
  }));
  const Json rank = shown["ranks"][0], local = shown["clusters"][0];
  EXPECT_EQ(shown["clusters"].size(), 1U);
  EXPECT_EQ(local["executor"], "local");
  EXPECT_EQ(local["usual"], true);
  EXPECT_TRUE(local["problem"].is_null());
  EXPECT_EQ(local["nodes"][0]["name"], rank["node"]);
  EXPECT_EQ(local["nodes"][0]["cpus"], available_cores());
  EXPECT_EQ(rank["run"], "long-1");
  EXPECT_GT(rank["memory_bytes"], 1 << 10);
  EXPECT_TRUE(rank["network_in_bytes_per_s"].is_null()) << "it has none of its own";
  post("/runs/long-1/stop", Json::object(), 202);
  ASSERT_TRUE(becomes("long-1", "stopped"));
  EXPECT_TRUE(eventually([&] { return get("/nodes")["ranks"].empty(); }));
  // What was seen stays, of the ranks and of their host.
  for (const char* metric : {"cpu_cores", "memory_bytes", "host_cpu_cores", "host_memory_bytes",
                             "host_network_in_bytes_per_s", "host_network_out_bytes_per_s"}) {
    const Json series = get(fmt::format("/runs/long-1/series?ranks=merged&metric={}", metric))["series"];
    ASSERT_THAT(series, SizeIs(1)) << metric;
    EXPECT_THAT(series[0]["points"]["mean"], Not(IsEmpty())) << metric;
  }
}

TEST_F(Serve, RunsOutliveTheirMasterAndAreAdopted) {
  setenv("FAKE_STEPS", "100000", 1);
  start();
  post("/runs", request("long"), 201);
  post("/runs", request("next"), 201);
  ASSERT_TRUE(eventually([&] { return spool_bytes("long-1") > 10'000; }));
  kill_master();
  const uintmax_t at_death = spool_bytes("long-1");
  ASSERT_TRUE(eventually([&] { return spool_bytes("long-1") > at_death + 10'000; }));
  EXPECT_EQ(state_of("long-1"), "running");
  EXPECT_EQ(mlbench({"status", "next-1", "--json"}).end.code, 0);
  EXPECT_EQ(state_of("next-1"), "queued");

  start();
  EXPECT_EQ(get("/runs?state=running")["total"], 1);
  EXPECT_EQ(state_of("next-1"), "queued");
  // Every point is there once, whoever read it.
  const auto points = [&] {
    const Json series = get("/runs/long-1/series?metric=step_s&points=20000")["series"];
    return series.empty() ? Json::array() : series[0]["points"]["step"];
  };
  ASSERT_TRUE(eventually([&] { return points().size() > 100; }));
  const Json steps = points();
  for (size_t i = 0; i < std::min<size_t>(steps.size(), 10'000); ++i) ASSERT_EQ(steps[i], i);
  post("/runs/long-1/stop", Json::object(), 202);
  ASSERT_TRUE(becomes("long-1", "stopped"));
  ASSERT_TRUE(becomes("next-1", "running"));
  post("/runs/next-1/stop", Json::object(), 202);
  ASSERT_TRUE(becomes("next-1", "stopped"));
}

// What keeps it takes the place of a container's restart, which would end the supervisors, too.
TEST_F(Serve, AMasterThatIsKilledIsStartedAgainWhereItIsKept) {
  setenv("FAKE_STEPS", "100000", 1);
  start({"--keep", "--stop-runs", "60s"});
  const auto owner = [&] {
    const auto address = home::find_master(home());
    return address ? address->pid : 0;
  };
  post("/runs", request("long"), 201);
  post("/runs", request("next"), 201);
  ASSERT_TRUE(eventually([&] { return spool_bytes("long-1") > 10'000; }));
  const auto first = owner();
  ASSERT_NE(first, serve_->pid()) << "the keeper is another process";
  for (const int signal : {SIGKILL, SIGABRT}) {
    const auto before = owner();
    ASSERT_EQ(kill(before, signal), 0);
    ASSERT_TRUE(eventually([&] { return owner() != 0 && owner() != before; })) << output_of("serve.log");
    url_ = home::find_master(home())->url;
    EXPECT_THAT(output_of("serve.log"), HasSubstr(fmt::format("process {} was ended by signal {}", before, signal)));
    EXPECT_EQ(get("/runs?state=running")["total"], 1) << "adopted";
    EXPECT_EQ(state_of("next-1"), "queued");
    const uintmax_t then = spool_bytes("long-1");
    EXPECT_TRUE(eventually([&] { return spool_bytes("long-1") > then + 10'000; })) << "its supervisor never ended";
  }
  // In order it ends its runs and then itself, as without.
  end_master();
  EXPECT_EQ(state_of("long-1"), "stopped");
  EXPECT_EQ(owner(), 0);
  EXPECT_TRUE(eventually([&] { return mark_.processes().empty(); }));
}

TEST_F(Serve, WhatEndsByItselfIsNotStartedAgain) {
  const ProcessOutput refused = mlbench({"serve", "--keep", "--listen", "nonsense"});
  EXPECT_EQ(refused.end.code, 2);
  EXPECT_THAT(refused.standard_error, AllOf(HasSubstr("expected ADDRESS:PORT"), Not(HasSubstr("started again"))));
  // A keeper that is gone takes its master along.
  start({"--keep"});
  kill_master();
  EXPECT_TRUE(eventually([&] { return !home::find_master(home()); }));
}

TEST_F(Serve, RunsThatCannotOutliveTheirMasterAreStoppedFirst) {
  setenv("FAKE_STEPS", "100000", 1);
  start({"--stop-runs", "60s"});
  post("/runs", request("long"), 201);
  post("/runs", request("next"), 201);
  ASSERT_TRUE(eventually([&] { return spool_bytes("long-1") > 10'000; }));
  EXPECT_EQ(state_of("next-1"), "queued");
  end_master();
  EXPECT_EQ(state_of("long-1"), "stopped") << "by the end of the master";
  EXPECT_GT(spool_bytes("long-1"), 10'000u) << "what was measured stays";
  EXPECT_EQ(state_of("next-1"), "queued") << "for the next one";
  EXPECT_TRUE(eventually([&] { return mark_.processes().empty(); }));
  start();
  ASSERT_TRUE(becomes("next-1", "running"));
  post("/runs/next-1/stop", Json::object(), 202);
  ASSERT_TRUE(becomes("next-1", "stopped"));
}

TEST_F(Serve, RunsThatDoNotEndAreNotWaitedForForEver) {
  start({"--stop-runs", "1s"});
  post("/runs",
       {{"name", "deaf"}, {"workers", {1}}, {"command", {"/bin/sh", "-c", "trap '' TERM; sleep 600; sleep 600"}}}, 201);
  ASSERT_TRUE(becomes("deaf-1", "running"));
  // Its supervisor does not act either.
  for (const pid_t pid : mark_.processes()) {
    if (read_file("/proc/" + std::to_string(pid) + "/cmdline").find("supervise") != std::string::npos) {
      kill(pid, SIGSTOP);
    }
  }
  end_master();
  EXPECT_THAT(output_of("serve.log"), HasSubstr("not ended after 1 s: deaf-1"));
  EXPECT_EQ(state_of("deaf-1"), "running");
}

TEST_F(Serve, WhatTheVariablesOfTheMasterSayHoldsForItsRuns) {
  const test::Variable executor("MLBENCH_EXECUTOR", "kubernetes"), image("MLBENCH_WORKER_IMAGE", "worker:1"),
      workers("MLBENCH_MAX_WORKERS", "2"), cores("MLBENCH_WORKER_MAX_CPU", "1");
  start();
  const auto planned = [&](const Json& body) { return post("/plan", body, 200)["runs"][0]; };
  Json body = {{"name", "c"}, {"workers", {2}}, {"threads_per_worker", 1}, {"command", {"true"}}};
  EXPECT_EQ(planned(body)["executor"], "kubernetes");
  body["executor"] = "local";
  EXPECT_EQ(planned(body)["executor"], "local");
  body.erase("executor");
  body["workers"] = {3};
  for (const char* path : {"/plan", "/runs"}) {
    EXPECT_THAT(post(path, body, 400)["message"].get<std::string>(),
                AllOf(HasSubstr("3 workers"), HasSubstr("at most 2")));
  }
  body["workers"] = {1};
  body["threads_per_worker"] = 4;
  EXPECT_THAT(post("/runs", body, 400)["message"].get<std::string>(), HasSubstr("4 cores"));
  EXPECT_FALSE(fs::exists(home() / "runs" / "c-1"));
  // The page asks for what the usual engine takes.
  const Json catalog = get("/catalog");
  for (const Json& row : catalog["executors"]) {
    EXPECT_EQ(row["usual"], row["name"] == "kubernetes") << row;
    const auto options = row["options"].get<std::vector<std::string>>();
    EXPECT_EQ(std::ranges::find(options, "pod_overlay") != options.end(), row["name"] == "kubernetes") << row;
  }
}

TEST_F(Serve, GpusAreOfferedAsTheHostsOfTheExecutorHaveThem) {
  const test::Variable gpus("CUDA_VISIBLE_DEVICES", "0,1"), kubeconfig("KUBECONFIG", "/no/such");
  start();
  const Json catalog = get("/catalog");
  for (const Json& row : catalog["executors"]) {
    EXPECT_EQ(row["gpus"], row["name"] == "local" ? Json(2) : Json(nullptr)) << row;
  }
  EXPECT_EQ(catalog["devices"][1]["available"], true);
  const Json body = {{"name", "c"}, {"workers", {2}}, {"gpu", true}, {"command", {"true"}}};
  EXPECT_EQ(post("/plan", body, 200)["runs"][0]["device"], "cuda");
  post("/runs", body, 201);
  ASSERT_TRUE(becomes("c-2", "finished"));
  EXPECT_EQ(get("/runs/c-2")["requested"]["device"], "cuda");
  post("/runs/c-2/clone", {{"name", "d"}}, 201);
  ASSERT_TRUE(becomes("d-2", "finished"));
  EXPECT_EQ(get("/runs/d-2")["requested"]["device"], "cuda");
}

TEST_F(Serve, AMasterWithoutGpusOffersThemWhereItsExecutorMayHaveThem) {
  const test::Variable gpus("CUDA_VISIBLE_DEVICES", "-1"), executor("MLBENCH_EXECUTOR", "mpirun");
  start();
  const Json catalog = get("/catalog");
  EXPECT_EQ(catalog["executors"][0]["gpus"], 0);
  EXPECT_EQ(catalog["executors"][1]["gpus"], nullptr);
  EXPECT_EQ(catalog["devices"][1]["available"], true) << "its hosts are named by each run";
}

TEST_F(Serve, AMasterOfAPodIsFoundByItsAddress) {
  const test::Variable address("MLBENCH_POD_IP", "fd00::7");
  start({}, "0.0.0.0:0");
  EXPECT_THAT(url_, HasSubstr("http://127.0.0.1:")) << "commands beside it find it here";
  post("/runs", {{"name", "c"}, {"workers", {1}}, {"command", {"/bin/sh", "-c", "echo $MLBENCH_URL"}}}, 201);
  ASSERT_TRUE(becomes("c-1", "finished"));
  EXPECT_EQ(send("GET", "/api/v1/runs/c-1/logs/0?stream=stdout").body,
            "http://[fd00::7]" + url_.substr(url_.rfind(':')) + "\n");
}

TEST_F(Serve, AStoreThatIsGoneIsBuiltAgain) {
  start();
  post("/runs", request("r"), 201);
  ASSERT_TRUE(becomes("r-1", "finished"));
  const Json before = get("/runs/r-1/series?metric=step_s");
  kill_master();
  for (const char* file : {"index.sqlite", "series.sqlite"}) {
    for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(home() / "store" / (std::string(file) + suffix));
  }
  start();
  EXPECT_EQ(get("/runs")["total"], 1);
  EXPECT_EQ(get("/runs/r-1/series?metric=step_s"), before);
  ASSERT_THAT(before["series"], SizeIs(1));
  EXPECT_EQ(before["series"][0]["count"], 20);
}

TEST_F(Serve, EventsTellOfARunUntilItsEnd) {
  setenv("FAKE_STEPS", "300", 1);
  start();
  post("/runs", request("r"), 201);
  std::string seen;
  ClientRequest events;
  events.url = url_ + "/api/v1/runs/r-1/events";
  events.headers = {{"Authorization", "Bearer " + token_}};
  events.timeout = kPatience;
  events.on_data = [&](std::string_view data) {
    seen += data;
    return true;
  };
  EXPECT_EQ(net::http::Client().send(events).status, 200);
  EXPECT_THAT(seen, AllOf(testing::StartsWith("event: run\ndata: {\"run\":{"), HasSubstr("\"steps_done\":300"),
                          HasSubstr("\"state\":\"finished\"")));
  EXPECT_TRUE(seen.ends_with("event: end\ndata: {}\n\n"));
}

TEST_F(Serve, PointsFromOutsideCountOnceAndSurvive) {
  start();
  post("/runs", request("r"), 201);
  ASSERT_TRUE(becomes("r-1", "finished"));
  std::string batch;
  for (int i = 0; i < 3000; ++i) {
    batch +=
        fmt::format("{{\"rank\":0,\"sequence\":{},\"step\":{},\"time\":{},\"values\":{{\"mine\":{}}}}}\n", i, i, i, i);
  }
  const auto put = [&](const std::string& body) {
    const ClientResponse response = send("POST", "/api/v1/runs/r-1/points", body, "application/x-ndjson");
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::parse(response.body);
  };
  EXPECT_EQ(put(batch)["accepted"], 3000);
  kill_master();
  start();
  EXPECT_EQ(put(batch)["duplicates"], 3000);
  const Json series = get("/runs/r-1/series?metric=mine&points=10")["series"];
  ASSERT_THAT(series, SizeIs(1));
  EXPECT_EQ(series[0]["count"], 3000);
  EXPECT_LE(series[0]["points"]["mean"].size(), 10u);
  EXPECT_EQ(series[0]["points"]["min"][0], 0.0);
  EXPECT_EQ(send("POST", "/api/v1/runs/r-1/points", "{\"rank\":0}", "application/x-ndjson").status, 400);
  EXPECT_EQ(send("POST", "/api/v1/runs/none-1/points", batch, "application/x-ndjson").status, 404);
  EXPECT_EQ(send("POST", "/api/v1/runs/r-1/points", batch, "text/plain").status, 415);
}

TEST_F(Serve, SeriesAreByKeyAndTheirRanksMerged) {
  start();
  post("/runs", request("r"), 201);
  ASSERT_TRUE(becomes("r-1", "finished"));
  std::string batch;
  for (int rank = 0; rank < 2; ++rank) {
    for (int step = 1; step <= 2; ++step) {
      batch += fmt::format(
          R"({{"rank":{0},"sequence":{1},"step":{1},"time":1,"values":{{"train_q":{2},"val_q":{2},"bytes_q":1,)"
          R"("val_global_q":7}}}})"
          "\n",
          rank, step, 2 * rank + step);
    }
  }
  ASSERT_EQ(send("POST", "/api/v1/runs/r-1/points", batch, "application/x-ndjson").status, 200);

  std::vector<std::string> keys;
  const Json list = get("/runs/r-1/series")["series"];
  for (const Json& one : list) {
    if (one["metric"].get<std::string>().ends_with("q")) {
      keys.push_back(fmt::format("{}/{}/{}", one["split"].get<std::string>(), one["metric"].get<std::string>(),
                                 one["rank"].dump()));
    }
  }
  EXPECT_THAT(keys, ElementsAre("/bytes_q/0", "/bytes_q/1", "/val_global_q/1", R"(test/q/"all")", "test/q/0",
                                "test/q/1", "train/q/0", "train/q/1"));
  const auto series = [&](const std::string& query) { return get("/runs/r-1/series?" + query)["series"]; };
  EXPECT_THAT(series("metric=q"), SizeIs(5));
  EXPECT_THAT(series("metric=q&split="), IsEmpty());
  EXPECT_THAT(series("split=test&metric=q&rank=1"), SizeIs(1));
  EXPECT_EQ(series("split=test&metric=q&rank=all")[0]["points"]["mean"], Json({7.0, 7.0}));
  const Json trained = series("split=train&metric=q&ranks=merged");
  ASSERT_THAT(trained, SizeIs(1));
  EXPECT_EQ(trained[0]["rank"], "all");
  EXPECT_EQ(trained[0]["merge"], "mean");
  EXPECT_EQ(trained[0]["ranks"], 2);
  EXPECT_EQ(trained[0]["count"], 4);
  EXPECT_EQ(trained[0]["points"]["step"], Json({1, 2}));
  EXPECT_EQ(trained[0]["points"]["mean"], Json({2.0, 3.0}));
  // Measured over all ranks, or by one: as it is.
  const Json tested = series("split=test&metric=q&ranks=merged");
  ASSERT_THAT(tested, SizeIs(1));
  EXPECT_FALSE(tested[0].contains("merge"));
  EXPECT_EQ(tested[0]["points"]["mean"], Json({7.0, 7.0}));
  EXPECT_EQ(series("metric=step_s&ranks=merged")[0]["rank"], 0);
  for (const char* wrong :
       {"split=val", "rank=-1", "rank=most", "metric=q&ranks=all", "ranks=merged", "metric=q&rank=0&ranks=merged"}) {
    EXPECT_EQ(send("GET", std::string("/api/v1/runs/r-1/series?") + wrong).status, 400) << wrong;
  }
}

// ---- custom runs ----------------------------------------------------------------------------------------------------

// Appends a record of value X at step X to the run's folder for each X of $1 to $2.
const std::string kRecorder =
    R"(record() { mkdir -p "$MLBENCH_RUN_DIR/metrics"; for x in $(seq $1 $2); do )"
    R"(echo "{\"rank\":$RANK,\"sequence\":$x,\"step\":$x,\"time\":$x,\"epoch\":1,\"values\":{\"mine\":$x}}"; )"
    R"(done >> "$MLBENCH_RUN_DIR/metrics/rank-$RANK.jsonl"; }; )";

Json custom(const std::string& name, const std::string& script, int workers = 1) {
  return {{"name", name}, {"workers", {workers}}, {"command", {"/bin/sh", "-c", script, "sh", "{rank}"}}};
}

// A script that went on from a checkpoint, and whose numbers began anew.
TEST_F(Serve, WhatAScriptRecordsIsInTheOrderOfItsLines) {
  start();
  post("/runs", custom("c", kRecorder + "record 3 4; record 1 2"), 201);
  ASSERT_TRUE(becomes("c-1", "finished")) << get("/runs/c-1").dump(1);
  const Json series = get("/runs/c-1/series?metric=mine&points=10")["series"];
  ASSERT_THAT(series, SizeIs(1));
  EXPECT_EQ(series[0]["points"]["mean"], Json({3.0, 4.0, 1.0, 2.0}));
}

// Appends, for each epoch of $2 to $3, what a script says at its end, which is dated $1 s and one second later each.
const std::string kEpochs =
    R"(epochs() { mkdir -p "$MLBENCH_RUN_DIR/metrics"; for e in $(seq $2 $3); do )"
    R"(echo "{\"rank\":0,\"sequence\":$e,\"step\":${e}0,\"time\":$(($1 + e)),\"epoch\":$((e - 1)),\"values\":)"
    R"({\"CumulativeTrainTimeEpoch\":1.5,\"val_global_Prec@1\":${e}0}}"; )"
    R"(done >> "$MLBENCH_RUN_DIR/metrics/rank-0.jsonl"; }; )";

// The script is resumed from its checkpoint after the wall clock went back by an hour.
TEST_F(Serve, WhatAResumedScriptRecordsStaysInOrderWhereTheClockWentBack) {
  start({"--legacy-api"});
  const std::string script = kEpochs +
                             R"(case "$*" in *--resume-step*) epochs 1769857200 3 4; exit 0;; esac; )"
                             R"(epochs 1769860800 1 2; mkdir -p "$MLBENCH_RUN_DIR/checkpoints/step-000000020"; )"
                             R"(echo x > "$MLBENCH_RUN_DIR/checkpoints/step-000000020/x"; exit 1)";
  post("/runs", custom("c", script), 201);
  ASSERT_TRUE(becomes("c-1", "failed")) << get("/runs/c-1").dump(1);
  const ProcessOutput resumed = mlbench({"resume", "c-1"});
  ASSERT_EQ(resumed.end.code, 0) << resumed.standard_error;
  ASSERT_TRUE(becomes("c-1", "finished")) << get("/runs/c-1").dump(1);

  const Json record = get("/runs/c-1");
  std::vector<int> epochs, evaluated;
  for (const Json& epoch : record["epochs"]) epochs.push_back(epoch["epoch"]);
  for (const Json& evaluation : record["evaluations"]) evaluated.push_back(evaluation["step"]);
  EXPECT_THAT(epochs, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(evaluated, ElementsAre(10, 20, 30, 40));
  const auto accuracies = [&] {
    const Json series = get("/runs/c-1/series?metric=Prec@1&points=10")["series"];
    return series.empty() ? Json::array() : series[0]["points"]["mean"];
  };
  EXPECT_TRUE(eventually([&] { return accuracies() == Json({10.0, 20.0, 30.0, 40.0}); })) << accuracies();
  const Json lists =
      Json::parse(send("GET", fmt::format("/api/metrics/{}/?metric_type=run", record["id"].dump())).body);
  std::vector<std::string> listed;
  for (const Json& value : lists["val_global_Prec@1 @ 0"]) listed.push_back(value["value"]);
  EXPECT_THAT(listed, ElementsAre("10", "20", "30", "40"));
}

TEST_F(Serve, AnyCommandIsARun) {
  start();
  const fs::path folder = folder_.path() / "work";
  fs::create_directories(folder);
  Json body = custom("c", kRecorder + R"(record 1 100; echo "$WORD $1 $PWD $MLBENCH_URL $MLBENCH_TOKEN_FILE")", 2);
  body["env"] = {"WORD=yes"};
  body["work_dir"] = folder;
  EXPECT_EQ(post("/runs", body, 201)["runs"][0]["division"], "custom");
  ASSERT_TRUE(becomes("c-2", "finished")) << get("/runs/c-2").dump(1);
  EXPECT_EQ(get("/runs/c-2")["custom"]["command"], body["command"]);
  EXPECT_EQ(send("GET", "/api/v1/runs/c-2/logs/1?stream=stdout").body,
            fmt::format("yes 1 {} {} {}\n", folder.string(), url_, (home() / "token").string()));
  const Json series = get("/runs/c-2/series?metric=mine&points=10")["series"];
  ASSERT_THAT(series, SizeIs(2));
  EXPECT_EQ(series[1]["rank"], 1);
  EXPECT_EQ(series[1]["count"], 100);
  EXPECT_EQ(series[1]["points"]["max"].back(), 100.0);
  bool zipped = false;
  for (const auto& member : report::read_zip(send("GET", "/api/v1/runs/c-2/download").body)) {
    zipped = zipped || (member.name == "result_mine @ 1.json" && Json::parse(member.content).size() == 100);
  }
  EXPECT_TRUE(zipped);

  post("/runs/c-2/clone", {{"name", "d"}, {"workers", {1}}}, 201);
  EXPECT_TRUE(becomes("d-1", "finished"));
  post("/runs/c-2/retry", Json::object(), 201);
  EXPECT_TRUE(becomes("c-2.2", "finished"));
  post("/runs", custom("f", "exit 3"), 201);
  EXPECT_TRUE(becomes("f-1", "failed"));
  EXPECT_THAT(get("/runs/f-1")["failure"]["message"].get<std::string>(), HasSubstr("exited with code 3"));
}

TEST_F(Serve, ACustomRunThatCannotBeIsRefused) {
  start();
  const auto refused = [&](const std::string& key, const Json& value) {
    Json body = custom("c", "true");
    body[key] = value;
    return post("/runs", body, 422)["message"].get<std::string>();
  };
  EXPECT_THAT(refused("synthetic", true), HasSubstr("--synthetic is an option of tasks"));
  EXPECT_THAT(refused("share_host", "yes"), HasSubstr("share_host is"));
  EXPECT_THAT(refused("work_dir", "relative"), HasSubstr("no absolute path"));
  EXPECT_THAT(refused("work_dir", "/no/such/folder"), HasSubstr("not a folder"));
  EXPECT_THAT(refused("env", {"=x"}), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(refused("command", "/bin/true"), HasSubstr("expected a list"));
  EXPECT_THAT(refused("command", {""}), HasSubstr("no program"));
  EXPECT_EQ(get("/runs")["total"], 0);
}

TEST_F(Serve, SecretsStayInTheMemoryOfTheMaster) {
  start();
  write_file_atomically(folder_.path() / "expected", "hunter2");
  Json body = custom("c", "[ $MY_TOKEN = $(cat " + (folder_.path() / "expected").string() + ") ]");
  body["env"] = {"MY_TOKEN"};
  EXPECT_THAT(post("/runs", body, 422)["message"].get<std::string>(), HasSubstr("env_values"));
  body["env_values"] = {{"MY_TOKEN", "hunter2"}};
  post("/runs", body, 201);
  EXPECT_TRUE(becomes("c-1", "finished"));
  EXPECT_THAT(post("/runs/c-1/clone", {{"name", "d"}}, 422)["message"].get<std::string>(), HasSubstr("MY_TOKEN"));
  EXPECT_THAT(post("/runs/c-1/retry", Json::object(), 422)["message"].get<std::string>(), HasSubstr("MY_TOKEN"));

  // One that waits when the master dies does not run without its value.
  const fs::path sign = folder_.path() / "sign";
  post("/runs", custom("first", fmt::format("while [ ! -e {} ]; do sleep 0.05; done", sign.string())), 201);
  ASSERT_TRUE(becomes("first-1", "running"));
  body["name"] = "second";
  post("/runs", body, 201);
  kill_master();
  start();
  std::ofstream(sign) << "go";
  ASSERT_TRUE(becomes("second-1", "failed"));
  EXPECT_THAT(get("/runs/second-1")["failure"]["message"].get<std::string>(),
              AllOf(HasSubstr("MY_TOKEN"), HasSubstr("submit it again")));
  for (const auto& entry : fs::recursive_directory_iterator(home())) {
    if (!entry.is_regular_file()) continue;
    EXPECT_EQ(read_file(entry.path()).find("hunter2"), std::string::npos) << entry.path();
  }
  EXPECT_EQ(output_of("serve.log").find("hunter2"), std::string::npos);
}

TEST_F(Serve, LinesOfAScriptCountOnceAlsoOverAMastersDeath) {
  start();
  const fs::path sign = folder_.path() / "sign";
  post("/runs",
       custom("c", kRecorder + fmt::format("record 1 500; while [ ! -e {} ]; do sleep 0.05; done; record 400 700",
                                           sign.string())),
       201);
  const auto count = [&] {
    const Json series = get("/runs/c-1/series?metric=mine&points=1")["series"];
    return series.empty() ? 0 : series[0]["count"].get<int>();
  };
  ASSERT_TRUE(eventually([&] { return count() == 500; }));
  kill_master();
  std::ofstream(sign) << "go";
  start();
  ASSERT_TRUE(becomes("c-1", "finished"));
  EXPECT_EQ(count(), 500 + 301) << "a line is counted once, whatever its number; both masters read the first 500";
}

TEST_F(Serve, ACommandLineOfAScriptGoesToTheMaster) {
  start();
  const ProcessOutput output = mlbench({"run", "c", "1", "--env", "WORD=there", "--work-dir", folder_.path().string(),
                                        "--", "/bin/sh", "-c", "echo $WORD in $PWD"});
  EXPECT_EQ(output.end.code, 0) << output.standard_error;
  EXPECT_THAT(output.standard_error, HasSubstr("c-1 belongs to the master at " + url_));
  EXPECT_EQ(mlbench({"logs", "c-1"}).standard_output, "there in " + folder_.path().string() + "\n");
}

// ---- the command line -----------------------------------------------------------------------------------------------

const std::vector<std::string> kRun = {"run", "r", "--task", "fashion-mnist", "--synthetic"};

std::vector<std::string> run_of(std::vector<std::string> more) {
  more.insert(more.begin(), kRun.begin(), kRun.end());
  return more;
}

TEST_F(Serve, RunSubmitsToTheMasterOfItsHome) {
  start();
  const ProcessOutput output = mlbench(run_of({"1", "2"}));
  EXPECT_EQ(output.end.code, 0) << output.standard_error;
  EXPECT_THAT(output.standard_error,
              AllOf(HasSubstr("r-1, r-2 belong to the master at " + url_), HasSubstr("r-2  finished")));
  EXPECT_THAT(output.standard_output, HasSubstr("Results: "));
  EXPECT_TRUE(eventually([&] { return output_of("serve.log").find("run r-2 started") != std::string::npos; }));
  const ProcessOutput taken = mlbench(run_of({"1"}));
  EXPECT_EQ(taken.end.code, 2);
  EXPECT_THAT(taken.standard_error, HasSubstr("run 'r-1' exists already"));

  const ProcessOutput local = mlbench({"run", "l", "--task", "fashion-mnist", "--synthetic", "1", "--local"});
  EXPECT_EQ(local.end.code, 0);
  EXPECT_THAT(local.standard_error, Not(HasSubstr("belongs to the master")));
}

TEST_F(Serve, NotesAreKeptSearchedAndExported) {
  start();
  ASSERT_EQ(mlbench(run_of({"1", "2"})).end.code, 0);
  const Json none = {{"description", ""}, {"cluster", ""},    {"firewall", ""},       {"expected", ""},
                     {"summary", ""},     {"next_steps", ""}, {"tags", Json::array()}};
  EXPECT_EQ(get("/runs/r-1/notes"), none);
  Json notes = none;
  notes["description"] = "<b>Bigger</b> batches\n=1+1";
  notes["expected"] = "80 %_";
  notes["next_steps"] = "try 16 workers";
  notes["tags"] = {"a b", "x"};
  const auto put = [&](const Json& body) { return send("PUT", "/api/v1/runs/r-1/notes", body.dump()).status; };
  EXPECT_EQ(put(notes), 200);
  EXPECT_EQ(get("/runs/r-1/notes"), notes);
  EXPECT_EQ(Json::parse(read_file(home() / "runs" / "r-1" / "notes.json")), notes);
  for (const char* text : {"BIGGER", "80%20%25_", "16%20w", "a%20b", "r-1"}) {
    EXPECT_EQ(get(std::string("/runs?q=") + text)["runs"][0]["name"], "r-1") << text;
    EXPECT_EQ(get(std::string("/runs?q=") + text)["total"], 1) << text;
  }
  EXPECT_EQ(get("/runs?q=80%25%25")["total"], 0) << "wildcards are letters";
  EXPECT_EQ(get("/runs?q=r-1")["runs"][0]["tags"], notes["tags"]);
  bool exported = false;
  for (const auto& member : report::read_zip(send("GET", "/api/v1/runs/r-1/download").body)) {
    exported = exported || (member.name == "notes.json" && Json::parse(member.content) == notes);
  }
  EXPECT_TRUE(exported);

  for (const Json& bad : {Json{{"tags", "x"}}, Json{{"tags", {"a,b"}}}, Json{{"tags", {""}}}, Json{{"title", "x"}},
                          Json{{"description", std::string(8193, 'x')}}, Json{{"expected", "\x1b[31m"}}}) {
    EXPECT_EQ(put(bad), 400) << bad;
  }
  EXPECT_EQ(get("/runs/r-1/notes"), notes);
  EXPECT_EQ(send("PUT", "/api/v1/runs/r-9/notes", "{}").status, 404);
  EXPECT_EQ(send("PUT", "/api/v1/runs/..%2f..%2fstore/notes", "{}").status, 404);

  // An edit beside the master is seen, too.
  EXPECT_EQ(mlbench({"note", "r-2", "--tag", "later", "--expect", "more"}).end.code, 0);
  EXPECT_TRUE(eventually([&] { return get("/runs?q=later")["total"] == 1; }));
  const std::string token = (home() / "token").string();
  EXPECT_EQ(mlbench({"note", "r-2", "--remove-tag", "later", "-u", url_, "--token-file", token}).standard_output,
            "expected     more\n");
  EXPECT_EQ(mlbench({"status", "--search", "batches", "-u", url_, "--token-file", token, "--json"})
                .standard_output.find("r-2"),
            std::string::npos);
}

TEST_F(Serve, ReportsOfAMasterElsewhereAreThoseOfItsHome) {
  start();
  ASSERT_EQ(mlbench(run_of({"1", "2", "--repeat", "2"})).end.code, 0);
  const auto report_of = [&](std::vector<std::string> words) {
    const ProcessOutput output = mlbench(words);
    EXPECT_EQ(output.end.code, 0) << output.standard_error;
    return output.standard_output;
  };
  const auto charts = [&](const std::string& folder, std::vector<std::string> words) {
    words.insert(words.begin(), {"charts", "--format", "csv", "-f", "r-", "-o", (folder_.path() / folder).string()});
    report_of(words);
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(folder_.path() / folder)) {
      files[entry.path().filename()] = read_file(entry.path());
    }
    return files;
  };
  const std::string compared = report_of({"compare", "r-1", "r-2", "--json"});
  // REST says the same, with the words of the tables.
  const std::string tables = report_of({"compare", "r-1", "r-2", "--wide"});
  Json answered = get("/compare?runs=r-1,r-2")["repeated"];
  for (Json& run : answered["runs"]) {
    EXPECT_THAT(tables, HasSubstr(run["words"]["samples_per_s"].get<std::string>()));
    for (const char* of_rest : {"words", "shown", "scaling"}) run.erase(of_rest);
  }
  EXPECT_EQ(answered, Json::parse(compared));
  const auto here = charts("here", {});
  EXPECT_THAT(here, testing::Contains(testing::Key("train_loss.csv")));

  const std::string token = (home() / "token").string();
  setenv("MLBENCH_HOME", (folder_.path() / "elsewhere").c_str(), 1);
  const std::vector<std::string> there = {"-u", url_, "--token-file", token};
  const auto of_master = [&](std::vector<std::string> words) {
    words.insert(words.end(), there.begin(), there.end());
    return words;
  };
  EXPECT_EQ(report_of(of_master({"compare", "r-1", "r-2", "--json"})), compared);
  EXPECT_EQ(charts("there", there), here);
  EXPECT_EQ(mlbench(of_master({"compare", "r-1", "r-9"})).end.code, 2);
  EXPECT_EQ(mlbench({"compare", "r-1", "-u", "127.0.0.1:1", "--token-file", token}).end.code, 3);
}

TEST_F(Serve, CtrlCAsksTheMasterAndAKilledCommandLeavesTheRun) {
  setenv("FAKE_STEPS", "100000", 1);
  start();
  ChildProcess command = spawn(run_of({"1", "2"}), "run.log");
  ASSERT_TRUE(becomes("r-1", "running"));
  kill(command.pid(), SIGINT);
  const auto end = command.wait(kPatience);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, 130) << output_of("run.log");
  EXPECT_TRUE(becomes("r-1", "stopped"));
  EXPECT_TRUE(becomes("r-2", "stopped"));

  ChildProcess killed = spawn({"run", "k", "--task", "fashion-mnist", "--synthetic", "1"}, "killed.log");
  ASSERT_TRUE(becomes("k-1", "running"));
  kill(killed.pid(), SIGKILL);
  ASSERT_TRUE(killed.wait(kPatience));
  const uintmax_t before = spool_bytes("k-1");
  EXPECT_TRUE(eventually([&] { return spool_bytes("k-1") > before + 5'000; }));
  EXPECT_EQ(mlbench({"stop", "k-1"}).end.code, 0);
}

TEST_F(Serve, VerbsReachAMasterElsewhere) {
  start();
  setenv("MLBENCH_HOME", (folder_.path() / "elsewhere").c_str(), 1);
  const std::string token = (home() / "token").string();
  const auto there = [&](std::vector<std::string> arguments) {
    for (const std::string& word : {std::string("-u"), url_.substr(7), std::string("--token-file"), token}) {
      arguments.push_back(word);
    }
    return mlbench(arguments);
  };
  const ProcessOutput ran = there(run_of({"1"}));
  EXPECT_EQ(ran.end.code, 0) << ran.standard_error;
  EXPECT_THAT(there({"status"}).standard_output, AllOf(HasSubstr("r-1"), HasSubstr("finished")));
  EXPECT_THAT(there({"status", "r-1"}).standard_output, HasSubstr("fashion-mnist"));
  EXPECT_THAT(there({"watch", "r-1"}).standard_output, HasSubstr("r-1  finished"));
  EXPECT_EQ(mlbench({"run", "c", "2", "-u", url_, "--token-file", token, "--work-dir", "/", "--", "/bin/sh", "-c",
                     "echo rank $RANK; printf end"})
                .end.code,
            0);
  EXPECT_EQ(there({"logs", "c-2", "--rank", "1"}).standard_output, "rank 1\nend\n");
  const std::string all_logs = "rank 0 out | rank 0\nrank 0 out | end\nrank 1 out | rank 1\nrank 1 out | end\n";
  EXPECT_EQ(there({"logs", "-f", "c-2"}).standard_output, all_logs);
  EXPECT_EQ(there({"logs", "--all", "--stderr", "c-2"}).standard_output, "");
  EXPECT_EQ(there({"logs", "--stderr", "c-2"}).standard_output, "");
  EXPECT_EQ(there({"logs", "--stdout", "--rank", "0", "c-2"}).standard_output, "rank 0\nend\n");
  EXPECT_EQ(there({"logs", "--all", "c-2"}).standard_output, all_logs);
  EXPECT_EQ(Json::parse(there({"logs", "c-2", "--json"}).standard_output)[1]["lines"][0], "rank 1");
  EXPECT_EQ(there({"download", "r-1", "-o", (folder_.path() / "r.zip").string()}).end.code, 0);
  EXPECT_FALSE(report::read_zip(read_file(folder_.path() / "r.zip")).empty());
  EXPECT_EQ(there({"stop", "r-1"}).end.code, 2);
  EXPECT_EQ(there({"delete", "r-1"}).end.code, 0);
  EXPECT_EQ(there({"status", "r-1"}).end.code, 2);
  EXPECT_EQ(mlbench({"status", "-u", url_}).end.code, 2) << "there is no token in this home";
  EXPECT_EQ(mlbench({"status", "-u", "127.0.0.1:1", "--token-file", token}).end.code, 3);
}

// ---- today's clients ------------------------------------------------------------------------------------------------

TEST_F(Serve, TodaysClientsFindTheirApi) {
  const std::string python = "/usr/bin/python3";
  ProcessOptions probe;
  probe.arguments = {python, "-c", "import requests"};
  if (!fs::exists(python) || run_process(probe, kPatience).end.code != 0) {
    GTEST_SKIP() << "missing capability: Python with requests";
  }
  start({"--legacy-api"});
  post("/runs", request("seen", {2}), 201);
  ASSERT_TRUE(becomes("seen-2", "finished"));
  ProcessOptions client;
  client.arguments = {
      python,
      (fs::path(environment_variable("MLBENCH_TEST_SOURCE_DIR").value()) / "tests/master/legacy_client.py").string(),
      url_};
  const ProcessOutput output = run_process(client, kPatience);
  EXPECT_EQ(output.end.code, 0) << output.standard_output << output.standard_error;
  EXPECT_THAT(output.standard_output, HasSubstr("all checks passed"));
}

// ---- bad requests ---------------------------------------------------------------------------------------------------

FileDescriptor connect_to(const std::string& url) {
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(url.substr(url.rfind(':') + 1))));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const timeval patience{30, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return fd;
}

// ---- load -----------------------------------------------------------------------------------------------------------

TEST_F(Serve, ConnectionsWithoutATokenCostNobodyARun) {
  before_ = {"/bin/sh", "-c", "ulimit -n 256; exec \"$0\" \"$@\""};
  start();
  post("/runs", request("before"), 201);
  ASSERT_TRUE(becomes("before-1", "finished"));
  std::vector<FileDescriptor> idle;
  for (int i = 0; i < 400; ++i) idle.push_back(connect_to(url_));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(get("/clusters")["clusters"].size(), 1U);
  post("/runs", request("during", {1, 2}), 201);
  EXPECT_TRUE(becomes("during-1", "finished")) << output_of("serve.log");
  EXPECT_TRUE(becomes("during-2", "finished")) << output_of("serve.log");
  EXPECT_TRUE(eventually([&] { return get("/runs?state=finished")["total"] == 3; }));
  EXPECT_EQ(get("/runs?state=damaged")["total"], 0);
  EXPECT_EQ(send("GET", "/api/v1/runs/during-2/download").status, 200);
  EXPECT_EQ(get("/runs/during-2/series?metric=step_s")["series"].size(), 2U);
}

TEST_F(Serve, TooFewDescriptorsAreSaidAtTheStart) {
  before_ = {"/bin/sh", "-c", "ulimit -n 100; exec \"$0\" \"$@\""};
  ChildProcess serve = spawn({"serve", "--listen", "127.0.0.1:0"}, "small.log");
  EXPECT_EQ(serve.wait(kPatience)->code, 2);
  EXPECT_THAT(output_of("small.log"), HasSubstr("ulimit -n 1024"));
}

// In KiB, of the largest that the process ever was.
// KiB: the address sanitizer keeps what was freed for a while.
#ifdef __SANITIZE_ADDRESS__
constexpr int64_t kKeptByTheSanitizer = 512 << 10;
#else
constexpr int64_t kKeptByTheSanitizer = 0;
#endif

int64_t peak_memory(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6));
  }
  return 0;
}

TEST_F(Serve, LoadWithoutATokenIsBounded) {
  start();
  post("/runs", request("r"), 201);
  ASSERT_TRUE(becomes("r-1", "finished"));
  const int64_t before = peak_memory(serve_->pid());
  const std::string piece(64 << 10, 'x');
  std::vector<FileDescriptor> senders;
  for (int i = 0; i < 100; ++i) {
    const bool chunked = i % 2 == 1;
    FileDescriptor& fd = senders.emplace_back(connect_to(url_));
    const timeval short_patience{0, 200'000};
    setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &short_patience, sizeof short_patience);
    const std::string head = fmt::format("POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\n{}\r\n\r\n",
                                         chunked ? "Transfer-Encoding: chunked" : "Content-Length: 8388608");
    ::send(fd.get(), head.data(), head.size(), MSG_NOSIGNAL);
    const std::string part = chunked ? fmt::format("{:x}\r\n{}\r\n", piece.size(), piece) : piece;
    for (size_t sent = 0; sent < (2U << 20); sent += piece.size()) {
      if (::send(fd.get(), part.data(), part.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(part.size())) break;
    }
    if (i % 10 == 0) {
      EXPECT_EQ(send("GET", "/api/v1/health").status, 200);
    }
  }
  EXPECT_LT(peak_memory(serve_->pid()) - before, (64 << 10) + kKeptByTheSanitizer);
  ClientRequest bomb;
  bomb.method = "POST";
  bomb.url = url_ + "/api/v1/session";
  bomb.headers = {{"Content-Encoding", "gzip"}};
  bomb.body = "\x1f\x8b";
  EXPECT_EQ(net::http::Client().send(bomb).status, 415) << "nothing is unpacked";
  EXPECT_EQ(get("/runs")["total"], 1);
}

TEST_F(Serve, DeletionsOfStubbornRunsHoldUpNobody) {
  start({"--legacy-api"});
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) {
    Json body = custom(fmt::format("s{}", i), "trap '' TERM; while :; do sleep 0.1; done");
    body["no_wait"] = true;
    post("/runs", body, 201);
  }
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(becomes(fmt::format("s{}-1", i), "running"));
  std::this_thread::sleep_for(300ms);  // until the traps are set
  for (int i = 0; i < 4; ++i) ids.push_back(std::to_string(get(fmt::format("/runs/s{}-1", i))["id"].get<int>()));
  std::atomic<int> done{0};
  std::vector<std::thread> clients;
  for (const std::string& id : ids) {
    clients.emplace_back([&, id] {
      EXPECT_EQ(send("DELETE", "/api/runs/" + id + "/").status, 204);
      ++done;
    });
  }
  std::this_thread::sleep_for(300ms);
  int answered = 0;
  for (int i = 0; i < 10 && done == 0; ++i) {
    EXPECT_EQ(send("GET", "/api/v1/health").status, 200);
    get("/runs");
    get("/runs/s3-1/logs");
    ++answered;
  }
  EXPECT_EQ(answered, 10) << "only behind the deletions";
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(eventually([&] { return get("/runs")["total"] == 0; }));
}

// ---- what is large --------------------------------------------------------------------------------------------------

TEST_F(Serve, ALargeLogIsFollowedToItsEnd) {
  start();
  post("/runs", custom("c", "yes 0123456789abcdef | head -c 5000000; echo; echo end"), 201);
  ASSERT_TRUE(becomes("c-1", "finished"));
  const ClientResponse log = send("GET", "/api/v1/runs/c-1/logs/0?stream=stdout&follow=true");
  EXPECT_EQ(log.body.size(), 5'000'005U);
  EXPECT_TRUE(log.body.ends_with("\nend\n"));
  const std::string printed = mlbench({"logs", "c-1"}).standard_output;
  EXPECT_TRUE(printed == log.body) << printed.size();
  setenv("MLBENCH_HOME", (folder_.path() / "elsewhere").c_str(), 1);
  const ProcessOutput followed =
      mlbench({"logs", "-f", "c-1", "--rank", "0", "-u", url_, "--token-file", (home() / "token").string()});
  EXPECT_TRUE(followed.standard_output == printed) << followed.standard_output.size();
}

TEST_F(Serve, ALineThatIsTooLongCostsItselfAlone) {
  start();
  post("/runs",
       custom("c",
              kRecorder +
                  R"(record 1 10; head -c 5000000 /dev/zero | tr '\0' x >> "$MLBENCH_RUN_DIR/metrics/rank-0.jsonl"; )"
                  R"(echo >> "$MLBENCH_RUN_DIR/metrics/rank-0.jsonl"; record 11 20)"),
       201);
  ASSERT_TRUE(becomes("c-1", "finished"));
  const Json answer = get("/runs/c-1/series?metric=mine");
  EXPECT_EQ(answer["series"][0]["count"], 20);
  EXPECT_EQ(answer["left_out_lines"], 1);
}

TEST_F(Serve, ADownloadOfALongRunNeedsLittleMemory) {
  start();
  post("/runs", request("r"), 201);
  ASSERT_TRUE(becomes("r-1", "finished"));
  const auto loss_points = [](const std::string& archive) {
    for (const auto& member : report::read_zip(archive)) {
      if (member.name == "result_train_loss @ 0.json") return Json::parse(member.content).size();
    }
    return size_t{0};
  };
  const ClientResponse small = send("GET", "/api/v1/runs/r-1/download");
  EXPECT_EQ(loss_points(small.body), 1U);
  // 450,000 records more: 68 MB.
  const fs::path run = home() / "runs/r-1";
  record::StepRecord record;
  record::StepReader written(run, 1, 0);
  while (const auto one = written.next()) record = *one;
  std::string bytes;
  for (int i = 0; i < 450'000; ++i) {
    ++record.sequence;
    record.first_step += record.count;
    record::append_record(bytes, record);
  }
  ASSERT_GT(bytes.size(), size_t{60} << 20);
  std::ofstream(steps_path(run, 1, 0), std::ios::binary | std::ios::app) << bytes;
  const int64_t before = peak_memory(serve_->pid());
  const fs::path zip = folder_.path() / "r.zip";
  setenv("MLBENCH_HOME", (folder_.path() / "elsewhere").c_str(), 1);
  const ProcessOutput output =
      mlbench({"download", "r-1", "-o", zip.string(), "-u", url_, "--token-file", (home() / "token").string()});
  EXPECT_EQ(output.end.code, 0) << output.standard_error;
  EXPECT_LT(peak_memory(serve_->pid()) - before, (40 << 10) + kKeptByTheSanitizer);
  EXPECT_GT(loss_points(read_file(zip)), 10'000U);
}

TEST_F(Serve, BadRequestsDoNothing) {
  start({"--legacy-api"});
  post("/runs", request("r"), 201);
  ASSERT_TRUE(becomes("r-1", "finished"));
  std::mt19937 random(20240501);
  const auto pick = [&](const auto& list) -> const std::string& { return list[random() % list.size()]; };
  const std::vector<std::string> methods = {"GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS", "PATCH", "get", "A B"};
  const std::vector<std::string> paths = {"/api/v1/runs",
                                          "/api/v1/runs/r-1",
                                          "/api/v1/runs/r-1/stop",
                                          "/api/v1/runs/r-1/clone",
                                          "/api/v1/runs/r-1/series",
                                          "/api/v1/runs/r-1/points",
                                          "/api/v1/runs/r-1/logs/supervisor",
                                          "/api/v1/compare",
                                          "/api/v1/scaling",
                                          "/metrics",
                                          "/api/runs/",
                                          "/api/metrics/",
                                          "/api/metrics/1/",
                                          "/api/runs/1",
                                          "/",
                                          "//",
                                          "/%00",
                                          "/api/v1/runs/%2e%2e%2f%2e%2e",
                                          "/api/v1/runs/" + std::string(5000, 'a'),
                                          "/api/v1/runs/9223372036854775808",
                                          "*",
                                          "http://x/api/v1/runs"};
  const std::vector<std::string> queries = {"",
                                            "?",
                                            "?limit=-1",
                                            "?limit=99999999999999999999",
                                            "?offset=x",
                                            "?q=%27%3B--",
                                            "?q=%",
                                            "?points=0",
                                            "?name=%ff",
                                            "?since=x&metric_type=run",
                                            "?summarize=0&metric_type=run",
                                            "?last_n=-5",
                                            "?format=zip&metric_type=run",
                                            "?runs=r-1,,",
                                            "?follow=maybe",
                                            "?offset=-9223372036854775808",
                                            "?a=" + std::string(3000, 'b')};
  const std::vector<std::string> headers = {"",
                                            "Origin: http://evil.example\r\n",
                                            "Host: evil.example\r\n",
                                            "Content-Type: application/json\r\n",
                                            "Content-Type: multipart/form-data; boundary=x\r\n",
                                            "Content-Type: application/x-www-form-urlencoded\r\n",
                                            "Content-Type: application/x-ndjson\r\nContent-Encoding: gzip\r\n",
                                            "Content-Type: application/x-ndjson\r\n",
                                            "Content-Type: \xff\xfe\r\n",
                                            "Transfer-Encoding: chunked\r\n",
                                            "Content-Length: -5\r\n",
                                            "Cookie: a=b\r\n",
                                            "Authorization: Bearer \r\n",
                                            "X: " + std::string(30'000, 'x') + "\r\n"};
  const std::vector<std::string> bodies = {
      "",
      "{",
      "{}",
      "[]",
      "null",
      "{\"name\":1}",
      "{\"name\":\"../x\",\"workers\":[1],\"task\":\"fashion-mnist\"}",
      "{\"workers\":[-1],\"name\":\"a\",\"task\":\"fashion-mnist\"}",
      "{\"a\":" + std::string(2000, '[') + "}",
      "name=x&num_workers=-1&num_cpus=1&image_name=custom_image&custom_image_command=rm&backend=mpi&light_target=true",
      "run_id=1&name=a&value=b&date=never&metadata=&cumulative=True",
      "run_id=99&name=a&value=1&date=2020-01-01 00:00&metadata=&cumulative=1",
      "--x\r\nContent-Disposition: form-data; name=\"run_id\"\r\n\r\n1",
      "{\"rank\":0,\"sequence\":\"x\"}",
      "{\"rank\":0,\"sequence\":1,\"values\":{\"a\":[]}}",
      std::string("\0\xff\x80\n", 4),
      std::string(100'000, 'z'),
      "{\"name\":\"\\ud800\",\"workers\":[1],\"task\":\"fashion-mnist\"}"};
  int answered = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string& method = pick(methods);
    const std::string& body = pick(bodies);
    // Not with what would be a right request: a stop, a deletion of a run that is there.
    std::string target = pick(paths);
    const std::string& header = pick(headers);
    if (method == "DELETE") target += "x";
    target += pick(queries);
    const bool complete = random() % 8 != 0;
    std::string text = method + " " + target + " HTTP/1.1\r\nConnection: close\r\n";
    if (header.find("Host:") == std::string::npos) text += "Host: 127.0.0.1\r\n";
    if (random() % 8 != 0) text += "Authorization: Bearer " + token_ + "\r\n";
    text += header;
    if (header.find("chunked") == std::string::npos && header.find("Content-Length") == std::string::npos) {
      text += fmt::format("Content-Length: {}\r\n", complete ? body.size() : body.size() + 10);
    }
    text += "\r\n" + body;
    if (!complete && random() % 2 == 0) text.resize(random() % text.size());
    const FileDescriptor fd = connect_to(url_);
    ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (!complete) continue;  // who leaves in the middle waits for no answer
    shutdown(fd.get(), SHUT_WR);
    std::string answer;
    char buffer[4096];
    ssize_t n = 0;
    while ((n = recv(fd.get(), buffer, sizeof buffer, 0)) > 0) answer.append(buffer, static_cast<size_t>(n));
    ASSERT_FALSE(n < 0 && errno == EAGAIN) << "no answer to " << text.substr(0, 300);
    if (answer.empty()) continue;
    ++answered;
    ASSERT_THAT(answer, Not(HasSubstr("HTTP/1.1 500"))) << text.substr(0, 500) << "\n---\n" << answer;
    ASSERT_FALSE(serve_->wait(0ms)) << text.substr(0, 500);
  }
  EXPECT_GT(answered, 1500);
  EXPECT_EQ(get("/runs")["total"], 1) << "nothing was started";
  EXPECT_EQ(send("GET", "/api/v1/health").status, 200);
}

}  // namespace
}  // namespace mlbench::cli
