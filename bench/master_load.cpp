// How much a master takes: batches of points, single values from MLBench's clients, a death in the middle of both, many
// connections, charts of ten million points, lists of ten thousand runs. Starts `mlbench serve --legacy-api` with a
// home of its own, prints rates and times, and checks that everything acknowledged is there.

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
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

namespace mlbench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// A connection that sends a prepared request and waits for the answer to it.
class Sender {
 public:
  explicit Sender(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) throw IoError("no connection");
  }
  // A request whose answer does not end.
  void open(const std::string& request) { write_all(fd_.get(), request, "a request"); }
  // The status.
  int send(const std::string& request) {
    write_all(fd_.get(), request, "a request");
    std::string answer;
    char buffer[8192];
    for (;;) {
      const size_t head = answer.find("\r\n\r\n");
      if (head != std::string::npos) {
        const size_t field = answer.find("Content-Length: ");
        const size_t length = field < head ? std::stoul(answer.substr(field + 16)) : 0;
        if (answer.size() >= head + 4 + length) return std::stoi(answer.substr(9, 3));
      }
      const ssize_t n = recv(fd_.get(), buffer, sizeof buffer, 0);
      if (n <= 0) throw IoError("the server closed the connection");
      answer.append(buffer, static_cast<size_t>(n));
    }
  }

 private:
  FileDescriptor fd_;
};

struct Load {
  int connections = 64;
  double seconds = 5;
  int batch = 250;  // records of four points each
};

