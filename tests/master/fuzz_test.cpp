// Ten thousand requests that no good client sends, to a real `mlbench serve`: each is refused or answered, none is a
// 500, a hang or a crash, and nothing is started.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <zlib.h>

#include <atomic>
#include <random>
#include <thread>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/process.h"
#include "mlbench/home/owner.h"
#include "mlbench/home/runs.h"
#include "mlbench/net/http/client.h"
#include "mlbench/spec/task.h"
#include "tests/support/processes.h"

namespace mlbench {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr int kRequests = 10'000;
constexpr int kSlowSenders = 40;
constexpr auto kAnswerPatience = 30s;
constexpr int64_t kMostResidentBytes = 300 << 20;  // at any time, four threads reading bodies

// A connection of its own per request: what is left of a broken one must not reach the next.
class Wire {
 public:
  explicit Wire(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      throw IoError("no connection: " + errno_text(errno));
    }
  }
  // False when the server has closed it: it need not read what it refuses.
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  void end() const { shutdown(fd_.get(), SHUT_WR); }
  // The status of the first answer; 0 when the server closed without one, -1 when it did neither in time.
  int status() const {
    std::string head;
    const auto deadline = std::chrono::steady_clock::now() + kAnswerPatience;
    while (head.find("\r\n") == std::string::npos) {
      pollfd ready{fd_.get(), POLLIN, 0};
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left <= 0ms || poll(&ready, 1, static_cast<int>(left.count())) <= 0) return -1;
      char buffer[4096];
      const ssize_t n = recv(fd_.get(), buffer, sizeof buffer, 0);
      if (n <= 0) return 0;
      head.append(buffer, static_cast<size_t>(n));
    }
    return head.starts_with("HTTP/1.") && head.size() > 12 ? std::stoi(head.substr(9, 3)) : -1;
  }

 private:
  FileDescriptor fd_;
};

