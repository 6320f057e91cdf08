#include "mlbench/net/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "mlbench/base/errors.h"

namespace mlbench::net {

namespace {

// Appends the part behind its length, so that no two lists of parts give the same bytes.
void append_part(std::string& message, std::string_view part) {
  for (int shift = 56; shift >= 0; shift -= 8) message += static_cast<char>(part.size() >> shift & 0xFF);
  message += part;
}

}  // namespace

std::string make_nonce() {
  std::string nonce(kNonceBytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size())) != 1) {
    throw IoError("the system gives no random bytes");
  }
  return nonce;
}

std::string proof_of(ProofRole role, std::string_view secret, const Transcript& transcript) {
  std::string message;
  append_part(message, role == ProofRole::kConnecting ? "mlbench proof 1, connecting" : "mlbench proof 1, accepting");
  append_part(message, transcript.context);
  append_part(message, transcript.greeting);
  append_part(message, transcript.challenge);
  std::string proof(kProofBytes, '\0');
  const auto* data = reinterpret_cast<const unsigned char*>(message.data());
  MLBENCH_CHECK(HMAC(EVP_sha256(), secret.data() == nullptr ? "" : secret.data(), static_cast<int>(secret.size()), data,
                     message.size(), reinterpret_cast<unsigned char*>(proof.data()), nullptr) != nullptr,
                "HMAC");
  return proof;
}

bool proves(std::string_view given, ProofRole role, std::string_view secret, const Transcript& transcript) {
  const std::string expected = proof_of(role, secret, transcript);
  return given.size() == expected.size() && CRYPTO_memcmp(given.data(), expected.data(), expected.size()) == 0;
}

}  // namespace mlbench::net
