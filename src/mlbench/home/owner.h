#pragma once

// One master serves a home. The master holds HOME/serve.lock under flock; the file says where the master listens.
// HOME/token (0600) is what a client must show.

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
  // Throws UserError, naming the owner, when another master serves the home.
  explicit HomeOwner(const std::filesystem::path& home);
  ~HomeOwner();  // removes the address
  HomeOwner(const HomeOwner&) = delete;
  HomeOwner& operator=(const HomeOwner&) = delete;
  // From now on, clients find this master.
  void publish(const MasterAddress& address);

 private:
  std::optional<FileLock> lock_;
};

// The address of the master that serves the home now. Waits a moment for a master that is just starting.
std::optional<MasterAddress> find_master(const std::filesystem::path& home);

std::filesystem::path default_token_file(const std::filesystem::path& home);
// Reads the token; makes the file when absent (0600, 32 random bytes as hex). Throws UserError when others may read the
// file, or when it has no token.
std::string ensure_token(const std::filesystem::path& file);
// Throws UserError when the file cannot be read or has no token.
std::string read_token(const std::filesystem::path& file);

// Whether both are equal. The time that this takes depends on the length of `given` alone.
bool same_secret(std::string_view given, std::string_view expected);

}  // namespace mlbench::home
