#include "mlbench/objects/s3_store.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/random.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/text.h"
#include "mlbench/base/to_number.h"
#include "mlbench/net/http/client.h"
#include "mlbench/objects/answers.h"
#include "mlbench/objects/credentials.h"
#include "mlbench/objects/location.h"

namespace mlbench::objects {

namespace {

using net::http::ClientRequest;
using net::http::ClientResponse;
using net::http::Fields;

constexpr std::chrono::milliseconds kLongestPause{10'000};
constexpr int64_t kMostObjects = 100'000'000;

// The clients that are not in use. Whoever comes when there is none waits.
class Connections {
 public:
  explicit Connections(int count) : idle_(static_cast<size_t>(count)) {
    for (auto& client : idle_) client = std::make_unique<net::http::Client>();
  }

  template <typename Action>
  auto with_one(const Action& action) {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [&] { return !idle_.empty(); });
    const Lent lent{*this, std::move(idle_.back())};
    idle_.pop_back();
    lock.unlock();
    return action(*lent.client);
  }

 private:
  using Client = std::unique_ptr<net::http::Client>;
  struct Lent {
    Connections& connections;
    mutable Client client;
    ~Lent() {
      const std::lock_guard lock(connections.mutex_);
      connections.idle_.push_back(std::move(client));
      connections.freed_.notify_one();
    }
  };

  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<Client> idle_;
};

bool may_pass(int status) {
  constexpr std::array kStatuses = {408, 429, 500, 502, 503, 504};
  return std::ranges::find(kStatuses, status) != kStatuses.end();
}

// What to check when a store refuses, by the code that S3 has for it, or by the status.
struct Advice {
  std::string_view code;
  int status;
  std::string_view text;
};
constexpr std::array kAdvice = {
    Advice{"SignatureDoesNotMatch", 403, "check the secret key, and that --s3-region is the store's"},
    Advice{"InvalidAccessKeyId", 403, "check the access key, and that the endpoint is the store that it is for"},
    Advice{"RequestTimeTooSkewed", 403, "check the clock of this host"},
    Advice{"ExpiredToken", 400, "get new credentials: the session token has expired"},
    Advice{"NoSuchBucket", 404, "check the bucket's name, the endpoint and the region"},
    Advice{"NoSuchKey", 404, "the object is gone: list the objects again"},
    Advice{"", 403, "check that these credentials may list the bucket and read its objects"},
    Advice{"", 401, "check the credentials"},
    Advice{"", 404, "check bucket, prefix and endpoint"},
    Advice{"", 301, "check that --s3-region is the bucket's"},
    Advice{"", 307, "check that --s3-region is the bucket's"},
    Advice{"", 400, "check --s3-region and --s3-style"},
    Advice{"", 0, "check that the endpoint is that of an S3-compatible store"},
};

std::string_view advice_for(std::string_view code, int status) {
  const auto fits = [&](const Advice& advice) {
    return advice.code.empty() ? advice.status == status || advice.status == 0 : advice.code == code;
  };
  return std::ranges::find_if(kAdvice, fits)->text;
}

// "" where the system forbids MD5 altogether.
std::string md5_hex(std::span<const std::byte> bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_md5(), nullptr) != 1) return "";
  return hex_of(std::as_bytes(std::span(digest.data(), length)));
}

