#include "mlbench/master/http/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/sha256.h"
#include "mlbench/master/owner.h"

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
  // All are looked at, so that the time says nothing about which.
  auto found = codes_.end();
  for (auto one = codes_.begin(); one != codes_.end(); ++one) {
    if (same_secret(code, one->text) && one->end > now) found = one;
  }
  if (found == codes_.end()) return false;
  codes_.erase(found);
  return true;
}

Session Sessions::open() {
  const std::lock_guard lock(mutex_);
  make_room(sessions_, clock_.now());
  sessions_.push_back({random_hex(kSecretBytes), random_hex(kSecretBytes), clock_.now() + kSessionTime});
  return sessions_.back();
}

std::optional<Session> Sessions::find(std::string_view id) const {
  const std::lock_guard lock(mutex_);
  const TimePoint now = clock_.now();
  std::optional<Session> found;
  for (const Session& one : sessions_) {
    if (same_secret(id, one.id) && one.end > now) found = one;
  }
  return found;
}

void Sessions::close(std::string_view id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(sessions_, [&](const Session& one) { return same_secret(id, one.id); });
}

std::string cookie_name(const net::http::Request& request) {
  const std::string_view host = request.header("Host");
  const size_t colon = host.rfind(':');
  const std::string_view port = colon == std::string_view::npos ? "" : host.substr(colon + 1);
  const bool digits = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == port.npos;
  return fmt::format("mlbench_{}", digits ? port : request.secure ? "443" : "80");
}

std::string cookie_value(const net::http::Request& request) {
  const std::string wanted = cookie_name(request) + "=";
  std::string_view rest = request.header("Cookie");
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(';'), rest.size());
    std::string_view pair = rest.substr(0, end);
    pair.remove_prefix(std::min(pair.find_first_not_of(' '), pair.size()));
    if (pair.starts_with(wanted)) return std::string(pair.substr(wanted.size()));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return "";
}

std::string set_cookie(const net::http::Request& request, const std::string& id) {
  const auto age = id.empty() ? 0 : std::chrono::seconds(Sessions::kSessionTime).count();
  return fmt::format("{}={}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict{}", cookie_name(request), id, age,
                     request.secure ? "; Secure" : "");
}

}  // namespace mlbench::master
