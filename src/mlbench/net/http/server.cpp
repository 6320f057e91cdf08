#include "mlbench/net/http/server.h"

#include <microhttpd.h>
#include <strings.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <cstdarg>
#include <mutex>
#include <thread>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/json.h"
#include "mlbench/base/log.h"
#include "mlbench/net/http/budget.h"
#include "mlbench/net/http/connections.h"
#include "mlbench/net/http/gzip.h"
#include "mlbench/net/http/listener.h"
#include "mlbench/net/http/pool.h"
#include "mlbench/net/http/response_body.h"

namespace mlbench::net::http {

namespace {

using std::chrono::milliseconds;

constexpr size_t kLibraryBytes = 4096;  // of a connection's memory, for the library itself
// A gzip body may unpack to so many times its size, or so many bytes: text that is worth packing shrinks to a tenth.
constexpr size_t kMostRatio = 100, kAlwaysUnpacked = 64 << 10;
// One of so many connections may have an open stream, which lasts long. The rest is for what is answered soon.
constexpr size_t kStreamShare = 3;

struct Lanes {
  Pool quick{4, 256}, bulk{4, 64}, slow{4, 32};
  Pool& of(Lane lane) { return lane == Lane::kSlow ? slow : lane == Lane::kBulk ? bulk : quick; }
  void stop() {
    for (Pool* pool : {&quick, &bulk, &slow}) pool->stop();
  }
};

struct Exchange {
  Request request;
  Admission admission;
  std::string body;
  MemoryBudget::Part memory;  // of body and request
  bool begun = false;
  bool too_large = false, no_memory = false;
  std::optional<Response> response;  // of its lane's thread
};

Response refusal(int status, const std::string& text) {
  return {status, "application/json", {}, Json{{"status", status}, {"message", text}}.dump(), {}};
}

Response busy() {
  Response response = refusal(503, "the server has too much to do at the moment: try again");
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

// Why two readers of the request may disagree about the length of its body; "" where they agree. A server before or
// behind this one may take another length.
std::string ambiguous_length(const Request& request) {
  size_t lengths = 0, encodings = 0;
  bool chunked = true;
  for (const auto& [name, value] : request.headers) {
    if (strcasecmp(name.c_str(), "Content-Length") == 0) ++lengths;
    if (strcasecmp(name.c_str(), "Transfer-Encoding") != 0) continue;
    ++encodings;
    chunked = strcasecmp(value.c_str(), "chunked") == 0;
  }
  if (lengths + encodings > 1) return "expected one Content-Length, or Transfer-Encoding: chunked, once";
  return chunked ? "" : "unknown Transfer-Encoding; valid: chunked";
}

std::string message_of(const char* format, va_list arguments) {
  char text[256];
  vsnprintf(text, sizeof text, format, arguments);
  std::string message = text;
  while (message.ends_with('\n')) message.pop_back();
  return message;
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
  Impl(const ServerOptions& options, Service& service)
      : options_(options),
        service_(service),
        budget_(options.limits.memory_bytes),
        connections_(budget_, options.limits.connections, options.limits.header_bytes + kLibraryBytes) {
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
    daemon_ = MHD_start_daemon(flags, 0, nullptr, nullptr, &Impl::on_request, this,                              //
                               MHD_OPTION_EXTERNAL_LOGGER, &Impl::on_log, this,                                  //
                               MHD_OPTION_LISTEN_SOCKET, listener.get(),                                         //
                               MHD_OPTION_THREAD_POOL_SIZE, options.threads,                                     //
                               MHD_OPTION_CONNECTION_LIMIT, options.limits.connections,                          //
                               MHD_OPTION_CONNECTION_MEMORY_LIMIT, options.limits.header_bytes + kLibraryBytes,  //
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
    lanes_.stop();  // the library must not stop while connections wait for the lanes
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
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
      const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
      *context = impl->connections_.add(info->connect_fd, impl->options_.limits.idle_time);
    } else if (auto* old = static_cast<Connection*>(*context); old != nullptr) {
      impl->connections_.remove(old);
      *context = nullptr;
    }
  }

  static Connection& connection_of(MHD_Connection* connection) {
    const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return *static_cast<Connection*>(info->socket_context);
  }

  static void* on_target(void* self, const char* target, MHD_Connection* connection) {
    Connection& known = connection_of(connection);
    known.allow(static_cast<Impl*>(self)->options_.limits.header_time);
    known.busy = true;
    auto* exchange = new Exchange;
    exchange->request.raw_target = target;
    return exchange;
  }

  static void on_completed(void* self, MHD_Connection* connection, void** context, MHD_RequestTerminationCode) {
    delete static_cast<Exchange*>(*context);
    *context = nullptr;
    Connection& known = connection_of(connection);
    known.allow(static_cast<Impl*>(self)->options_.limits.idle_time);
    known.busy = false;
  }

  static MHD_Result on_request(void* self, MHD_Connection* connection, const char*, const char* method, const char*,
                               const char* data, size_t* size, void** context) {
    auto* impl = static_cast<Impl*>(self);
    auto* exchange = static_cast<Exchange*>(*context);
    if (exchange == nullptr) return MHD_NO;
    try {
      if (!exchange->begun) return impl->begin(connection, *exchange, method);
      if (*size > 0) {
        take(*exchange, {data, *size});
        *size = 0;
        return MHD_YES;
      }
      if (exchange->response) return impl->answer(connection, *exchange, std::move(*exchange->response));
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

  // Reads the body to its end, so that the client sees the answer; the deadline bounds how much that can be.
  static void take(Exchange& exchange, std::string_view data) {
    const size_t size = exchange.body.size() + data.size();
    exchange.too_large = exchange.too_large || size > exchange.admission.body_bytes;
    exchange.no_memory =
        exchange.no_memory || (!exchange.too_large && size > exchange.memory.held() && !exchange.memory.resize(size));
    if (exchange.too_large || exchange.no_memory) {
      exchange.body = {};
      exchange.memory.release();
    } else {
      exchange.body.append(data);
    }
  }

  MHD_Result begin(MHD_Connection* connection, Exchange& exchange, const char* method) {
    exchange.begun = true;
    Request& request = exchange.request;
    request.method = method;
    request.secure = !options_.tls_certificate.empty();
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, &Impl::add_header, &request.headers);
    connection_of(connection).allow(options_.limits.body_time);
    if (const std::string wrong = ambiguous_length(request); !wrong.empty()) {
      Response response = refusal(400, wrong);
      response.headers.emplace_back("Connection", "close");
      return answer(connection, exchange, std::move(response));
    }
    auto target = parse_target(request.raw_target);
    if (!target) return answer(connection, exchange, refusal(400, "this is no valid request target"));
    request.target = std::move(*target);
    Admission& admission = exchange.admission;
    try {
      admission = service_.begin(request);
    } catch (const std::exception& error) {
      admission.refusal = failed(error);
    }
    if (admission.known) connections_.now_known(connection_of(connection));
    exchange.memory = MemoryBudget::Part(budget_, admission.known);
    if (admission.refusal) return answer(connection, exchange, std::move(*admission.refusal));
    const std::string_view encoding = request.header("Content-Encoding");
    if (!encoding.empty() && encoding != "identity" && (encoding != "gzip" || admission.unpacked_bytes == 0)) {
      std::vector<std::string> valid = {"identity"};
      if (admission.unpacked_bytes > 0) valid.emplace_back("gzip");
      return answer(connection, exchange, refusal(415, unknown_text("Content-Encoding", encoding, valid)));
    }
    const std::string_view length = request.header("Content-Length");
    uint64_t announced = 0;
    std::from_chars(length.data(), length.data() + length.size(), announced);
    if (announced > admission.body_bytes) return answer(connection, exchange, too_large(exchange));
    exchange.no_memory = !exchange.memory.resize(announced);  // answered after the body, as take() says
    return MHD_YES;
  }

  MHD_Result finish(MHD_Connection* connection, Exchange& exchange) {
    connection_of(connection).allow_any_time();
    if (exchange.too_large) return answer(connection, exchange, too_large(exchange));
    if (exchange.no_memory) return answer(connection, exchange, busy());
    const Lane lane = exchange.admission.lane;
    if (lane == Lane::kAtOnce && exchange.request.header("Content-Encoding") != "gzip") {
      return answer(connection, exchange, handled(connection, exchange));
    }
    // Until the connection is resumed, the library touches neither it nor the exchange.
    MHD_suspend_connection(connection);
    const auto job = [this, connection, &exchange](bool run) {
      exchange.response = run ? handled(connection, exchange) : busy();
      MHD_resume_connection(connection);
    };
    if (!lanes_.of(lane).offer(job, exchange.admission.known)) {
      exchange.response = busy();
      MHD_resume_connection(connection);
    }
    return MHD_YES;
  }

  // Runs on a thread of the exchange's lane.
  Response handled(MHD_Connection* connection, Exchange& exchange) {
    Request& request = exchange.request;
    try {
      if (request.header("Content-Encoding") == "gzip") {
        const size_t limit =
            std::min(exchange.admission.unpacked_bytes, std::max(kAlwaysUnpacked, exchange.body.size() * kMostRatio));
        const size_t packed = exchange.body.size();
        if (!exchange.memory.resize(packed + limit)) return busy();
        Gunzipped unpacked = gunzip(exchange.body, limit);
        if (unpacked.error == GzipError::kTooLarge) {
          return refusal(413, "the body unpacks to more than " + std::to_string(limit) + " bytes");
        }
        if (unpacked.error) return refusal(400, "the body is no valid gzip data");
        request.body = std::move(unpacked.text);
        exchange.body = {};
        static_cast<void>(exchange.memory.resize(request.body.size()));
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
      if (!good) return refusal(400, "the body is no valid form");
      return service_.handle(request);
    } catch (const std::exception& error) {
      return failed(error);
    }
  }

  static bool read_multipart(MHD_Connection* connection, Request& request) {
    MHD_PostProcessor* form = MHD_create_post_processor(connection, 4096, &add_form_field, &request.form);
    if (form == nullptr) return false;
    const bool read = MHD_post_process(form, request.body.data(), request.body.size()) == MHD_YES;
    return (MHD_destroy_post_processor(form) == MHD_YES) && read;
  }

  static Response too_large(const Exchange& exchange) {
    return refusal(413, "the body is larger than " + std::to_string(exchange.admission.body_bytes) + " bytes");
  }

  static Response failed(const std::exception& error) {
    spdlog::error("http: {}", error.what());
    return refusal(500, "internal error");
  }

  MHD_Result answer(MHD_Connection* connection, Exchange& exchange, Response response) {
    const bool known = exchange.admission.known;
    if (response.open_stream && !room_for_a_stream()) response = busy();
    exchange.request.body = {};
    exchange.body = {};
    exchange.memory.release();
    MemoryBudget::Part memory(budget_, known);
    if (!memory.resize(response.body.size() + response.held_bytes)) {
      response = busy();
      static_cast<void>(memory.resize(response.body.size()));
    }
    std::shared_ptr<PushedStream> stream;
    MHD_Response* made = nullptr;
    if (response.open_stream) {
      stream = std::make_shared<PushedStream>(connection, connection_of(connection).fd, options_.limits.stream_bytes,
                                              std::move(memory));
      const std::lock_guard lock(mutex_);
      if (stopping_) return MHD_NO;
      streams_.push_back(stream);
      made = pushed_body(stream);
    } else if (response.next) {
      Fields headers = std::move(response.headers);
      const std::string type = response.content_type;
      const int status = response.status;
      made = pulled_body(connection, lanes_.bulk, known, std::move(response), std::move(memory));
      response = {status, type, std::move(headers), "", {}};
    } else {
      made = whole_body(std::move(response.body), std::move(memory));
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

  bool room_for_a_stream() {
    const std::lock_guard lock(mutex_);
    std::erase_if(streams_, [](const auto& weak) {
      const auto stream = weak.lock();
      return !stream || !stream->open();
    });
    return streams_.size() < std::max<size_t>(1, options_.limits.connections / kStreamShare);
  }

  void watch() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      connections_.check();
      for (const auto& weak : streams_) {
        if (const auto stream = weak.lock()) stream->check_reader();
      }
      stop_watching_.wait_for(lock, milliseconds(250));
    }
  }

  const ServerOptions options_;
  Service& service_;
  MemoryBudget budget_;
  Connections connections_;
  Lanes lanes_;
  MHD_Daemon* daemon_ = nullptr;
  std::string last_log_;
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::condition_variable stop_watching_;
  bool stopping_ = false;
  std::vector<std::weak_ptr<PushedStream>> streams_;
  std::thread watchdog_;
};

Server::Server(const ServerOptions& options, Service& service) : impl_(std::make_unique<Impl>(options, service)) {}
Server::~Server() = default;
uint16_t Server::port() const { return impl_->port(); }
void Server::stop() { impl_->stop(); }

}  // namespace mlbench::net::http
