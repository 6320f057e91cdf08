#include "mlbench/comm/shm/meeting.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/json.h"
#include "mlbench/base/peer_words.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/sha256.h"
#include "mlbench/net/proof.h"

namespace mlbench::comm::shm_backend {

namespace {

constexpr const char* kOneHost = "the back end shm needs all ranks on one host";

struct Invitation {
  std::string segment;
  std::string nonce;  // in hexadecimal, as is the proof
  std::string proof;
  std::string error;  // set instead of the others: why there is no segment

  std::string encode() const {
    const std::string text =
        Json{{"segment", segment}, {"nonce", nonce}, {"proof", proof}, {"error", printable(error, 300)}}.dump();
    MLBENCH_CHECK(text.size() < kInvitationBytes, text);
    return text;
  }
  static Invitation decode(const std::string& text) {
    const Json json = try_parse_json(text, inputs::kMessage).value_or(Json());
    const auto member = [&](const char* name) -> std::string {
      if (!json.is_object() || !json.contains(name) || !json[name].is_string()) {
        throw CommError(fmt::format("rank 0 announces '{}': another version of the program?", printable(text)));
      }
      return json[name];
    };
    const Invitation invitation{member("segment"), member("nonce"), member("proof"), member("error")};
    if (invitation.error.empty()) checked(peer_words::kSegment, invitation.segment);  // becomes the name of a file
    return invitation;
  }
};

// Rank 0 is the accepting side; a rank's greeting is its number.
net::Transcript transcript_of(const Membership& own, int rank, std::string_view nonce) {
  return {fmt::format("mlbench shm 1 {} {}", own.run, own.group), std::to_string(rank), std::string(nonce)};
}

std::string_view nonce_of(const Header& header) { return {header.nonce, sizeof header.nonce}; }

CommError not_come(const Membership& own, int rank) {
  return CommError(fmt::format("rank {} did not come (waited {} ms)", rank, own.timeout.count()));
}

// Gives the own area memory and shows that this rank has come.
void enter(Group& group, const Membership& own) {
  group.segment().reserve(group.layout().area(own.rank), group.layout().area_bytes());
  Marker& marker = group.marker(own.rank);
  marker.process = own_mark();
  const std::string proof =
      net::proof_of(net::ProofRole::kConnecting, own.secret, transcript_of(own, own.rank, nonce_of(group.header())));
  std::memcpy(marker.proof, proof.data(), sizeof marker.proof);
  marker.presence.store(Presence::kPresent, std::memory_order_seq_cst);
  group.ring(0);
}

// Waits until ready(). Any rank that ends before that prevents it, also one that has come already.
template <typename Ready>
void wait_for_all(Group& group, const Membership& own, const Ready& ready) {
  try {
    group.wait(ready, [&](int) { return !ready(); });
  } catch (const CommTimeout&) {
    for (int rank = 0; rank < own.size; ++rank) {
      if (group.presence(rank) == Presence::kAbsent) throw not_come(own, rank);
    }
    throw;
  }
}

// Checks the proofs of all ranks that have come so far.
void check_proofs(const Group& group, const Membership& own) {
  for (int rank = 1; rank < own.size; ++rank) {
    if (group.presence(rank) == Presence::kAbsent) continue;
    const Marker& marker = group.marker(rank);
    if (!net::proves({marker.proof, sizeof marker.proof}, net::ProofRole::kConnecting, own.secret,
                     transcript_of(own, rank, nonce_of(group.header())))) {
      throw CommError(fmt::format("rank {} has not proved that it knows the run's secret", rank));
    }
  }
}

Segment new_segment(const Membership& own, const std::string& name, const std::string& nonce) {
  const Layout layout(own.size);
  Segment segment = Segment::create(name, layout.total_bytes());
  segment.reserve(0, layout.control_bytes());
  auto* header = reinterpret_cast<Header*>(segment.data());
  header->version = kLayoutVersion;
  header->ranks = static_cast<uint32_t>(own.size);
  header->passive = own.passive ? 1 : 0;
  std::memcpy(header->nonce, nonce.data(), sizeof header->nonce);
  return segment;
}

}  // namespace

std::unique_ptr<Group> host(const Membership& own, const std::function<void(const std::string&)>& tell) {
  collect_dead_segments();
  const std::string name = new_segment_name(own.run);
  const std::string nonce = net::make_nonce();
  std::unique_ptr<Group> group;
  try {
    group = std::make_unique<Group>(new_segment(own, name, nonce), own.rank, own.size, own.timeout);
    enter(*group, own);
  } catch (const CommError& error) {
    tell(Invitation{"", "", "", error.what()}.encode());
    throw;
  }
  const std::string proof = net::proof_of(net::ProofRole::kAccepting, own.secret, transcript_of(own, own.rank, nonce));
  tell(Invitation{name, hex_of(nonce), hex_of(proof), ""}.encode());
  const auto all_are_here = [&] {
    for (int rank = 1; rank < own.size; ++rank) {
      if (group->presence(rank) != Presence::kPresent) return false;
    }
    return true;
  };
  try {
    wait_for_all(*group, own, all_are_here);
  } catch (const CommError&) {
    check_proofs(*group, own);  // a rank that knows another secret has left by now
    throw;
  }
  check_proofs(*group, own);
  group->segment().unlink();
  group->header().open.store(1, std::memory_order_seq_cst);
  for (int rank = 1; rank < own.size; ++rank) group->ring(rank);
  return group;
}

std::unique_ptr<Group> join(const Membership& own, const std::string& text) {
  const Invitation invitation = Invitation::decode(text);
  if (!invitation.error.empty()) throw CommError("rank 0 cannot make the shared memory: its own error says why");
  std::optional<Segment> segment;
  try {
    segment.emplace(Segment::open(invitation.segment));
  } catch (const CommError& error) {
    throw CommError(fmt::format("{}, which rank 0 has made: {}", error.what(), kOneHost));
  }
  const Layout layout(own.size);
  const auto* header = reinterpret_cast<const Header*>(segment->data());
  if (segment->size() != layout.total_bytes() || header->version != kLayoutVersion ||
      header->ranks != static_cast<uint32_t>(own.size) || hex_of(nonce_of(*header)) != invitation.nonce) {
    throw CommError(fmt::format("shared memory {} is not what rank 0 has made: {}", invitation.segment, kOneHost));
  }
  auto group = std::make_unique<Group>(std::move(*segment), own.rank, own.size, own.timeout);
  enter(*group, own);
  if (invitation.proof !=
      hex_of(net::proof_of(net::ProofRole::kAccepting, own.secret, transcript_of(own, 0, nonce_of(group->header()))))) {
    throw CommError("rank 0 has not proved that it knows the run's secret");
  }
  wait_for_all(*group, own, [&] { return group->header().open.load(std::memory_order_acquire) != 0; });
  return group;
}

}  // namespace mlbench::comm::shm_backend
