#include "mlbench/master/repeats.h"

#include <fmt/format.h>

#include <utility>

#include "mlbench/base/log.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/sha256.h"
#include "mlbench/home/runs.h"
#include "mlbench/report/records.h"
#include "mlbench/report/study/comparison.h"
#include "mlbench/report/study/significance.h"

namespace mlbench::master {

namespace {

// Throws where a damaged record tells no conditions.
std::string hash_of_conditions(const record::Record& record) {
  const report::Conditions conditions(record);
  std::string text;
  for (const report::ComparisonKey& key : report::comparison_keys()) text += conditions.value(key) + "\n";
  for (const record::Host& host : record.hosts) text += fmt::format("{}\n", host.ram_bytes.value_or(0));
  return sha256_hex(text);
}

}  // namespace

bool Repeats::changed(const std::string& name, const record::Record& record) {
  const std::string now = hash_of_conditions(record);
  return std::exchange(conditions_[name], now) != now;
}

std::map<std::string, std::string> Repeats::configurations(const std::vector<std::string>& names) {
  std::map<std::string, std::string> configurations;
  if (names.empty()) return {};
  if (names.size() == 1) return {{names.front(), home::without_repeat(names.front())}};
  // The first run of each hash stands for all of that hash.
  report::RepeatedRun family;
  std::map<std::string, std::string> first_of;  // by hash
  for (const std::string& name : names) {
    std::string& known = conditions_[name];
    if (!known.empty() && first_of.contains(known)) continue;
    try {
      record::Record record = report::read_record(runs_dir(home_) / name);
      known = hash_of_conditions(record);
      record.name = name;  // a copied folder has another
      if (first_of.emplace(known, name).second) family.records.push_back(std::move(record));
    } catch (const std::exception& error) {
      spdlog::debug("run {}: {}", name, error.what());
      known.clear();
    }
  }
  std::map<std::string, std::string> of_first;
  if (!family.records.empty()) {
    family.name = home::without_repeat(names.front());
    std::vector<std::string> notes;
    for (const report::RepeatedRun& part : report::split_where_different({family}, notes)) {
      for (const record::Record& record : part.records) of_first[record.name] = part.name;
    }
  }
  for (const std::string& name : names) {
    const auto first = first_of.find(conditions_[name]);
    configurations[name] = first == first_of.end() ? "" : of_first.at(first->second);
  }
  return configurations;
}

}  // namespace mlbench::master
