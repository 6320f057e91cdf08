#include "mlbench/net/kv/kv.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <sstream>
#include <thread>

#include "mlbench/base/clock.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/process.h"
#include "mlbench/net/kv/wire.h"
#include "mlbench/net/proof.h"
#include "mlbench/net/sockets.h"
#include "mlbench/net/test_relay.h"

namespace mlbench::net {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

constexpr auto kPatience = 120s;  // for what happens soon, if not under a sanitizer on a busy machine

KvServerOptions server_options(int size) {
  KvServerOptions options;
  options.size = size;
  options.run_id = "run-1";
  options.secret = "sesame";
  return options;
}

KvClientOptions client_options(int port, int rank, int size) {
  KvClientOptions options;
  options.port = port;
  options.rank = rank;
  options.size = size;
  options.run_id = "run-1";
  options.secret = "sesame";
  return options;
}

template <typename Condition>
bool soon(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return condition();
}

// A client that follows no rules.
class RawClient {
 public:
  explicit RawClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  bool connected() const { return connected_; }
  void send_bytes(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return;  // the server closed
      bytes.remove_prefix(static_cast<size_t>(count));
    }
  }
  void send_message(const Json& message) { send_bytes(wire::encode(message)); }
  // Empty when the server closes, or says nothing for `kPatience`.
  std::optional<Json> receive() {
    char buffer[4096];
    for (;;) {
      if (auto message = input_.next(wire::kMaxMessageBytes)) return message;
      pollfd polled{socket_.get(), POLLIN, 0};
      if (poll(&polled, 1, 30000) <= 0) return std::nullopt;
      const ssize_t count = recv(socket_.get(), buffer, sizeof buffer, 0);
      if (count <= 0) return std::nullopt;
      input_.append({buffer, static_cast<size_t>(count)});
    }
  }
  // Whether the server closes within kPatience, reading what it still says.
  bool closed_by_server() {
    while (receive()) {
    }
    char byte;
    pollfd polled{socket_.get(), POLLIN, 0};
    return poll(&polled, 1, 30000) == 1 && recv(socket_.get(), &byte, 1, 0) <= 0;
  }
  void reset_connection() {
    const linger at_once{1, 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    socket_.reset();
  }

 private:
  FileDescriptor socket_;
  wire::FrameReader input_;
  bool connected_ = false;
};

Json hello(int rank, int size) {
  return {{"op", "hello"},
          {"id", 0},
          {"nonce", wire::to_bytes(make_nonce())},
          {"session", wire::to_bytes(make_nonce())},
          {"run", "run-1"},
          {"rank", rank},
          {"size", size},
          {"pid", 77},
          {"host", "somewhere"}};
}

// The answer to the proof; empty when there is none.
std::optional<Json> prove(RawClient& client, const Json& hello, const std::string& secret = "sesame") {
  client.send_message(hello);
  const auto answer = client.receive();
  if (!answer || !answer->contains("challenge")) return std::nullopt;
  const auto transcript = wire::transcript_of(hello, wire::bytes_in(*answer, "challenge"));
  const std::string proof = proof_of(ProofRole::kConnecting, secret, transcript);
  client.send_message({{"op", "proof"}, {"id", 0}, {"proof", wire::to_bytes(proof)}});
  return client.receive();
}

bool join(RawClient& client, int rank, int size) {
  const auto answer = prove(client, hello(rank, size));
  return answer && answer->contains("proof");
}

// ---- values --------------------------------------------------------------------------------------------------------

TEST(Kv, ValuesAreBytesAndSeenByAllRanks) {
  KvServer server(server_options(2));
  KvClient zero(client_options(server.port(), 0, 2));
  KvClient one(client_options(server.port(), 1, 2));
  const std::string bytes("\0\xff\n\x80", 4);
  zero.set("key", bytes);
  zero.set("empty", "");
  EXPECT_EQ(one.get("key", 1s), bytes);
  EXPECT_EQ(zero.get("key", 0s), bytes);
  EXPECT_EQ(one.get("empty", 1s), "");
}

TEST(Kv, LargeValueTravels) {
  KvServer server(server_options(1));
  KvClient client(client_options(server.port(), 0, 1));
  std::string large(3 << 20, '\0');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7 % 251);
  client.set("large", large);
  EXPECT_TRUE(client.get("large", 10s) == large);
}

TEST(Kv, ValueAboveTheLimitIsRefusedAndTheConnectionLives) {
  KvServer server(server_options(1));
  KvClient client(client_options(server.port(), 0, 1));
  EXPECT_THAT([&] { client.set("large", std::string(wire::kMaxMessageBytes, 'x')); },
              ThrowsMessage<CommError>(AllOf(HasSubstr("set 'large'"), HasSubstr("at most 67108864"))));
  client.set("small", "x");
  EXPECT_EQ(client.get("small", 1s), "x");
}

TEST(Kv, KeysAreWrittenOnce) {
  KvServer server(server_options(1));
  KvClient client(client_options(server.port(), 0, 1));
  client.set("key", "first");
  EXPECT_THAT([&] { client.set("key", "second"); },
              ThrowsMessage<CommError>(AllOf(HasSubstr("rank 0"), HasSubstr("set 'key'"), HasSubstr("set already"))));
  EXPECT_EQ(client.get("key", 1s), "first");
}

TEST(Kv, GetWaitsForTheKey) {
  KvServer server(server_options(2));
  KvClient zero(client_options(server.port(), 0, 2));
  KvClient one(client_options(server.port(), 1, 2));
  std::thread late([&] {
    std::this_thread::sleep_for(50ms);
    one.set("late", "value");
  });
  EXPECT_EQ(zero.get("late", kPatience), "value");
  late.join();
}

