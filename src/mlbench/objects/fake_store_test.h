#pragma once

// For tests: a store that speaks S3, checks signatures by itself, and has the faults that a test wants.

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "mlbench/base/sha256.h"
#include "mlbench/base/text.h"
#include "mlbench/base/to_number.h"
#include "mlbench/net/http/server.h"
#include "mlbench/objects/object_store.h"

namespace mlbench::objects {

inline std::string md5_of(std::string_view text) {
  std::string digest(16, '\0');
  EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(digest.data()), nullptr, EVP_md5(), nullptr);
  return hex_of(digest);
}

// Bytes that a test can compare: no two places of the content look alike.
inline std::string content_of(size_t bytes, uint32_t salt = 1) {
  std::string content(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) content[i] = static_cast<char>((i * 2654435761U + salt) >> 13);
  return content;
}

class FakeStore final : public net::http::Service {
 public:
  // How an answer goes wrong.
  struct Fault {
    int status = 0;                        // another one than it would have
    std::string body = {};                 // of that answer
    std::optional<size_t> cut_after = {};  // the connection ends after so many bytes of the body
    std::chrono::milliseconds delay{0};    // before the body
    bool wrong_byte = false;               // in the middle of the body
    net::http::Fields headers = {};        // more of them, or other values
  };
  // Called for the request number `count`, from 0 on, by the thread that answers it.
  using Faults = std::function<Fault(int count, const net::http::Request& request)>;

  static constexpr const char* kAccess = "AKIDEXAMPLE:1";
  static constexpr const char* kSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

  FakeStore() { start(0); }
  ~FakeStore() override { server_.reset(); }

  void start(uint16_t port) {
    net::http::ServerOptions options;
    options.port = port;
    options.threads = 2;
    server_ = std::make_unique<net::http::Server>(options, *this);
    port_ = server_->port();
  }
  void stop() { server_.reset(); }
  uint16_t port() const { return port_; }
  std::string endpoint() const { return fmt::format("http://127.0.0.1:{}", port_); }

  // What the environment says to whoever opens this store, and options that make a test short.
  StoreOptions options() const {
    for (const char* name : {"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CA_BUNDLE"}) {
      unsetenv(name);
    }
    setenv("AWS_ACCESS_KEY_ID", kAccess, 1);
    setenv("AWS_SECRET_ACCESS_KEY", kSecret, 1);
    setenv("AWS_CONFIG_FILE", "/nonexistent", 1);
    if (!session_token.empty()) setenv("AWS_SESSION_TOKEN", session_token.c_str(), 1);
    StoreOptions options;
    options.endpoint = endpoint();
    options.silence = std::chrono::seconds(1);
    options.first_pause = std::chrono::milliseconds(1);
    return options;
  }

  void put(const std::string& key, std::string content) {
    const std::lock_guard lock(mutex_);
    objects_[key] = std::move(content);
  }
  int requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

  Faults faults;
  std::string session_token;
  size_t page = 1000;  // keys in a page of a list
  std::string etag;    // "": the MD5

  net::http::Admission begin(const net::http::Request&) override { return {.known = true}; }

  net::http::Response handle(const net::http::Request& request) override {
    const Fault fault = next_fault(request);
    if (fault.status != 0) return answer(fault.status, fault.body);
    if (!signature_fits(request)) return refusal(403, "SignatureDoesNotMatch");
    const auto& segments = request.target.segments;
    if (segments.empty() || segments.front() != "bucket") return refusal(404, "NoSuchBucket");
    net::http::Response response = segments.size() == 1 ? list(request) : get(request);
    for (const auto& header : fault.headers) {
      std::erase_if(response.headers, [&](const auto& field) { return field.first == header.first; });
      response.headers.push_back(header);
    }
    if (fault.wrong_byte && !response.body.empty()) response.body[response.body.size() / 2] ^= 1;
    std::this_thread::sleep_for(fault.delay);
    if (fault.cut_after) {
      const std::string sent = response.body.substr(0, *fault.cut_after);
      response.body = "";
      response.next = [sent, first = true]() mutable -> std::string {
        if (first && !sent.empty()) {
          first = false;
          return sent;
        }
        throw std::runtime_error("cut");
      };
    }
    return response;
  }

 private:
  Fault next_fault(const net::http::Request& request) {
    std::unique_lock lock(mutex_);
    const int count = requests_++;
    lock.unlock();
    return faults ? faults(count, request) : Fault();
  }

  static net::http::Response answer(int status, std::string body) {
    net::http::Response response;
    response.status = status;
    response.content_type = "application/xml";
    response.body = std::move(body);
    return response;
  }

  static net::http::Response refusal(int status, const std::string& code) {
    return answer(status,
                  fmt::format("<Error><Code>{}</Code><Message>a reason with {}</Message></Error>", code, kSecret));
  }

