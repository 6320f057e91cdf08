#include "mlbench/net/http/response_body.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "mlbench/base/log.h"

namespace mlbench::net::http {
namespace {

// Response::next as the library reads it. A pool makes each piece while the connection is suspended.
class PulledBody final : public std::enable_shared_from_this<PulledBody> {
 public:
  PulledBody(MHD_Connection* connection, Pool& pool, bool known, Response response, MemoryBudget::Part memory)
      : connection_(connection),
        pool_(pool),
        known_(known),
        next_(std::move(response.next)),
        piece_(std::move(response.body)),
        memory_(std::move(memory)) {}

  ssize_t read(char* buffer, size_t size) {
    const std::lock_guard lock(mutex_);
    if (used_ < piece_.size()) {
      const size_t count = std::min(size, piece_.size() - used_);
      std::memcpy(buffer, piece_.data() + used_, count);
      used_ += count;
      return static_cast<ssize_t>(count);
    }
    if (failed_) return MHD_CONTENT_READER_END_WITH_ERROR;
    if (ended_) return MHD_CONTENT_READER_END_OF_STREAM;
    MHD_suspend_connection(connection_);
    if (!pool_.go_on([self = shared_from_this()](bool run) { self->fetch(run); }, known_)) {
      failed_ = true;
      MHD_resume_connection(connection_);
    }
    return 0;
  }

 private:
  void fetch(bool run) {
    std::string piece;
    bool failed = !run;
    try {
      if (run) piece = next_();
    } catch (const std::exception& error) {
      spdlog::error("http: an answer is cut off: {}", error.what());
      failed = true;
    }
    const std::lock_guard lock(mutex_);
    piece_ = std::move(piece);
    used_ = 0;
    ended_ = piece_.empty();
    failed_ = failed;
    MHD_resume_connection(connection_);
  }

  std::mutex mutex_;
  MHD_Connection* connection_;
  Pool& pool_;
  const bool known_;
  const std::function<std::string()> next_;
  std::string piece_;
  size_t used_ = 0;
  bool ended_ = false, failed_ = false;
  MemoryBudget::Part memory_;
};

// A whole answer and its part of the budget, until the library has sent it.
struct WaitingBody {
  std::string text;
  MemoryBudget::Part memory;
};

}  // namespace

bool PushedStream::push(std::string_view data) {
  const std::lock_guard lock(mutex_);
  if (ended_) return false;
  if (waiting_.size() + data.size() > limit_ || !memory_.resize(waiting_.size() + data.size())) {
    finish();
    return false;
  }
  waiting_ += data;
  wake();
  return true;
}

size_t PushedStream::room() const {
  const std::lock_guard lock(mutex_);
  return ended_ ? 0 : limit_ - waiting_.size();
}

void PushedStream::end() {
  const std::lock_guard lock(mutex_);
  finish();
}

bool PushedStream::open() const {
  const std::lock_guard lock(mutex_);
  return connection_ != nullptr;
}

void PushedStream::check_reader() {
  const std::lock_guard lock(mutex_);
  pollfd reader{fd_, POLLRDHUP, 0};
  if (!ended_ && poll(&reader, 1, 0) > 0) finish();
}

ssize_t PushedStream::read(char* buffer, size_t size) {
  const std::lock_guard lock(mutex_);
  if (!waiting_.empty()) {
    const size_t count = std::min(size, waiting_.size());
    std::memcpy(buffer, waiting_.data(), count);
    waiting_.erase(0, count);
    static_cast<void>(memory_.resize(waiting_.size()));
    return static_cast<ssize_t>(count);
  }
  if (ended_) return MHD_CONTENT_READER_END_OF_STREAM;
  suspended_ = true;
  MHD_suspend_connection(connection_);
  return 0;
}

void PushedStream::reader_gone() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  suspended_ = false;
  connection_ = nullptr;
}

void PushedStream::finish() {
  ended_ = true;
  wake();
}

void PushedStream::wake() {
  if (!suspended_) return;
  suspended_ = false;
  MHD_resume_connection(connection_);
}

MHD_Response* whole_body(std::string text, MemoryBudget::Part memory) {
  auto* waiting = new WaitingBody{std::move(text), std::move(memory)};
  return MHD_create_response_from_buffer_with_free_callback_cls(
      waiting->text.size(), waiting->text.data(), [](void* self) { delete static_cast<WaitingBody*>(self); }, waiting);
}

MHD_Response* pulled_body(MHD_Connection* connection, Pool& pool, bool known, Response response,
                          MemoryBudget::Part memory) {
  auto body = std::make_shared<PulledBody>(connection, pool, known, std::move(response), std::move(memory));
  return MHD_create_response_from_callback(
      MHD_SIZE_UNKNOWN, 32 << 10,
      [](void* self, uint64_t, char* buffer, size_t size) {
        return (*static_cast<std::shared_ptr<PulledBody>*>(self))->read(buffer, size);
      },
      new std::shared_ptr<PulledBody>(std::move(body)),
      [](void* self) { delete static_cast<std::shared_ptr<PulledBody>*>(self); });
}

MHD_Response* pushed_body(const std::shared_ptr<PushedStream>& stream) {
  return MHD_create_response_from_callback(
      MHD_SIZE_UNKNOWN, 4096,
      [](void* self, uint64_t, char* buffer, size_t size) {
        return (*static_cast<std::shared_ptr<PushedStream>*>(self))->read(buffer, size);
      },
      new std::shared_ptr<PushedStream>(stream),
      [](void* self) {
        auto* held = static_cast<std::shared_ptr<PushedStream>*>(self);
        (*held)->reader_gone();
        delete held;
      });
}

}  // namespace mlbench::net::http
