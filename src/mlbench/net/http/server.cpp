#include "mlbench/net/http/server.h"

#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstdarg>
#include <cstring>
#include <mutex>
#include <thread>
#include <unordered_set>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/log.h"
#include "mlbench/net/http/gzip.h"

namespace mlbench::net::http {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// libmicrohttpd's own timeout only sees silence; a client that sends a byte now and then is ended by this one.
struct Connection {
  explicit Connection(int socket) : fd(socket) {}
  int fd;
  std::atomic<steady_clock::rep> deadline{0};  // 0: none
  bool left = false;                           // by the watchdog alone: had ended when it looked last
  void allow(milliseconds time) { deadline = (steady_clock::now() + time).time_since_epoch().count(); }
  void allow_any_time() { deadline = 0; }
};

class PushedStream final : public Stream {
 public:
  PushedStream(MHD_Connection* connection, int fd, size_t limit) : connection_(connection), fd_(fd), limit_(limit) {}

  bool push(std::string_view data) override {
    const std::lock_guard lock(mutex_);
    if (ended_) return false;
    if (waiting_.size() + data.size() > limit_) {
      finish();
      return false;
    }
    waiting_ += data;
    wake();
    return true;
  }

  void end() override {
    const std::lock_guard lock(mutex_);
    finish();
  }

  // A connection that waits for us is not looked at by the library: whether its reader left.
  void check_reader() {
    const std::lock_guard lock(mutex_);
    pollfd reader{fd_, POLLRDHUP, 0};
    if (!ended_ && poll(&reader, 1, 0) > 0) finish();
  }

  // ---- by the connection's thread ----------------------------------------------------------------------------------

  ssize_t read(char* buffer, size_t size) {
    const std::lock_guard lock(mutex_);
    if (!waiting_.empty()) {
      const size_t count = std::min(size, waiting_.size());
      std::memcpy(buffer, waiting_.data(), count);
      waiting_.erase(0, count);
      return static_cast<ssize_t>(count);
    }
    if (ended_) return MHD_CONTENT_READER_END_OF_STREAM;
    suspended_ = true;
    MHD_suspend_connection(connection_);
    return 0;
  }

  void reader_gone() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    suspended_ = false;
    connection_ = nullptr;
  }

 private:
  void finish() {
    ended_ = true;
    wake();
  }
  void wake() {
    if (!suspended_) return;
    suspended_ = false;
    MHD_resume_connection(connection_);
  }

  std::mutex mutex_;
  MHD_Connection* connection_;
  int fd_;  // open while connection_ is set
  size_t limit_;
  std::string waiting_;
  bool ended_ = false, suspended_ = false;
};

struct Exchange {
  Request request;
  std::string body;
  bool begun = false;
  bool too_large = false;
};

Response plain(int status, const std::string& text) {
  return {status, "text/plain; charset=utf-8", {}, text + "\n", {}};
}

std::string message_of(const char* format, va_list arguments) {
  char text[256];
  vsnprintf(text, sizeof text, format, arguments);
  std::string message = text;
  while (message.ends_with('\n')) message.pop_back();
  return message;
}

FileDescriptor listen_on(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string where = host + ":" + std::to_string(port);
  if (const int failed = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); failed != 0) {
    throw UserError("cannot listen on " + where + ": '" + host + "' is no address of this machine (" +
                    gai_strerror(failed) + ")");
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> guard(found, freeaddrinfo);
  FileDescriptor fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) throw IoError("cannot make a socket: " + errno_text(errno));
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 || listen(fd.get(), SOMAXCONN) != 0) {
    if (errno == EADDRINUSE) {
      throw UserError("cannot listen on " + where +
                      ": another program uses this port; choose another one, or 0 for any");
    }
    throw UserError("cannot listen on " + where + ": " + errno_text(errno));
  }
  return fd;
}

uint16_t port_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw IoError("cannot ask for the port: " + errno_text(errno));
  }
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