TEST(Kv, ManyThreadsShareAClient) {
  KvServer server(server_options(2));
  KvClient zero(client_options(server.port(), 0, 2));
  KvClient one(client_options(server.port(), 1, 2));
  constexpr int kThreads = 8;
  constexpr int kKeys = 50;
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int k = 0; k < kKeys; ++k)
        zero.set(std::to_string(t) + "/" + std::to_string(k), std::to_string(t * 1000 + k));
    });
    threads.emplace_back([&, t] {
      for (int k = kKeys - 1; k >= 0; --k) {
        right += one.get(std::to_string(t) + "/" + std::to_string(k), kPatience) == std::to_string(t * 1000 + k);
        one.heartbeat({{"step", k}});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kThreads * kKeys);
}

TEST(Kv, GetNamesKeyTimeAndMissingRanks) {
  KvServer server(server_options(4));
  KvClient zero(client_options(server.port(), 0, 4));
  KvClient two(client_options(server.port(), 2, 4));
  EXPECT_THAT([&] { zero.get("nobody/sets/me", 100ms); },
              ThrowsMessage<CommTimeout>(AllOf(HasSubstr("rank 0: get 'nobody/sets/me'"), HasSubstr("within 0.1 s"),
                                               HasSubstr("ranks 1 and 3 of 4 have not joined"))));
  KvClient one(client_options(server.port(), 1, 4));
  KvClient three(client_options(server.port(), 3, 4));
  EXPECT_THAT([&] { zero.get("nobody/sets/me", 0ms); }, ThrowsMessage<CommTimeout>(Not(HasSubstr("joined"))));
}

// ---- ranks ---------------------------------------------------------------------------------------------------------

TEST(Kv, WaitForAllNamesTheMissingRanks) {
  KvServer server(server_options(4));
  EXPECT_THAT([&] { server.wait_for_all(10ms); },
              ThrowsMessage<CommTimeout>("ranks 0, 1, 2 and 3 of 4 have not joined within 0.01 s"));
  KvClient zero(client_options(server.port(), 0, 4));
  KvClient two(client_options(server.port(), 2, 4));
  EXPECT_THAT([&] { server.wait_for_all(10ms); },
              ThrowsMessage<CommTimeout>("ranks 1 and 3 of 4 have not joined within 0.01 s"));
  KvClient three(client_options(server.port(), 3, 4));
  EXPECT_THAT([&] { server.wait_for_all(10ms); },
              ThrowsMessage<CommTimeout>("rank 1 of 4 has not joined within 0.01 s"));
  std::thread late([&] {
    std::this_thread::sleep_for(50ms);
    KvClient one(client_options(server.port(), 1, 4));
  });
  server.wait_for_all(kPatience);  // rank 1 joins, and leaves at once: it has been there
  late.join();
}

TEST(Kv, ManyMissingRanksAreCounted) {
  KvServer server(server_options(100));
  EXPECT_THAT([&] { server.wait_for_all(0ms); },
              ThrowsMessage<CommTimeout>(HasSubstr("14, 15 and 84 others of 100 have not joined")));
}

TEST(Kv, HeartbeatAndReportReachTheServerAndOutliveTheConnection) {
  KvServer server(server_options(2));
  EXPECT_FALSE(server.ranks()[1].joined);
  {
    KvClient client(client_options(server.port(), 1, 2));
    const auto before = std::chrono::steady_clock::now();
    client.heartbeat({{"operation", "all_reduce"}, {"sequence", 12}});
    client.report({{"kind", "comm_error"}, {"message", "no UTF-8: \xff"}});  // the heartbeat came first
    const RankStatus status = server.ranks()[1];
    EXPECT_TRUE(status.joined);
    EXPECT_TRUE(status.connected);
    EXPECT_EQ(status.pid, getpid());
    EXPECT_EQ(status.host, host_name());
    EXPECT_EQ(status.heartbeat, Json({{"operation", "all_reduce"}, {"sequence", 12}}));
    EXPECT_GE(status.last_heartbeat, before);
    ASSERT_TRUE(status.report);
    EXPECT_EQ(status.report->at("kind"), "comm_error");
    EXPECT_EQ(status.report->at("message"), "no UTF-8: \xEF\xBF\xBD");
  }
  ASSERT_TRUE(soon([&] { return !server.ranks()[1].connected; }));
  const RankStatus status = server.ranks()[1];
  EXPECT_TRUE(status.joined);
  EXPECT_EQ(status.heartbeat.at("sequence"), 12);
  EXPECT_TRUE(status.report);
  EXPECT_FALSE(server.ranks()[0].joined);
}

// Words that a client has heard.
class HeardWords {
 public:
  explicit HeardWords(KvClient& client) {
    client.on_word([this](const Json& word) {
      const std::lock_guard lock(mutex_);
      words_.push_back(word);
    });
  }
  std::vector<Json> words() {
    const std::lock_guard lock(mutex_);
    return words_;
  }

 private:
  std::mutex mutex_;
  std::vector<Json> words_;
};

TEST(Kv, AWordIsToldToAllRanksAndToThoseThatComeLater) {
  KvServer server(server_options(3));
  KvClient first(client_options(server.port(), 0, 3)), second(client_options(server.port(), 1, 3));
  HeardWords by_first(first), by_second(second);
  server.tell({{"stop", true}});
  ASSERT_TRUE(soon([&] { return by_first.words().size() == 1 && by_second.words().size() == 1; }));
  server.tell({{"stop_after", 7}});
  ASSERT_TRUE(soon([&] { return by_first.words().size() == 2; }));
  EXPECT_EQ(by_first.words()[0], Json({{"stop", true}}));
  EXPECT_EQ(by_first.words()[1], Json({{"stop_after", 7}}));

  RawClient late(server.port());
  ASSERT_TRUE(prove(late, hello(2, 3)));
  const auto word = late.receive();
  ASSERT_TRUE(word);
  EXPECT_EQ((*word)["word"], Json({{"stop_after", 7}})) << "the last word alone";
  first.set("key", "value");
  EXPECT_EQ(second.get("key", kPatience), "value") << "answers come beside words";
}

TEST(Kv, AWordMayBeAnsweredByAHeartbeatWhereItIsHeard) {
  KvServer server(server_options(1));
  KvClient client(client_options(server.port(), 0, 1));
  client.on_word([&](const Json&) { client.heartbeat({{"step", 3}, {"trains", true}, {"stop_after", 4}}); });
  server.tell({{"stop", true}});
  EXPECT_TRUE(soon([&] {
    const Json heard = server.ranks()[0].heartbeat;
    return heard.is_object() && heard.value("stop_after", 0) == 4;
  }));
}

TEST(Kv, TheServersClockIsReadBetweenTwoMomentsOfTheClients) {
  ManualClock servers;
  servers.advance(std::chrono::hours(5));
  KvServerOptions options = server_options(1);
  options.clock = &servers;
  KvServer server(options);
  KvClient client(client_options(server.port(), 0, 1));
  const auto now_ns = [] { return std::chrono::steady_clock::now().time_since_epoch().count(); };
  const int64_t before_ns = now_ns();
  const ServerTime first = client.server_time(kPatience);
  const int64_t between_ns = now_ns();
  servers.advance(7ns);
  const ServerTime second = client.server_time(kPatience);
  EXPECT_EQ(first.server_ns, std::chrono::nanoseconds(5h).count());
  EXPECT_EQ(second.server_ns, first.server_ns + 7);
  EXPECT_LE(before_ns, first.sent_ns);
  EXPECT_LE(first.sent_ns, first.received_ns);
  EXPECT_LE(first.received_ns, between_ns);
  EXPECT_LE(between_ns, second.sent_ns);
  EXPECT_LE(second.sent_ns, second.received_ns);
}

TEST(Kv, AClientMayHaveAClockOfItsOwn) {
  ManualClock clients;
  clients.advance(11ns);
  KvServer server(server_options(1));
  KvClientOptions options = client_options(server.port(), 0, 1);
  options.clock = &clients;
  KvClient client(options);
  const ServerTime time = client.server_time(kPatience);
  EXPECT_EQ(time.sent_ns, 11);
  EXPECT_EQ(time.received_ns, 11);
}

TEST(Kv, ARankThatLeftMayJoinAgain) {
  KvServer server(server_options(1));
  for (int i = 0; i < 20; ++i) {
    KvClient client(client_options(server.port(), 0, 1));
    client.set(std::to_string(i), "");
  }
  KvClient last(client_options(server.port(), 0, 1));
  EXPECT_EQ(last.get("19", 1s), "");
}

// ---- refusals ------------------------------------------------------------------------------------------------------

TEST(Kv, RefusalsSayWhy) {
  KvServer server(server_options(2));
  KvClient first(client_options(server.port(), 0, 2));
  const auto refused_with = [&](auto change, const std::string& text) {
    KvClientOptions options = client_options(server.port(), 1, 2);
    change(options);
    EXPECT_THAT(
        [&] { KvClient client(options); },
        ThrowsMessage<CommError>(AllOf(HasSubstr("127.0.0.1:" + std::to_string(server.port())), HasSubstr(text))));
  };
  refused_with([](auto& o) { o.secret = "guessed"; }, "wrong secret");
  refused_with([](auto& o) { o.secret = "sesam"; }, "wrong secret");
  refused_with([](auto& o) { o.secret = "sesamF"; }, "wrong secret");
  refused_with([](auto& o) { o.secret = ""; }, "wrong secret");
  refused_with([](auto& o) { o.run_id = "run-2"; }, "'run-2' was asked for, 'run-1' is here");
  refused_with([](auto& o) { o.size = 3; }, "it counts 3 ranks, the run has 2");
  refused_with([](auto& o) { o.rank = 2; }, "rank 2: expected 0 to 1");
  refused_with([](auto& o) { o.rank = -1; }, "rank -1: expected 0 to 1");
  refused_with([](auto& o) { o.rank = 0; }, "rank 0 is taken by process " + std::to_string(getpid()));
  EXPECT_FALSE(server.ranks()[1].joined);
  first.set("still", "here");
  EXPECT_EQ(first.get("still", 1s), "here");
}

TEST(Kv, TheSecretIsCheckedBeforeAnythingIsTold) {
  KvServer server(server_options(2));
  KvClientOptions options = client_options(server.port(), 7, 9);
  options.run_id = "run-2";
  options.secret = "guessed";
  EXPECT_THAT([&] { KvClient client(options); },
              ThrowsMessage<CommError>(AllOf(HasSubstr("wrong secret"), Not(HasSubstr("run-1")))));
}

TEST(Kv, NobodyAnswers) {
  const int port = free_port();
  KvClientOptions options = client_options(port, 0, 1);
  options.connect_timeout = 200ms;
  EXPECT_THAT([&] { KvClient client(options); },
              ThrowsMessage<CommTimeout>(AllOf(HasSubstr("127.0.0.1:" + std::to_string(port)),
                                               HasSubstr("within 0.2 s"), HasSubstr("Connection refused"))));
  options.port = 0;
  EXPECT_THAT([&] { KvClient client(options); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("port 0"), HasSubstr("1 to 65535"), HasSubstr("MASTER_PORT"))));
}

