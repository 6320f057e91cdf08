#include "mlbench/net/peer/peer_sockets.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <thread>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/net/proof.h"
#include "mlbench/net/sockets.h"

namespace mlbench::net {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr auto kPeerPatience = 60s;

PeerOptions peer_options(int rank, int size) {
  PeerOptions options;
  options.rank = rank;
  options.size = size;
  options.group = "run 7, segment 1, world";
  options.secret = "sesame";
  return options;
}

// What a rank sees: its sockets work, or why there are none.
struct Outcome {
  std::string error;
  int64_t refused = 0;
};

// Sends its rank on each link and reads the peer's.
void exchange(const std::vector<FileDescriptor>& sockets, const std::vector<PeerSockets::Link>& links, int rank) {
  for (size_t i = 0; i < links.size(); ++i) {
    const std::string word = fmt::format("{}/{};", rank, links[i].channel);
    ASSERT_EQ(send(sockets[i].get(), word.data(), word.size(), MSG_NOSIGNAL), static_cast<ssize_t>(word.size()));
  }
  for (size_t i = 0; i < links.size(); ++i) {
    const std::string expected = fmt::format("{}/{};", links[i].peer, links[i].channel);
    std::string got;
    while (got.size() < expected.size()) {
      ASSERT_TRUE(wait_for(sockets[i].get(), POLLIN, deadline_after(kPeerPatience)));
      char byte = 0;
      ASSERT_EQ(recv(sockets[i].get(), &byte, 1, 0), 1);
      got += byte;
    }
    EXPECT_EQ(got, expected);
  }
}

// All ranks as threads, each with two links to every other one.
std::vector<Outcome> meet(int size, const std::function<void(PeerOptions&)>& change = nullptr,
                          const std::function<void(const std::vector<std::string>&)>& once_listening = nullptr,
                          std::chrono::milliseconds timeout = kPeerPatience) {
  std::vector<std::unique_ptr<PeerSockets>> groups;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < size; ++rank) {
    PeerOptions options = peer_options(rank, size);
    if (change) change(options);
    groups.push_back(std::make_unique<PeerSockets>(options));
    addresses.push_back(groups.back()->address());
  }
  if (once_listening) once_listening(addresses);
  std::vector<Outcome> outcomes(static_cast<size_t>(size));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto at = static_cast<size_t>(rank);
      std::vector<PeerSockets::Link> links;
      for (int peer = 0; peer < size; ++peer) {
        if (peer == rank) continue;
        links.push_back({peer, 0});
        links.push_back({peer, 1});
      }
      try {
        const auto sockets = groups[at]->connect(links, addresses, timeout);
        exchange(sockets, links, rank);
      } catch (const CommError& error) {
        outcomes[at].error = error.what();
      }
      outcomes[at].refused = groups[at]->refused();
      if (!outcomes[at].error.empty()) groups[at].reset();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return outcomes;
}

TEST(PeerSockets, EveryoneMeetsEveryone) {
  for (const int size : {1, 2, 3, 5}) {
    for (const Outcome& outcome : meet(size)) {
      EXPECT_EQ(outcome.error, "");
      EXPECT_EQ(outcome.refused, 0);
    }
  }
}

TEST(PeerSockets, ARankThatKnowsAnotherSecretIsNone) {
  const auto outcomes = meet(
      2, [](PeerOptions& options) { options.secret += options.rank == 1 ? "!" : ""; }, nullptr, 300ms);
  EXPECT_THAT(outcomes[0].error, HasSubstr("rank 1 has not proved within 0.3 s that it belongs to this run"));
  EXPECT_GT(outcomes[0].refused, 0);
  EXPECT_THAT(outcomes[1].error, AnyOf(HasSubstr("rank 0 has not proved"), HasSubstr("lost rank 0")));
}

TEST(PeerSockets, ARankOfAnotherGroupOrSizeIsNone) {
  const std::vector<std::function<void(PeerOptions&)>> changes = {
      [](PeerOptions& options) { options.group += options.rank == 1 ? ", split 1" : ""; },
      [](PeerOptions& options) { options.size += options.rank == 1 ? 1 : 0; },
  };
  for (const auto& change : changes) {
    const auto outcomes = meet(2, change, nullptr, 200ms);
    for (const Outcome& outcome : outcomes) EXPECT_NE(outcome.error, "");
    EXPECT_GT(outcomes[0].refused, 0);
  }
}

// No connection goes to the address of all hosts: the system says that the network is unreachable.
TEST(PeerSockets, ARankToWhichNoRouteLeadsIsNamedBeforeTheTimeIsOver) {
  PeerSockets one(peer_options(1, 2));
  EXPECT_THAT(
      [&] {
        one.connect({{0, 0}}, {"255.255.255.255:9", one.address()}, 600s);
      },
      ThrowsMessage<CommError>(
          AllOf(HasSubstr("no way to rank 0 at 255.255.255.255:9: "), HasSubstr("Network is unreachable"))));
}

