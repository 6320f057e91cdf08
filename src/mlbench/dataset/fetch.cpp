#include "mlbench/dataset/fetch.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <exception>
#include <memory>
#include <thread>

#include "mlbench/base/files.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/system_error.h"
#include "mlbench/dataset/images.h"
#include "mlbench/dataset/locate.h"

namespace mlbench::dataset {

namespace fs = std::filesystem;

namespace {

using Report = std::function<void(int64_t done, int64_t total)>;

constexpr int kAttempts = 5;
constexpr long kConnectTimeoutSeconds = 30;
constexpr long kStalledSeconds = 60;  // without a single byte

// One transfer that appends to an open file.
class Transfer {
 public:
  enum class Outcome {
    kDone,
    kInterrupted,     // the file holds what came; another attempt continues there
    kCannotContinue,  // the server knows no ranges, or the file has another length now: start from nothing
  };

  Transfer(const std::string& url, int fd, int64_t already, int64_t known_total, const Report& report)
      : url_(url), fd_(fd), already_(already), known_total_(known_total), report_(report) {}

  Outcome run() {
    static const CURLcode global = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (global != CURLE_OK) throw IoError(std::string("cannot start libcurl: ") + curl_easy_strerror(global));
    const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(), curl_easy_cleanup);
    if (curl == nullptr) throw IoError("cannot start libcurl: out of memory");

    curl_easy_setopt(curl.get(), CURLOPT_URL, url_.c_str());
    curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl.get(), CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl.get(), CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl.get(), CURLOPT_MAXREDIRS, 10L);
    curl_easy_setopt(curl.get(), CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl.get(), CURLOPT_USERAGENT, "mlbench");
    curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT, kConnectTimeoutSeconds);
    curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_TIME, kStalledSeconds);
    curl_easy_setopt(curl.get(), CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(already_));
    curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, error_);
    curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, &Transfer::on_data);
    curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, this);
    curl_easy_setopt(curl.get(), CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl.get(), CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress);
    curl_easy_setopt(curl.get(), CURLOPT_XFERINFODATA, this);

    const CURLcode code = curl_easy_perform(curl.get());
    if (exception_) std::rethrow_exception(exception_);
    long status = 0;
    curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
    reason_ = error_[0] != '\0' ? error_ : curl_easy_strerror(code);
    switch (code) {
      case CURLE_OK:
        return Outcome::kDone;
      case CURLE_RANGE_ERROR:
        return Outcome::kCannotContinue;
      case CURLE_PARTIAL_FILE:
      case CURLE_RECV_ERROR:
      case CURLE_SEND_ERROR:
      case CURLE_GOT_NOTHING:
      case CURLE_OPERATION_TIMEDOUT:
        return Outcome::kInterrupted;
      case CURLE_HTTP_RETURNED_ERROR:
        if (status == 416 && already_ > 0) return Outcome::kCannotContinue;
        if (status >= 500) return Outcome::kInterrupted;
        break;
      case CURLE_UNSUPPORTED_PROTOCOL:
      case CURLE_URL_MALFORMAT:
        throw UserError(fmt::format("cannot fetch '{}': {}; expected an http or https address", url_, reason_));
      default:
        break;
    }
    throw IoError(fmt::format("cannot fetch {}: {}", url_, reason_));
  }

  const std::string& reason() const { return reason_; }

 private:
  // No exception may pass through libcurl: this keeps it and aborts the transfer, and run() throws it.
  template <typename Action>
  bool guarded(const Action& action) {
    try {
      action();
      return true;
    } catch (...) {
      exception_ = std::current_exception();
      return false;
    }
  }

  static size_t on_data(char* data, size_t size, size_t count, void* self) {
    auto* transfer = static_cast<Transfer*>(self);
    const bool good = transfer->guarded([&] {
      write_all(transfer->fd_, {data, size * count}, "what came from " + transfer->url_);
    });
    return good ? size * count : 0;
  }

  static int on_progress(void* self, curl_off_t total, curl_off_t now, curl_off_t, curl_off_t) {
    auto* transfer = static_cast<Transfer*>(self);
    if (!transfer->report_) return 0;
    const int64_t all = total > 0 ? transfer->already_ + total : transfer->known_total_;
    return transfer->guarded([&] { transfer->report_(transfer->already_ + now, all); }) ? 0 : 1;
  }

  const std::string& url_;
  int fd_;
  int64_t already_;
  int64_t known_total_;
  const Report& report_;
  char error_[CURL_ERROR_SIZE] = "";
  std::string reason_;
  std::exception_ptr exception_;
};

