#include "mlbench/net/http/client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "mlbench/base/errors.h"

namespace mlbench::net::http {

namespace {

constexpr long kConnectTimeoutMs = 5'000;

constexpr long kBufferBytes = 256 << 10;  // of what comes in: a body that is taken piece by piece is long

struct Receiver {
  CURL* curl;
  const ClientRequest& request;
  ClientResponse response;
  bool ended_by_us = false;
  std::exception_ptr exception;  // none may pass through libcurl
};

constexpr size_t kMostRefusalBytes = 1 << 20;  // the rest of a longer refusal says nothing more

int status_of(CURL* curl) {
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  return static_cast<int>(status);
}

bool succeeded(int status) { return status >= 200 && status < 300; }

size_t on_data(char* data, size_t size, size_t count, void* self) {
  auto* receiver = static_cast<Receiver*>(self);
  try {
    std::string& body = receiver->response.body;
    const bool refused = !succeeded(status_of(receiver->curl));
    if (!receiver->request.on_data || refused) {
      const size_t room = refused ? kMostRefusalBytes - std::min(kMostRefusalBytes, body.size()) : size * count;
      body.append(data, std::min(size * count, room));
    } else if (!receiver->request.on_data({data, size * count})) {
      receiver->ended_by_us = true;
      return 0;
    }
    return size * count;
  } catch (...) {
    receiver->exception = std::current_exception();
    return 0;
  }
}

size_t on_header(char* data, size_t size, size_t count, void* self) {
  auto* receiver = static_cast<Receiver*>(self);
  try {
    std::string_view line(data, size * count);
    while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
    ClientResponse& response = receiver->response;
    response.status = status_of(receiver->curl);
    if (line.empty() && receiver->request.on_start && succeeded(response.status)) receiver->request.on_start(response);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return size * count;
    std::string_view value = line.substr(colon + 1);
    value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
    response.headers.emplace_back(line.substr(0, colon), value);
    return size * count;
  } catch (...) {
    receiver->exception = std::current_exception();
    return 0;
  }
}

void sign(CURL* curl, const Signing& signing) {
  curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, fmt::format("aws:amz:{}:{}", signing.region, signing.service).c_str());
  curl_easy_setopt(curl, CURLOPT_USERNAME, signing.access_key.c_str());
  curl_easy_setopt(curl, CURLOPT_PASSWORD, signing.secret_key.c_str());
  curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
}

}  // namespace

struct Client::Impl {
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl{nullptr, curl_easy_cleanup};
};

Client::Client() : impl_(std::make_unique<Impl>()) {
  static const CURLcode global = curl_global_init(CURL_GLOBAL_DEFAULT);
  impl_->curl.reset(global == CURLE_OK ? curl_easy_init() : nullptr);
  if (impl_->curl == nullptr) throw IoError("cannot start libcurl");
}

Client::~Client() = default;

ClientResponse Client::send(const ClientRequest& request) {
  CURL* curl = impl_->curl.get();
  curl_easy_reset(curl);  // keeps the connection
  char error[CURL_ERROR_SIZE] = "";
  Receiver receiver{curl, request, {}, false, nullptr};
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(nullptr, curl_slist_free_all);
  const auto add_header = [&](const std::string& line) {
    curl_slist* longer = curl_slist_append(headers.get(), line.c_str());
    if (longer == nullptr) throw IoError("out of memory");
    static_cast<void>(headers.release());
    headers.reset(longer);
  };
  for (const auto& [name, value] : request.headers) add_header(name + ": " + value);
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "mlbench");
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout.count()));
  if (request.silence.count() > 0) {
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.silence.count()));
  }
  if (!request.certificate.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, request.certificate.c_str());
  const auto set_text = [&](CURLoption option, const std::string& text) {
    if (text.empty()) return;
    curl_blob blob{const_cast<char*>(text.data()), text.size(), CURL_BLOB_NOCOPY};
    curl_easy_setopt(curl, option, &blob);
  };
  set_text(CURLOPT_CAINFO_BLOB, request.authority);
  set_text(CURLOPT_SSLCERT_BLOB, request.own_certificate);
  set_text(CURLOPT_SSLKEY_BLOB, request.own_key);
  if (request.unchecked) {
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
  }
  if (request.signing) sign(curl, *request.signing);
  if (request.on_data) curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, kBufferBytes);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &on_data);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &receiver);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &receiver);
  if (request.method == "POST" || !request.body.empty()) {
    add_header("Content-Type: " + request.content_type);
    add_header("Expect:");
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.data());
  }
  if (request.method != "GET" && request.method != "POST") {
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());

  const CURLcode code = curl_easy_perform(curl);
  if (receiver.exception) std::rethrow_exception(receiver.exception);
  const std::string reason = error[0] != '\0' ? error : curl_easy_strerror(code);
  // Neither the path nor the query tells people more.
  const std::string server = request.url.substr(0, request.url.find('/', request.url.find("://") + 3));
  if (code == CURLE_OPERATION_TIMEDOUT) throw CommTimeout("no answer in time from " + server + ": " + reason);
  if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL) {
    throw UserError("'" + request.url + "' is no http or https address: " + reason);
  }
  if (code != CURLE_OK && !receiver.ended_by_us) throw CommError("cannot reach " + server + ": " + reason);
  const char* type = nullptr;
  curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &type);
  if (type != nullptr) receiver.response.content_type = type;
  receiver.response.status = status_of(curl);
  return std::move(receiver.response);
}

}  // namespace mlbench::net::http
