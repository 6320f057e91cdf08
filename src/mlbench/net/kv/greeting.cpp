#include "mlbench/net/kv/greeting.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/printable.h"
#include "mlbench/net/proof.h"
#include "mlbench/net/sockets.h"

namespace mlbench::net::wire {
namespace {

using Deadline = std::chrono::steady_clock::time_point;

// Sends the message and returns `member` of the answer, as bytes; nothing, with the reason, without an answer.
std::optional<std::string> ask(int socket, FrameReader& input, const Json& message, const char* member,
                               Deadline deadline, std::string& reason) {
  send_frame(socket, encode(message), deadline);
  for (;;) {
    // The answer may have a hello's size and no more: whatever listens there may have sent it.
    if (const auto answer = input.next(kMaxHelloBytes)) {
      if (answer->contains("error")) throw Refusal(printable(text_in(*answer, "error")));
      return bytes_in(*answer, member);
    }
    if (!wait_for(socket, POLLIN, deadline)) {
      reason = "no answer to the hello";
      return std::nullopt;
    }
    if (!read_into(socket, input)) {
      reason = "it closed the connection";
      return std::nullopt;
    }
  }
}

}  // namespace

Json hello_of(const Caller& caller) {
  return {{"op", "hello"},
          {"id", 0},
          {"nonce", to_bytes(make_nonce())},
          {"session", to_bytes(caller.session)},
          {"run", caller.run_id},
          {"rank", caller.rank},
          {"size", caller.size},
          {"pid", static_cast<int64_t>(getpid())},
          {"host", host_word(host_name())}};
}

bool prove(int socket, FrameReader& input, const Json& hello, std::string_view secret, Deadline deadline,
           std::string& reason) {
  try {
    const auto challenge = ask(socket, input, hello, "challenge", deadline, reason);
    if (!challenge) return false;
    const Transcript transcript = transcript_of(hello, *challenge);
    const std::string own = proof_of(ProofRole::kConnecting, secret, transcript);
    const auto proof =
        ask(socket, input, {{"op", "proof"}, {"id", 0}, {"proof", to_bytes(own)}}, "proof", deadline, reason);
    if (!proof) return false;
    if (proves(*proof, ProofRole::kAccepting, secret, transcript)) return true;
    throw ProtocolError("it does not know the run's secret");
  } catch (const ProtocolError&) {
    throw;
  } catch (const CommError& error) {
    reason = error.what();
    return false;
  }
}

void send_frame(int socket, std::string_view frame, Deadline deadline) {
  while (!frame.empty()) {
    const ssize_t count = send(socket, frame.data(), frame.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      frame.remove_prefix(static_cast<size_t>(count));
    } else if (errno == EAGAIN) {
      if (!wait_for(socket, POLLOUT, deadline)) throw CommError("it does not take what is sent");
    } else if (errno != EINTR) {
      throw CommError(errno_text(errno));
    }
  }
}

bool read_into(int socket, FrameReader& input) {
  char buffer[65536];
  const ssize_t count = recv(socket, buffer, sizeof buffer, 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (count < 0) throw CommError(errno_text(errno));
  input.append({buffer, static_cast<size_t>(count)});
  return count > 0;
}

bool try_again(const std::function<bool()>& attempt, Deadline deadline,
               const std::function<bool(std::chrono::milliseconds)>& pause, const Retry& retry) {
  for (auto length = retry.first_pause;; length = std::min(2 * length, retry.longest_pause)) {
    if (attempt()) return true;
    if (std::chrono::steady_clock::now() + length >= deadline || !pause(length)) return false;
  }
}

}  // namespace mlbench::net::wire
