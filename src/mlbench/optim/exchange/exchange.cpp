#include "mlbench/optim/exchange/exchange.h"

#include <algorithm>
#include <iterator>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/optim/exchange/centralized.h"

namespace mlbench::optim {

namespace {

constexpr Range kBucketRange{0, 1 << 20};  // MiB

MakeExchange read_centralized(OptionReader& options) {
  CentralizedOptions centralized;
  centralized.by_layer = options.flag("by_layer", false);
  centralized.bucket_mb = options.number("bucket_mb", 0, kBucketRange);
  centralized.overlap = options.flag("overlap", false);
  return [centralized](const ExchangeContext& context) {
    return std::make_unique<CentralizedExchange>(context, centralized);
  };
}

struct ExchangeRow {
  const char* name;
  MakeExchange (*read)(OptionReader& options);
};
constexpr ExchangeRow kExchanges[] = {
    {"centralized", read_centralized},
};

}  // namespace

std::vector<std::string> exchange_names() { return names_of(kExchanges); }

MakeExchange read_exchange(const std::string& name, OptionReader& options) {
  const auto* row = std::ranges::find_if(kExchanges, [&](const ExchangeRow& other) { return other.name == name; });
  MLBENCH_CHECK(row != std::end(kExchanges), "no exchange " + name);
  return row->read(options);
}

}  // namespace mlbench::optim