std::string gzip(const std::string& text) {
  z_stream stream{};
  if (deflateInit2(&stream, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw IoError("deflate");
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

class Fuzz : public testing::Test {
 protected:
  Fuzz()
      : mark_(folder_.path()),
        home_variable_("MLBENCH_HOME", home().string()),
        lock_variable_("MLBENCH_CORE_LOCK", (folder_.path() / "cores").string()),
        worker_variable_("MLBENCH_WORKER", "/no/such/worker") {
    spec::RunSpec run;
    run.name = "r-1";
    run.cache_dir = folder_.path() / "cache";
    spec::set_task(run, spec::find_task("fashion-mnist", "", "", {}), {});
    home::create_run(home(), run, home::Waiting{});
    home::stop_run(home(), home() / "runs" / "r-1");

    ProcessOptions options;
    options.arguments = {environment_variable("MLBENCH_TEST_MLBENCH").value(), "serve", "--listen", "127.0.0.1:0",
                         "--legacy-api"};
    options.output = folder_.path() / "serve.log";
    serve_.emplace(ChildProcess::start(options));
    if (!test::eventually([&] { return home::find_master(home()).has_value(); })) {
      throw IoError("the master does not start: " + read_file(folder_.path() / "serve.log"));
    }
    const auto address = home::find_master(home());
    url_ = address->url;
    token_ = home::read_token(address->token_file);
    port_ = static_cast<uint16_t>(std::stoi(url_.substr(url_.rfind(':') + 1)));

    const auto given = environment_variable("MLBENCH_FUZZ_SEED");
    seed_ = given ? std::stoull(*given) : std::random_device()();
    fmt::print("seed {}: repeat with MLBENCH_FUZZ_SEED={} ctest -L fuzz\n", seed_, seed_);
    random_.seed(seed_);
  }
  ~Fuzz() override { mark_.kill_all(); }

  fs::path home() const { return folder_.path() / "home"; }

  // ---- raw material ------------------------------------------------------------------------------------------------

  size_t below(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }
  template <typename T>
  const T& one_of(const std::vector<T>& choices) {
    return choices[below(choices.size())];
  }
  std::string bytes(size_t most) {
    std::string out(below(most + 1), '\0');
    for (char& c : out) c = static_cast<char>(below(256));
    return out;
  }
  std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) out += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    return out;
  }
  Json value(int depth = 0) {
    switch (below(depth < 3 ? 12 : 9)) {
      case 0:
        return nullptr;
      case 1:
        return below(2) == 0;
      case 2:
        return -1;
      case 3:
        return int64_t{1} << below(63);
      case 4:
        return 1e308;
      case 5:
        return "";
      case 6:
        return std::string(below(3000), 'x');
      case 7:
        return one_of<std::string>(
            {"../../etc/passwd", "'; DROP TABLE runs; --", "\u0000", "$(reboot)", "{rank}", "nan", "1e999"});
      case 8:
        return 0.5;
      case 9:
        return Json::array({value(depth + 1), value(depth + 1)});
      case 10:
        return Json{{"name", value(depth + 1)}};
      default:
        return Json::array();
    }
  }
  // A request for runs that is never right: there is no such task.
  Json wrong_run() {
    Json run = {{"name", "fuzz"}, {"workers", {1}}, {"task", "no-such-task"}, {"light", true}, {"seed", 7}};
    const std::vector<std::string> fields = {"name",     "workers",  "light",   "seed",      "set",  "repeat",
                                             "env",      "work_dir", "image",   "task_text", "data", "data_dir",
                                             "max_time", "no_wait",  "backend", "x"};
    for (size_t i = below(4); i > 0; --i) run[one_of(fields)] = value();
    if (below(8) == 0) run["command"] = value();
    return run;
  }
  // Right but for who sends it.
  static Json good_run() { return {{"name", "stolen"}, {"workers", {1}}, {"command", {"/bin/true"}}}; }

  std::string request(const std::string& method, const std::string& target, const std::string& body,
                      const std::string& type = "application/json", const std::string& more = "") {
    return fmt::format(
        "{} {} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\nConnection: close\r\n"
        "Content-Type: {}\r\nContent-Length: {}\r\n{}\r\n{}",
        method, target, token_, type, body.size(), more, body);
  }
  std::string as_somebody(const std::string& host, const std::string& token, const std::string& more) {
    const std::string body = good_run().dump();
    return fmt::format(
        "POST /api/v1/runs HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{}{}Content-Type: application/json\r\n"
        "Content-Length: {}\r\n\r\n{}",
        host, token.empty() ? "" : "Authorization: Bearer " + token + "\r\n", more, body.size(), body);
  }

  // ---- kinds of requests -------------------------------------------------------------------------------------------

  std::string broken_json() {
    std::string body = wrong_run().dump(-1, ' ', false, Json::error_handler_t::replace);
    switch (below(4)) {
      case 0:
        body.resize(below(body.size()));
        break;
      case 1:
        body = bytes(500);
        break;
      case 2:
        body = std::string(below(100'000), '[');
        break;
      default:
        body[below(body.size())] = static_cast<char>(below(256));
    }
    return request("POST", "/api/v1/runs", body);
  }
  std::string wrong_types() {
    return request("POST", one_of<std::string>({"/api/v1/runs", "/api/v1/runs/r-9/clone", "/api/v1/runs/r-9/stop"}),
                   wrong_run().dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  std::string tricky_path() {
    const std::string trick = one_of<std::string>(
        {"..", "../..", "../../../../etc/passwd", "r-1/../../token", ".", ".next-id", "r-1\\..", "r-1/", "//r-1",
         "r-1;x", "-1", "99999999999999999999", "0x1", std::string(200, 'a'), std::string(5000, '/')});
    std::string path = below(2) == 0 ? trick : escaped(trick);
    if (below(4) == 0) path += one_of<std::string>({"%00", "%", "%g1", "%ff%fe", "?%", "#", "%2f%2e%2e"});
    const std::string tail = one_of<std::string>(
        {"", "/logs", "/logs/0", "/logs/0?stream=stdout", "/logs/..%2fspec.json", "/logs/supervisor", "/logs/all",
         "/logs/all?cursor=1:0:5,", "/series", "/download", "/tensorboard", "/points"});
    const std::string base =
        one_of<std::string>({"/api/v1/runs/", "/api/v1/", "/", "/api/runs/", "/api/metrics/", "/api/pods/"});
    const std::string method = one_of<std::string>({"GET", "GET", "DELETE", "HEAD"});
    // Only the folder that is there can be deleted, and it must not be.
    return request(method == "DELETE" && path.find("r-1") != std::string::npos ? "GET" : method, base + path + tail,
                   "");
  }
  std::string odd_query() {
    const std::vector<std::string> names = {"limit",     "offset",  "sort",          "state",       "q",      "task",
                                            "points",    "rank",    "from_step",     "to_time_us",  "name",   "since",
                                            "summarize", "last_n",  "metric_filter", "metric_type", "format", "runs",
                                            "follow",    "segment", "stream"};
    std::string query = "?";
    for (size_t i = below(5) + 1; i > 0; --i) {
      const std::string text = below(3) == 0
                                   ? escaped(bytes(30))
                                   : one_of<std::string>({"-1", "0", "1e9", "99999999999999999999999", "", "%25", "NaN",
                                                          "2026-13-45T99:99:99Z", "true'--", "%00", "zip", "../x"});
      query += fmt::format("{}={}&", one_of(names), text);
    }
    return request("GET",
                   one_of<std::string>({"/api/v1/runs", "/api/v1/runs/r-1/series", "/api/v1/runs/r-1/logs/supervisor",
                                        "/api/v1/compare", "/api/v1/scaling", "/api/metrics/1/", "/api/metrics/",
                                        "/api/runs/", "/api/v1/runs/r-1"}) +
                       query,
                   "");
  }
  std::string bad_points() {
    std::string body;
    for (size_t i = below(20) + 1; i > 0; --i) {
      Json line = {{"rank", 0}, {"sequence", i}, {"values", {{"x", 1}}}};
      if (below(2) == 0) line[one_of<std::string>({"rank", "sequence", "step", "time", "values", "y"})] = value();
      std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace);
      if (below(4) == 0) text[below(text.size())] = static_cast<char>(below(256));
      body += text + "\n";
    }
    if (below(4) == 0) body.resize(below(body.size()));
    if (below(8) == 0) body = bytes(2000);
    const bool packed = below(4) == 0;
    const std::string more = packed || below(10) == 0 ? "Content-Encoding: gzip\r\n" : "";
    return request("POST", "/api/v1/runs/r-1/points", packed ? gzip(body) : body,
                   one_of<std::string>({"application/x-ndjson", "application/json", "text/plain", "",
                                        "a/b; charset=" + std::string(300, 'z')}),
                   more);
  }
  std::string legacy() {
    const std::vector<std::string> fields = {"run_id",
                                             "name",
                                             "value",
                                             "date",
                                             "metadata",
                                             "cumulative",
                                             "num_workers",
                                             "num_cpus",
                                             "image_name",
                                             "backend",
                                             "light_target",
                                             "gpu_enabled",
                                             "custom_image_name",
                                             "custom_image_command"};
    const auto field = [&] {
      return below(3) == 0 ? bytes(40)
                           : one_of<std::string>(
                                 {"1", "-1", "", "true", "abc", "custom_image", "2026-01-31 12:00:00", "1e400", "MPI"});
    };
    const std::string target = one_of<std::string>({"/api/runs/", "/api/metrics/", "/api/metrics", "/api/runs"});
    std::string body;
    switch (below(3)) {
      case 0:
        for (size_t i = below(8); i > 0; --i) body += one_of(fields) + "=" + escaped(field()) + "&";
        return request("POST", target, body, "application/x-www-form-urlencoded");
      case 1:
        for (size_t i = below(6); i > 0; --i) {
          body +=
              fmt::format("--b\r\nContent-Disposition: form-data; name=\"{}\"\r\n\r\n{}\r\n", one_of(fields), field());
        }
        return request("POST", target, body + (below(2) == 0 ? "--b--\r\n" : ""), "multipart/form-data; boundary=b");
      default:
        Json json = Json::object();
        for (size_t i = below(8); i > 0; --i) json[one_of(fields)] = value();
        return request("POST", target, json.dump(-1, ' ', false, Json::error_handler_t::replace));
    }
  }
  std::string stranger() {
    switch (below(4)) {
      case 0:
        return as_somebody("127.0.0.1", "", "");
      case 1:
        return as_somebody("127.0.0.1", one_of<std::string>({"x", token_ + "x", token_.substr(1), "  "}), "");
      case 2:
        return as_somebody("127.0.0.1", token_, "Origin: http://evil.example\r\n");
      default:
        return as_somebody(one_of<std::string>({"evil.example", "127.0.0.1.evil.example", "", "[", "[::1", "a b",
                                                std::string(300, 'h')}),
                           token_, "");
    }
  }
  std::string broken_protocol() {
    switch (below(8)) {
      case 0:
        return bytes(2000);
      case 1:
        return bytes(50) + "\r\n\r\n";
      case 2:
        return fmt::format("{} / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", std::string(below(20'000), 'M'));
      case 3:
        return fmt::format("GET /{} HTTP/1.1\r\n\r\n", std::string(below(40'000), 'p'));
      case 4:
        return request("POST", "/api/v1/runs", "x", "application/json", "Content-Length: 5\r\n");
      case 5:
        return request("POST", "/api/v1/runs", "zz\r\nbody\r\n0\r\n\r\n", "application/json",
                       "Transfer-Encoding: chunked\r\n");
      case 6: {
        std::string out = "GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n";
        for (size_t i = below(300); i > 0; --i) out += fmt::format("X-{}: {}\r\n", i, std::string(below(200), 'v'));
        return out + "\r\n";
      }
      default:
        return fmt::format("GET /api/v1/health HTTP/{}.{}\r\nHost: 127.0.0.1\r\n\r\n", below(12), below(12));
    }
  }
  std::string huge() {
    switch (below(4)) {
      case 0:
        return fmt::format(
            "POST /api/v1/runs/r-1/points HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\n"
            "Content-Type: application/x-ndjson\r\nContent-Length: {}\r\n\r\n{{",
            token_, (uint64_t{1} << (30 + below(33))));
      case 1: {  // unpacks to much more than the limit
        static const std::string kBomb = gzip(std::string(32 << 20, ' '));
        return request("POST", "/api/v1/runs/r-1/points", kBomb, "application/x-ndjson", "Content-Encoding: gzip\r\n");
      }
      case 2: {
        std::string out = fmt::format(
            "POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\nConnection: close\r\n"
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
            token_);
        const std::string chunk(1 << 20, '[');
        for (int i = 0; i < 10; ++i) out += fmt::format("{:x}\r\n{}\r\n", chunk.size(), chunk);
        return out + "0\r\n\r\n";
      }
      default:
        return request("POST", "/api/v1/runs", "{\"name\": \"" + std::string(9 << 20, 'n') + "\"}");
    }
  }

  std::string mlflow() {
    const std::string call = one_of<std::string>(
        {"experiments/create", "experiments/get-by-name", "experiments/search", "runs/create", "runs/get",
         "runs/update", "runs/log-metric", "runs/log-batch", "runs/search", "runs/set-tag", "metrics/get-history"});
    const std::vector<std::string> fields = {
        "name",   "experiment_id", "experiment_ids", "run_id",     "tags",       "metrics",
        "params", "key",           "value",          "timestamp",  "step",       "status",
        "filter", "order_by",      "max_results",    "page_token", "metric_key", "start_time"};
    Json body = Json::object();
    for (size_t i = below(6); i > 0; --i) body[one_of(fields)] = value();
    if (call == "runs/search" && below(2) == 0) {
      body["experiment_ids"] = Json::array({"0"});
      body["filter"] = one_of<std::string>({"metrics.a > 1 and", "a", "params.x = 'y", "tags.`z` != \"q\"",
                                            "metrics.m >= 1e999", std::string(900, '('), "attributes.none = 1"});
      body["order_by"] = Json::array({one_of<std::string>({"metrics.a DESC", "1", "start_time", "tags.\"x y\""})});
    }
    const std::string text = body.dump(-1, ' ', false, Json::error_handler_t::replace);
    const bool get = call.find("get") != std::string::npos;
    return get ? request("GET",
                         fmt::format("/api/2.0/mlflow/{}?run_id={}&metric_key=%00&experiment_name={}", call,
                                     escaped(bytes(20)), escaped(bytes(20))),
                         "")
               : request("POST", "/api/2.0/mlflow/" + call, text);
  }

  std::string any(int number) {
    if (number % 250 == 0) return huge();
    switch (below(10)) {
      case 9:
        return mlflow();
      case 0:
        return broken_json();
      case 1:
        return wrong_types();
      case 2:
        return tricky_path();
      case 3:
        return odd_query();
      case 4:
        return bad_points();
      case 5:
        return legacy();
      case 6:
        return stranger();
      case 7:
        return broken_protocol();
      default:
        return request(one_of<std::string>({"PUT", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "G\tT"}),
                       one_of<std::string>({"/api/v1/runs", "*", "/api/v1/health", "http://127.0.0.1/api/v1/runs"}),
                       bytes(20));
    }
  }

  // Bytes that come one by one, for as long as the server stands it.
  void send_slowly(const std::string& bytes, const std::atomic<bool>& over) const {
    const Wire wire(port_);
    for (size_t i = 0; i < bytes.size() && !over; ++i) {
      if (!wire.send(bytes.substr(i, 1))) return;
      std::this_thread::sleep_for(100ms);
    }
  }

  int64_t peak_resident_bytes() const {
    const std::string status = read_file(fmt::format("/proc/{}/status", serve_->pid()));
    return std::stoll(status.substr(status.find("VmHWM:") + 6)) * 1024;
  }

  TemporaryFolder folder_;
  test::ProcessMark mark_;
  test::Variable home_variable_, lock_variable_, worker_variable_;
  std::optional<ChildProcess> serve_;
  std::string url_, token_;
  uint16_t port_ = 0;
  uint64_t seed_ = 0;
  std::mt19937_64 random_;
};

TEST_F(Fuzz, NothingBreaksAndNothingStarts) {
  std::atomic<bool> over{false};
  std::vector<std::thread> slow;
  for (int i = 0; i < kSlowSenders; ++i) {
    slow.emplace_back([&, text = i % 2 == 0 ? request("GET", "/api/v1/runs", "")
                                            : request("POST", "/api/v1/runs", good_run().dump()).substr(0, 150)] {
      send_slowly(text, over);
    });
  }
  std::map<int, int> statuses;
  for (int number = 0; number < kRequests && !HasFailure(); ++number) {
    const std::string text = any(number);
    const Wire wire(port_);
    wire.send(text);
    wire.end();  // what is incomplete ends here
    const int status = wire.status();
    ++statuses[status];
    const std::string what = fmt::format("request {} of seed {} ({} bytes): {}", number, seed_, text.size(),
                                         Json(text.substr(0, 600)).dump(-1, ' ', true, Json::error_handler_t::replace));
    EXPECT_NE(status, -1) << "no answer in time: " << what;
    EXPECT_NE(status, 500) << what;
    EXPECT_NE(status, 503) << what;
    EXPECT_FALSE(serve_->wait(0ms)) << "the server is gone: " << what << read_file(folder_.path() / "serve.log");
  }
  over = true;
  for (std::thread& thread : slow) thread.join();
  std::string summary;
  for (const auto& [status, count] : statuses) summary += fmt::format(" {}:{}", status, count);
  fmt::print("answers by status (0: closed):{}; {:.0f} MB resident at most\n", summary,
             double(peak_resident_bytes()) / 1e6);

  EXPECT_LT(peak_resident_bytes(), kMostResidentBytes);
  net::http::ClientRequest list;
  list.url = url_ + "/api/v1/runs";
  list.headers = {{"Authorization", "Bearer " + token_}};
  const net::http::ClientResponse answer = net::http::Client().send(list);
  ASSERT_EQ(answer.status, 200);
  const Json runs = Json::parse(answer.body);
  EXPECT_EQ(runs["total"], 1) << runs.dump(1);
  EXPECT_EQ(runs["runs"][0]["state"], "stopped");
  std::vector<std::string> folders;
  for (const auto& entry : fs::directory_iterator(home() / "runs")) {
    const std::string name = entry.path().filename();
    if (!name.starts_with('.')) folders.push_back(name);
  }
  EXPECT_THAT(folders, testing::ElementsAre("r-1"));
  kill(serve_->pid(), SIGTERM);
  const auto end = serve_->wait(30s);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, 0) << "it ends orderly";
}

}  // namespace
}  // namespace mlbench
