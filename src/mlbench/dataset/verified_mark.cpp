#include "mlbench/dataset/verified_mark.h"

#include <sys/stat.h>

#include <chrono>
#include <thread>
#include <utility>

#include "mlbench/base/build_info.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"

namespace mlbench::dataset {

namespace {

// File systems take modification times from a clock that ticks at least 100 times a second.
constexpr std::chrono::milliseconds kTick{20};
constexpr std::chrono::minutes kCheckTimeout{10};

}  // namespace

VerifiedMark::VerifiedMark(const std::filesystem::path& file) : path_(file.string() + ".checked-" + host_name()) {
  struct stat info {};
  if (stat(file.c_str(), &info) != 0) return;
  size_ = info.st_size;
  inode_ = info.st_ino;
  const auto changed = std::chrono::seconds(info.st_mtim.tv_sec) + std::chrono::nanoseconds(info.st_mtim.tv_nsec);
  changed_ns_ = std::chrono::nanoseconds(changed).count();
  const auto age = std::chrono::system_clock::now().time_since_epoch() - changed;
  if (age >= std::chrono::nanoseconds(0) && age < kTick) std::this_thread::sleep_for(kTick);
}

Json VerifiedMark::identity() const {
  return {{"build", build_info().build_id}, {"size", size_}, {"changed_ns", changed_ns_}, {"inode", inode_}};
}

std::optional<Json> VerifiedMark::facts() const {
  std::error_code ignored;
  if (size_ < 0 || !std::filesystem::exists(path_, ignored)) return std::nullopt;
  try {
    const Json mark = read_json_file(path_, inputs::kCacheMark);
    if (!mark.is_object() || mark.value("file", Json()) != identity() || !mark.contains("facts")) return std::nullopt;
    return mark.at("facts");
  } catch (const UserError&) {  // the mark is cut off, or not ours
  } catch (const IoError&) {
  }
  return std::nullopt;
}

void VerifiedMark::write(const Json& facts) const {
  if (size_ < 0) return;
  try {
    write_json_file(path_, {{"file", identity()}, {"facts", facts}}, inputs::kCacheMark);
  } catch (const IoError&) {  // the folder is read-only, or the disk full: the next start checks again
  }
}

Json check_once(const std::filesystem::path& file, const std::function<Json()>& check) {
  const VerifiedMark mark(file);
  if (auto facts = mark.facts()) return *std::move(facts);
  std::optional<FileLock> lock;
  try {
    lock = FileLock::acquire(mark.path().string() + ".lock", kCheckTimeout);
  } catch (const IoError&) {  // in a read-only folder every process checks
  }
  if (auto facts = mark.facts()) return *std::move(facts);
  Json facts = check();
  mark.write(facts);
  return facts;
}

}  // namespace mlbench::dataset