TEST(Kv, AClientMayComeBeforeTheServer) {
  const int port = free_port();
  std::unique_ptr<KvServer> server;
  std::thread late([&] {
    std::this_thread::sleep_for(100ms);
    KvServerOptions options = server_options(1);
    options.port = port;
    server = std::make_unique<KvServer>(options);
  });
  KvClientOptions options = client_options(port, 0, 1);
  options.connect_timeout = kPatience;
  {
    KvClient client(options);
    client.set("key", "value");
    EXPECT_EQ(client.get("key", 1s), "value");
    late.join();
  }
}

TEST(Kv, AnotherServiceIsNoRendezvous) {
  FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::thread http([&] {
    const FileDescriptor peer(accept(listener.get(), nullptr, nullptr));
    char buffer[4096];
    EXPECT_GT(recv(peer.get(), buffer, sizeof buffer, 0), 0);
    const std::string_view answer = "HTTP/1.1 400 Bad Request\r\n\r\n";
    EXPECT_GT(send(peer.get(), answer.data(), answer.size(), MSG_NOSIGNAL), 0);
    EXPECT_EQ(recv(peer.get(), buffer, sizeof buffer, 0), 0);
  });
  EXPECT_THAT([&] { KvClient client(client_options(ntohs(address.sin_port), 0, 1)); },
              ThrowsMessage<CommError>(HasSubstr("no rendezvous server of mlbench")));
  http.join();
}