bool is_md5(std::string_view etag) {
  return etag.size() == 32 && etag.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// How an attempt went: empty, or why it is to be made again.
struct Attempt {
  std::string failure;
  bool progressed = false;  // it brought bytes, so attempts are counted anew
};

class S3Store final : public ObjectStore {
 public:
  S3Store(Location location, const StoreOptions& options)
      : location_(std::move(location)),
        options_(options),
        authority_(environment_variable("AWS_CA_BUNDLE").value_or("")),
        connections_(options.connections),
        pause_key_(derive_key(static_cast<uint64_t>(getpid()),
                              {static_cast<uint64_t>(unix_us(std::chrono::system_clock::now()))})) {}

  std::vector<Object> list() override;
  void read(const Object& object, int64_t offset, std::span<std::byte> into) override;

  Counters counters() const override {
    return {.objects = objects_,
            .reads = reads_,
            .bytes = bytes_,
            .copied_bytes = copied_bytes_,
            .checked = checked_.so_far(),
            .requests = requests_,
            .retries = retries_};
  }
  std::string kind() const override { return "s3"; }
  std::string endpoint() const override { return location_.endpoint; }
  std::string place() const override { return location_.place(); }

 private:
  // A read and how far it is.
  struct Read {
    const std::string key;   // as a whole
    const std::string what;  // for messages
    const int64_t offset;
    const std::span<std::byte> into;
    const Object& object;
    std::string etag;
    size_t done = 0;
    bool encrypted = false;  // by a key of a key service or of the user: then the ETag is no MD5

    int64_t from() const { return offset + static_cast<int64_t>(done); }
    int64_t last() const { return offset + std::ssize(into) - 1; }
  };

  ListPage list_page(const std::string& token);
  Attempt read_once(Read& read, TimePoint deadline);
  void check_start(Read& read, const ClientResponse& answer) const;
  bool has_right_bytes(const Read& read);
  ClientResponse send(const std::string& url, Fields headers, TimePoint deadline,
                      const std::function<void(ClientRequest&)>& more);
  template <typename Once>
  void until_done(const std::string& what, const Once& once);
  void pause(const std::string& what, const std::string& failure, int failed, TimePoint deadline);
  [[noreturn]] void refuse(const std::string& what, const ClientResponse& answer, const Read* read);

  const Location location_;
  const StoreOptions options_;
  const std::string authority_;  // the path of certificates
  CredentialSource credentials_;
  Connections connections_;
  const uint64_t pause_key_;
  std::atomic<int64_t> objects_{0}, reads_{0}, bytes_{0}, copied_bytes_{0}, requests_{0}, retries_{0};
  CheckMeter checked_;
};

ClientResponse S3Store::send(const std::string& url, Fields headers, TimePoint deadline,
                             const std::function<void(ClientRequest&)>& more) {
  const Credentials credentials = credentials_.get();
  ClientRequest request;
  request.url = url;
  request.headers = std::move(headers);
  request.headers.emplace_back("x-amz-content-sha256", sha256_hex(""));
  if (!credentials.session_token.empty()) {
    request.headers.emplace_back("x-amz-security-token", credentials.session_token);
  }
  request.signing = {location_.region, "s3", credentials.access_key, credentials.secret_key};
  request.certificate = authority_;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  request.timeout = std::max(left, std::chrono::milliseconds(1));
  request.silence = options_.silence;
  more(request);
  ++requests_;
  return connections_.with_one([&](net::http::Client& client) { return client.send(request); });
}

template <typename Once>
void S3Store::until_done(const std::string& what, const Once& once) {
  const TimePoint deadline = deadline_after(options_.patience);
  for (int failed = 0;;) {
    Attempt attempt;
    try {
      attempt = once(deadline);
    } catch (const CommError& error) {
      attempt = {error.what(), false};
    }
    if (attempt.failure.empty()) return;
    failed = attempt.progressed ? 1 : failed + 1;
    pause(what, attempt.failure, failed, deadline);
  }
}

void S3Store::pause(const std::string& what, const std::string& failure, int failed, TimePoint deadline) {
  auto length = std::min(kLongestPause, options_.first_pause * (1 << std::min(failed - 1, 20)));
  RandomSequence random(derive_key(pause_key_, {static_cast<uint64_t>(retries_.load())}));
  length = std::chrono::duration_cast<std::chrono::milliseconds>(length * (0.5 + random.uniform() / 2));
  const auto give_up = [&](const std::string& tried) {
    throw CommError(fmt::format("{}: {} ({}): check {} and the network by mlbench bench storage {}", what, failure,
                                tried, location_.endpoint, location_.place()));
  };
  if (failed >= options_.attempts) give_up(counted(failed, "attempt") + " without success");
  if (std::chrono::steady_clock::now() + length > deadline) {
    give_up(fmt::format("tried for {} s", to_seconds(options_.patience)));
  }
  ++retries_;
  std::this_thread::sleep_for(length);
}

void S3Store::refuse(const std::string& what, const ClientResponse& answer, const Read* read) {
  if (answer.status == 412 || (answer.status == 416 && read != nullptr)) {
    throw UserError(fmt::format("{}: the object is not as it was listed ({} bytes, ETag '{}'): list the objects again",
                                what, read == nullptr ? 0 : read->object.bytes, read == nullptr ? "" : read->etag));
  }
  const Refusal refusal = parse_refusal(answer.body);
  std::string said = fmt::format("{} {}", answer.status, refusal.code);
  if (!refusal.message.empty()) said += ": " + refusal.message;
  const std::string region(net::http::field(answer.headers, "x-amz-bucket-region"));
  if (const std::string& right = refusal.region.empty() ? region : refusal.region;
      !right.empty() && right != location_.region) {
    said += "; the bucket's region is " + right;
  }
  const Credentials credentials = credentials_.get();
  for (const std::string& secret : {credentials.secret_key, credentials.session_token, credentials.access_key}) {
    if (!secret.empty()) fill_in(said, secret, "***");
  }
  throw UserError(fmt::format("{}: the store refuses ({}): {} (endpoint {}, region {}, credentials of {})", what,
                              printable(trimmed(said), 300), advice_for(refusal.code, answer.status),
                              location_.endpoint, location_.region, credentials_.where()));
}

// ---- lists ----------------------------------------------------------------------------------------------------------

ListPage S3Store::list_page(const std::string& token) {
  // In the order of the names, for the signature.
  std::string query = token.empty() ? "" : "continuation-token=" + net::http::percent_encode(token) + "&";
  query += "list-type=2&max-keys=1000&prefix=" + net::http::percent_encode(location_.prefix);
  ListPage page;
  const std::string what = location_.place();
  until_done(what, [&](TimePoint deadline) -> Attempt {
    std::string body;
    const ClientResponse answer = send(location_.url("") + "?" + query, {}, deadline, [&](ClientRequest& request) {
      request.on_data = [&](std::string_view data) {
        if (body.size() + data.size() > inputs::kObjectList.most_bytes) {
          refuse_size(what, body.size() + data.size(), inputs::kObjectList);
        }
        body += data;
        return true;
      };
    });
    if (may_pass(answer.status)) return {fmt::format("the store answers with status {}", answer.status), false};
    if (answer.status != 200) refuse(what, answer, nullptr);
    page = parse_list_page(what, body);
    return {};
  });
  return page;
}

std::vector<Object> S3Store::list() {
  std::vector<Object> objects;
  std::string token;
  do {
    ListPage page = list_page(token);
    for (Object& object : page.objects) {
      if (!object.key.starts_with(location_.prefix)) {
        throw UserError(
            fmt::format("{}: the list has '{}', which is not below it", location_.place(), printable(object.key, 100)));
      }
      object.key.erase(0, location_.prefix.size());
      if (object.bytes == 0 && (object.key.empty() || object.key.ends_with('/'))) continue;  // stands for a folder
      check_key(location_.place(), object.key);
      objects.push_back(std::move(object));
    }
    if (!page.next.empty() && (page.next == token || page.objects.empty())) {
      throw UserError(fmt::format("{}: the list does not end", location_.place()));
    }
    if (std::ssize(objects) > kMostObjects) {
      throw UserError(fmt::format("{}: more than {} objects; give a prefix", location_.place(), kMostObjects));
    }
    token = page.next;
  } while (!token.empty());
  std::ranges::sort(objects, {}, &Object::key);
  objects_ = std::ssize(objects);
  return objects;
}

// ---- reads ----------------------------------------------------------------------------------------------------------

void S3Store::check_start(Read& read, const ClientResponse& answer) const {
  if (answer.status != 206) {
    throw UserError(fmt::format("{}: the store answers with status {} to a request for a range, expected 206",
                                read.what, answer.status));
  }
  const std::string range(net::http::field(answer.headers, "Content-Range"));
  const std::string begin = fmt::format("bytes {}-{}/", read.from(), read.last());
  if (!range.starts_with(begin)) {
    throw UserError(fmt::format("{}: the store sends '{}', expected '{}'", read.what, printable(range, 100), begin));
  }
  const std::string size = range.substr(begin.size());
  std::string etag(net::http::field(answer.headers, "ETag"));
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  if ((size != "*" && size != std::to_string(read.object.bytes)) || (!read.etag.empty() && etag != read.etag)) {
    throw UserError(
        fmt::format("{}: the object has {} bytes and ETag '{}' now, expected {} and '{}': list the objects again",
                    read.what, printable(size, 30), printable(etag, 100), read.object.bytes, read.etag));
  }
  if (has_control_character(etag)) throw UserError(read.what + ": an ETag that is none");
  read.etag = etag;  // what follows belongs to it
  const std::string_view how = net::http::field(answer.headers, "x-amz-server-side-encryption");
  read.encrypted = (!how.empty() && how != "AES256") ||
                   !net::http::field(answer.headers, "x-amz-server-side-encryption-customer-algorithm").empty();
}

bool S3Store::has_right_bytes(const Read& read) {
  const bool whole = read.offset == 0 && std::ssize(read.into) == read.object.bytes;
  static const bool has_md5 = !md5_hex({}).empty();
  if (!options_.compares || !whole || read.encrypted || !is_md5(read.etag) || !has_md5) return true;
  return checked_.measure(std::ssize(read.into), [&] { return md5_hex(read.into); }) == read.etag;
}

Attempt S3Store::read_once(Read& read, TimePoint deadline) {
  Fields headers = {{"range", fmt::format("bytes={}-{}", read.from(), read.last())}};
  if (!read.etag.empty()) headers.emplace_back("if-match", "\"" + read.etag + "\"");
  const size_t before = read.done;
  bool too_many = false;
  const auto progress = [&](std::string failure) -> Attempt { return {std::move(failure), read.done > before}; };
  try {
    const ClientResponse answer =
        send(location_.url(read.key), std::move(headers), deadline, [&](ClientRequest& request) {
          request.on_start = [&](const ClientResponse& start) { check_start(read, start); };
          request.on_data = [&](std::string_view data) {
            bytes_ += std::ssize(data);
            too_many = data.size() > read.into.size() - read.done;
            if (too_many) return false;
            std::memcpy(read.into.data() + read.done, data.data(), data.size());
            copied_bytes_ += std::ssize(data);
            read.done += data.size();
            return true;
          };
        });
    if (may_pass(answer.status)) return progress(fmt::format("the store answers with status {}", answer.status));
    if (answer.status < 200 || answer.status >= 300) refuse(read.what, answer, &read);
  } catch (const CommError& error) {
    return progress(error.what());
  }
  if (too_many) throw UserError(read.what + ": the store sends more bytes than the range has");
  if (read.done < read.into.size()) return progress("the answer ended too early");
  if (has_right_bytes(read)) return {};
  read.done = 0;
  return {"the bytes do not have the MD5 that is their ETag: they were damaged on their way or in the store", false};
}

void S3Store::read(const Object& object, int64_t offset, std::span<std::byte> into) {
  check_key(location_.place(), object.key);
  Read read{.key = location_.prefix + object.key,
            .what = location_.place() + (location_.prefix.empty() ? "/" : "") + object.key,
            .offset = offset,
            .into = into,
            .object = object,
            .etag = object.etag};
  if (offset < 0 || std::ssize(into) > object.bytes - offset) {
    throw UserError(
        fmt::format("{}: {} bytes from {} on, but it has {}", read.what, into.size(), offset, object.bytes));
  }
  ++reads_;
  if (into.empty()) return;
  until_done(read.what, [&](TimePoint deadline) { return read_once(read, deadline); });
}

}  // namespace

std::unique_ptr<ObjectStore> make_s3_store(const std::string& place, const StoreOptions& options) {
  if (options.connections < 1 || options.attempts < 1) throw UserError("connections and attempts: expected 1 or more");
  return std::make_unique<S3Store>(locate(place, options), options);
}

}  // namespace mlbench::objects
