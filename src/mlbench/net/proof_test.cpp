#include "mlbench/net/proof.h"

#include <gtest/gtest.h>

#include <set>

namespace mlbench::net {
namespace {

constexpr auto kConnecting = ProofRole::kConnecting;

std::string hex(const std::string& bytes) {
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

// By hand: hmac.new(b"key", b"".join(len(p).to_bytes(8, "big") + p for p in [b"mlbench proof 1, connecting", b"run",
// b"hi", b"42"]), "sha256") of Python.
TEST(Proof, IsHmacOverTheParts) {
  EXPECT_EQ(hex(proof_of(kConnecting, "key", {"run", "hi", "42"})),
            "9fdfb2bd3251c929dde140005407b73299c3aa2097f417e3c7c1fd71f3eebf58");
}

TEST(Proof, HoldsForItsOwnPlaceAlone) {
  const Transcript transcript = {"run 1", "rank 1", "nonce"};
  const std::string proof = proof_of(kConnecting, "secret", transcript);
  EXPECT_EQ(proof.size(), kProofBytes);
  EXPECT_TRUE(proves(proof, kConnecting, "secret", transcript));
  EXPECT_FALSE(proves(proof, ProofRole::kAccepting, "secret", transcript));
  EXPECT_FALSE(proves(proof, kConnecting, "secre", transcript));
  EXPECT_FALSE(proves(proof, kConnecting, "", transcript));
  EXPECT_FALSE(proves(proof, kConnecting, "secret", {"run 2", "rank 1", "nonce"}));
  EXPECT_FALSE(proves(proof, kConnecting, "secret", {"run 1", "rank 2", "nonce"}));
  EXPECT_FALSE(proves(proof, kConnecting, "secret", {"run 1", "rank 1", "other"}));
  EXPECT_FALSE(proves(proof, kConnecting, "secret", {"run 1rank 1", "", "nonce"}));  // the same bytes in a row
  EXPECT_FALSE(proves(proof.substr(1), kConnecting, "secret", transcript));
  EXPECT_FALSE(proves("", kConnecting, "secret", transcript));
  std::string changed = proof;
  changed.back() = static_cast<char>(changed.back() ^ 1);
  EXPECT_FALSE(proves(changed, kConnecting, "secret", transcript));
}

TEST(Proof, ASecretMayBeEmpty) {
  EXPECT_TRUE(proves(proof_of(kConnecting, "", {}), kConnecting, "", {}));
  EXPECT_FALSE(proves(proof_of(kConnecting, "", {}), kConnecting, "x", {}));
}

TEST(Proof, NoncesDiffer) {
  std::set<std::string> nonces;
  for (int i = 0; i < 100; ++i) nonces.insert(make_nonce());
  EXPECT_EQ(nonces.size(), 100U);
  EXPECT_EQ(nonces.begin()->size(), kNonceBytes);
}

}  // namespace
}  // namespace mlbench::net
