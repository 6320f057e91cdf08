#pragma once

// Rendezvous stores for tests and benchmarks: one for ranks that are threads, one for processes of one machine.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "mlbench/comm/communicator.h"

namespace mlbench::comm {

class MemoryStore final : public RendezvousStore {
 public:
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    if (!values_.emplace(key, value).second) throw CommError("key " + key + " is written twice");
    changed_.notify_all();
  }
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, timeout, [&] { return values_.contains(key); })) {
      throw CommError(fmt::format("waited {} ms for key {}", timeout.count(), key));
    }
    return values_.at(key);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

// A store with one file per key in a folder.
class FileStore final : public RendezvousStore {
 public:
  explicit FileStore(std::filesystem::path folder) : folder_(std::move(folder)) {}
  void set(const std::string& key, const std::string& value) override {
    const auto place = path(key);
    std::ofstream(place.string() + ".part", std::ios::binary) << value;
    std::filesystem::rename(place.string() + ".part", place);
  }
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (!std::filesystem::exists(path(key))) {
      if (std::chrono::steady_clock::now() > deadline) {
        throw CommError(fmt::format("waited {} ms for key {}", timeout.count(), key));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::ostringstream text;
    text << std::ifstream(path(key), std::ios::binary).rdbuf();
    return text.str();
  }

 private:
  std::filesystem::path path(const std::string& key) const {
    std::string name = key;
    std::replace(name.begin(), name.end(), '/', '_');
    return folder_ / name;
  }
  std::filesystem::path folder_;
};

}  // namespace mlbench::comm