TEST(Kv, AnAddressInUseIsNamed) {
  KvServer server(server_options(1));
  KvServerOptions options = server_options(1);
  options.port = server.port();
  EXPECT_THAT([&] { KvServer second(options); },
              ThrowsMessage<IoError>(
                  AllOf(HasSubstr("127.0.0.1:" + std::to_string(server.port())), HasSubstr("Address already in use"))));
  options.bind_address = "no.such.host.invalid";
  EXPECT_THAT([&] { KvServer second(options); }, ThrowsMessage<IoError>(HasSubstr("no.such.host.invalid")));
}

// ---- hostile and broken clients ------------------------------------------------------------------------------------

class KvFaults : public testing::Test {
 protected:
  // The server goes on serving others, whatever happened before.
  void TearDown() override {
    KvClient client(client_options(server_.port(), 1, 2));
    client.set("alive", "yes");
    EXPECT_EQ(client.get("alive", 1s), "yes");
  }
  KvServer server_{[] {
    KvServerOptions options = server_options(2);
    options.hello_timeout = 300ms;
    return options;
  }()};
};

TEST_F(KvFaults, AConnectionWithoutHelloIsClosed) {
  RawClient silent(server_.port());
  EXPECT_TRUE(silent.closed_by_server());
}

TEST_F(KvFaults, HalfAHelloIsClosed) {
  RawClient half(server_.port());
  half.send_bytes(wire::encode(hello(0, 2)).substr(0, 20));
  EXPECT_TRUE(half.closed_by_server());
  EXPECT_FALSE(server_.ranks()[0].joined);
}

TEST_F(KvFaults, AHelloAboveFourKibibytesIsRefused) {
  RawClient large(server_.port());
  Json message = hello(0, 2);
  message["padding"] = std::string(5000, 'x');
  large.send_message(message);
  const auto answer = large.receive();
  ASSERT_TRUE(answer);
  EXPECT_THAT(answer->at("error").get<std::string>(), HasSubstr("at most 4096"));
  EXPECT_TRUE(large.closed_by_server());
}

TEST_F(KvFaults, AMessageBeforeTheHelloIsRefused) {
  RawClient eager(server_.port());
  eager.send_message({{"op", "set"}, {"id", 1}, {"key", "alive"}, {"value", wire::to_bytes("no")}});
  const auto answer = eager.receive();
  ASSERT_TRUE(answer);
  EXPECT_THAT(answer->at("error").get<std::string>(), HasSubstr("'set', not 'hello'"));
  EXPECT_TRUE(eager.closed_by_server());
}

TEST_F(KvFaults, GarbageIsRefused) {
  for (const std::string& garbage : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100, '\0'),
                                     std::string("\0\0\0\4\x9f\x9f\x9f\x9f", 8), std::string("\0\0\0\1\xff", 5)}) {
    RawClient client(server_.port());
    client.send_bytes(garbage);
    EXPECT_TRUE(client.closed_by_server()) << garbage;
  }
}

TEST_F(KvFaults, AfterTheHelloOversizedAndUnknownMessagesEndTheConnectionAndItsRank) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {std::string("\x7f\xff\xff\xff", 4), "at most 67108864"},
      {wire::encode({{"op", "dance"}, {"id", 1}}), "'dance'"},
      {wire::encode({{"op", "get"}, {"id", 1}, {"key", 5}, {"timeout_ms", 1}}), "\"key\""},
      {wire::encode({{"op", "heartbeat"}, {"status", "fine"}}), "\"status\""},
  };
  for (const auto& [bytes, text] : cases) {
    RawClient client(server_.port());
    ASSERT_TRUE(join(client, 0, 2));
    EXPECT_TRUE(server_.ranks()[0].connected);
    client.send_bytes(bytes);
    const auto answer = client.receive();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->at("id"), 0);
    EXPECT_THAT(answer->at("error").get<std::string>(), HasSubstr(text));
    EXPECT_TRUE(client.closed_by_server());
    EXPECT_FALSE(server_.ranks()[0].connected);
  }
}

TEST_F(KvFaults, HalfAMessageAndAResetCountAsGone) {
  RawClient client(server_.port());
  ASSERT_TRUE(join(client, 0, 2));
  client.send_bytes(
      wire::encode({{"op", "set"}, {"id", 1}, {"key", "k"}, {"value", wire::to_bytes("v")}}).substr(0, 9));
  client.reset_connection();
  EXPECT_TRUE(soon([&] { return !server_.ranks()[0].connected; }));
  EXPECT_TRUE(server_.ranks()[0].joined);
}

