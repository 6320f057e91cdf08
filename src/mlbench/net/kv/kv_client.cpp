#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/net/kv/greeting.h"
#include "mlbench/net/kv/kv.h"
#include "mlbench/net/kv/wire.h"
#include "mlbench/net/proof.h"
#include "mlbench/net/sockets.h"

namespace mlbench::net {

namespace {

using SteadyClock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds kConnectPatience{2000};
// A client that waits longer than this to join says why.
constexpr Milliseconds kSilence{10000};
// The server watches the time of a get(); it is taken for dead so much later.
constexpr Milliseconds kGrace{5000};

using wire::Refusal;

// Makes all texts of the JSON valid UTF-8, whatever an error message of some library contained.
Json with_valid_texts(const Json& value) {
  return parse_json(value.dump(-1, ' ', false, Json::error_handler_t::replace), inputs::kMessage);
}

}  // namespace

struct KvClient::State {
  explicit State(const KvClientOptions& given)
      : options(given),
        clock(given.clock != nullptr ? *given.clock : own_clock),
        server(endpoint_text(given.address, given.port)),
        wakeup(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wakeup) throw IoError("cannot create an eventfd: " + errno_text(errno));
    join();
    thread = std::thread([this] { read_until_closed(); });
  }

  ~State() {
    {
      const std::lock_guard lock(mutex);
      closing = true;
      changed.notify_all();
    }
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wakeup.get(), &one, sizeof one);
    thread.join();
  }

  // The answer to a call, with the times at which the question went out and the answer came in, by `clock`.
  struct Reply {
    Json message;
    int64_t sent_ns = 0, received_ns = 0;
  };

  const KvClientOptions options;
  const SystemClock own_clock;
  const Clock& clock;
  const std::string server;
  const std::string session = make_nonce();
  const FileDescriptor wakeup;  // readable: closing
  FileDescriptor socket;
  wire::FrameReader input;  // used by the reading thread, once it runs
  int64_t received_ns = 0;  // when the last of it came in

  // Held while a frame is sent, and while a broken connection is made again. Guards `socket` where other threads than
  // the reading one use it.
  std::mutex send_mutex;

  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  int64_t next_id = 1;
  std::map<int64_t, std::optional<Reply>> replies;  // of the calls under way
  std::map<int64_t, std::string> unanswered;        // the messages of these calls, where there is patience
  std::optional<std::string> lost;                  // why
  std::optional<std::string> send_error;            // why nothing can be sent any more
  bool closing = false;
  std::function<void()> on_lost;
  std::function<void(const Json&)> on_word;

  std::thread thread;

  int64_t now_ns() const { return clock.now().time_since_epoch().count(); }

  std::string who(const std::string& operation) const { return fmt::format("rank {}: {}", options.rank, operation); }

  // ---- joining ---------------------------------------------------------------------------------------------------

  void join() {
    std::string reason;
    if (try_to_join(deadline_after(options.connect_timeout), reason)) return;
    throw CommTimeout(who(fmt::format("cannot join the rendezvous at {} within {}: {}", server,
                                      duration_text(options.connect_timeout), reason)));
  }

  // Returns false, with the reason, when the time has passed or the client is closed.
  bool try_to_join(SteadyClock::time_point deadline, std::string& reason) {
    NoWay no_way;
    const auto say_at = SteadyClock::now() + kSilence;
    bool said = false;
    const auto attempt = [&] {
      // One lost packet among many of strangers is soon sent again.
      int error = 0;
      socket = connect_to(options.address, options.port, std::min(deadline, deadline_after(kConnectPatience)), reason,
                          &error);
      if (socket && say_hello(deadline, reason)) return true;
      if (no_way.lasts(error)) {
        throw CommError(who(fmt::format("no way to the rendezvous at {}: {}", server, reason)));
      }
      if (!said && SteadyClock::now() >= say_at) {
        spdlog::warn("{}", who(fmt::format("cannot reach the rendezvous at {} yet: {}", server, reason)));
        said = true;
      }
      return false;
    };
    return wire::try_again(attempt, deadline, [this](Milliseconds pause) {
      std::unique_lock lock(mutex);
      return !changed.wait_for(lock, pause, [this] { return closing; });
    });
  }

  // Makes a broken connection again, and asks again what was not answered. Returns false when it must not be made
  // again, or was not within the patience; `reason` then says more, where there is more to say.
  bool resume(std::string& reason) {
    if (options.resume_patience <= Milliseconds(0)) return false;
    const std::lock_guard sending(send_mutex);
    const auto deadline = deadline_after(options.resume_patience);
    try {
      std::string why;
      if (!try_to_join(deadline, why)) {
        reason += fmt::format(", and it could not be reached again within {}: {}",
                              duration_text(options.resume_patience), why);
        return false;
      }
      std::vector<std::string> again;
      {
        const std::lock_guard lock(mutex);
        send_error.reset();
        for (const auto& each : unanswered) again.push_back(each.second);
      }
      try {
        const auto patience = deadline_after(options.reply_timeout);
        for (const std::string& frame : again) wire::send_frame(socket.get(), frame, patience);
      } catch (const CommError&) {
        shutdown(socket.get(), SHUT_RDWR);  // it broke again: the reading thread sees that
      }
      return true;
    } catch (const CommError& error) {
      reason = error.what();
      return false;
    }
  }

  // Returns false, with the reason, when another try may help.
  bool say_hello(SteadyClock::time_point deadline, std::string& reason) {
    input = {};
    const Json hello = wire::hello_of({session, options.run_id, options.rank, options.size});
    try {
      return wire::prove(socket.get(), input, hello, options.secret, deadline, reason);
    } catch (const Refusal& refusal) {
      throw CommError(who(fmt::format("refused by the rendezvous at {}: {}", server, refusal.what())));
    } catch (const wire::ProtocolError& error) {
      throw CommError(
          who(fmt::format("what answers at {} is no rendezvous server of mlbench: {}", server, error.what())));
    }
  }

  // ---- the reading thread ----------------------------------------------------------------------------------------

  void read_until_closed() {
    block_signals_on_this_thread();
    std::string reason;
    do {
      try {
        read_until_broken();
        return;
      } catch (const Refusal& farewell) {
        reason = farewell.what();
        break;
      } catch (const CommError& error) {
        const std::lock_guard lock(mutex);
        reason = send_error.value_or(error.what());
      }
    } while (resume(reason));
    {
      const std::lock_guard lock(mutex);
      lost = reason;
      changed.notify_all();
    }
    tell_lost();
  }

  // Returns when the client is closed.
  void read_until_broken() {
    for (;;) {
      while (const auto message = input.next(wire::kMaxMessageBytes)) take(*message);
      pollfd polled[] = {{wakeup.get(), POLLIN, 0}, {socket.get(), POLLIN, 0}};
      if (poll(polled, 2, -1) < 0) {
        if (errno == EINTR) continue;
        throw CommError("poll: " + errno_text(errno));
      }
      if (polled[0].revents != 0) return;
      if (polled[1].revents != 0 && !receive()) throw CommError("it closed the connection");
    }
  }

  // Returns false at the end of the stream.
  bool receive() {
    const bool more = wire::read_into(socket.get(), input);
    received_ns = now_ns();
    return more;
  }

  void take(const Json& message) {
    const int64_t id = wire::integer_in(message, "id");
    if (id == 0) throw Refusal(wire::text_in(message, "error"));
    if (id == wire::kWordId) return hear(wire::object_in(message, "word"));
    const std::lock_guard lock(mutex);
    const auto waiting = replies.find(id);
    unanswered.erase(id);
    if (waiting == replies.end()) return;  // its caller gave up
    waiting->second = Reply{message, 0, received_ns};
    changed.notify_all();
  }

  void hear(const Json& word) {
    std::function<void(const Json&)> callback;
    {
      const std::lock_guard lock(mutex);
      callback = on_word;
    }
    if (callback) callback(word);
  }

  void tell_lost() {
    std::function<void()> callback;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return closing || on_lost; });
      if (closing) return;
      callback = on_lost;
    }
    callback();
  }

  // ---- calls -----------------------------------------------------------------------------------------------------

  [[noreturn]] void throw_lost(const std::string& operation) const {  // `mutex` is held
    throw CommError(who(fmt::format("{}: lost the rendezvous server at {}: {}", operation, server, *lost)));
  }

  // Sends a frame. One that was sent in part leaves a stream that nobody can read, so the connection ends. The reading
  // thread sees that, after the server's last words.
  void send_or_lose(std::string_view frame) {
    try {
      wire::send_frame(socket.get(), frame, deadline_after(options.reply_timeout));
    } catch (const CommError& error) {
      {
        const std::lock_guard lock(mutex);
        if (!send_error) send_error = error.what();
      }
      shutdown(socket.get(), SHUT_RDWR);
    }
  }

  Reply call(Json request, const std::string& operation, Milliseconds timeout) {
    int64_t id = 0, sent_ns = 0;
    {
      const std::lock_guard lock(mutex);
      if (lost) throw_lost(operation);
      id = next_id++;
    }
    request["id"] = id;
    std::string frame;
    try {
      frame = wire::encode(request);
    } catch (const CommError& error) {
      throw CommError(who(operation + ": " + error.what()));
    }
    {
      const std::lock_guard lock(mutex);
      replies[id] = std::nullopt;
    }
    {
      const std::lock_guard sending(send_mutex);
      if (options.resume_patience > Milliseconds(0)) {
        const std::lock_guard lock(mutex);
        unanswered[id] = frame;
      }
      sent_ns = now_ns();
      send_or_lose(frame);
    }
    std::unique_lock lock(mutex);
    changed.wait_until(lock, deadline_after(timeout), [&] { return lost || replies[id]; });
    std::optional<Reply> reply = std::exchange(replies[id], std::nullopt);
    replies.erase(id);
    unanswered.erase(id);
    if (!reply && lost) throw_lost(operation);
    lock.unlock();
    if (!reply) {
      throw CommTimeout(who(fmt::format("{}: the rendezvous server at {} has not answered within {}", operation, server,
                                        duration_text(timeout))));
    }
    const Json& message = reply->message;
    if (const auto error = message.find("error"); error != message.end()) {
      const std::string text = who(operation + ": " + error->get<std::string>());
      if (message.value("timeout", false)) throw CommTimeout(text);
      throw CommError(text);
    }
    reply->sent_ns = sent_ns;
    return *std::move(reply);
  }

  void heartbeat(const Json& status) {
    MLBENCH_CHECK(status.is_object(), "a heartbeat is an object");
    const std::string frame = wire::encode({{"op", "heartbeat"}, {"status", with_valid_texts(status)}});
    {
      const std::lock_guard lock(mutex);
      if (lost) return;
    }
    const std::unique_lock lock(send_mutex, std::try_to_lock);
    if (!lock || !wait_for(socket.get(), POLLOUT, SteadyClock::now())) return;
    send_or_lose(frame);
  }
};

