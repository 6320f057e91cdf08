#include "mlbench/base/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/random.h>

#include <cerrno>
#include <iterator>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/system_error.h"

namespace mlbench {

struct Sha256::Context {
  EVP_MD_CTX* md = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(md); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  MLBENCH_CHECK(EVP_DigestInit_ex(context_->md, EVP_sha256(), nullptr) == 1, "EVP_DigestInit_ex");
}
Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  MLBENCH_CHECK(EVP_DigestUpdate(context_->md, bytes.data(), bytes.size()) == 1, "EVP_DigestUpdate");
}

void Sha256::update(std::string_view text) { update(std::as_bytes(std::span(text.data(), text.size()))); }

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  MLBENCH_CHECK(EVP_DigestFinal_ex(context_->md, digest, &length) == 1, "EVP_DigestFinal_ex");
  return hex_of(std::as_bytes(std::span(digest, length)));
}

std::string sha256_hex(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.hex();
}

std::string sha256_hex_of_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  Sha256 hash;
  hash.update(file.bytes());
  return hash.hex();
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) fmt::format_to(std::back_inserter(text), "{:02x}", std::to_integer<int>(byte));
  return text;
}

std::string random_hex(size_t bytes) {
  std::vector<std::byte> data(bytes);
  size_t filled = 0;
  while (filled < bytes) {
    const ssize_t count = getrandom(data.data() + filled, bytes - filled, 0);
    if (count < 0) throw_system_error("no random bytes", errno);
    filled += static_cast<size_t>(count);
  }
  return hex_of(data);
}

}  // namespace mlbench