TEST_F(KvFaults, AClientThatReadsNothingHindersNobody) {
  KvClient reader(client_options(server_.port(), 1, 2));
  reader.set("large", std::string(4 << 20, 'x'));
  RawClient deaf(server_.port());
  ASSERT_TRUE(join(deaf, 0, 2));
  for (int id = 1; id <= 8; ++id) deaf.send_message({{"op", "get"}, {"id", id}, {"key", "large"}, {"timeout_ms", 0}});
  for (int i = 0; i < 100; ++i) reader.set(std::to_string(i), "");
  EXPECT_EQ(reader.get("99", 1s), "");
}

TEST_F(KvFaults, AClientThatReadsNothingAndAsksForMuchIsClosed) {
  {
    KvClient writer(client_options(server_.port(), 1, 2));
    writer.set("large", std::string(8 << 20, 'x'));
  }
  RawClient deaf(server_.port());
  ASSERT_TRUE(join(deaf, 0, 2));
  for (int id = 1; id <= 20; ++id) deaf.send_message({{"op", "get"}, {"id", id}, {"key", "large"}, {"timeout_ms", 0}});
  EXPECT_TRUE(soon([&] { return !server_.ranks()[0].connected; }));
}

TEST_F(KvFaults, StrangersDoNotKeepRanksOut) {
  std::vector<std::unique_ptr<RawClient>> strangers;
  for (int i = 0; i < 200; ++i) strangers.push_back(std::make_unique<RawClient>(server_.port()));
  KvClient client(client_options(server_.port(), 0, 2));  // when the strangers' time is over, at the latest
  EXPECT_TRUE(server_.ranks()[0].connected);
}

TEST_F(KvFaults, AProofIsGoodForOneConnectionAlone) {
  // What a client said on one connection, said again on another.
  RawClient first(server_.port());
  const Json greeting = hello(0, 2);
  first.send_message(greeting);
  const auto challenge = first.receive();
  ASSERT_TRUE(challenge);
  const auto transcript = wire::transcript_of(greeting, wire::bytes_in(*challenge, "challenge"));
  const Json proof = {
      {"op", "proof"}, {"id", 0}, {"proof", wire::to_bytes(proof_of(ProofRole::kConnecting, "sesame", transcript))}};
  RawClient second(server_.port());
  second.send_message(greeting);
  ASSERT_TRUE(second.receive());
  second.send_message(proof);
  const auto refusal = second.receive();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->value("error", ""), "wrong secret");
  EXPECT_FALSE(server_.ranks()[0].joined);
  // The same holds for claims that differ from the hello's.
  RawClient third(server_.port());
  const auto answer = prove(third, hello(0, 2), "guessed");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->value("error", ""), "wrong secret");
}

TEST_F(KvFaults, AServerThatDoesNotKnowTheSecretIsNoServer) {
  const FileDescriptor listener = listen_on("127.0.0.1", 0);
  std::thread impostor([&] {
    const auto deadline = deadline_after(kPatience);
    ASSERT_TRUE(wait_for(listener.get(), POLLIN, deadline));
    const Accepted client = accept_from(listener.get());
    wire::FrameReader input;
    const auto next = [&]() -> std::optional<Json> {
      for (;;) {
        if (auto message = input.next(wire::kMaxHelloBytes)) return message;
        char buffer[4096];
        if (!wait_for(client.socket.get(), POLLIN, deadline)) return std::nullopt;
        const ssize_t count = recv(client.socket.get(), buffer, sizeof buffer, 0);
        if (count <= 0) return std::nullopt;
        input.append({buffer, static_cast<size_t>(count)});
      }
    };
    const auto answer = [&](const Json& message) {
      const std::string frame = wire::encode(message);
      EXPECT_GT(send(client.socket.get(), frame.data(), frame.size(), MSG_NOSIGNAL), 0);
    };
    const auto greeting = next();
    ASSERT_TRUE(greeting);
    EXPECT_EQ(greeting->dump(-1, ' ', false, Json::error_handler_t::replace).find("sesame"), std::string::npos);
    answer({{"id", 0}, {"challenge", wire::to_bytes(make_nonce())}});
    const auto proof = next();
    ASSERT_TRUE(proof);
    answer({{"id", 0}, {"proof", proof->at("proof")}});  // the client's own, sent back
    next();
  });
  EXPECT_THAT([&] { KvClient client(client_options(own_endpoint(listener.get()).port, 0, 1)); },
              ThrowsMessage<CommError>(HasSubstr("does not know the run's secret")));
  impostor.join();
}

// What is logged while it lives, as the call sites wrote it.
class CapturedLog {
 public:
  CapturedLog() {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)));
  }
  ~CapturedLog() { spdlog::set_default_logger(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream text_;
};

TEST(KvFlood, RefusedHellosFillNoLogAndKeepNoRankOut) {
  const CapturedLog log;
  int64_t hellos = 0;
  {
    KvServer server(server_options(4));
    std::atomic<bool> over{false};
    std::atomic<int64_t> sent{0};
    std::vector<std::thread> strangers;
    for (int i = 0; i < 2; ++i) {
      strangers.emplace_back([&] {
        const std::string text = "\x1b[2J\r\n12:00:00.000 error [supervisor] rank 0 failed\x07";
        Json forged = hello(0, 4);
        forged["op"] = text;
        forged["secret"] = forged["run"] = text;
        std::deque<std::unique_ptr<RawClient>> open;  // silent, refused, and about to prove something
        while (!over) {
          open.push_back(std::make_unique<RawClient>(server.port()));
          if (sent++ % 3 != 0) open.back()->send_message(sent % 3 == 1 ? forged : hello(0, 4));
          if (open.size() > 150) open.pop_front();
        }
      });
    }
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 4; ++rank) {
      ranks.emplace_back([&, rank] {
        KvClientOptions options = client_options(server.port(), rank, 4);
        options.connect_timeout = kPatience;
        try {
          KvClient client(options);
          client.set(std::to_string(rank), "here");
        } catch (const CommError& error) {
          ADD_FAILURE() << error.what();
        }
      });
    }
    for (std::thread& rank : ranks) rank.join();
    EXPECT_TRUE(soon([&] { return sent > 2000; }));
    over = true;
    for (std::thread& stranger : strangers) stranger.join();
    for (const RankStatus& rank : server.ranks()) EXPECT_TRUE(rank.joined);
    for (int i = 0; i < 9; ++i) {  // one more than have a line each, however few the server came to read
      RawClient late(server.port());
      late.send_message({{"op", "forged"}, {"id", 0}});
      EXPECT_TRUE(late.receive());
    }
    hellos = sent;
  }
  const std::string text = log.text();
  EXPECT_LT(text.size(), size_t{65536}) << hellos << " hellos";
  EXPECT_THAT(text, HasSubstr("more connections"));
  for (const char byte : text) ASSERT_TRUE(byte == '\n' || static_cast<unsigned char>(byte) >= 0x20) << text;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_THAT(line, HasSubstr("] rendezvous: refused ")) << line;
}