KvClient::KvClient(const KvClientOptions& options) {
  if (options.port < 1 || options.port > 65535) {
    throw UserError(fmt::format("rendezvous port {}: expected 1 to 65535 (MASTER_PORT)", options.port));
  }
  state_ = std::make_unique<State>(options);
}

KvClient::~KvClient() = default;

void KvClient::set(const std::string& key, const std::string& value) {
  state_->call({{"op", "set"}, {"key", key}, {"value", wire::to_bytes(value)}}, "set '" + key + "'",
               state_->options.reply_timeout);
}

std::string KvClient::get(const std::string& key, std::chrono::milliseconds timeout) {
  const Milliseconds patience =
      std::clamp<Milliseconds>(timeout, Milliseconds(0), std::chrono::hours(24 * 365)) + kGrace;
  const State::Reply reply =
      state_->call({{"op", "get"}, {"key", key}, {"timeout_ms", timeout.count()}}, "get '" + key + "'", patience);
  return wire::bytes_in(reply.message, "value");
}

ServerTime KvClient::server_time(std::chrono::milliseconds timeout) {
  const State::Reply reply = state_->call({{"op", "time"}}, "time", timeout);
  return {reply.sent_ns, wire::integer_in(reply.message, "time"), reply.received_ns};
}

void KvClient::heartbeat(const Json& status) { state_->heartbeat(status); }

void KvClient::report(const Json& message) {
  MLBENCH_CHECK(message.is_object(), "a report is an object");
  state_->call({{"op", "report"}, {"message", with_valid_texts(message)}}, "report", state_->options.reply_timeout);
}

void KvClient::on_word(std::function<void(const Json&)> callback) {
  const std::lock_guard lock(state_->mutex);
  MLBENCH_CHECK(!state_->on_word, "on_word is set once");
  state_->on_word = std::move(callback);
}

void KvClient::on_lost(std::function<void()> callback) {
  const std::lock_guard lock(state_->mutex);
  MLBENCH_CHECK(!state_->on_lost, "on_lost is set once");
  state_->on_lost = std::move(callback);
  state_->changed.notify_all();
}

}  // namespace mlbench::net
