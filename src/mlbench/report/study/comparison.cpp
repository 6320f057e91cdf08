#include "mlbench/report/study/comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "mlbench/report/figures.h"
#include "mlbench/report/study/algorithm.h"

namespace mlbench::report {

namespace {

constexpr size_t kMostNames = 4;  // of runs in a note

// Shortens each hash (64 hexadecimal digits) in `value` to its first 8 digits.
std::string abbreviated(std::string value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (size_t begin = value.find_first_of(kDigits); begin < value.size();) {
    const size_t end = std::min(value.find_first_not_of(kDigits, begin), value.size());
    if (end - begin == 64) value.erase(begin + 8, 56);
    begin = value.find_first_of(kDigits, std::min(end - begin == 64 ? begin + 8 : end, value.size()));
  }
  return value;
}

// Says "BEGINNING: VALUE (RUN, RUN), VALUE (RUN)" where `value` of the records differs, else "".
std::string note_of_values(const std::vector<const record::Record*>& records, const std::string& beginning,
                           const std::function<std::string(const record::Record& record)>& value) {
  std::map<std::string, std::vector<std::string>> names_by_value;
  for (const record::Record* record : records) names_by_value[value(*record)].push_back(record->name);
  if (names_by_value.size() < 2) return "";
  std::vector<std::string> words;
  for (auto& [one, names] : names_by_value) {
    const size_t more = names.size() - std::min(names.size(), kMostNames);
    names.resize(names.size() - more);
    words.push_back(
        fmt::format("{} ({}{})", one, fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : ""));
  }
  return fmt::format("{}: {}", beginning, fmt::join(words, ", "));
}

std::string version_of(const record::Record& record) {
  const record::Environment environment = record.environment.value_or(record::Environment());
  std::string version = environment.version;
  if (!environment.git_describe.empty()) version += " " + environment.git_describe;
  return version.empty() ? "unknown" : version;
}

std::string command_of(const record::Record& record) {
  const auto& keys = comparison_keys();
  return abbreviated(std::ranges::find(keys, std::string_view("command"), &ComparisonKey::name)->value(record));
}

std::string differ(const Keys& keys) { return in_words(keys) + (keys.size() == 1 ? " differs" : " differ"); }

}  // namespace

std::string in_words(const Keys& keys) {
  std::string words;
  for (size_t i = 0; i < keys.size(); ++i) {
    std::string name(keys[i]->name);
    std::ranges::replace(name, '_', ' ');
    words += (i == 0 ? "" : i + 1 == keys.size() ? " and " : ", ") + name;
  }
  return words;
}

std::string why_no_speed_up(const Keys& differences) {
  Keys wrong = differences;
  std::erase_if(wrong, [](const ComparisonKey* key) { return key->kind == KeyKind::kWorkers; });
  return wrong.empty() ? "" : "no speed-up: " + differ(wrong);
}

std::string why_no_ratio(const Keys& differences, const std::vector<std::string>& vary) {
  Keys fixed;
  std::ranges::copy_if(differences, std::back_inserter(fixed),
                       [](const ComparisonKey* key) { return key->kind == KeyKind::kFixed; });
  if (!fixed.empty()) {
    const std::string only =
        fixed.size() == differences.size() ? "" : fmt::format(" ({} must be equal)", in_words(fixed));
    return fmt::format("no ratio: {}{}", differ(differences), only);
  }
  const auto named = [&](const ComparisonKey* key) { return std::ranges::count(vary, key->name) > 0; };
  if (differences.size() <= 1 || std::ranges::all_of(differences, named)) return "";
  std::vector<std::string_view> names;
  for (const ComparisonKey* key : differences) names.push_back(key->name);
  return fmt::format("no ratio: {}; --vary {} compares them all the same", differ(differences), fmt::join(names, ","));
}

std::vector<std::vector<size_t>> grouped(const std::vector<Conditions>& runs, const std::vector<size_t>& members,
                                         const KeyChoice& apart) {
  std::vector<std::vector<size_t>> groups;
  std::vector<std::vector<size_t>> unlike;  // per group one run of all that are alike: there may be thousands of runs
  for (const size_t run : members) {
    const auto fits = [&](const std::vector<size_t>& group) {
      return std::ranges::all_of(group, [&](size_t other) {
        return std::ranges::none_of(runs[run].differences(runs[other]),
                                    [&](const ComparisonKey* key) { return apart(*key); });
      });
    };
    const auto group = static_cast<size_t>(std::ranges::find_if(unlike, fits) - unlike.begin());
    if (group == groups.size()) {
      groups.emplace_back();
      unlike.emplace_back();
    }
    groups[group].push_back(run);
    const auto alike = [&](size_t other) { return runs[run].alike(runs[other]); };
    if (std::ranges::none_of(unlike[group], alike)) unlike[group].push_back(run);
  }
  std::ranges::stable_sort(groups, {}, [&](const std::vector<size_t>& group) {
    std::vector<std::string> values;
    for (const ComparisonKey& key : comparison_keys()) {
      if (apart(key)) values.push_back(runs[group.front()].value(key));
    }
    return values;
  });
  return groups;
}

std::vector<std::vector<size_t>> grouped_to_lines(const std::vector<Conditions>& runs,
                                                  const std::vector<size_t>& members) {
  const auto of_kind = [](KeyKind kind) { return [kind](const ComparisonKey& key) { return key.kind == kind; }; };
  std::vector<std::vector<size_t>> lines;
  for (const std::vector<size_t>& group : grouped(runs, members, [](const ComparisonKey& key) {
         return key.kind == KeyKind::kFixed || key.kind == KeyKind::kFree;
       })) {
    // Whether runs of one number of workers differ in keys that follow from it.
    const bool several = grouped(runs, group, of_kind(KeyKind::kFollowsWorkers)).size() > 1;
    if (!several) {
      lines.push_back(group);
      continue;
    }
    std::map<std::string, std::vector<size_t>> parts;
    for (const size_t run : group) {
      std::string part;
      for (const ComparisonKey& key : comparison_keys()) {
        if (key.kind == KeyKind::kFollowsWorkers) part += runs[run].value(key) + "\n";
      }
      parts[part].push_back(run);
    }
    for (auto& [part, line] : parts) lines.push_back(std::move(line));
  }
  return lines;
}

Distinction distinguish(const std::vector<Conditions>& runs, const std::vector<std::vector<size_t>>& groups,
                        const KeyChoice& apart) {
  // "" for a key that follows from the workers and differs within the group, whose runs had several numbers of hosts.
  const auto value_of = [&](const std::vector<size_t>& group, const ComparisonKey& key) {
    const std::string& first = runs[group.front()].value(key);
    const bool common = std::ranges::all_of(group, [&](size_t run) { return runs[run].value(key) == first; });
    return common || key.kind != KeyKind::kFollowsWorkers ? first : std::string();
  };
  const auto differ_in = [&](const ComparisonKey& key) {
    return std::ranges::any_of(groups, [&](const std::vector<size_t>& group) {
      if (key.kind == KeyKind::kFollowsWorkers) return value_of(group, key) != value_of(groups.front(), key);
      const Keys keys = runs[group.front()].differences(runs[groups.front().front()]);
      return std::ranges::count(keys, &key) > 0;
    });
  };
  Distinction found;
  std::vector<std::vector<std::string>> words(groups.size());
  for (const ComparisonKey& key : comparison_keys()) {
    if (!apart(key) || !differ_in(key)) continue;
    found.keys.push_back(&key);
    for (size_t i = 0; i < groups.size(); ++i) {
      const std::string value = value_of(groups[i], key);
      if (!value.empty()) words[i].push_back(abbreviated(value));
      if (value.empty() && key.kind != KeyKind::kFollowsWorkers) words[i].push_back("unknown " + in_words({&key}));
    }
  }
  std::set<std::string> known;
  for (const std::vector<std::string>& one : words) {
    const std::string values = fmt::format("{}", fmt::join(one, ", "));
    std::string name = values;
    for (int number = 2; !known.insert(name).second; ++number) name = fmt::format("{} ({})", values, number);
    found.names.push_back(std::move(name));
  }
  return found;
}

void add_comparison_notes(const std::vector<const record::Record*>& records, std::vector<std::string>& notes) {
  for (std::string note :
       {note_of_values(records, "the command varies, and with it all that a command chooses", command_of),
        rates_note(records), note_of_values(records, "different versions of the program", version_of)}) {
    if (!note.empty()) notes.push_back(std::move(note));
  }
}

}  // namespace mlbench::report
