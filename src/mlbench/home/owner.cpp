#include "mlbench/home/owner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "mlbench/base/clock.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/input.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/system_error.h"

namespace mlbench::home {

namespace fs = std::filesystem;

namespace {

constexpr size_t kLeastTokenBytes = 16;
constexpr std::chrono::milliseconds kStarting{2000};

fs::path lock_path(const fs::path& home) { return home / "serve.lock"; }

void overwrite(int fd, const std::string& text) {
  if (pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
      ftruncate(fd, static_cast<off_t>(text.size())) != 0) {
    throw_system_error("cannot write the owner of the home", errno);
  }
}

std::optional<MasterAddress> read_address(const fs::path& home) {
  try {
    const Json json = read_json_file(lock_path(home), inputs::kOwner);
    return MasterAddress{json.at("url").get<std::string>(), json.at("token_file").get<std::string>(),
                         json.at("certificate").get<std::string>(), static_cast<pid_t>(integer_member(json, "pid"))};
  } catch (const std::exception&) {
    return std::nullopt;  // there is no master, or one that has not published yet
  }
}

}  // namespace

HomeOwner::HomeOwner(const fs::path& home) : lock_(FileLock::acquire(lock_path(home), std::chrono::milliseconds(500))) {
  if (!lock_) {
    const auto owner = read_address(home);
    throw UserError(fmt::format("another mlbench serve owns {}{}: use that one, stop it, or choose another --home",
                                home.string(), owner ? fmt::format(" (process {}, {})", owner->pid, owner->url) : ""));
  }
  overwrite(lock_->fd(), "");
}

HomeOwner::~HomeOwner() {
  if (ftruncate(lock_->fd(), 0) != 0) return;  // the lock alone says enough
}

void HomeOwner::publish(const MasterAddress& address) {
  const Json json = {{"url", address.url},
                     {"token_file", address.token_file.string()},
                     {"certificate", address.certificate},
                     {"pid", address.pid},
                     {"host", host_name()},
                     {"started_at", format_utc(SystemClock().wall_now())}};
  overwrite(lock_->fd(), json.dump() + "\n");
}

std::optional<MasterAddress> find_master(const fs::path& home) {
  const auto deadline = std::chrono::steady_clock::now() + kStarting;
  for (;;) {
    const FileDescriptor fd(open(lock_path(home).c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd || flock(fd.get(), LOCK_SH | LOCK_NB) == 0) return std::nullopt;
    if (auto address = read_address(home)) return address;
    if (std::chrono::steady_clock::now() > deadline) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

fs::path default_token_file(const fs::path& home) { return home / "token"; }

std::string ensure_token(const fs::path& file) {
  const FileDescriptor made(open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (made) {
    const std::string token = random_hex(32);
    write_all(made.get(), token + "\n", file.string());
    sync_file(made.get(), file);
    sync_directory(file.parent_path());
    return token;
  }
  if (errno != EEXIST) throw_system_error(fmt::format("cannot make {}", file.string()), errno);
  struct stat info {};
  if (stat(file.c_str(), &info) != 0) throw_system_error(fmt::format("cannot read {}", file.string()), errno);
  if ((info.st_mode & 077) != 0) {
    throw UserError(fmt::format("others may read the token in {} (mode {:o}): chmod 600 {}", file.string(),
                                info.st_mode & 0777, file.string()));
  }
  return read_token(file);
}

std::string read_token(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) {
    throw UserError(
        fmt::format("there is no token file {}: give the one of the master with --token-file", file.string()));
  }
  std::string token = read_file(file, inputs::kToken);
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  const auto good = [](char c) { return c > ' ' && c < 0x7f; };
  if (token.size() < kLeastTokenBytes || token.size() > 1000 || !std::all_of(token.begin(), token.end(), good)) {
    throw UserError(fmt::format("{} holds no token: expected one line of at least {} printable characters",
                                file.string(), kLeastTokenBytes));
  }
  return token;
}

bool same_secret(std::string_view given, std::string_view expected) {
  unsigned difference = given.size() == expected.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(expected[i % expected.size()]);
  }
  return difference == 0;
}

}  // namespace mlbench::home