void fetch_file(const FileSource& source, const fs::path& target, const Report& report) {
  const fs::path part = target.string() + ".part";
  std::string reason;
  for (int attempt = 1; attempt <= kAttempts; ++attempt) {
    const FileDescriptor fd(open(part.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!fd) throw_system_error("cannot write " + part.string(), errno);
    struct stat info {};
    if (fstat(fd.get(), &info) != 0) throw_system_error("cannot inspect " + part.string(), errno);
    const int64_t already = info.st_size;

    auto outcome = Transfer::Outcome::kDone;
    if (source.bytes == 0 || already != source.bytes) {
      Transfer transfer(source.url, fd.get(), already, source.bytes, report);
      outcome = transfer.run();
      reason = transfer.reason();
    }
    if (outcome == Transfer::Outcome::kInterrupted) {
      if (attempt < kAttempts) std::this_thread::sleep_for(std::chrono::milliseconds(100 << attempt));
      continue;
    }
    if (outcome == Transfer::Outcome::kDone) {
      if (fsync(fd.get()) != 0) throw_system_error("cannot write " + part.string(), errno);
      const std::string sha256 = sha256_hex_of_file(part);
      if (source.sha256.empty() || sha256 == source.sha256) {
        fs::rename(part, target);
        sync_directory(target.parent_path());
        return;
      }
      reason = fmt::format("sha256 {} ({} bytes), expected {} ({} bytes)", sha256, fs::file_size(part), source.sha256,
                           source.bytes);
    }
    fs::remove(part);
    // A whole file that came in one piece will be the same next time; a file put together of two pieces may be better.
    if (outcome == Transfer::Outcome::kDone && already == 0) {
      throw UserError(fmt::format("{} is not the published file: {}", source.url, reason));
    }
  }
  throw IoError(fmt::format("cannot fetch {}: {} ({} attempts); what came is in {}, the next fetch goes on from there",
                            source.url, reason, kAttempts, part.string()));
}

using Progressed = std::function<void(const std::string& file, int64_t done, int64_t total)>;

// Fetches one file; does nothing where the file exists, packed or not.
void fetch_source(const FileSource& source, const DatasetDescription& description, const fs::path& folder,
                  const Progressed& progress) {
  const fs::path local = folder / source.pattern;
  if (find_file(folder, source.pattern) || !find_images(folder, source.pattern).empty()) return;
  if (source.url.empty()) {
    throw UserError(fmt::format("{} of {} cannot be fetched (no address is known): put it into {}", source.pattern,
                                description.name, folder.string()));
  }
  const fs::path target = local.parent_path() / source.url.substr(source.url.rfind('/') + 1);
  fs::create_directories(target.parent_path());
  Report report;
  if (progress) report = [&](int64_t done, int64_t total) { progress(target.filename().string(), done, total); };
  fetch_file(source, target, report);
}

}  // namespace

fs::path fetch(const DatasetDescription& description, const fs::path& data_dir,
               const std::function<void(const std::string& file, int64_t done, int64_t total)>& progress) {
  require_files(description);
  const fs::path folder = data_dir / description.folder;
  make_folder(folder);
  const auto lock = FileLock::acquire(folder / ".fetch.lock", std::chrono::milliseconds(0));
  if (!lock) throw UserError("another process fetches into " + folder.string() + ": wait for it");

  const ArchiveSource& archive = description.archive;
  if (!archive.pattern.empty()) {
    fetch_source({archive.pattern, archive.sha256, archive.bytes, "", archive.url}, description, folder, progress);
    return folder;
  }
  for (const SplitSpec& split : description.splits) {
    for (const FileSource& source : split.files) fetch_source(source, description, folder, progress);
  }
  return folder;
}

}  // namespace mlbench::dataset