// make(connection, number) -> request; returns requests per second.
template <typename Make>
double send_from_all(uint16_t port, const Load& load, int expected, std::atomic<int64_t>& sent, const Make& make) {
  std::atomic<bool> wrong{false};
  const auto start = Clock::now();
  const auto end = start + std::chrono::duration<double>(load.seconds);
  std::vector<std::thread> threads;
  for (int connection = 0; connection < load.connections; ++connection) {
    threads.emplace_back([&, connection] {
      try {
        Sender sender(port);
        for (int64_t number = 0; Clock::now() < end; ++number) {
          if (sender.send(make(connection, number)) != expected) wrong = true;
          ++sent;
        }
      } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        wrong = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (wrong) throw UserError("a request was not answered as expected");
  return static_cast<double>(sent) / std::chrono::duration<double>(Clock::now() - start).count();
}

std::string post(const std::string& path, const std::string& token, const char* type, const std::string& body) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\nContent-Type: {}\r\nContent-Length: "
      "{}\r\n\r\n{}",
      path, token, type, body.size(), body);
}

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// A home with one run, and the master that serves it.
class Bench {
 public:
  explicit Bench(std::string program) : program_(std::move(program)) {
    spec::RunSpec run;
    run.name = "load-1";
    run.cache_dir = folder_.path() / "cache";
    spec::set_task(run, spec::find_task("fashion-mnist", "", "", {}), {});
    id_ = home::create_run(folder_.path(), run, home::Waiting{}).id;
    // It waits for nobody: a stopped run.
    home::stop_run(folder_.path(), folder_.path() / "runs" / "load-1");
  }
  ~Bench() { stop(); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void start() {
    ProcessOptions options;
    options.arguments = {program_, "serve", "--listen", "127.0.0.1:0", "--home", folder_.path(), "--legacy-api"};
    options.environment = {{"MLBENCH_WORKER", "/nonexistent"}, {"MLBENCH_CORE_LOCK", folder_.path() / "cores"}};
    options.output = folder_.path() / "log";
    server_.emplace(ChildProcess::start(options));
    std::optional<home::MasterAddress> address;
    for (int i = 0; i < 1200 && !address; ++i) {
      address = home::find_master(folder_.path());
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    if (!address) throw IoError("the master does not start: " + read_file(folder_.path() / "log"));
    token_ = home::read_token(address->token_file);
    url_ = address->url;
    port_ = static_cast<uint16_t>(std::stoi(url_.substr(url_.rfind(':') + 1)));
  }
  void stop() {
    if (server_) server_->stop(std::chrono::seconds(30));
    server_.reset();
  }
  void kill_now() {
    kill(server_->pid(), SIGKILL);
    server_->wait(std::chrono::seconds(30));
    server_.reset();
  }
  uint16_t port() const { return port_; }
  const std::string& token() const { return token_; }
  int64_t id() const { return id_; }
  pid_t pid() const { return server_->pid(); }
  fs::path home() const { return folder_.path(); }

  // The body of a GET behind /api/v1 and how long it took.
  std::string get(const std::string& path, double* ms = nullptr) {
    net::http::ClientRequest request;
    request.url = url_ + "/api/v1" + path;
    request.headers = {{"Authorization", "Bearer " + token_}};
    request.timeout = std::chrono::minutes(5);
    const auto before = Clock::now();
    net::http::ClientResponse response = client_.send(request);
    if (ms != nullptr) *ms = ms_since(before);
    if (response.status != 200) throw IoError(fmt::format("GET {}: {} {}", path, response.status, response.body));
    return std::move(response.body);
  }
  int64_t stored(const std::string& split, const std::string& metric) {
    int64_t points = 0;
    const Json answer = Json::parse(get(fmt::format("/runs/load-1/series?points=1&split={}&metric={}", split, metric)));
    for (const Json& series : answer["series"]) {
      points += series["count"].get<int64_t>();
    }
    return points;
  }

 private:
  const std::string program_;
  const TemporaryFolder folder_;
  int64_t id_ = 0;
  std::optional<ChildProcess> server_;
  std::string token_, url_;
  uint16_t port_ = 0;
  net::http::Client client_;
};

// `records` records of four points each of one rank, behind those of `number` such batches.
std::string batch_of(const Bench& bench, int rank, int64_t number, int records) {
  std::string body;
  for (int i = 0; i < records; ++i) {
    const int64_t sequence = number * records + i;
    fmt::format_to(std::back_inserter(body),
                   "{{\"rank\":{},\"sequence\":{},\"step\":{},\"time\":1700000000.25,\"values\":{{\"train_loss\":0.{},"
                   "\"lr\":0.1,\"samples_per_s\":12345.6,\"step_s\":0.0125}}}}\n",
                   rank, sequence, sequence, sequence % 1000);
  }
  return post("/api/v1/runs/load-1/points", bench.token(), "application/x-ndjson", body);
}

std::string value_of(const Bench& bench, int connection, int64_t number) {
  return post("/api/metrics/", bench.token(), "application/x-www-form-urlencoded",
              fmt::format("run_id={}&name=train_loss+%40+{}&cumulative=False&date=2026-01-31+12%3A00%3A00.123456&"
                          "value=0.{}&metadata=%7Brank%3A+0%7D",
                          bench.id(), connection, number));
}

void check(int64_t there, int64_t acknowledged, const char* what) {
  if (there < acknowledged) {
    throw IoError(fmt::format("{} of {} acknowledged {} are there", there, acknowledged, what));
  }
}

void ingest(Bench& bench, const Load& load) {
  bench.start();
  std::atomic<int64_t> batches{0};
  const double rate = send_from_all(bench.port(), load, 200, batches, [&](int connection, int64_t number) {
    return batch_of(bench, connection, number, load.batch);
  });
  fmt::print("batches      {:10.0f} points/s ({} connections, {} points each)\n", rate * load.batch * 4,
             load.connections, load.batch * 4);
  std::fflush(stdout);
  const auto before = Clock::now();
  check(bench.stored("train", "loss"), batches * load.batch, "points");
  fmt::print("             {:10.1f} ms until the first chart of them ({} points)\n", ms_since(before),
             batches * load.batch * 4);
}

void values(Bench& bench, const Load& load) {
  bench.start();
  std::atomic<int64_t> posts{0};
  const double rate = send_from_all(bench.port(), load, 201, posts, [&](int connection, int64_t number) {
    return value_of(bench, connection, number);
  });
  fmt::print("values       {:10.0f} form posts/s ({} connections, keep-alive)\n", rate, load.connections);
}

// Kills the master in the middle of both kinds of load: nothing that was acknowledged may be missing.
void killed(Bench& bench, const Load& load) {
  bench.start();
  std::atomic<int64_t> batches{0}, posts{0};
  std::atomic<bool> over{false};
  const int64_t before = bench.stored("train", "loss");
  std::vector<std::thread> threads;
  const auto keep_sending = [&](std::atomic<int64_t>& acknowledged, int expected, const auto& make) {
    try {
      Sender sender(bench.port());
      for (int64_t number = 0; !over; ++number) {
        if (sender.send(make(number)) == expected) ++acknowledged;
      }
    } catch (const std::exception&) {
      // The master died.
    }
  };
  for (int connection = 0; connection < load.connections; ++connection) {
    threads.emplace_back([&, connection] {
      if (connection % 2 == 0) {
        keep_sending(batches, 200,
                     [&](int64_t number) { return batch_of(bench, 10'000 + connection, number, load.batch); });
      } else {
        keep_sending(posts, 201, [&](int64_t number) { return value_of(bench, 10'000 + connection, number); });
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(load.seconds));
  bench.kill_now();
  over = true;
  for (std::thread& thread : threads) thread.join();
  const int64_t sent_batches = batches, sent_posts = posts;
  bench.start();
  check(bench.stored("train", "loss") - before, sent_batches * load.batch, "points");
  int64_t values = 0;
  net::http::Client client;
  for (int connection = 1; connection < load.connections; connection += 2) {
    net::http::ClientRequest request;
    request.url = fmt::format("http://127.0.0.1:{}/api/metrics/{}/?metric_type=run&metric_filter=train_loss%20%40%20{}",
                              bench.port(), bench.id(), 10'000 + connection);
    request.timeout = std::chrono::minutes(5);
    const Json answer = Json::parse(client.send(request).body);
    for (const Json& list : answer) values += std::ssize(list);
  }
  check(values, sent_posts, "values");
  fmt::print("killed       {:10} points and {} values acknowledged before SIGKILL, none lost\n",
             sent_batches * load.batch * 4, sent_posts);
}

int64_t resident_bytes(pid_t pid) {
  const std::string status = read_file(fmt::format("/proc/{}/status", pid));
  return std::stoll(status.substr(status.find("VmRSS:") + 6)) * 1024;
}

void connections(Bench& bench, const Load&) {
  bench.start();
  const int64_t before = resident_bytes(bench.pid());
  std::vector<std::unique_ptr<Sender>> idle;
  for (int i = 0; i < 1000; ++i) {
    idle.push_back(std::make_unique<Sender>(bench.port()));
    idle.back()->send("GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  }
  std::vector<std::unique_ptr<Sender>> viewers;
  for (int i = 0; i < 200; ++i) {
    viewers.push_back(std::make_unique<Sender>(bench.port()));
    viewers.back()->open(fmt::format("GET /api/v1/{} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\n\r\n",
                                     i % 2 == 0 ? "events" : "runs/load-1/events", bench.token()));
  }
  std::this_thread::sleep_for(std::chrono::seconds(3));
  fmt::print("connections  {:10.1f} MB resident with 1000 idle connections and 200 viewers ({:.1f} MB before)\n",
             double(resident_bytes(bench.pid())) / 1e6, double(before) / 1e6);
}

// Out of the page cache, as after a restart of the machine.
void forget_files(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const FileDescriptor fd(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd || fdatasync(fd.get()) != 0 || posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED) != 0) {
      throw IoError("cannot drop " + entry.path().string());
    }
  }
}

// A run of ten million points: 8 ranks, 4 series.
void charts(Bench& bench, const Load& load) {
  bench.start();
  const int64_t wanted = 10'000'000 / (4 * 8);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 8; ++rank) {
    threads.emplace_back([&, rank] {
      Sender sender(bench.port());
      for (int64_t number = 0; number * load.batch < wanted; ++number) {
        if (sender.send(batch_of(bench, rank, number, load.batch)) != 200) throw IoError("a batch was refused");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const int64_t points = 4 * bench.stored("train", "loss");
  const std::string path = "/runs/load-1/series?split=train&metric=loss&points=1000";
  bench.stop();
  std::vector<double> cold, warm;
  for (int repeat = 0; repeat < 5; ++repeat) {
    forget_files(bench.home());
    bench.start();
    double ms = 0;
    bench.get("/health");  // the connection of this client
    bench.get(path, &ms);
    cold.push_back(ms);
    bench.get(path, &ms);
    warm.push_back(ms);
    bench.stop();
  }
  std::sort(cold.begin(), cold.end());
  std::sort(warm.begin(), warm.end());
  fmt::print("charts       {:10.1f} ms cold, {:.1f} ms warm (median of 5 starts; {} points, a chart of 8 ranks)\n",
             cold[2], warm[2], points);
}

void list(Bench& bench, const Load&) {
  const fs::path runs = bench.home() / "runs";
  const Json spec = read_json_file(runs / "load-1" / "spec.json"),
             record = read_json_file(runs / "load-1" / "run.json");
  for (int id = 2; id <= 10'000; ++id) {
    const std::string name = fmt::format("load-{}", id);
    fs::create_directories(runs / name);
    Json copy = spec;
    copy["id"] = id;
    copy["name"] = name;
    std::ofstream(runs / name / "spec.json") << copy.dump();
    copy = record;
    copy["id"] = id;
    copy["name"] = name;
    std::ofstream(runs / name / "run.json") << copy.dump();
  }
  const auto before = Clock::now();
  bench.start();
  const double started = ms_since(before);
  std::vector<double> first, deep, search;
  for (int i = 0; i < 21; ++i) {
    double ms = 0;
    bench.get("/runs?limit=100", &ms);
    first.push_back(ms);
    bench.get("/runs?limit=100&offset=9000&state=stopped", &ms);
    deep.push_back(ms);
    bench.get("/runs?limit=100&q=77", &ms);
    search.push_back(ms);
  }
  for (auto* times : {&first, &deep, &search}) std::sort(times->begin(), times->end());
  fmt::print(
      "list         {:10.1f} ms, {:.1f} ms at offset 9000, {:.1f} ms for a search (median of 21; most {:.1f} ms; "
      "10000 runs, first start {:.0f} ms)\n",
      first[10], deep[10], search[10], std::max({first[20], deep[20], search[20]}), started);
}

struct Part {
  const char* name;
  void (*run)(Bench&, const Load&);
};
constexpr Part kParts[] = {{"ingest", ingest},           {"values", values}, {"killed", killed},
                           {"connections", connections}, {"charts", charts}, {"list", list}};

}  // namespace
}  // namespace mlbench

int main(int argc, char** argv) {
  CLI::App app("How much a master takes");
  mlbench::Load load;
  std::vector<std::string> parts = {"ingest", "values", "killed"};
  std::string program = (mlbench::program_path().parent_path() / "mlbench").string();
  app.add_option("PART", parts, "of ingest, values, killed, connections, charts, list")->capture_default_str();
  app.add_option("--connections", load.connections)->capture_default_str();
  app.add_option("--seconds", load.seconds, "of each part")->capture_default_str();
  app.add_option("--batch", load.batch, "records of 4 points each")->capture_default_str();
  app.add_option("--mlbench", program)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    for (const std::string& name : parts) {
      const auto* part = std::find_if(std::begin(mlbench::kParts), std::end(mlbench::kParts),
                                      [&](const auto& one) { return one.name == name; });
      if (part == std::end(mlbench::kParts)) throw mlbench::UserError("unknown part " + name);
      mlbench::Bench bench(program);
      part->run(bench, load);
      std::fflush(stdout);
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "master_load: {}\n", error.what());
    return 2;
  }
}
