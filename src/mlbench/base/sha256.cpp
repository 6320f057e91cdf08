#include "mlbench/base/sha256.h"

#include <openssl/evp.h>
#include <sys/random.h>

#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"

namespace mlbench {

namespace {
std::string to_hex(std::span<const unsigned char> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}
}  // namespace

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
  return to_hex({digest, length});
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

std::string random_hex(size_t bytes) {
  std::vector<unsigned char> data(bytes);
  size_t filled = 0;
  while (filled < bytes) {
    const ssize_t count = getrandom(data.data() + filled, bytes - filled, 0);
    if (count < 0) throw IoError("getrandom failed");
    filled += static_cast<size_t>(count);
  }
  return to_hex(data);
}

}  // namespace mlbench