MHD_Result add_form_field(void* self, MHD_ValueKind, const char* key, const char*, const char*, const char*,
                          const char* data, uint64_t offset, size_t size) {
  auto& form = *static_cast<Fields*>(self);
  if (key == nullptr) return MHD_YES;
  if (offset == 0 || form.empty() || form.back().first != key) {
    form.emplace_back(key, std::string(data, size));
  } else {
    form.back().second.append(data, size);
  }
  return MHD_YES;
}

}  // namespace

class Server::Impl {
 public:
  Impl(const ServerOptions& options, Service& service) : options_(options), service_(service) {
    FileDescriptor listener = listen_on(options.host, options.port);
    port_ = port_of(listener.get());
    const bool tls = !options.tls_certificate.empty();
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    std::vector<MHD_OptionItem> more;
    if (tls) {
      flags |= MHD_USE_TLS;
      more.push_back({MHD_OPTION_HTTPS_MEM_KEY, 0, const_cast<char*>(options_.tls_key.c_str())});
      more.push_back({MHD_OPTION_HTTPS_MEM_CERT, 0, const_cast<char*>(options_.tls_certificate.c_str())});
    }
    more.push_back({MHD_OPTION_END, 0, nullptr});
    const auto idle = std::chrono::duration_cast<std::chrono::seconds>(options.limits.idle_time).count();
    daemon_ = MHD_start_daemon(flags, 0, nullptr, nullptr, &Impl::on_request, this,                     //
                               MHD_OPTION_EXTERNAL_LOGGER, &Impl::on_log, this,                         //
                               MHD_OPTION_LISTEN_SOCKET, listener.get(),                                //
                               MHD_OPTION_THREAD_POOL_SIZE, options.threads,                            //
                               MHD_OPTION_CONNECTION_LIMIT, options.limits.connections,                 //
                               MHD_OPTION_CONNECTION_MEMORY_LIMIT, options.limits.header_bytes + 4096,  //
                               MHD_OPTION_CONNECTION_TIMEOUT,
                               static_cast<unsigned>(std::max<std::chrono::seconds::rep>(1, idle)),  //
                               MHD_OPTION_STRICT_FOR_CLIENT, 1,                                      //
                               MHD_OPTION_URI_LOG_CALLBACK, &Impl::on_target, this,                  //
                               MHD_OPTION_NOTIFY_COMPLETED, &Impl::on_completed, this,               //
                               MHD_OPTION_NOTIFY_CONNECTION, &Impl::on_connection, this,             //
                               MHD_OPTION_ARRAY, more.data(), MHD_OPTION_END);
    if (daemon_ == nullptr) {
      throw UserError(tls ? "cannot serve over TLS: the certificate or the key is not usable (" + last_log_ + ")"
                          : "cannot start the HTTP server: " + last_log_);
    }
    static_cast<void>(listener.release());  // the library closes it
    watchdog_ = std::thread([this] { watch(); });
  }

  ~Impl() { stop(); }

  uint16_t port() const { return port_; }

