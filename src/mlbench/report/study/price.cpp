#include "mlbench/report/study/price.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <vector>

#include "mlbench/base/choices.h"
#include "mlbench/base/embedded_file.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/or_null.h"
#include "mlbench/base/text.h"

namespace mlbench {

std::span<const EmbeddedFile> embedded_prices();  // made by mlbench_embed()

namespace report {

namespace {

constexpr size_t kMostBytes = 300;  // of a text

std::optional<double> amount(const Json& price, const char* key, size_t index) {
  const auto found = price.find(key);
  if (found == price.end() || found->is_null()) return std::nullopt;
  if (!found->is_number() || !(found->get<double>() >= 0) || !std::isfinite(found->get<double>())) {
    throw UserError(fmt::format("prices: prices[{}].{} is {}; expected a number that is not negative, or null", index,
                                key, found->dump()));
  }
  return found->get<double>();
}

std::string text_in(const Json& object, const char* key, const std::string& what, const char* fallback) {
  const auto found = object.find(key);
  if (found == object.end() && fallback != nullptr) return fallback;
  if (found == object.end() || !found->is_string() || found->get_ref<const std::string&>().size() > kMostBytes) {
    throw UserError(fmt::format("prices: {}{} must be a text of at most {} bytes", what, key, kMostBytes));
  }
  return found->get<std::string>();
}

}  // namespace

PriceTable default_prices() {
  static const PriceTable kTable = prices_from_json(parse_json(embedded_prices().front().text, inputs::kPrices));
  return kTable;
}

PriceTable prices_from_json(const Json& json) {
  const auto prices = json.is_object() ? json.find("prices") : json.end();
  if (!json.is_object() || prices == json.end() || !prices->is_array() || prices->empty()) {
    throw UserError(
        R"(prices: expected {"currency": "$", "prices": [{"name": ..., "per_hour": ..., "preemptible_per_hour": ...}]})");
  }
  PriceTable table;
  table.currency = text_in(json, "currency", "", "$");
  for (const Json& one : *prices) {
    const size_t index = table.prices.size();
    const std::string what = fmt::format("prices[{}].", index);
    if (!one.is_object()) throw UserError(fmt::format("prices: prices[{}] is no object", index));
    Price price{text_in(one, "name", what, nullptr), amount(one, "per_hour", index),
                amount(one, "preemptible_per_hour", index), text_in(one, "date", what, ""),
                text_in(one, "source", what, "")};
    if (price.name.empty() || price.name.find('+') != std::string::npos) {
      throw UserError(fmt::format("prices: {}name must not be empty nor hold a '+'", what));
    }
    table.prices.push_back(std::move(price));
  }
  return table;
}

Json to_json(const PriceTable& table) {
  Json prices = Json::array();
  for (const Price& price : table.prices) {
    prices.push_back({{"name", price.name},
                      {"per_hour", or_null(price.per_hour)},
                      {"preemptible_per_hour", or_null(price.preemptible_per_hour)},
                      {"date", price.date},
                      {"source", price.source}});
  }
  return {{"currency", table.currency}, {"prices", prices}};
}

namespace {

// The prices of `items`, in their order.
std::vector<const Price*> prices_of(const PriceTable& table, std::string_view items) {
  std::vector<const Price*> prices;
  for (const std::string& name : split_at(items, '+')) {
    const auto price = std::ranges::find(table.prices, name, &Price::name);
    if (price == table.prices.end()) {
      throw UserError(fmt::format("{} (join several with '+', or give --prices FILE)",
                                  unknown_text("price for", name, names_of(table.prices))));
    }
    prices.push_back(&*price);
  }
  return prices;
}

}  // namespace

double price_of_worker(const PriceTable& table, std::string_view items, bool preemptible) {
  double sum = 0;
  for (const Price* price : prices_of(table, items)) {
    const std::optional<double> value = preemptible ? price->preemptible_per_hour : price->per_hour;
    if (!value) {
      throw UserError(fmt::format("the table has no {} price for '{}': {}", preemptible ? "preemptible" : "regular",
                                  price->name, preemptible ? "leave out --preemptible" : "give --preemptible"));
    }
    sum += *value;
  }
  return sum;
}

std::string price_note(const PriceTable& table, std::string_view items, bool preemptible, std::string_view clock) {
  std::set<std::string> dates;
  for (const Price* price : prices_of(table, items)) {
    if (!price->date.empty()) dates.insert(price->date);
  }
  return fmt::format("{}{}: {:g} {}/h per worker{}, {} clock", items, preemptible ? ", preemptible" : "",
                     price_of_worker(table, items, preemptible), table.currency,
                     dates.empty() ? "" : fmt::format(" (price of {})", fmt::join(dates, " and ")), clock);
}

double cost_of(double seconds, int64_t workers, double worker_per_hour) {
  return seconds / 3600 * static_cast<double>(workers) * worker_per_hour;
}

double price_index(double cost, double baseline_cost, double speed_up) { return cost / baseline_cost / speed_up; }

}  // namespace report
}  // namespace mlbench