TEST(PeerSockets, AMissingRankAndAGoneOneAreNamed) {
  PeerSockets zero(peer_options(0, 3));
  EXPECT_THAT(
      [&] {
        zero.connect({{1, 0}, {2, 0}}, {zero.address(), "", ""}, 100ms);
      },
      ThrowsMessage<CommTimeout>(HasSubstr("rank 1 has not proved within 0.1 s")));
  PeerSockets two(peer_options(2, 3));
  std::string gone;
  {
    const PeerSockets one(peer_options(1, 3));
    gone = one.address();
  }
  EXPECT_THAT(
      [&] {
        two.connect({{1, 0}}, {zero.address(), gone, two.address()}, kPeerPatience);
      },
      ThrowsMessage<CommError>(AllOf(HasSubstr("lost rank 1"), HasSubstr(gone))));
  EXPECT_THAT(
      [&] {
        two.connect({{1, 0}}, {zero.address(), "\x1b[2J", two.address()}, kPeerPatience);
      },
      ThrowsMessage<CommError>(HasSubstr("rank 1: '\\x1b[2J' is no address")));
}

TEST(PeerSockets, AWrongAddressIsNamed) {
  PeerOptions options = peer_options(0, 2);
  options.bind_address = "no-such-interface.invalid";
  EXPECT_THAT([&] { const PeerSockets sockets(options); },
              ThrowsMessage<IoError>(HasSubstr("no-such-interface.invalid")));
}

// ---- strangers -----------------------------------------------------------------------------------------------------

class Stranger {
 public:
  explicit Stranger(const std::string& address) {
    const auto endpoint = parse_endpoint(address);
    std::string reason;
    socket_ = connect_to(endpoint->host, endpoint->port, deadline_after(kPeerPatience), reason);
  }
  void say(std::string_view bytes) { static_cast<void>(send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL)); }
  void say_no_more() { shutdown(socket_.get(), SHUT_WR); }
  // Returns `size` bytes; fewer when the other side closes.
  std::string hear(size_t size) {
    std::string bytes;
    char byte = 0;
    while (bytes.size() < size && wait_for(socket_.get(), POLLIN, deadline_after(kPeerPatience)) &&
           recv(socket_.get(), &byte, 1, 0) == 1) {
      bytes += byte;
    }
    return bytes;
  }

 private:
  FileDescriptor socket_;
};

std::string greeting(uint32_t rank, uint32_t channel) {
  std::string text = "mlbpeer1";
  for (const uint32_t number : {rank, channel}) {
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(number >> shift & 0xFF);
  }
  return text + make_nonce();
}

// Strangers who come before the ranks look, and stay.
class Strangers : public testing::TestWithParam<std::pair<const char*, std::function<void(Stranger&)>>> {};

TEST_P(Strangers, KeepNobodyOut) {
  std::vector<std::unique_ptr<Stranger>> strangers;
  const auto outcomes = meet(3, nullptr, [&](const std::vector<std::string>& addresses) {
    for (const std::string& address : addresses) {
      for (int i = 0; i < 5; ++i) {
        strangers.push_back(std::make_unique<Stranger>(address));
        GetParam().second(*strangers.back());
      }
    }
  });
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.error, "");
}

INSTANTIATE_TEST_SUITE_P(
    All, Strangers,
    testing::Values(std::pair{"Silent", [](Stranger&) {}},
                    std::pair{"HalfClosed", [](Stranger& stranger) { stranger.say_no_more(); }},
                    std::pair{"HalfAGreeting", [](Stranger& stranger) { stranger.say(greeting(2, 0).substr(0, 20)); }},
                    std::pair{"GreetingAlone", [](Stranger& stranger) { stranger.say(greeting(2, 0)); }},
                    std::pair{"GuessedProof",
                              [](Stranger& stranger) { stranger.say(greeting(2, 1) + std::string(32, 'x')); }},
                    std::pair{"RankThatIsNone", [](Stranger& stranger) { stranger.say(greeting(~0U, 0)); }},
                    std::pair{"ChannelThatIsNone", [](Stranger& stranger) { stranger.say(greeting(2, 9)); }},
                    std::pair{"Garbage", [](Stranger& stranger) { stranger.say(std::string(100000, '\xff')); }}),
    [](const auto& info) { return info.param.first; });