  void stop() {
    if (daemon_ == nullptr) return;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      for (const auto& weak : streams_) {
        if (const auto stream = weak.lock()) stream->end();
      }
      stop_watching_.notify_all();
    }
    watchdog_.join();
    MHD_stop_daemon(daemon_);
    daemon_ = nullptr;
  }

 private:
  // ---- called by the library: no exception may leave ---------------------------------------------------------------

  static void on_log(void* self, const char* format, va_list arguments) {
    const std::string message = message_of(format, arguments);
    spdlog::debug("http: {}", message);
    auto* impl = static_cast<Impl*>(self);
    if (impl->daemon_ == nullptr) impl->last_log_ = message;
  }

  static void on_connection(void* self, MHD_Connection* connection, void** context,
                            MHD_ConnectionNotificationCode code) {
    auto* impl = static_cast<Impl*>(self);
    const std::lock_guard lock(impl->mutex_);
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
      const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
      auto* made = new Connection(info->connect_fd);
      made->allow(impl->options_.limits.idle_time);
      impl->connections_.insert(made);
      *context = made;
    } else if (auto* old = static_cast<Connection*>(*context); old != nullptr) {
      impl->connections_.erase(old);
      delete old;
      *context = nullptr;
    }
  }

  static Connection& connection_of(MHD_Connection* connection) {
    const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return *static_cast<Connection*>(info->socket_context);
  }

  static void* on_target(void* self, const char* target, MHD_Connection* connection) {
    connection_of(connection).allow(static_cast<Impl*>(self)->options_.limits.header_time);
    auto* exchange = new Exchange;
    exchange->request.raw_target = target;
    return exchange;
  }

  static void on_completed(void* self, MHD_Connection* connection, void** context, MHD_RequestTerminationCode) {
    delete static_cast<Exchange*>(*context);
    *context = nullptr;
    connection_of(connection).allow(static_cast<Impl*>(self)->options_.limits.idle_time);
  }

  static MHD_Result on_request(void* self, MHD_Connection* connection, const char*, const char* method, const char*,
                               const char* data, size_t* size, void** context) {
    auto* impl = static_cast<Impl*>(self);
    auto* exchange = static_cast<Exchange*>(*context);
    if (exchange == nullptr) return MHD_NO;
    try {
      if (!exchange->begun) return impl->begin(connection, *exchange, method);
      if (*size > 0) {
        // Read to its end, so that the client sees the answer; time bounds how much that can be.
        exchange->too_large = exchange->too_large || exchange->body.size() + *size > impl->options_.limits.body_bytes;
        if (exchange->too_large) {
          exchange->body.clear();
        } else {
          exchange->body.append(data, *size);
        }
        *size = 0;
        return MHD_YES;
      }
      return impl->finish(connection, *exchange);
    } catch (const std::exception& error) {
      spdlog::error("http: {}", error.what());
      return MHD_NO;
    }
  }

  static MHD_Result add_header(void* fields, MHD_ValueKind, const char* key, size_t key_size, const char* value,
                               size_t value_size) {
    static_cast<Fields*>(fields)->emplace_back(std::string(key, key_size),
                                               value == nullptr ? "" : std::string(value, value_size));
    return MHD_YES;
  }

  // ---- one exchange ------------------------------------------------------------------------------------------------

  MHD_Result begin(MHD_Connection* connection, Exchange& exchange, const char* method) {
    exchange.begun = true;
    Request& request = exchange.request;
    request.method = method;
    request.secure = !options_.tls_certificate.empty();
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, &Impl::add_header, &request.headers);
    connection_of(connection).allow(options_.limits.body_time);
    auto target = parse_target(request.raw_target);
    if (!target) return answer(connection, plain(400, "this is no valid request target"));
    request.target = std::move(*target);
    const std::string_view length = request.header("Content-Length");
    uint64_t announced = 0;
    std::from_chars(length.data(), length.data() + length.size(), announced);
    if (announced > options_.limits.body_bytes) return answer(connection, too_large());
    std::optional<Response> early;
    try {
      early = service_.begin(request);
    } catch (const std::exception& error) {
      early = failed(error);
    }
    return early ? answer(connection, std::move(*early)) : MHD_YES;
  }

  MHD_Result finish(MHD_Connection* connection, Exchange& exchange) {
    connection_of(connection).allow_any_time();
    if (exchange.too_large) return answer(connection, too_large());
    Request& request = exchange.request;
    const std::string_view encoding = request.header("Content-Encoding");
    if (encoding == "gzip") {
      Gunzipped unpacked = gunzip(exchange.body, options_.limits.body_bytes);
      if (unpacked.error == GzipError::kTooLarge) return answer(connection, too_large());
      if (unpacked.error) return answer(connection, plain(400, "the body is no valid gzip data"));
      request.body = std::move(unpacked.text);
    } else if (!encoding.empty() && encoding != "identity") {
      return answer(connection, plain(415, "unknown Content-Encoding: valid are gzip and identity"));
    } else {
      request.body = std::move(exchange.body);
    }
    const std::string type = request.content_type();
    bool good = true;
    if (type == "application/x-www-form-urlencoded") {
      auto form = parse_form(request.body);
      good = form.has_value();
      if (good) request.form = std::move(*form);
    } else if (type == "multipart/form-data") {
      good = read_multipart(connection, request);
    }
    if (!good) return answer(connection, plain(400, "the body is no valid form"));
    Response response;
    try {
      response = service_.handle(request);
    } catch (const std::exception& error) {
      response = failed(error);
    }
    return answer(connection, std::move(response));
  }

  static bool read_multipart(MHD_Connection* connection, Request& request) {
    MHD_PostProcessor* form = MHD_create_post_processor(connection, 4096, &add_form_field, &request.form);
    if (form == nullptr) return false;
    const bool read = MHD_post_process(form, request.body.data(), request.body.size()) == MHD_YES;
    return (MHD_destroy_post_processor(form) == MHD_YES) && read;
  }

  Response too_large() const {
    return plain(413, "the body is larger than " + std::to_string(options_.limits.body_bytes) + " bytes");
  }

  static Response failed(const std::exception& error) {
    spdlog::error("http: {}", error.what());
    return plain(500, "internal error");
  }

  MHD_Result answer(MHD_Connection* connection, Response response) {
    std::shared_ptr<PushedStream> stream;
    MHD_Response* made = nullptr;
    if (response.open_stream) {
      stream = std::make_shared<PushedStream>(connection, connection_of(connection).fd, options_.limits.stream_bytes);
      const std::lock_guard lock(mutex_);
      if (stopping_) return MHD_NO;
      std::erase_if(streams_, [](const auto& weak) { return weak.expired(); });
      streams_.push_back(stream);
      made = MHD_create_response_from_callback(
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
    } else {
      made = MHD_create_response_from_buffer(response.body.size(), response.body.data(), MHD_RESPMEM_MUST_COPY);
    }
    if (made == nullptr) return MHD_NO;
    if (!response.content_type.empty()) {
      MHD_add_response_header(made, MHD_HTTP_HEADER_CONTENT_TYPE, response.content_type.c_str());
    }
    for (const auto& [name, value] : response.headers) MHD_add_response_header(made, name.c_str(), value.c_str());
    const MHD_Result queued = MHD_queue_response(connection, static_cast<unsigned>(response.status), made);
    if (stream && queued == MHD_YES) response.open_stream(stream);
    MHD_destroy_response(made);
    return queued;
  }

  void watch() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      const auto now = steady_clock::now().time_since_epoch().count();
      for (Connection* connection : connections_) {
        const auto deadline = connection->deadline.load();
        // The library sees the end of the socket and cleans up; it closes a socket only behind on_connection().
        char next;
        // It would also wait until then for the rest of a request whose sender has left.
        const bool left = deadline != 0 && recv(connection->fd, &next, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
        if (deadline != 0 && (now > deadline || (left && connection->left))) shutdown(connection->fd, SHUT_RDWR);
        connection->left = left;
      }
      for (const auto& weak : streams_) {
        if (const auto stream = weak.lock()) stream->check_reader();
      }
      stop_watching_.wait_for(lock, milliseconds(250));
    }
  }

  const ServerOptions options_;
  Service& service_;
  MHD_Daemon* daemon_ = nullptr;
  std::string last_log_;
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::condition_variable stop_watching_;
  bool stopping_ = false;
  std::unordered_set<Connection*> connections_;
  std::vector<std::weak_ptr<PushedStream>> streams_;
  std::thread watchdog_;
};

Server::Server(const ServerOptions& options, Service& service) : impl_(std::make_unique<Impl>(options, service)) {}
Server::~Server() = default;
uint16_t Server::port() const { return impl_->port(); }
void Server::stop() { impl_->stop(); }

}  // namespace mlbench::net::http
