#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace mlbench {

// Computes a SHA-256 incrementally (by OpenSSL).
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  std::string hex();  // 64 lower-case digits; ends the computation

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string sha256_hex(std::string_view text);
std::string sha256_hex_of_file(const std::filesystem::path& path);  // throws IoError

// The bytes in hexadecimal, two lower-case digits each.
std::string hex_of(std::span<const std::byte> bytes);
inline std::string hex_of(std::string_view bytes) {
  return hex_of(std::as_bytes(std::span(bytes.data(), bytes.size())));
}
// Returns `bytes` random bytes from the system, in hexadecimal, for ids and secrets. Throws SystemError.
std::string random_hex(size_t bytes);

}  // namespace mlbench
