#include "mlbench/supervise/lease.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <limits>
#include <thread>

#include "mlbench/base/environment.h"
#include "mlbench/base/input.h"
#include "mlbench/base/process_status.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/system_error.h"

namespace mlbench::supervise {
namespace {

using std::chrono::milliseconds;

Json to_json(const ProcessIdentity& process) { return {{"pid", process.pid}, {"start_time", process.start_time}}; }

ProcessIdentity identity_from_json(const Json& json) {
  const int64_t pid = integer_member(json, "pid"), start_time = integer_member(json, "start_time");
  if (pid < 0 || pid > std::numeric_limits<pid_t>::max() || start_time < 0) {
    throw UserError("the lease names a process that is none");
  }
  return {static_cast<pid_t>(pid), static_cast<uint64_t>(start_time)};
}

}  // namespace

bool alive(const ProcessIdentity& identity) {
  const auto process = process_status(identity.pid);
  return process && process->start_time == identity.start_time && !process->ended();
}

std::optional<Lease> Lease::take(const std::filesystem::path& run_dir) {
  auto lock = FileLock::acquire(lease_path(run_dir), milliseconds(200));
  if (!lock) return std::nullopt;
  Lease lease(std::move(*lock));
  if (const auto old = read_lease(run_dir)) lease.counter_ = old->counter;
  return lease;
}

Lease::~Lease() {
  if (lock_.fd() >= 0 && counter_ > 0) write({}, {});
}

void Lease::refresh(const std::vector<ProcessIdentity>& ranks) {
  const auto self = process_status(getpid());
  ++counter_;
  if (!write({getpid(), self ? self->start_time : 0}, ranks)) {
    throw_system_error("cannot write the lease of the run", errno);
  }
}

bool Lease::write(const ProcessIdentity& holder, const std::vector<ProcessIdentity>& ranks) {
  Json content = {{"host", host_name()}, {"boot_id", boot_id()}};
  content.update(to_json(holder));
  content["counter"] = counter_;
  content["ranks"] = Json::array();
  for (const ProcessIdentity& rank : ranks) content["ranks"].push_back(to_json(rank));
  // Written in place, since the lock belongs to this file. A reader may see a mixture, and then reads again.
  const std::string text = content.dump() + "\n";
  return pwrite(lock_.fd(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
         ftruncate(lock_.fd(), static_cast<off_t>(text.size())) == 0;
}

std::optional<LeaseContent> read_lease(const std::filesystem::path& run_dir) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    try {
      const Json json = read_json_file(lease_path(run_dir), inputs::kLease);
      LeaseContent content;
      json.at("host").get_to(content.host);
      json.at("boot_id").get_to(content.boot_id);
      content.holder = identity_from_json(json);
      content.counter = integer_member(json, "counter");
      for (const Json& rank : json.at("ranks")) {
        content.ranks.push_back(identity_from_json(rank));
        // For kill(), group 0 is our own, and group 1 is everybody.
        if (content.ranks.back().pid <= 1) throw UserError("the lease names a rank that is none");
      }
      return content;
    } catch (const IoError&) {
      return std::nullopt;
    } catch (const std::exception&) {
      std::this_thread::sleep_for(milliseconds(5));
    }
  }
  return std::nullopt;
}

bool lease_held(const std::filesystem::path& run_dir, milliseconds standstill) {
  const FileDescriptor fd(open(lease_path(run_dir).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    if (errno == ENOENT || errno == ELOOP) return false;  // a supervisor takes no lease through a link
    throw_system_error("cannot read " + lease_path(run_dir).string(), errno);
  }
  // Shared, so that readers don't take each other for the holder.
  if (flock(fd.get(), LOCK_SH | LOCK_NB) != 0) return true;
  const auto content = read_lease(run_dir);
  if (!content || content->boot_id == boot_id()) return false;
  // The lock is free here, but some shared file systems lock per host only.
  flock(fd.get(), LOCK_UN);
  const auto deadline = std::chrono::steady_clock::now() + standstill;
  while (std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::min<milliseconds>(standstill, milliseconds(250)));
    const auto now = read_lease(run_dir);
    if (now && now->counter != content->counter) return true;
  }
  return false;
}

}  // namespace mlbench::supervise
