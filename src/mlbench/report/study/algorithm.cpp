#include "mlbench/report/study/algorithm.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/sha256.h"
#include "mlbench/spec/algorithm.h"
#include "mlbench/spec/task.h"

namespace mlbench::report {

namespace {

constexpr size_t kHashDigits = 8;

// What records of today say of their task, and those of earlier programs lack.
struct Said {
  record::Algorithm algorithm;
  std::string problem_hash;
};

Said said_of(const spec::FrozenTask& task, const std::vector<spec::Override>& overrides) {
  return {record::algorithm_of(task, overrides), spec::problem_hash_of(task.canonical)};
}

struct OfficialVariant {
  spec::TaskSource source;
  std::string variant;
  Said said;  // of the task without overrides, as most runs have it
};

// The built-in tasks and variants by their hash.
const std::map<std::string, OfficialVariant>& official_variants() {
  static const auto kVariants = [] {
    std::map<std::string, OfficialVariant> variants;
    for (const spec::TaskSource& source : spec::embedded_tasks()) {
      std::vector<std::string> names = spec::parse_task(source, "", {}).task.variants;
      if (names.empty()) names.emplace_back();
      for (const std::string& name : names) {
        const spec::FrozenTask task = spec::parse_task(source, name, {});
        variants[task.hash] = {source, name, said_of(task, {})};
      }
    }
    return variants;
  }();
  return kVariants;
}

std::optional<Said> said_of_official_task(const record::Record& record) {
  const auto found = official_variants().find(record.task_hash);
  if (found == official_variants().end()) return std::nullopt;
  const OfficialVariant& official = found->second;
  const auto overrides = record.overrides.value_or(std::vector<spec::Override>{});
  if (overrides.empty()) return official.said;
  try {
    return said_of(spec::parse_task(official.source, official.variant, overrides), overrides);
  } catch (const UserError&) {
    return std::nullopt;  // an override that tasks no longer take
  }
}

std::string words_of_rates(const record::Algorithm& algorithm) {
  const std::string& rates = algorithm.rates;
  if (rates == "tuned") return fmt::format("the best of {} trials", algorithm.tuned_trials.value_or(0));
  return rates == "task"               ? "the task's"
         : rates == "task_for_another" ? "the task's, made for another algorithm"
         : rates == "given"            ? "given by --set"
                                       : rates;
}

}  // namespace

record::Record with_algorithm(record::Record record) {
  if (record.custom || (record.algorithm && !record.problem_hash.empty())) return record;
  auto said = said_of_official_task(record);
  if (!said) return record;
  if (!record.algorithm) record.algorithm = std::move(said->algorithm);
  if (record.problem_hash.empty()) record.problem_hash = std::move(said->problem_hash);
  return record;
}

std::string in_words(const record::Algorithm& algorithm) {
  std::string words = algorithm.rule;
  if (algorithm.coder != "none") words += " with " + algorithm.coder;
  if (algorithm.pattern != "centralized") words += " by " + algorithm.pattern;
  std::vector<std::string> options;
  for (const auto& [name, value] : algorithm.options.items())
    options.push_back(fmt::format(", {}={}", name, value.dump()));
  std::ranges::sort(options);
  for (const std::string& option : options) words += option;
  if (algorithm.lr) words += fmt::format(", lr={}", *algorithm.lr);
  if (algorithm.schedule.is_object()) {
    words += fmt::format(", {} {}", algorithm.schedule.value("decay", Json()).dump(),
                         sha256_hex(canonical_json(algorithm.schedule)).substr(0, kHashDigits));
  }
  std::erase(words, '"');
  return words;
}

std::string rates_note(const std::vector<const record::Record*>& records) {
  std::map<std::string, std::string> rates;  // by algorithm
  bool all_the_tasks = true;
  for (const record::Record* record : records) {
    const auto algorithm = with_algorithm(*record).algorithm;
    if (!algorithm) continue;
    rates.emplace(in_words(*algorithm), fmt::format("{} {}", record->name, words_of_rates(*algorithm)));
    all_the_tasks = all_the_tasks && algorithm->rates == "task";
  }
  if (rates.size() < 2 || all_the_tasks) return "";
  std::string words;
  for (const auto& [algorithm, chosen] : rates) words += (words.empty() ? "" : "; ") + chosen;
  return "learning rates were not tuned alike: " + words;
}

}  // namespace mlbench::report
