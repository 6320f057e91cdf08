// Over real sockets: what a browser, a slow one and a hostile one send.

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/process.h"
#include "mlbench/net/http/client.h"
#include "mlbench/net/http/connections.h"
#include "mlbench/net/http/gzip.h"
#include "mlbench/net/http/server.h"

namespace mlbench::net::http {
namespace {

using namespace std::chrono_literals;
using testing::AnyOf;
using testing::ElementsAre;
using testing::Eq;
using testing::HasSubstr;
using testing::Pair;
using testing::StartsWith;

// ---- targets --------------------------------------------------------------------------------------------------------

TEST(Target, IsSplitAndDecoded) {
  const auto target = parse_target("/api/v1/runs/a%20b%2Fc/?q=x+y&empty&q=%26");
  ASSERT_TRUE(target);
  EXPECT_THAT(target->segments, ElementsAre("api", "v1", "runs", "a b/c"));
  EXPECT_THAT(target->query, ElementsAre(Pair("q", "x y"), Pair("empty", ""), Pair("q", "&")));
  EXPECT_TRUE(parse_target("/")->segments.empty());
  EXPECT_THAT(parse_target("/a+b")->segments, ElementsAre("a+b"));
}

TEST(Target, TricksAreRefused) {
  for (const char* raw : {"", "*", "http://x/", "/a//b", "//", "/../x", "/a/..", "/a/%2e%2e/b", "/%00", "/a%0ab", "/%",
                          "/%4", "/%zz", "/a?x=%", "/a?%00=1", "/./a", "/a\x01"}) {
    EXPECT_FALSE(parse_target(raw)) << raw;
  }
}

TEST(Target, EncodingComesBack) {
  const std::string text = "a b/c&d=%é~";
  const auto target = parse_target("/" + percent_encode(text));
  ASSERT_TRUE(target);
  EXPECT_THAT(target->segments, ElementsAre(text));
}

// ---- gzip -----------------------------------------------------------------------------------------------------------

std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(Gzip, UnpacksUpToTheLimit) {
  const std::string text(100'000, 'x');
  EXPECT_EQ(gunzip(gzip(text), text.size()).text, text);
  EXPECT_EQ(gunzip(gzip(text) + gzip("y"), text.size() + 1).text, text + "y");
  EXPECT_EQ(gunzip(gzip(text), text.size() - 1).error, GzipError::kTooLarge);
}

TEST(Gzip, DamageIsSeen) {
  const std::string packed = gzip("some text");
  EXPECT_EQ(gunzip("no gzip", 100).error, GzipError::kDamaged);
  EXPECT_EQ(gunzip("", 100).error, GzipError::kDamaged);
  for (size_t cut = 1; cut < packed.size(); ++cut) {
    EXPECT_EQ(gunzip(packed.substr(0, cut), 100).error, GzipError::kDamaged) << cut;
  }
}

// ---- connections ----------------------------------------------------------------------------------------------------

// A connection whose other end the test holds.
struct HeldConnection {
  explicit HeldConnection(Connections& connections) {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    near = FileDescriptor(ends[0]);
    far = FileDescriptor(ends[1]);
    connection = connections.add(near.get(), 1h);
  }
  bool closed() const {
    char byte = 0;
    return recv(far.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }
  FileDescriptor near, far;
  Connection* connection = nullptr;
};

TEST(Connections, ANewOneIsNotClosedForLackOfMemory) {
  const MemoryBudget budget(8 * 1000);  // unknown senders may hold two connections of 1,000 bytes
  Connections connections(budget, 100, 1000);
  HeldConnection first(connections), second(connections);
  first.connection->busy = second.connection->busy = true;
  HeldConnection third(connections);
  EXPECT_TRUE(first.closed());
  EXPECT_FALSE(second.closed());
  EXPECT_FALSE(third.closed()) << "it is the only idle one, and nobody knows yet who its sender is";
  HeldConnection fourth(connections);
  EXPECT_TRUE(third.closed()) << "the oldest idle one makes room";
  for (const HeldConnection* one : {&first, &second, &third, &fourth}) connections.remove(one->connection);

  const MemoryBudget none(0);
  Connections poor(none, 100, 1000);
  HeldConnection alone(poor);
  EXPECT_FALSE(alone.closed());
  poor.remove(alone.connection);
}

// ---- the server -----------------------------------------------------------------------------------------------------

// Says what it saw.
class Echo : public Service {
 public:
  Admission begin(const Request& request) override {
    if (request.header("X-Refuse") == "yes") return {.refusal = Response{403, "text/plain", {}, "refused", {}}};
    if (request.target.segments.size() == 1 && request.target.segments[0] == "early-throw")
      throw std::runtime_error("x");
    Admission result = admission;
    result.known = request.header("X-Known") == "yes";
    if (request.header("X-Lane") == "slow") result.lane = Lane::kSlow;
    if (request.header("X-Lane") == "at once") result.lane = Lane::kAtOnce;
    return result;
  }
  Response handle(const Request& request) override {
    ++handled;
    if (request.target.segments == std::vector<std::string>{"wait"}) {
      std::unique_lock lock(mutex);
      ++waiting;
      released.wait(lock, [&] { return release; });
      return {200, "text/plain", {}, "waited", {}};
    }
    if (request.target.segments == std::vector<std::string>{"large"}) {
      return {200, "text/plain", {}, std::string(300'000, 'x'), {}};
    }
    if (request.target.segments == std::vector<std::string>{"pieces"}) {
      Response response{200, "text/plain", {}, "0\n", {}};
      response.next = [this, number = 0]() mutable -> std::string {
        ++pieces;
        if (++number == throw_at) throw std::runtime_error("x");
        return number > 100 ? "" : std::to_string(number) + std::string(50'000, 'x') + "\n";
      };
      return response;
    }
    if (request.target.segments == std::vector<std::string>{"throw"}) throw std::runtime_error("secret");
    if (request.target.segments == std::vector<std::string>{"stream"}) {
      Response response{200, "text/event-stream", {}, "", {}};
      response.open_stream = [this](std::shared_ptr<Stream> stream) {
        const std::lock_guard lock(mutex);
        streams.push_back(std::move(stream));
      };
      return response;
    }
    std::string out = request.method + " " + std::to_string(request.body.size()) + " " + request.body.substr(0, 50);
    for (const auto& [key, value] : request.form) out += "\n" + key + "=" + value;
    return {200, "text/plain", {{"X-Test", "1"}}, out, {}};
  }
  std::shared_ptr<Stream> stream() {
    for (int tries = 0; tries < 500; ++tries) {
      {
        const std::lock_guard lock(mutex);
        if (!streams.empty()) return streams.front();
      }
      std::this_thread::sleep_for(10ms);
    }
    return nullptr;
  }
  Admission admission{.body_bytes = 8 << 20, .unpacked_bytes = 8 << 20};
  std::atomic<int> handled{0}, waiting{0}, pieces{0};
  std::atomic<int> throw_at{0};
  bool release = false;
  std::condition_variable released;
  std::mutex mutex;
  std::vector<std::shared_ptr<Stream>> streams;
};

class HttpServer : public testing::Test {
 protected:
  void start(ServerOptions options = {}) { server = std::make_unique<Server>(options, service); }
  std::string url(const std::string& path) const { return "http://127.0.0.1:" + std::to_string(server->port()) + path; }
  ClientResponse send(const std::string& method, const std::string& path, const std::string& body = "",
                      const std::string& type = "text/plain", Fields headers = {}) const {
    ClientRequest request;
    request.method = method;
    request.url = url(path);
    request.body = body;
    request.content_type = type;
    request.headers = std::move(headers);
    return Client().send(request);
  }

  FileDescriptor connect_raw() const {
    FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const timeval patience{20, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return fd;
  }
  static bool put(const FileDescriptor& fd, const std::string& text) {
    return ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  // Until the other side closes, or nothing comes any more ("TIMEOUT").
  static std::string read_all(const FileDescriptor& fd) {
    std::string text;
    char buffer[4096];
    for (;;) {
      const ssize_t n = recv(fd.get(), buffer, sizeof buffer, 0);
      if (n == 0 || (n < 0 && errno == ECONNRESET)) return text;
      if (n < 0) return text + "TIMEOUT";
      text.append(buffer, static_cast<size_t>(n));
    }
  }
  std::string exchange(const std::string& text) const {
    const FileDescriptor fd = connect_raw();
    put(fd, text);
    return read_all(fd);
  }

  Echo service;
  std::unique_ptr<Server> server;
};

TEST_F(HttpServer, AnswersWithMethodAndBody) {
  start();
  EXPECT_EQ(send("GET", "/a").body, "GET 0 ");
  EXPECT_EQ(send("POST", "/a", "hello").body, "POST 5 hello");
  EXPECT_EQ(send("DELETE", "/a").body, "DELETE 0 ");
  EXPECT_EQ(send("PUT", "/a", "b").body, "PUT 1 b");
}

TEST_F(HttpServer, ManyRequestsUseOneConnection) {
  start();
  Client client;
  ClientRequest request;
  request.url = url("/");
  for (int i = 0; i < 200; ++i) EXPECT_EQ(client.send(request).status, 200);
}

TEST_F(HttpServer, ReadsForms) {
  start();
  EXPECT_EQ(send("POST", "/", "a=1+2&b=%26&a=", "application/x-www-form-urlencoded").body.substr(0, 28),
            "POST 14 a=1+2&b=%26&a=\na=1 2");
  EXPECT_THAT(send("POST", "/", "a=1+2&b=%26&c", "application/x-www-form-urlencoded; charset=utf-8").body,
              HasSubstr("\na=1 2\nb=&\nc="));
  EXPECT_EQ(send("POST", "/", "a=%0A%00b", "application/x-www-form-urlencoded").status, 200);
  EXPECT_EQ(send("POST", "/", "a=%0", "application/x-www-form-urlencoded").status, 400);
  const std::string multipart =
      "--XX\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\nvalue\r\n"
      "--XX\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x.txt\"\r\n\r\n" +
      std::string(10'000, 'f') + "\r\n--XX--\r\n";
  const std::string seen = send("POST", "/", multipart, "multipart/form-data; boundary=XX").body;
  EXPECT_THAT(seen, HasSubstr("\nn=value\nf=ffff"));
}

TEST_F(HttpServer, ABrokenMultipartIsRefused) {
  start();
  EXPECT_EQ(send("POST", "/", "--XX\r\nContent-Dispo", "multipart/form-data; boundary=XX").status, 400);
  EXPECT_EQ(send("POST", "/", "abc", "multipart/form-data").status, 400);
  EXPECT_EQ(service.handled, 0);
}

TEST_F(HttpServer, UnpacksGzip) {
  start();
  EXPECT_EQ(send("POST", "/", gzip("hello"), "text/plain", {{"Content-Encoding", "gzip"}}).body, "POST 5 hello");
  EXPECT_EQ(send("POST", "/", "hello", "text/plain", {{"Content-Encoding", "gzip"}}).status, 400);
  EXPECT_EQ(send("POST", "/", "hello", "text/plain", {{"Content-Encoding", "br"}}).status, 415);
  service.admission.unpacked_bytes = 0;
  EXPECT_EQ(send("POST", "/", gzip("hello"), "text/plain", {{"Content-Encoding", "gzip"}}).status, 415);
}

TEST_F(HttpServer, AGzipBombIsRefused) {
  service.admission.unpacked_bytes = 100'000;
  start();
  EXPECT_EQ(send("POST", "/", gzip(std::string(100'001, 'x')), "text/plain", {{"Content-Encoding", "gzip"}}).status,
            413);
  // So much is allowed, but not for a body of so few bytes: the ratio is limited, too.
  service.admission.unpacked_bytes = 8 << 20;
  EXPECT_EQ(send("POST", "/", gzip(std::string(5 << 20, 'x')), "text/plain", {{"Content-Encoding", "gzip"}}).status,
            413);
}

TEST_F(HttpServer, AHugeBodyIsRefusedBeforeItComes) {
  service.admission.body_bytes = 1000;
  start();
  EXPECT_THAT(exchange("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n"), StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(exchange("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n"),
              AnyOf(StartsWith("HTTP/1.1 400 "), StartsWith("HTTP/1.1 413 ")));
  const std::string chunk = "800\r\n" + std::string(0x800, 'x') + "\r\n";
  EXPECT_THAT(exchange("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk +
                       chunk + "0\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_EQ(service.handled, 0);
}

TEST_F(HttpServer, ARefusedRequestIsAnsweredBeforeItsBody) {
  start();
  EXPECT_THAT(exchange("POST / HTTP/1.1\r\nHost: x\r\nX-Refuse: yes\r\nContent-Length: 1000\r\n\r\n"),
              StartsWith("HTTP/1.1 403 "));
  EXPECT_EQ(service.handled, 0);
}

TEST_F(HttpServer, LongHeadersAreRefused) {
  start();
  EXPECT_THAT(exchange("GET /" + std::string(40'000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n"),
              AnyOf(StartsWith("HTTP/1.1 414 "), StartsWith("HTTP/1.1 431 "), Eq("")));
  EXPECT_THAT(exchange("GET / HTTP/1.1\r\nHost: x\r\nX: " + std::string(40'000, 'a') + "\r\n\r\n"),
              AnyOf(StartsWith("HTTP/1.1 431 "), StartsWith("HTTP/1.1 413 "), Eq("")));
  EXPECT_EQ(service.handled, 0);
  EXPECT_EQ(send("GET", "/").status, 200);
}

TEST_F(HttpServer, ExceptionsBecomeA500WithoutTheirText) {
  start();
  EXPECT_EQ(send("GET", "/throw").status, 500);
  EXPECT_EQ(send("GET", "/throw").body, R"({"status":500,"message":"internal error"})");
  EXPECT_EQ(send("GET", "/early-throw").status, 500);
  EXPECT_EQ(send("GET", "/%zz").status, 400);
}

TEST_F(HttpServer, SlowSendersAreCutOffWhileOthersAreServed) {
  ServerOptions options;
  options.limits.header_time = 600ms;
  options.limits.body_time = 600ms;
  options.limits.idle_time = 2000ms;
  start(options);
  const FileDescriptor headers = connect_raw(), body = connect_raw(), silent = connect_raw();
  put(headers, "GET / HTTP/1.1\r\nHost: x\r\n");
  put(body, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n");
  // A byte now and then, longer than allowed: the other end must close.
  bool headers_open = true, body_open = true;
  const auto give_up = std::chrono::steady_clock::now() + 20s;
  while ((headers_open || body_open) && std::chrono::steady_clock::now() < give_up) {
    headers_open = headers_open && put(headers, "X");
    body_open = body_open && put(body, "x");
    EXPECT_EQ(send("GET", "/").status, 200);
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_FALSE(headers_open);
  EXPECT_FALSE(body_open);
  EXPECT_EQ(read_all(silent).find("TIMEOUT"), std::string::npos);
}

TEST_F(HttpServer, HoldsNoMoreConnectionsThanItMay) {
  ServerOptions options;
  options.threads = 1;
  options.limits.connections = 8;
  options.limits.idle_time = 3000ms;
  start(options);
  std::vector<FileDescriptor> held;
  for (int i = 0; i < 30; ++i) held.push_back(connect_raw());
  std::this_thread::sleep_for(200ms);
  held.clear();
  // Afterwards there is room again.
  for (int tries = 0;; ++tries) {
    try {
      if (send("GET", "/").status == 200) break;
    } catch (const CommError&) {
      ASSERT_LT(tries, 100);
      std::this_thread::sleep_for(100ms);
    }
  }
}

std::string field(const ClientResponse& response, const std::string& name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return "";
}

TEST_F(HttpServer, SlowRequestsHoldUpNobodyElse) {
  start();
  std::vector<std::thread> clients;
  std::atomic<int> refused{0}, waited{0};
  const auto send_slow = [&](int count) {
    for (int i = 0; i < count; ++i) {
      clients.emplace_back([&] {
        const ClientResponse answer = send("GET", "/wait", "", "", {{"X-Lane", "slow"}, {"X-Known", "yes"}});
        if (answer.status == 200) ++waited;
        if (answer.status == 503 && field(answer, "Retry-After") == "1") ++refused;
      });
    }
  };
  const auto give_up = std::chrono::steady_clock::now() + 20s;
  send_slow(4);
  while (service.waiting < 4 && std::chrono::steady_clock::now() < give_up) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(service.waiting, 4);
  send_slow(56);
  while (refused < 24 && std::chrono::steady_clock::now() < give_up) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(refused, 24) << "32 wait";
  // All others are answered: here, and by whoever does what is quick.
  for (const char* lane : {"at once", "quick"}) {
    for (int i = 0; i < 20; ++i) EXPECT_EQ(send("GET", "/", "", "", {{"X-Lane", lane}}).status, 200);
  }
  {
    const std::lock_guard lock(service.mutex);
    service.release = true;
  }
  service.released.notify_all();
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(waited, 36);
}

TEST_F(HttpServer, UnknownSendersTakeNotAllOfALane) {
  start();
  std::vector<std::thread> clients;
  for (int i = 0; i < 6; ++i) clients.emplace_back([&] { send("GET", "/wait", "", "", {{"X-Lane", "slow"}}); });
  const auto give_up = std::chrono::steady_clock::now() + 20s;
  while (service.waiting < 2 && std::chrono::steady_clock::now() < give_up) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(send("GET", "/", "", "", {{"X-Lane", "slow"}, {"X-Known", "yes"}}).status, 200);
  EXPECT_EQ(service.waiting, 2);
  {
    const std::lock_guard lock(service.mutex);
    service.release = true;
  }
  service.released.notify_all();
  for (std::thread& client : clients) client.join();
}

TEST_F(HttpServer, IdleConnectionsOfUnknownSendersMakeRoom) {
  ServerOptions options;
  options.limits.connections = 64;
  start(options);
  const std::string question = "GET / HTTP/1.1\r\nHost: x\r\nX-Known: yes\r\n\r\n";
  const FileDescriptor known = connect_raw();
  const auto ask = [&] {
    char buffer[4096];
    return put(known, question) && recv(known.get(), buffer, sizeof buffer, 0) > 0;
  };
  ASSERT_TRUE(ask());
  std::vector<FileDescriptor> idle;
  for (int i = 0; i < 300; ++i) idle.push_back(connect_raw());
  // Who is known stays, and whoever comes is answered.
  EXPECT_TRUE(ask());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(send("GET", "/").status, 200);
  EXPECT_EQ(read_all(idle.front()).find("TIMEOUT"), std::string::npos) << "the oldest was closed";
  EXPECT_TRUE(ask());
}

TEST_F(HttpServer, IdleConnectionsOfKnownSendersMakeRoom) {
  ServerOptions options;
  options.limits.connections = 64;
  start(options);
  std::vector<FileDescriptor> held;
  for (int i = 0; i < 200; ++i) {
    char buffer[4096];
    held.push_back(connect_raw());
    ASSERT_TRUE(put(held.back(), "GET / HTTP/1.1\r\nHost: x\r\nX-Known: yes\r\n\r\n"));
    ASSERT_GT(recv(held.back().get(), buffer, sizeof buffer, 0), 0) << i;
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(send("GET", "/").status, 200);
}

// Streams of one who is known, more than there are connections.
TEST_F(HttpServer, StreamsLeaveConnectionsForShortRequests) {
  ServerOptions options;
  options.limits.connections = 48;
  start(options);
  std::vector<FileDescriptor> readers;
  const auto open = [&](int count) {
    int opened = 0;
    for (int i = 0; i < count; ++i) {
      char buffer[4096];
      readers.push_back(connect_raw());
      put(readers.back(), "GET /stream HTTP/1.1\r\nHost: x\r\nX-Known: yes\r\n\r\n");
      const ssize_t n = recv(readers.back().get(), buffer, sizeof buffer, 0);
      const std::string answer(buffer, static_cast<size_t>(std::max<ssize_t>(n, 0)));
      if (answer.starts_with("HTTP/1.1 200 ")) ++opened;
      if (!answer.starts_with("HTTP/1.1 200 ")) {
        EXPECT_THAT(answer, StartsWith("HTTP/1.1 503 "));
        EXPECT_THAT(answer, HasSubstr("Retry-After: 1"));
      }
    }
    return opened;
  };
  EXPECT_EQ(open(100), 16);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(send("GET", "/").status, 200);
  // Whoever leaves makes room for others.
  readers.clear();
  int again = 0;
  for (int tries = 0; tries < 200 && again == 0; ++tries) {
    std::this_thread::sleep_for(50ms);
    again = open(1);
  }
  EXPECT_EQ(again, 1);
}

TEST_F(HttpServer, ABodyHasOneLength) {
  start();
  const auto answer_to = [&](const std::string& headers, const std::string& body) {
    return exchange("POST / HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n" + body);
  };
  for (const char* headers :
       {"Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\ncontent-length: 5\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: identity\r\n", "Content-Length: 5, 6\r\n", "Content-Length: +5\r\n",
        "Content-Length: 5x\r\n", "Content-Length: -5\r\n"}) {
    const std::string answer = answer_to(headers, "5\r\nhello\r\n0\r\n\r\nGET /second HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 ")) << headers;
    EXPECT_EQ(answer.find("TIMEOUT"), std::string::npos) << headers << ": the connection is closed";
    EXPECT_EQ(answer.find("GET "), std::string::npos) << headers << ": what follows is no request";
  }
  EXPECT_EQ(service.handled, 0);
  EXPECT_THAT(answer_to("Connection: close\r\nTransfer-Encoding: Chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"),
              HasSubstr("POST 5 hello"));
  EXPECT_THAT(answer_to("Connection: close\r\nContent-Length: 5\r\n", "hello"), HasSubstr("POST 5 hello"));
}

TEST_F(HttpServer, MemoryInFlightHasABudget) {
  ServerOptions options;
  options.limits.memory_bytes = 4 << 20;
  start(options);
  const auto held = [&](const std::string& header) {
    FileDescriptor fd = connect_raw();
    put(fd, "POST / HTTP/1.1\r\nHost: x\r\n" + header + "Content-Length: 900000\r\n\r\n" + std::string(1000, 'x'));
    return fd;
  };
  const auto busy = [&](const Fields& headers) {
    const ClientResponse answer = send("POST", "/", std::string(900'000, 'y'), "text/plain", headers);
    EXPECT_EQ(field(answer, "Retry-After"), answer.status == 503 ? "1" : "");
    return answer.status == 503;
  };
  std::vector<FileDescriptor> senders;
  const auto eventually = [&](const auto& condition) {
    for (int tries = 0; tries < 1000; ++tries) {
      if (condition()) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  };
  // A sender that came while another's body was under way was itself refused: it comes again.
  EXPECT_TRUE(eventually([&] {
    senders.clear();
    senders.push_back(held(""));
    return busy({}) || busy({});
  })) << "one body fills the quarter of unknown senders";
  EXPECT_FALSE(busy({{"X-Known", "yes"}}));
  EXPECT_TRUE(eventually([&] {
    senders.resize(1);
    for (int i = 0; i < 3; ++i) senders.push_back(held("X-Known: yes\r\n"));
    return busy({{"X-Known", "yes"}}) || busy({{"X-Known", "yes"}});
  }));
  EXPECT_EQ(send("GET", "/").status, 200);
  senders.clear();
  EXPECT_TRUE(eventually([&] { return !busy({}) && !busy({{"X-Known", "yes"}}); }));
}

TEST_F(HttpServer, AnswersThatNobodyReadsAreCounted) {
  ServerOptions options;
  options.limits.memory_bytes = 8 << 20;
  start(options);
  std::vector<FileDescriptor> sleepers;
  for (int i = 0; i < 50; ++i) {
    sleepers.push_back(connect_raw());
    const int small = 4096;
    setsockopt(sleepers.back().get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    for (int k = 0; k < 10; ++k) put(sleepers.back(), "GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  EXPECT_EQ(send("GET", "/large", "", "", {{"X-Known", "yes"}}).status, 200);
  sleepers.clear();
}

TEST_F(HttpServer, LongAnswersAreMadeAsFastAsTheyAreRead) {
  start();
  const ClientResponse whole = send("GET", "/pieces");
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(whole.body.size(), 2 + 100 * 50'000 + 9 * 2 + 90 * 3 + 4);
  EXPECT_THAT(whole.body, StartsWith("0\n1xx"));
  EXPECT_EQ(service.pieces, 101);

  service.pieces = 0;
  std::vector<FileDescriptor> sleepers;
  for (int i = 0; i < 20; ++i) {
    sleepers.push_back(connect_raw());
    const int small = 4096;
    setsockopt(sleepers.back().get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    put(sleepers.back(), "GET /pieces HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  // Clients that sleep hold no thread, and what is made for them is little.
  EXPECT_EQ(send("GET", "/pieces").body.size(), whole.body.size());
  EXPECT_LT(service.pieces, 20 * 100);
  sleepers.clear();

  service.throw_at = 5;
  EXPECT_THROW(send("GET", "/pieces"), CommError) << "half an answer is none";
}

TEST_F(HttpServer, StopsWhileMuchIsGoingOn) {
  start();
  std::vector<FileDescriptor> clients;
  for (int i = 0; i < 30; ++i) {
    clients.push_back(connect_raw());
    put(clients.back(), i % 2 == 0 ? "GET /pieces HTTP/1.1\r\nHost: x\r\n\r\n"
                                   : "GET /wait HTTP/1.1\r\nHost: x\r\nX-Lane: slow\r\nX-Known: yes\r\n\r\n");
  }
  while (service.waiting < 4) std::this_thread::sleep_for(5ms);
  std::thread releases([&] {
    std::this_thread::sleep_for(200ms);
    const std::lock_guard lock(service.mutex);
    service.release = true;
    service.released.notify_all();
  });
  server->stop();
  releases.join();
  for (const FileDescriptor& client : clients) EXPECT_EQ(read_all(client).find("TIMEOUT"), std::string::npos);
}

TEST_F(HttpServer, AStreamSaysHowMuchItTakes) {
  ServerOptions options;
  options.limits.stream_bytes = 100'000;
  start(options);
  const FileDescriptor reader = connect_raw();
  put(reader, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto stream = service.stream();
  ASSERT_TRUE(stream);
  size_t pushed = 0;
  for (int i = 0; i < 3000 && pushed < 20'000'000; ++i) {
    const size_t room = stream->room();
    ASSERT_LE(room, 100'000U);
    ASSERT_TRUE(stream->push(std::string(room, 'x')));
    pushed += room;
    if (room == 0) std::this_thread::sleep_for(1ms);
  }
  EXPECT_LT(pushed, 20'000'000U) << "the reader sleeps";
  EXPECT_TRUE(stream->push(""));
  stream->end();
  EXPECT_EQ(stream->room(), 0U);
}

TEST_F(HttpServer, StreamsArePushedAndEnd) {
  start();
  std::string seen;
  std::thread reader([&] {
    ClientRequest request;
    request.url = url("/stream");
    request.on_data = [&](std::string_view data) {
      seen += data;
      return true;
    };
    Client().send(request);
  });
  const auto stream = service.stream();
  ASSERT_TRUE(stream);
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(stream->push("data: " + std::to_string(i) + "\n\n"));
    if (i % 10 == 0) std::this_thread::sleep_for(5ms);
  }
  stream->end();
  reader.join();
  EXPECT_THAT(seen, StartsWith("data: 0\n\ndata: 1\n\n"));
  EXPECT_TRUE(seen.ends_with("data: 49\n\n"));
  EXPECT_FALSE(stream->push("late"));
}

TEST_F(HttpServer, AReaderThatLeavesOrSleepsIsForgotten) {
  ServerOptions options;
  options.limits.stream_bytes = 10'000;
  start(options);
  auto reader = std::make_unique<FileDescriptor>(connect_raw());
  put(*reader, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto stream = service.stream();
  ASSERT_TRUE(stream);
  reader.reset();
  const auto give_up = std::chrono::steady_clock::now() + 20s;
  while (stream->push(": x\n\n") && std::chrono::steady_clock::now() < give_up) std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(stream->push("x"));

  // A stream to which nobody writes notices that its reader left, too.
  service.streams.clear();
  reader = std::make_unique<FileDescriptor>(connect_raw());
  put(*reader, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto silent = service.stream();
  ASSERT_TRUE(silent);
  reader.reset();
  std::this_thread::sleep_for(1s);
  EXPECT_FALSE(silent->push("x"));

  service.streams.clear();
  const FileDescriptor sleeper = connect_raw();
  put(sleeper, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto second = service.stream();
  ASSERT_TRUE(second);
  bool cut = false;
  for (int i = 0; i < 100'000 && !cut; ++i) cut = !second->push(std::string(1000, 'x'));
  EXPECT_TRUE(cut);
}

TEST_F(HttpServer, StopsWhileStreamsAreOpen) {
  start();
  std::vector<FileDescriptor> readers;
  for (int i = 0; i < 5; ++i) {
    readers.push_back(connect_raw());
    put(readers.back(), "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  ASSERT_TRUE(service.stream());
  server->stop();
  for (const FileDescriptor& reader : readers) EXPECT_EQ(read_all(reader).find("TIMEOUT"), std::string::npos);
}

TEST_F(HttpServer, APortInUseIsAUserError) {
  start();
  ServerOptions second;
  second.port = server->port();
  EXPECT_THROW(
      {
        try {
          Server other(second, service);
        } catch (const UserError& error) {
          EXPECT_THAT(error.what(), HasSubstr("another program uses this port"));
          throw;
        }
      },
      UserError);
  second.host = "no.such.host.invalid";
  EXPECT_THROW(Server(second, service), UserError);
}

TEST_F(HttpServer, ServesTls) {
  if (!program_exists("openssl")) GTEST_SKIP() << "missing capability: openssl";
  const TemporaryFolder folder;
  const std::string key = folder / "key.pem", certificate = folder / "cert.pem";
  ProcessOptions openssl;
  openssl.arguments = {"openssl", "req",  "-x509",     "-newkey", "rsa:2048", "-nodes", "-keyout",
                       key,       "-out", certificate, "-days",   "2",        "-subj",  "/CN=localhost"};
  ASSERT_EQ(run_process(openssl, 60s).end.code, 0);
  ServerOptions options;
  options.tls_certificate = read_file(certificate);
  options.tls_key = read_file(key);
  start(options);
  const std::string answer = exchange("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(answer.find("200 OK"), std::string::npos) << "plain HTTP on a TLS port";
  ProcessOptions client;
  client.arguments = {"openssl",       "s_client", "-quiet",
                      "-verify_quiet", "-connect", "127.0.0.1:" + std::to_string(server->port())};
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  FileDescriptor input(ends[0]), feed(ends[1]);
  ASSERT_TRUE(write(feed.get(), "GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 47) == 47);
  client.standard_input = input.get();
  const ProcessOutput output = run_process(client, 60s);
  EXPECT_THAT(output.standard_output, HasSubstr("GET 0"));

  options.tls_key = "no key";
  EXPECT_THROW(Server(options, service), UserError);
}

// ---- the client -----------------------------------------------------------------------------------------------------

TEST(HttpClient, SaysWhenNobodyAnswers) {
  ClientRequest request;
  request.url = "http://127.0.0.1:1/";
  EXPECT_THROW(Client().send(request), CommError);
  request.url = "ftp://127.0.0.1/";
  EXPECT_THROW(Client().send(request), UserError);
}

}  // namespace
}  // namespace mlbench::net::http
