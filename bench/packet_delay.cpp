// Delays what a host receives, in place of netem where the kernel has none: holds each packet of an NFQUEUE for a time.
// Only the packets' numbers come here, so that 64 KiB frames pass whole. To be hooked behind the receiver's link: a
// packet held in front of the sender's would count against its socket, and slow it.
//   packet_delay --queue N --delay MICROSECONDS         until SIGTERM; root
// bench/hosts_collectives.py starts it on hosts that are network namespaces.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <libmnl/libmnl.h>
#include <libnetfilter_queue/libnetfilter_queue.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <poll.h>
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <deque>
#include <exception>
#include <optional>
#include <system_error>
#include <vector>

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr uint32_t kMostPackets = 100'000;
constexpr int kReceiveBytes = 8 << 20;
// Between two looks whether it is over.
constexpr std::chrono::nanoseconds kLookAround = 200ms;

volatile std::sig_atomic_t over = 0;

// The messages of the kernel's queue, by libmnl.
class Queue {
 public:
  explicit Queue(uint16_t number) : number_(number), buffer_(0xffff + MNL_SOCKET_BUFFER_SIZE) {
    socket_ = mnl_socket_open(NETLINK_NETFILTER);
    if (socket_ == nullptr || mnl_socket_bind(socket_, 0, MNL_SOCKET_AUTOPID) < 0) {
      throw std::system_error(errno, std::generic_category(), "a netlink socket of netfilter");
    }
    nlmsghdr* bind = message(NFQNL_MSG_CONFIG);
    nfq_nlmsg_cfg_put_cmd(bind, AF_INET, NFQNL_CFG_CMD_BIND);
    send(bind);
    nlmsghdr* settings = message(NFQNL_MSG_CONFIG);
    nfq_nlmsg_cfg_put_params(settings, NFQNL_COPY_META, 0);
    nfq_nlmsg_cfg_put_qmaxlen(settings, kMostPackets);
    mnl_attr_put_u32(settings, NFQA_CFG_FLAGS, htonl(NFQA_CFG_F_GSO));
    mnl_attr_put_u32(settings, NFQA_CFG_MASK, htonl(NFQA_CFG_F_GSO));
    send(settings);
    // Messages that find no room are the sender's loss, as on a link: no reason to end.
    int one = 1;
    mnl_socket_setsockopt(socket_, NETLINK_NO_ENOBUFS, &one, sizeof one);
    setsockopt(mnl_socket_get_fd(socket_), SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBytes, sizeof kReceiveBytes);
  }
  ~Queue() {
    if (socket_ != nullptr) {
      mnl_socket_close(socket_);
    }
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // The next packet's number, waiting for it no longer than `patience`.
  std::optional<uint32_t> next(std::chrono::nanoseconds patience) {
    pollfd readable{mnl_socket_get_fd(socket_), POLLIN, 0};
    const timespec limit{patience.count() / 1'000'000'000, patience.count() % 1'000'000'000};
    if (ppoll(&readable, 1, &limit, nullptr) <= 0) {
      return std::nullopt;
    }
    std::optional<uint32_t> packet;
    const ssize_t size = mnl_socket_recvfrom(socket_, buffer_.data(), buffer_.size());
    if (size > 0) {
      mnl_cb_run(buffer_.data(), static_cast<size_t>(size), 0, mnl_socket_get_portid(socket_), read_number, &packet);
    }
    return packet;
  }

  void let_pass(uint32_t packet) {
    nlmsghdr* verdict = message(NFQNL_MSG_VERDICT);
    nfq_nlmsg_verdict_put(verdict, static_cast<int>(packet), NF_ACCEPT);
    send(verdict);
  }

 private:
  static int read_number(const nlmsghdr* message, void* packet) {
    std::array<nlattr*, NFQA_MAX + 1> attributes{};
    if (nfq_nlmsg_parse(message, attributes.data()) >= 0 && attributes[NFQA_PACKET_HDR] != nullptr) {
      const auto* head = static_cast<const nfqnl_msg_packet_hdr*>(mnl_attr_get_payload(attributes[NFQA_PACKET_HDR]));
      *static_cast<std::optional<uint32_t>*>(packet) = ntohl(head->packet_id);
    }
    return MNL_CB_OK;
  }

  nlmsghdr* message(uint32_t type) { return nfq_nlmsg_put(out_.data(), static_cast<int>(type), number_); }

  void send(const nlmsghdr* message) {
    if (mnl_socket_sendto(socket_, message, message->nlmsg_len) < 0) {
      throw std::system_error(errno, std::generic_category(), fmt::format("queue {} of netfilter", number_));
    }
  }

  uint16_t number_;
  mnl_socket* socket_ = nullptr;
  std::vector<char> buffer_;
  alignas(nlmsghdr) std::array<char, 512> out_{};
};

struct Held {
  uint32_t packet = 0;
  Clock::time_point due;
};

void delay_packets(Queue& queue, std::chrono::nanoseconds delay) {
  std::deque<Held> held;
  while (over == 0) {
    std::chrono::nanoseconds patience = kLookAround;
    if (!held.empty()) {
      patience = std::clamp<std::chrono::nanoseconds>(held.front().due - Clock::now(), 0ns, kLookAround);
    }
    if (const std::optional<uint32_t> packet = queue.next(patience)) {
      held.push_back({*packet, Clock::now() + delay});
    }
    for (const Clock::time_point now = Clock::now(); !held.empty() && held.front().due <= now; held.pop_front()) {
      queue.let_pass(held.front().packet);
    }
  }
  for (const Held& one : held) {
    queue.let_pass(one.packet);
  }
}

}  // namespace

int main(int count, char** words) {
  CLI::App app{"Hold each packet of an NFQUEUE for a time"};
  uint16_t number = 0;
  int64_t delay_us = 0;
  app.add_option("--queue", number, "of iptables' target NFQUEUE")->required();
  app.add_option("--delay", delay_us, "microseconds")->required()->check(CLI::Range(0, 10'000'000));
  CLI11_PARSE(app, count, words);
  std::signal(SIGTERM, [](int) { over = 1; });
  std::signal(SIGINT, [](int) { over = 1; });
  prctl(PR_SET_TIMERSLACK, 1000UL);
  try {
    Queue queue(number);
    delay_packets(queue, std::chrono::microseconds(delay_us));
  } catch (const std::exception& error) {
    fmt::print(stderr, "packet_delay: {}\n", error.what());
    return 1;
  }
  return 0;
}
