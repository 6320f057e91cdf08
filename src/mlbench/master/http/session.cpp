#include "mlbench/master/http/session.h"

#include "mlbench/base/sha256.h"
#include "mlbench/home/owner.h"

namespace mlbench::master {

namespace {

constexpr size_t kSecretBytes = 32;

template <typename Items>
void make_room(Items& items, TimePoint now) {
  std::erase_if(items, [&](const auto& item) { return item.end <= now; });
  while (items.size() >= Sessions::kMost) items.pop_front();
}

}  // namespace

std::string Sessions::make_code() {
  const std::lock_guard lock(mutex_);
  make_room(codes_, clock_.now());
  codes_.push_back({random_hex(kSecretBytes), clock_.now() + kCodeTime});
  return codes_.back().text;
}

bool Sessions::take_code(std::string_view code) {
  const std::lock_guard lock(mutex_);
  const TimePoint now = clock_.now();
  // All codes are compared, so that the time tells nothing about them.
  auto found = codes_.end();
  for (auto one = codes_.begin(); one != codes_.end(); ++one) {
    if (home::same_secret(code, one->text) && one->end > now) found = one;
  }
  if (found == codes_.end()) return false;
  codes_.erase(found);
  return true;
}

std::string Sessions::open() {
  const std::lock_guard lock(mutex_);
  make_room(sessions_, clock_.now());
  sessions_.push_back({random_hex(kSecretBytes), clock_.now() + kSessionTime});
  return sessions_.back().text;
}

bool Sessions::holds(std::string_view secret) const {
  const std::lock_guard lock(mutex_);
  const TimePoint now = clock_.now();
  bool found = false;
  for (const Secret& one : sessions_) found |= home::same_secret(secret, one.text) && one.end > now;
  return found;
}

void Sessions::close(std::string_view secret) {
  const std::lock_guard lock(mutex_);
  std::erase_if(sessions_, [&](const Secret& one) { return home::same_secret(secret, one.text); });
}

}  // namespace mlbench::master
