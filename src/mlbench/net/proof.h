#pragma once

// Two processes prove to each other that they know the run's secret, which itself never travels.
//
//   connecting -> accepting   greeting: who it is, with a nonce of its own
//   accepting -> connecting   challenge: a nonce
//   connecting -> accepting   proof_of(kConnecting)
//   accepting -> connecting   proof_of(kAccepting)
//
// The side that connects proves first, so that a stranger who connects learns a random number and nothing else. A proof
// is an HMAC-SHA256 over role, context, greeting and challenge, so it holds for one attempt of one pair in one place:
// it can be neither replayed, nor reflected, nor carried elsewhere. What is sent after the proof is neither encrypted
// nor signed.

#include <cstddef>
#include <string>
#include <string_view>

namespace mlbench::net {

inline constexpr size_t kNonceBytes = 32;
inline constexpr size_t kProofBytes = 32;

enum class ProofRole { kConnecting, kAccepting };

struct Transcript {
  std::string context;    // what both sides know without being told: protocol, run, group, and who accepts
  std::string greeting;   // as sent
  std::string challenge;  // as sent
};

std::string make_nonce();  // random bytes of the system
std::string proof_of(ProofRole role, std::string_view secret, const Transcript& transcript);
// Whether `given` is the proof. The time that this takes does not depend on `given`.
bool proves(std::string_view given, ProofRole role, std::string_view secret, const Transcript& transcript);

}  // namespace mlbench::net
