#include "mlbench/cli/executor_offers.h"

#include "mlbench/base/or_null.h"
#include "mlbench/catalog/control/catalog.h"

namespace mlbench::cli {
namespace {

constexpr std::chrono::seconds kFresh{30};

exec::HostsOffer ask(const std::string& executor) {
  for (const catalog::ExecutorRow& row : catalog::executors()) {
    if (row.name == executor && row.available().available) return exec::offer_of(row.make(Json::object())->nodes());
  }
  return {};
}

}  // namespace

exec::HostsOffer ExecutorOffers::of(const std::string& executor) {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  const auto found = known_.find(executor);
  if (found != known_.end() && now - found->second.since < kFresh) return found->second.offer;
  const exec::HostsOffer offer = ask(executor);
  known_[executor] = {std::chrono::steady_clock::now(), offer};
  return offer;
}

void add_gpus(Json& executors, ExecutorOffers& offers) {
  for (Json& row : executors) {
    row["gpus"] = or_null(offers.of(row.at("name").get<std::string>()).gpus);
  }
}

}  // namespace mlbench::cli
