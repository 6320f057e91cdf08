#pragma once

// One master serves a home. HOME/serve.lock is held under flock by it and says where it listens; HOME/token (0600) is
// what a client shows.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "mlbench/base/files.h"
#include "mlbench/base/json.h"

namespace mlbench::home {

struct MasterAddress {
  std::string url;  // "http://127.0.0.1:8080"
  std::filesystem::path token_file;
  std::string certificate;  // path; "" without TLS
  pid_t pid = 0;
};

class HomeOwner {
 public:
  // UserError, naming the owner, when another master serves the home.
  explicit HomeOwner(const std::filesystem::path& home);
  ~HomeOwner();  // takes the address away
  HomeOwner(const HomeOwner&) = delete;
  HomeOwner& operator=(const HomeOwner&) = delete;
  // From now on clients find us.
  void publish(const MasterAddress& address);

 private:
  std::optional<FileLock> lock_;
};

// Of the master that serves the home now; waits a moment for one that is just starting.
std::optional<MasterAddress> find_master(const std::filesystem::path& home);

std::filesystem::path default_token_file(const std::filesystem::path& home);
// Made (0600, 32 random bytes as hex) when absent. UserError when others may read it or it holds no token.
std::string ensure_token(const std::filesystem::path& file);
// UserError when it cannot be read or holds no token.
std::string read_token(const std::filesystem::path& file);

// The time depends on the length of `given` alone.
bool same_secret(std::string_view given, std::string_view expected);

}  // namespace mlbench::home