  net::http::Response get(const net::http::Request& request) {
    std::string key;
    for (size_t i = 1; i < request.target.segments.size(); ++i) key += (i == 1 ? "" : "/") + request.target.segments[i];
    std::string content;
    {
      const std::lock_guard lock(mutex_);
      const auto found = objects_.find(key);
      if (found == objects_.end()) return refusal(404, "NoSuchKey");
      content = found->second;
    }
    const std::string tag = "\"" + (etag.empty() ? md5_of(content) : etag) + "\"";
    if (const auto wanted = request.header("If-Match"); !wanted.empty() && wanted != tag) {
      return refusal(412, "PreconditionFailed");
    }
    const std::vector<std::string> ends = split_at(request.header("Range").substr(6), '-');
    const auto from = to_number<size_t>(ends.at(0)).value(), last = to_number<size_t>(ends.at(1)).value();
    if (from >= content.size()) return refusal(416, "InvalidRange");
    net::http::Response response = answer(206, content.substr(from, last - from + 1));
    response.headers = {
        {"ETag", tag},
        {"Content-Range", fmt::format("bytes {}-{}/{}", from, from + response.body.size() - 1, content.size())}};
    return response;
  }

  net::http::Response list(const net::http::Request& request) {
    const std::lock_guard lock(mutex_);
    const std::string prefix = request.query("prefix").value_or("");
    const std::string after = request.query("continuation-token").value_or("");
    std::string xml = "<?xml version='1.0' encoding='UTF-8'?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/\">";
    size_t count = 0;
    std::string last;
    bool truncated = false;
    for (const auto& [key, content] : objects_) {
      if (!key.starts_with(prefix) || (!after.empty() && key <= after.substr(3))) continue;
      truncated = count == page;
      if (truncated) break;
      last = key;
      fill_in(last, "&", "&amp;");
      xml += fmt::format("<Contents><Key>{}</Key><ETag>&quot;{}&quot;</ETag><Size>{}</Size></Contents>", last,
                         etag.empty() ? md5_of(content) : etag, content.size());
      ++count;
    }
    xml += fmt::format("<IsTruncated>{}</IsTruncated>", truncated);
    if (truncated) xml += fmt::format("<NextContinuationToken>+/={}</NextContinuationToken>", last);
    return answer(200, xml + "</ListBucketResult>");
  }

  static std::string hmac(const std::string& key, const std::string& text) {
    std::string out(32, '\0');
    HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
         text.size(), reinterpret_cast<unsigned char*>(out.data()), nullptr);
    return out;
  }

  // Computes the signature of a request by AWS's description of it ("Signature Version 4 signing process").
  bool signature_fits(const net::http::Request& request) const {
    const std::string given(request.header("Authorization"));
    const auto part = [&](const std::string& name) -> std::string {
      const size_t begin = given.find(name + "=");
      return begin == std::string::npos
                 ? ""
                 : given.substr(begin + name.size() + 1, given.find(',', begin) - begin - name.size() - 1);
    };
    const std::vector<std::string> scope = split_at(part("Credential"), '/');
    if (!given.starts_with("AWS4-HMAC-SHA256 ") || scope.size() != 5 || scope[0] != kAccess) return false;
    if (request.header("x-amz-security-token") != session_token) return false;
    const size_t mark = request.raw_target.find('?');
    std::vector<std::string> query =
        split_at(mark == std::string::npos ? "" : request.raw_target.substr(mark + 1), '&');
    std::ranges::sort(query);
    const std::vector<std::string> names = split_at(part("SignedHeaders"), ';');
    if (std::ranges::count(names, "x-amz-security-token") != (session_token.empty() ? 0 : 1)) return false;
    std::string canonical = request.method + "\n" + request.raw_target.substr(0, mark) + "\n";
    for (size_t i = 0; i < query.size(); ++i) canonical += (i == 0 ? "" : "&") + query[i];
    canonical += "\n";
    for (const std::string& name : names) canonical += name + ":" + trimmed(request.header(name)) + "\n";
    canonical += "\n" + part("SignedHeaders") + "\n" + std::string(request.header("x-amz-content-sha256"));
    const std::string text = fmt::format("AWS4-HMAC-SHA256\n{}\n{}/{}/{}/{}\n{}", request.header("x-amz-date"),
                                         scope[1], scope[2], scope[3], scope[4], sha256_hex(canonical));
    std::string key = "AWS4" + std::string(kSecret);
    for (size_t i = 1; i < scope.size(); ++i) key = hmac(key, scope[i]);
    return hex_of(hmac(key, text)) == part("Signature");
  }

  mutable std::mutex mutex_;
  std::map<std::string, std::string> objects_;
  int requests_ = 0;
  uint16_t port_ = 0;
  std::unique_ptr<net::http::Server> server_;
};

}  // namespace mlbench::objects
