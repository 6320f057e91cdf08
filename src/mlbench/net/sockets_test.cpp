#include "mlbench/net/sockets.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"

namespace mlbench::net {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Sockets, Texts) {
  EXPECT_EQ(endpoint_text("host", 80), "host:80");
  EXPECT_EQ(endpoint_text("::1", 80), "[::1]:80");
  EXPECT_EQ(duration_text(std::chrono::milliseconds(30000)), "30 s");
  EXPECT_EQ(duration_text(std::chrono::milliseconds(250)), "0.25 s");
}

TEST(Sockets, EndpointsAreReadAsTheyAreWritten) {
  for (const std::string host : {"127.0.0.1", "::1", "fe80::1%eth0", "name.of.host"}) {
    const auto endpoint = parse_endpoint(endpoint_text(host, 4711));
    ASSERT_TRUE(endpoint) << host;
    EXPECT_EQ(endpoint->host, host);
    EXPECT_EQ(endpoint->port, 4711);
  }
  for (const std::string text : {"", "host", "host:", ":80", "host:0", "host:65536", "host:-1", "host:80x", "[]:80"}) {
    EXPECT_FALSE(parse_endpoint(text)) << text;
  }
}

TEST(Sockets, ADeadlineThatHasPassedIsNoTime) {
  EXPECT_EQ(poll_timeout(std::chrono::steady_clock::now() - std::chrono::seconds(1)), 0);
}

TEST(Sockets, ListenOnAnAddressOrAnInterface) {
  for (const std::string place : {"127.0.0.1", "localhost", "lo"}) {
    const FileDescriptor listener = listen_on(place, 0);
    const Endpoint own = own_endpoint(listener.get());
    EXPECT_GT(own.port, 0) << place;
    std::string reason;
    const auto deadline = deadline_after(std::chrono::seconds(30));
    const FileDescriptor client = connect_to(own.host, own.port, deadline, reason);
    ASSERT_TRUE(client) << place << ": " << reason;
    ASSERT_TRUE(wait_for(listener.get(), POLLIN, deadline));
    const Accepted accepted = accept_from(listener.get());
    ASSERT_TRUE(accepted.socket);
    const Endpoint other = own_endpoint(client.get());
    EXPECT_EQ(accepted.peer, endpoint_text(other.host, other.port));
    EXPECT_FALSE(accept_from(listener.get()).socket);
  }
  EXPECT_THAT([] { listen_on("no-such-interface.invalid", 0); },
              ThrowsMessage<IoError>(HasSubstr("no-such-interface.invalid:0")));
}

int buffer_of(int socket, int direction) {
  int bytes = 0;
  socklen_t size = sizeof bytes;
  EXPECT_EQ(getsockopt(socket, SOL_SOCKET, direction, &bytes, &size), 0);
  return bytes;
}

// The kernel counts its own bookkeeping, too, and says twice of what was asked for.
TEST(Sockets, BothEndsHaveTheBuffersThatWereAskedFor) {
  constexpr int kAsked = 65536;
  const FileDescriptor listener = listen_on("127.0.0.1", 0);
  set_buffers(listener.get(), kAsked);
  std::string reason;
  const FileDescriptor client = begin_connect("127.0.0.1", own_endpoint(listener.get()).port, reason, kAsked);
  ASSERT_TRUE(client) << reason;
  ASSERT_TRUE(wait_for(listener.get(), POLLIN, deadline_after(std::chrono::seconds(30))));
  const Accepted accepted = accept_from(listener.get());
  ASSERT_TRUE(accepted.socket);
  for (const int socket : {client.get(), accepted.socket.get()}) {
    EXPECT_EQ(buffer_of(socket, SO_SNDBUF), 2 * kAsked);
    EXPECT_EQ(buffer_of(socket, SO_RCVBUF), 2 * kAsked);
  }
}

TEST(Sockets, ANameIsWaitedForUntilItHasAnAddress) {
  using std::chrono::steady_clock;
  const auto waited = [](const std::string& host, std::chrono::milliseconds patience) {
    const auto begin = steady_clock::now();
    wait_for_address(host, patience);
    return steady_clock::now() - begin;
  };
  EXPECT_LT(waited("127.0.0.1", std::chrono::seconds(60)), std::chrono::seconds(30));
  EXPECT_LT(waited("no-such-host.invalid", std::chrono::milliseconds(500)), std::chrono::seconds(30));
  EXPECT_GE(waited("no-such-host.invalid", std::chrono::milliseconds(500)), std::chrono::milliseconds(200));
}

TEST(Sockets, NoWayIsWhatLastsForTenSeconds) {
  using std::chrono::seconds;
  const std::chrono::steady_clock::time_point begin{};
  for (const int error : {ENETUNREACH, EHOSTUNREACH, ENETDOWN, EADDRNOTAVAIL, EAFNOSUPPORT, EACCES, EPERM}) {
    NoWay no_way;
    EXPECT_FALSE(no_way.lasts(error, begin)) << error;
    EXPECT_FALSE(no_way.lasts(ENETUNREACH, begin + seconds(9))) << error;
    EXPECT_TRUE(no_way.lasts(error, begin + seconds(10))) << error;
  }
  // Whoever refuses or does not answer can be reached, and the 10 s begin anew.
  for (const int error : {ECONNREFUSED, ETIMEDOUT, ECONNRESET, 0}) {
    NoWay no_way;
    EXPECT_FALSE(no_way.lasts(ENETUNREACH, begin)) << error;
    EXPECT_FALSE(no_way.lasts(error, begin + seconds(60))) << error;
    EXPECT_FALSE(no_way.lasts(ENETUNREACH, begin + seconds(61))) << error;
    EXPECT_FALSE(no_way.lasts(ENETUNREACH, begin + seconds(70))) << error;
    EXPECT_TRUE(no_way.lasts(ENETUNREACH, begin + seconds(71))) << error;
  }
}

TEST(Sockets, TheAddressTowardsAHostIsOfThisOne) {
  EXPECT_EQ(address_towards("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(address_towards("127.0.0.7"), "127.0.0.1");
  EXPECT_TRUE(listen_on(address_towards("localhost"), 0));
  EXPECT_THAT([] { address_towards("no-such-host.invalid"); },
              ThrowsMessage<IoError>(HasSubstr("no way from here to host no-such-host.invalid: ")));
}

}  // namespace
}  // namespace mlbench::net
