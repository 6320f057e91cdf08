#include "mlbench/net/refusals.h"

#include <spdlog/spdlog.h>

#include "mlbench/base/printable.h"

namespace mlbench::net {

namespace {
constexpr int64_t kToldOneByOne = 8;
constexpr std::chrono::seconds kSummaryInterval{10};
constexpr size_t kMostReasonBytes = 200;
}  // namespace

void Refusals::note(const std::string& peer, std::string_view reason) {
  const std::string text = peer + ": " + printable(reason, kMostReasonBytes);
  if (++count_ <= kToldOneByOne) {
    spdlog::warn("{}: refused {}", port_of_, text);
    told_ = std::chrono::steady_clock::now();
    return;
  }
  ++untold_;
  last_ = text;
  if (std::chrono::steady_clock::now() - told_ >= kSummaryInterval) summarise();
}

void Refusals::summarise() {
  if (untold_ == 0) return;
  spdlog::warn("{}: refused {} more connections ({} in all), the last one {}", port_of_, untold_, count_, last_);
  untold_ = 0;
  told_ = std::chrono::steady_clock::now();
}

}  // namespace mlbench::net