TEST_F(KvFaults, TooManyWaitingCallsOfOneRankAreRefused) {
  RawClient client(server_.port());
  ASSERT_TRUE(join(client, 0, 2));
  for (int id = 1; id <= 1025; ++id) {
    client.send_message({{"op", "get"}, {"id", id}, {"key", "never"}, {"timeout_ms", int64_t{1} << 62}});
  }
  const auto answer = client.receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->at("id"), 1025);
  EXPECT_THAT(answer->at("error").get<std::string>(), HasSubstr("1024 calls"));
}

// ---- the server goes away ------------------------------------------------------------------------------------------

struct Signal {
  std::mutex mutex;
  std::condition_variable changed;
  int count = 0;
  std::thread::id thread;
  void raise() {
    const std::lock_guard lock(mutex);
    ++count;
    thread = std::this_thread::get_id();
    changed.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, kPatience, [this] { return count > 0; });
  }
};

TEST(KvLost, PendingAndLaterCallsThrowAndTheCallbackComesOnce) {
  auto server = std::make_unique<KvServer>(server_options(1));
  const std::string address = "127.0.0.1:" + std::to_string(server->port());
  Signal lost;
  {
    KvClient client(client_options(server->port(), 0, 1));
    client.on_lost([&] { lost.raise(); });
    std::thread ends_server([&] {
      std::this_thread::sleep_for(50ms);
      server.reset();
    });
    EXPECT_THAT([&] { client.get("never", kPatience); },
                ThrowsMessage<CommError>(
                    AllOf(HasSubstr("get 'never'"), HasSubstr("lost the rendezvous server at " + address))));
    ends_server.join();
    ASSERT_TRUE(lost.wait());
    EXPECT_NE(lost.thread, std::this_thread::get_id());
    EXPECT_THROW(client.set("key", "value"), CommError);
    EXPECT_THROW(client.report({{"kind", "end"}}), CommError);
    client.heartbeat({{"step", 1}});  // no matter
  }
  EXPECT_EQ(lost.count, 1);
}

TEST(KvLost, TheCallbackMayComeLate) {
  auto server = std::make_unique<KvServer>(server_options(1));
  KvClient client(client_options(server->port(), 0, 1));
  server.reset();
  ASSERT_TRUE(soon([&] {
    try {
      client.get("key", 0ms);
    } catch (const CommTimeout&) {
    } catch (const CommError&) {
      return true;
    }
    return false;
  }));
  Signal lost;
  client.on_lost([&] { lost.raise(); });
  EXPECT_TRUE(lost.wait());
}

TEST(KvLost, OurOwnEndIsNoLoss) {
  KvServer server(server_options(1));
  Signal lost;
  {
    KvClient client(client_options(server.port(), 0, 1));
    client.on_lost([&] { lost.raise(); });
    client.set("key", "value");
  }
  EXPECT_EQ(lost.count, 0);
}

TEST(KvLost, TheServersLastWordsAreInTheError) {
  auto server = std::make_unique<KvServer>(server_options(1));
  KvClient client(client_options(server->port(), 0, 1));
  // A key that is not UTF-8 is a broken rule, so the server ends the connection.
  EXPECT_THAT([&] { client.set("\xff", "value"); }, ThrowsMessage<CommError>(HasSubstr("not well-formed")));
}

// ---- a broken connection ------------------------------------------------------------------------------------------

class KvResume : public testing::Test {
 protected:
  KvClientOptions patient(int rank, std::chrono::milliseconds patience = kPatience) const {
    KvClientOptions options = client_options(relay_.port(), rank, 2);
    options.resume_patience = patience;
    return options;
  }

  KvServer server_{server_options(2)};
  test::Relay relay_{server_.port()};
};

TEST_F(KvResume, WhatWasNotAnsweredIsAskedAgain) {
  KvClient cut_off(patient(0));
  KvClient other(client_options(server_.port(), 1, 2));
  bool lost = false;
  cut_off.on_lost([&] { lost = true; });
  std::string got;
  std::thread waits([&] { got = cut_off.get("late", kPatience); });
  std::this_thread::sleep_for(50ms);
  relay_.cut();
  EXPECT_TRUE(soon([&] { return !server_.ranks()[0].connected; }));
  std::thread sets([&] { cut_off.set("mine", "value"); });
  cut_off.heartbeat({{"step", 1}});  // is left out
  std::this_thread::sleep_for(200ms);
  other.set("late", "came");
  relay_.heal();
  waits.join();
  sets.join();
  EXPECT_EQ(got, "came");
  EXPECT_EQ(other.get("mine", 0s), "value");
  EXPECT_TRUE(server_.ranks()[0].connected);
  EXPECT_EQ(relay_.connections(), 2);
  cut_off.heartbeat({{"step", 7}});
  EXPECT_TRUE(soon([&] { return server_.ranks()[0].heartbeat.is_object(); }));
  EXPECT_EQ(server_.ranks()[0].heartbeat.at("step"), 7);
  EXPECT_FALSE(lost);
}