// A proof that a rank gave somewhere is sent to another rank, and to the one that it came from.
TEST(PeerSockets, ProofsCannotBeCarriedElsewhere) {
  PeerSockets zero(peer_options(0, 3));
  PeerSockets one(peer_options(1, 3));
  const FileDescriptor trap = listen_on("127.0.0.1", 0);
  const Endpoint trap_place = own_endpoint(trap.get());
  const std::string trap_address = endpoint_text(trap_place.host, trap_place.port);
  // Rank 2 takes the stranger for rank 1, and so proves to it; the stranger carries that to rank 0.
  std::thread rank_two([&] {
    PeerSockets two(peer_options(2, 3));
    EXPECT_THROW(two.connect({{1, 0}}, {zero.address(), trap_address, two.address()}, 500ms), CommTimeout);
  });
  std::thread rank_zero([&] {
    EXPECT_THROW(zero.connect({{2, 0}}, {zero.address(), one.address(), ""}, 500ms), CommTimeout);
  });
  ASSERT_TRUE(wait_for(trap.get(), POLLIN, deadline_after(kPeerPatience)));
  const Accepted two = accept_from(trap.get());
  const auto relay = [&](int from, size_t size) {
    std::string bytes;
    char byte = 0;
    while (bytes.size() < size && wait_for(from, POLLIN, deadline_after(1s)) && recv(from, &byte, 1, 0) == 1) {
      bytes += byte;
    }
    return bytes;
  };
  Stranger to_zero(zero.address());
  to_zero.say(relay(two.socket.get(), 48));
  const std::string challenge = to_zero.hear(32);
  ASSERT_EQ(challenge.size(), 32U);
  ASSERT_EQ(send(two.socket.get(), challenge.data(), challenge.size(), MSG_NOSIGNAL), 32);
  const std::string proof = relay(two.socket.get(), 32);
  ASSERT_EQ(proof.size(), 32U);
  to_zero.say(proof);
  EXPECT_EQ(to_zero.hear(32), "");  // rank 0 closes: the proof names rank 1 as the one who accepts
  // Reflected to rank 2 itself, as the answer.
  static_cast<void>(send(two.socket.get(), proof.data(), proof.size(), MSG_NOSIGNAL));
  rank_two.join();
  rank_zero.join();
}

// Who knows the secret may say that he is rank 1, and rank 1 that he is again: the first has the place.
TEST(PeerSockets, ALinkIsTakenOnce) {
  PeerSockets zero(peer_options(0, 3));
  std::vector<FileDescriptor> sockets;
  std::thread rank_zero([&] { sockets = zero.connect({{1, 0}, {2, 0}}, {zero.address(), "", ""}, kPeerPatience); });
  const std::string context = fmt::format("peers, 3 ranks, accepted by 0, group {}", peer_options(0, 3).group);
  const auto claim = [&](Stranger& stranger, uint32_t rank) {
    const std::string hello = greeting(rank, 0);
    stranger.say(hello);
    stranger.say(proof_of(ProofRole::kConnecting, peer_options(0, 3).secret, {context, hello, stranger.hear(32)}));
    return stranger.hear(32).size() == 32;
  };
  Stranger first(zero.address()), second(zero.address()), third(zero.address());
  EXPECT_TRUE(claim(first, 1));
  EXPECT_FALSE(claim(second, 1));
  EXPECT_TRUE(claim(third, 2));
  rank_zero.join();
  ASSERT_EQ(sockets.size(), 2u);
  EXPECT_EQ(send(sockets[0].get(), "you", 3, MSG_NOSIGNAL), 3);
  EXPECT_EQ(first.hear(3), "you");
  EXPECT_GT(zero.refused(), 0);
}

class Flood : public testing::TestWithParam<bool> {};

TEST_P(Flood, KeepsNobodyOut) {
  std::atomic<bool> over{false};
  std::atomic<int> connected{0};
  std::vector<std::thread> flood;
  const auto outcomes = meet(4, nullptr, [&](const std::vector<std::string>& addresses) {
    for (const std::string& address : addresses) {
      flood.emplace_back([&over, &connected, address] {
        std::vector<std::unique_ptr<Stranger>> silent;
        for (int i = 0; i < 500 && !over; ++i) {
          silent.push_back(std::make_unique<Stranger>(address));
          if (GetParam()) silent.back()->say(greeting(3, 0));
          if (silent.size() > 125) silent.erase(silent.begin());
          if (i == 100) ++connected;
        }
      });
    }
    while (connected < 2) std::this_thread::sleep_for(1ms);
  });
  over = true;
  for (std::thread& thread : flood) thread.join();
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.error, "");
}

INSTANTIATE_TEST_SUITE_P(All, Flood, testing::Bool(),
                         [](const auto& info) { return info.param ? "OfGreetings" : "OfSilence"; });

}  // namespace
}  // namespace mlbench::net
