#pragma once

// What a run costs: a table of prices per hour, and the arithmetic of MLBench's documents. A price that is not known is
// never zero; asking for it is an error.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::report {

struct Price {
  std::string name;  // "n1-standard-4", "T4"
  std::optional<double> per_hour, preemptible_per_hour;
  std::string date;    // when that was the price, "2025-03-06", or "2021"; "" where the table does not tell
  std::string source;  // who said so, with an address; "" where the table does not tell
};

struct PriceTable {
  std::string currency = "$";
  std::vector<Price> prices;
};

// The table tasks/prices.json: the prices that MLBench's documents quote, and list prices of machines of today.
PriceTable default_prices();

// Reads {"currency": "$", "prices": [{"name", "per_hour": x|null, "preemptible_per_hour": x|null, "date", "source"}]}.
// Throws UserError naming the wrong field.
PriceTable prices_from_json(const Json& json);
Json to_json(const PriceTable& table);

// What one worker costs per hour: the sum over `items`, names joined by '+' ("n1-standard-4+T4"). Throws UserError for
// an unknown name, with the valid ones, and where the price asked for (`preemptible` or regular) is not known.
double price_of_worker(const PriceTable& table, std::string_view items, bool preemptible);

// The price in words: "n1-standard-4, preemptible: 0.044 $/h per worker (price of 2021), wall clock". `clock` is the
// one that is billed.
std::string price_note(const PriceTable& table, std::string_view items, bool preemptible, std::string_view clock);

// The cost of `seconds` on `workers` workers, each of which costs `worker_per_hour` per hour.
double cost_of(double seconds, int64_t workers, double worker_per_hour);

// Price increase over performance increase, both against the baseline. Below 1, distributing the work pays.
double price_index(double cost, double baseline_cost, double speed_up);

}  // namespace mlbench::report