// The connection breaks between the question and its answer: the key was set, and setting it again is no mistake.
TEST_F(KvResume, NothingHappensTwice) {
  RawClient first(server_.port());
  const Json greeting = hello(0, 2);
  ASSERT_TRUE(prove(first, greeting));
  const Json set = {{"op", "set"}, {"id", 5}, {"key", "key"}, {"value", wire::to_bytes("value")}};
  first.send_message(set);
  EXPECT_EQ(first.receive(), Json({{"id", 5}}));
  // The old connection is not closed: the server has not heard that it broke.
  RawClient again(server_.port());
  const auto answer = prove(again, greeting);
  ASSERT_TRUE(answer && answer->contains("proof"));
  again.send_message(set);
  EXPECT_EQ(again.receive(), Json({{"id", 5}}));
  EXPECT_TRUE(first.closed_by_server());
  EXPECT_TRUE(server_.ranks()[0].connected);
  // A call of its own is one.
  Json second = set;
  second["id"] = 6;
  again.send_message(second);
  const auto refused = again.receive();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->at("error"), "it is set already");
}

TEST_F(KvResume, AnotherClientIsNotTheSame) {
  KvClient first(client_options(server_.port(), 0, 2));
  EXPECT_THAT([&] { KvClient second(patient(0)); }, ThrowsMessage<CommError>(HasSubstr("rank 0 is taken by process")));
  first.set("still", "here");
}

TEST_F(KvResume, PatienceEnds) {
  Signal lost;
  KvClient client(patient(0, 300ms));
  client.on_lost([&] { lost.raise(); });
  relay_.cut();
  EXPECT_THAT([&] { client.get("never", kPatience); },
              ThrowsMessage<CommError>(AllOf(HasSubstr("lost the rendezvous server"),
                                             HasSubstr("could not be reached again within 0.3 s"))));
  EXPECT_TRUE(lost.wait());
}

TEST_F(KvResume, AClientThatIsClosedWaitsForNothing) {
  const auto begin = std::chrono::steady_clock::now();
  {
    KvClient client(patient(0, 10min));
    relay_.cut();
    EXPECT_TRUE(soon([&] { return !server_.ranks()[0].connected; }));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5min);
}

// ---- processes -----------------------------------------------------------------------------------------------------

// Runs this program as a child process, see main().
ProcessOptions peer_options(const std::vector<std::string>& arguments) {
  ProcessOptions options;
  options.arguments = {program_path()};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  options.die_with_parent = true;
  return options;
}

TEST(KvProcess, AKilledRankIsSeenAndRemembered) {
  KvServer server(server_options(2));
  KvClient zero(client_options(server.port(), 0, 2));
  ChildProcess child = ChildProcess::start(peer_options({"--client-on", std::to_string(server.port())}));
  EXPECT_EQ(zero.get("child", kPatience), std::to_string(child.pid()));
  EXPECT_TRUE(server.ranks()[1].connected);
  child.signal(SIGKILL);
  ASSERT_TRUE(soon([&] { return !server.ranks()[1].connected; }));
  const RankStatus status = server.ranks()[1];
  EXPECT_TRUE(status.joined);
  EXPECT_EQ(status.pid, child.pid());
  EXPECT_EQ(status.heartbeat.at("operation"), "barrier");
  EXPECT_FALSE(status.report);
  child.wait(kPatience);
  EXPECT_TRUE(server.ranks()[0].connected);
}

class KvServerProcess : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const FileDescriptor read_end(ends[0]);
    FileDescriptor write_end(ends[1]);
    ProcessOptions options = peer_options({"--server-into", std::to_string(write_end.get())});
    options.inherited = {write_end.get()};
    child_.emplace(ChildProcess::start(options));
    write_end.reset();
    std::string text;
    char byte = 0;
    while (read(read_end.get(), &byte, 1) == 1 && byte != '\n') text += byte;
    ASSERT_FALSE(text.empty());
    port_ = std::stoi(text);
  }
  void TearDown() override {
    if (child_) child_->stop(0ms);
  }
  std::optional<ChildProcess> child_;
  int port_ = 0;
};

TEST_F(KvServerProcess, AKilledServerIsLost) {
  KvClient client(client_options(port_, 0, 1));
  Signal lost;
  client.on_lost([&] { lost.raise(); });
  client.set("key", "value");
  child_->signal(SIGKILL);
  EXPECT_TRUE(lost.wait());
  EXPECT_THROW(client.get("key", 1s), CommError);
}

TEST_F(KvServerProcess, AStoppedServerBlocksNobody) {
  KvClientOptions options = client_options(port_, 0, 1);
  options.reply_timeout = 200ms;
  KvClient client(options);
  client.set("before", "value");
  child_->signal(SIGSTOP);
  siginfo_t stopped;
  ASSERT_EQ(waitid(P_PID, child_->pid(), &stopped, WSTOPPED | WNOWAIT), 0);  // the signal takes effect later
  EXPECT_THAT([&] { client.set("key", "value"); },
              ThrowsMessage<CommTimeout>(AllOf(HasSubstr("set 'key'"), HasSubstr("has not answered within 0.2 s"))));
  // Far more than the socket holds.
  const Json status = {{"operation", std::string(2000, 'x')}};
  for (int i = 0; i < 6000; ++i) client.heartbeat(status);
  child_->signal(SIGCONT);
  EXPECT_TRUE(soon([&] {
    try {
      return client.get("before", 1s) == "value";
    } catch (const CommTimeout&) {
      return false;
    }
  }));
  EXPECT_EQ(client.get("key", 1s), "value");  // arrived, if late
}

