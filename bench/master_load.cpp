// How much a master takes: batches of points, single values from MLBench's clients. Starts `mlbench serve --legacy-api`
// with a home of its own, sends from many connections at once, prints rates, and checks that everything is there.

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <thread>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/process.h"
#include "mlbench/master/owner.h"
#include "mlbench/master/runs.h"
#include "mlbench/net/http/client.h"
#include "mlbench/spec/task.h"
#include "mlbench/supervise/test_folder.h"

namespace mlbench {
namespace {

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

int bench(const Load& load, int batch, const std::string& program) {
  const supervise::TestFolder folder;
  spec::RunSpec run;
  run.name = "load-1";
  run.cache_dir = folder.path() / "cache";
  spec::set_task(run, spec::find_task("fashion-mnist", "", "", {}), {});
  const int64_t id = master::create_run(folder.path(), run, master::Waiting{}).id;

  ProcessOptions options;
  options.arguments = {program, "serve", "--listen", "127.0.0.1:0", "--home", folder.path(), "--legacy-api"};
  options.environment = {{"MLBENCH_WORKER", "/nonexistent"}, {"MLBENCH_CORE_LOCK", folder.path() / "cores"}};
  options.output = folder.path() / "log";
  ChildProcess server = ChildProcess::start(options);
  std::optional<master::MasterAddress> address;
  for (int i = 0; i < 200 && !address; ++i) {
    address = master::find_master(folder.path());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  if (!address) throw IoError("the master does not start: " + read_file(*options.output));
  const std::string token = master::read_token(address->token_file);
  const auto port = static_cast<uint16_t>(std::stoi(address->url.substr(address->url.rfind(':') + 1)));

  std::atomic<int64_t> batches{0};
  const double batch_rate = send_from_all(port, load, 200, batches, [&](int connection, int64_t number) {
    std::string body;
    for (int i = 0; i < batch; ++i) {
      const int64_t sequence = number * batch + i;
      fmt::format_to(
          std::back_inserter(body),
          "{{\"rank\":{},\"sequence\":{},\"step\":{},\"time\":1700000000.25,\"values\":{{\"train_loss\":0.{},"
          "\"lr\":0.1,\"samples_per_s\":12345.6,\"step_s\":0.0125}}}}\n",
          connection, sequence, sequence, sequence % 1000);
    }
    return post("/api/v1/runs/load-1/points", token, "application/x-ndjson", body);
  });
  fmt::print("batches        {:12.0f} points/s ({} connections, {} points each)\n", batch_rate * batch * 4,
             load.connections, batch * 4);

  std::atomic<int64_t> posts{0};
  const double post_rate = send_from_all(port, load, 201, posts, [&](int connection, int64_t number) {
    return post(
        "/api/metrics/", token, "application/x-www-form-urlencoded",
        fmt::format("run_id={}&name=train_loss+%40+{}&cumulative=False&date=2026-01-31+12%3A00%3A00.123456&value=0.{}"
                    "&metadata=%7Brank%3A+0%7D",
                    id, connection, number));
  });
  fmt::print("single values  {:12.0f} posts/s ({} connections, keep-alive)\n", post_rate, load.connections);

  // Everything that was acknowledged is there.
  net::http::Client client;
  net::http::ClientRequest request;
  request.url = address->url + "/api/v1/runs/load-1/series?name=train_loss&points=1000";
  request.headers = {{"Authorization", "Bearer " + token}};
  request.timeout = std::chrono::minutes(5);
  int64_t points = 0;
  const auto before = Clock::now();
  for (const Json& series : Json::parse(client.send(request).body)["series"]) points += series["count"].get<int64_t>();
  const auto first = Clock::now();
  client.send(request);
  const auto warm = Clock::now();
  fmt::print("charts         {:12.1f} ms first, {:.1f} ms again ({} series, {} points)\n",
             std::chrono::duration<double, std::milli>(first - before).count(),
             std::chrono::duration<double, std::milli>(warm - first).count(), load.connections, points);
  server.stop(std::chrono::seconds(10));
  if (points != batches * batch) {
    fmt::print(stderr, "{} of {} points are there\n", points, batches * batch);
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace mlbench

int main(int argc, char** argv) {
  CLI::App app("How much a master takes");
  mlbench::Load load;
  int batch = 250;
  std::string program = (mlbench::program_path().parent_path() / "mlbench").string();
  app.add_option("--connections", load.connections)->capture_default_str();
  app.add_option("--seconds", load.seconds, "of each part")->capture_default_str();
  app.add_option("--batch", batch, "records of 4 points each")->capture_default_str();
  app.add_option("--mlbench", program)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return mlbench::bench(load, batch, program);
  } catch (const std::exception& error) {
    fmt::print(stderr, "master_load: {}\n", error.what());
    return 2;
  }
}