void run_client(int port) {
  KvClient client(client_options(port, 1, 2));
  client.heartbeat({{"operation", "barrier"}, {"sequence", 3}});
  client.set("child", std::to_string(getpid()));
  std::this_thread::sleep_for(kPatience);
}

void run_server(int pipe) {
  KvServer server(server_options(1));
  write_all(pipe, std::to_string(server.port()) + "\n", "pipe");
  std::this_thread::sleep_for(kPatience);
}

// Each message of the protocol with each member left out, or of another kind, size, count or depth: it is that rank's
// fault, or is taken; the others are served.
TEST(KvHostile, WhateverARankSaysIsItsOwnFault) {
  Json deep = 1;
  for (int i = 0; i < 80; ++i) deep = Json::array({deep});
  const std::vector<Json> odd_values = {nullptr,
                                        true,
                                        -1,
                                        INT64_MAX,
                                        UINT64_MAX,
                                        1.5,
                                        "",
                                        std::string("a\0b", 3),
                                        std::string(100'000, 'x'),
                                        wire::to_bytes(""),
                                        Json::array(),
                                        Json::object(),
                                        {{"operation", 7}},
                                        {{"operation", std::string(5000, 'x')}},
                                        {{"message", std::string(100'000, 'x')}},
                                        {{"sequence", "x"}},
                                        {{"in_progress", 7}},
                                        {{"a", deep}}};
  const std::vector<Json> good = {
      {{"op", "set"}, {"id", 1}, {"key", "key"}, {"value", wire::to_bytes("value")}},
      {{"op", "get"}, {"id", 1}, {"key", "key"}, {"timeout_ms", 0}},
      {{"op", "report"}, {"id", 1}, {"message", {{"kind", "comm_error"}, {"message", "words"}}}},
      {{"op", "time"}, {"id", 1}},
      {{"op", "heartbeat"}, {"status", {{"operation", "all_reduce"}, {"sequence", 7}, {"in_progress", true}}}}};
  const auto is_of_one_kind = [](const Json& one, const Json& other) {
    return one.type() == other.type() || (one.is_number_integer() && other.is_number_integer());
  };
  std::vector<std::pair<Json, bool>> cases;  // whether it is wrong; else it may be taken
  for (const Json& message : good) {
    cases.emplace_back(message, false);
    for (const auto& [key, value] : message.items()) {
      cases.emplace_back(message, true);
      cases.back().first.erase(key);
      for (const Json& odd : odd_values) {
        const bool wrong = !is_of_one_kind(value, odd) || (odd.is_object() && !odd.empty()) ||
                           (odd.is_string() && key != "key") || odd.dump().size() > 10'000;
        // A rank may ask for any key.
        cases.emplace_back(message, wrong && !(message["op"] == "get" && key == "key" && odd.is_string()));
        cases.back().first[key] = odd;
      }
    }
  }
  const int ranks = static_cast<int>(cases.size()) + 1;
  KvServer server(server_options(ranks));
  KvClient honest(client_options(server.port(), ranks - 1, ranks));
  for (int rank = 0; rank + 1 < ranks; ++rank) {
    const auto& [message, wrong] = cases[static_cast<size_t>(rank)];
    RawClient client(server.port());
    ASSERT_TRUE(join(client, rank, ranks));
    client.send_message(message);
    if (!wrong) continue;
    const auto fault = [&] { return server.ranks()[static_cast<size_t>(rank)].fault; };
    EXPECT_TRUE(soon([&] { return !fault().empty(); })) << message.dump().substr(0, 200);
    EXPECT_LT(fault().size(), 5000u);
  }
  honest.set("still", "here");
  EXPECT_EQ(honest.get("still", 1s), "here");
  EXPECT_EQ(server.ranks().back().fault, "");
}

TEST(KvHostile, WhoClaimsAnothersRankHarmsNobody) {
  KvServer server(server_options(2));
  KvClient zero(client_options(server.port(), 0, 2));
  for (const char* member : {"rank", "size", "run", "pid", "host"}) {
    for (const Json& odd : {Json(0), Json(-1), Json(INT64_MAX), Json("a;b"), Json("a\nb"), Json(nullptr)}) {
      Json claim = hello(0, 2);
      claim[member] = odd;
      RawClient client(server.port());
      const auto answer = prove(client, claim);
      EXPECT_TRUE(!answer || answer->contains("error")) << claim;
    }
  }
  for (const RankStatus& rank : server.ranks()) EXPECT_EQ(rank.fault, "");
  zero.set("still", "here");
  EXPECT_TRUE(server.ranks()[0].connected);
  EXPECT_FALSE(server.ranks()[1].joined);
}

TEST(KvHostile, AFloodOfValuesIsAFault) {
  KvServer server(server_options(2));
  KvClient honest(client_options(server.port(), 1, 2));
  RawClient client(server.port());
  ASSERT_TRUE(join(client, 0, 2));
  const Json value = wire::to_bytes(std::string(4 << 20, 'x'));
  for (int id = 1; id <= 20 && server.ranks()[0].fault.empty(); ++id) {
    client.send_message({{"op", "set"}, {"id", id}, {"key", std::to_string(id)}, {"value", value}});
  }
  EXPECT_TRUE(soon([&] { return !server.ranks()[0].fault.empty(); }));
  honest.set("still", "here");
  EXPECT_EQ(honest.get("still", 1s), "here");
}

}  // namespace
}  // namespace mlbench::net

int main(int argc, char** argv) {
  const std::string role = argc == 3 ? argv[1] : "";
  if (role == "--client-on") return mlbench::net::run_client(std::stoi(argv[2])), 0;
  if (role == "--server-into") return mlbench::net::run_server(std::stoi(argv[2])), 0;
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
