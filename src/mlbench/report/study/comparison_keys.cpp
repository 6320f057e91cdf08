#include "mlbench/base/text.h"
#include "mlbench/report/study/comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "mlbench/base/input.h"
#include "mlbench/base/sha256.h"
#include "mlbench/catalog/options/options.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/study/algorithm.h"
#include "mlbench/spec/algorithm.h"
#include "mlbench/spec/task.h"

namespace mlbench::report {

namespace {

using record::Gpu;
using record::Host;
using record::NetworkCard;
using record::RankPlace;
using record::Record;
using record::Requested;

constexpr double kMemoryTolerance = 0.05;
constexpr size_t kLongestTold = 100;  // bytes of an engine's option; longer values are shown by their hash

std::string joined(const auto& words, std::string_view between = ", ") {
  return fmt::format("{}", fmt::join(words, between));
}

void add_word(std::vector<std::string>& words, const std::string& word) {
  if (!word.empty()) words.push_back(word);
}

std::string counted_if_known(const std::optional<int64_t>& count, std::string_view noun) {
  return count ? counted(*count, noun) : "";
}

// Whether another key compares what the override sets: the precision, the goal, or the algorithm where the record tells
// it.
bool has_own_key(const spec::Override& setting, const Record& record) {
  return setting.key == "precision" || setting.key.starts_with("goal.") ||
         (spec::is_of_algorithm(setting) && record.algorithm);
}

// The overrides of the task, "KEY=VALUE", but not those of kOutsideHash and those that another key compares.
std::vector<std::string> overridden(const Record& record) {
  std::vector<std::string> words;
  for (const spec::Override& setting : record.overrides.value_or(std::vector<spec::Override>{})) {
    if (!spec::outside_hash(setting) && !has_own_key(setting, record))
      words.push_back(setting.key + "=" + setting.value);
  }
  std::stable_sort(words.begin(), words.end());
  return words;
}

// The value of each key.
namespace values {

std::string task(const Record& record) {
  std::vector<std::string> words;
  add_word(words, record.task);
  if (!record.rules.empty()) words.push_back("rules " + record.rules);
  add_word(words, record.variant);
  add_word(words, record.task_hash);
  return joined(words);
}

// What the ranks run. A long command is shown by its hash.
std::string command(const Record& record) {
  if (!record.custom) return "mlbench-worker";
  std::string words = joined(record.custom->command, " ");
  return words.size() > kLongestTold ? "command " + sha256_hex(words) : words;
}

std::string algorithm(const Record& record) { return record.algorithm ? in_words(*record.algorithm) : ""; }

std::string overrides(const Record& record) {
  if (!record.overrides) return "";
  const std::vector<std::string> words = overridden(record);
  return words.empty() ? "no overrides" : joined(words);
}

std::string division(const Record& record) { return record.division; }

// The division, but "closed" for a run that is open only because of its precision, its goal, its algorithm or how its
// ranks communicate: such a run differs from a closed one in the keys of these.
std::string division_but_keys(const Record& record) {
  const auto given = record.overrides.value_or(std::vector<spec::Override>{});
  const bool own_key =
      std::ranges::any_of(given, [&](const spec::Override& setting) { return has_own_key(setting, record); });
  const auto& communication = record.communication;
  const bool communicates = communication && (!communication->wire_dtype.empty() || !communication->netem.empty());
  const bool alone = (own_key || communicates) && overridden(record).empty();
  return alone && division(record) == "open" ? "closed" : division(record);
}

std::string goal(const Record& record) {
  if (!record.goal) return "no goal";
  const std::optional<bool> higher = record.goal->higher_is_better;
  const std::optional<double> target = record.goal->target;
  return fmt::format("{} {} {} on {} data{}", record.goal->metric, higher ? (*higher ? ">=" : "<=") : "to",
                     target ? fmt::format("{}", *target) : "no target", record.goal->split,
                     record.limits.light ? ", light" : "");
}

std::string data(const Record& record) {
  std::vector<std::string> words;
  add_word(words, record.data.name);
  if (record.data.synthetic) words.emplace_back("synthetic");
  if (record.data.official) words.emplace_back(*record.data.official ? "official" : "unofficial");
  add_word(words, record.data.fingerprint);
  // Which images are bad follows from the fingerprint. A short run may have met none.
  if (bad_images_of(record) > 0) words.emplace_back("others in place of bad images");
  return joined(words);
}

// An emulated step is compared with steps that waited as long alone, and were fed alike. Of real steps the division
// says that their batch was fixed.
std::string compute(const Record& record) {
  if (!record.emulated_step_s) return "real steps";
  return fmt::format("emulated step of {:g} s{}", *record.emulated_step_s,
                     record.data.fixed_batch == true ? " on a fixed batch" : "");
}

std::string framework(const Record& record) {
  std::vector<std::string> words;
  add_word(words, record.framework);
  if (record.requested) add_word(words, record.requested->layout);
  // Records from before 2026-11-29 do not say how they convolved: directly. Winograd's order may be slower in layers
  // where it was forced.
  if (record.effective && record.effective->convolution == "winograd") {
    const bool forced = record.requested && record.requested->convolution == "winograd";
    words.emplace_back(forced ? "forced winograd" : "winograd");
  }
  return joined(words);
}

// The back end with its settings as they were asked for; the effective ones may depend on the number of workers. The
// network interface is added because no stack names it.
std::string backend(const Record& record) {
  std::vector<std::string> words;
  if (record.comm_stack.find(record.backend) == std::string::npos) words.push_back(record.backend);
  add_word(words, record.comm_stack);
  if (record.requested) {
    const Requested& asked = *record.requested;
    if (asked.bucket_mb.value_or(0) != 0) words.push_back(fmt::format("bucket_mb={}", *asked.bucket_mb));
    if (asked.buckets.value_or(0) != 0) words.push_back(fmt::format("buckets={}", *asked.buckets));
    if (asked.by_layer == true) words.emplace_back("by_layer");
    if (asked.overlap == true) words.emplace_back("overlap");
  }
  if (record.communication && !record.communication->network_interface.empty()) {
    words.push_back("interface=" + record.communication->network_interface);
  }
  return joined(words);
}

std::string executor(const Record& record) { return record.executor; }

// The device that was used, else that which was asked for, without its number: "cuda" for "cuda:0".
std::string device(const Record& record) {
  std::string device = record.effective ? record.effective->device : "";
  if (device.empty() && record.requested) device = record.requested->device;
  return device.substr(0, device.find(':'));
}

std::string precision(const Record& record) {
  if (record.effective && !record.effective->precision.empty()) return record.effective->precision;
  return record.requested ? record.requested->precision : "";
}

std::string workers(const Record& record) { return counted_if_known(record.workers, "worker"); }
// The threads of a worker, with the limit of its container where that is no whole number of CPUs, and with those that
// decode its images.
std::string threads_per_worker(const Record& record) {
  const std::string threads = counted_if_known(record.threads_per_worker, "thread");
  const auto cpus = cpus_of(record);
  std::string text = cpus ? fmt::format("{} with {:.7g} CPUs", threads, *cpus) : threads;
  if (!record.effective || !record.effective->decoding_threads) return text;
  return fmt::format("{} and {}", text, counted(*record.effective->decoding_threads, "decoding thread"));
}
std::string inter_op_threads(const Record& record) {
  return counted_if_known(record.inter_op_threads, "inter-op thread");
}

std::string oversubscribed(const Record& record) {
  return !record.oversubscribed ? "" : *record.oversubscribed ? "oversubscribed" : "not oversubscribed";
}

std::string shared_host(const Record& record) {
  return !record.shared_host ? "" : *record.shared_host ? "shared host" : "host of its own";
}

// The number of hosts; where ranks are spread less evenly than they could be, also the number of ranks on each host.
std::string hosts(const Record& record) {
  const size_t count = record.hosts.size();
  if (count == 0) return "";
  std::map<std::string, int> ranks_on;
  for (const RankPlace& rank : record.placement.value_or(std::vector<RankPlace>{})) ++ranks_on[rank.host];
  std::vector<int> ranks;
  for (const auto& [host, number] : ranks_on) ranks.push_back(number);
  std::ranges::sort(ranks, std::greater());
  const bool uneven = !ranks.empty() && ranks.front() > ranks.back() + 1;
  return counted(static_cast<int64_t>(count), "host") +
         (uneven ? fmt::format(" with {} ranks", joined(ranks, " + ")) : "");
}

std::string cpu_and_gpus(const Host& host) {
  std::vector<std::string> words;
  add_word(words, host.cpu);
  add_word(words, counted_if_known(host.cores, "core"));
  std::map<std::string, int> gpus;
  for (const Gpu& gpu : host.gpus) ++gpus[gpu.name];
  for (const auto& [name, count] : gpus) words.push_back(fmt::format("{} x {}", count, name));
  return joined(words);
}

// The kinds of hosts, whatever the number of hosts of each kind.
std::string hardware(const Record& record) {
  std::set<std::string> kinds;
  for (const Host& host : record.hosts) {
    std::vector<std::string> words;
    add_word(words, cpu_and_gpus(host));
    if (host.ram_bytes) words.push_back(fmt::format("{:.3g} GiB", static_cast<double>(*host.ram_bytes) / (1 << 30)));
    if (!words.empty()) kinds.insert(joined(words));
  }
  return joined(kinds, " + ");
}

// The speeds of the hosts' fastest interfaces, each speed once.
std::string network(const Record& record) {
  std::set<double> speeds;
  for (const Host& host : record.hosts) {
    double fastest = 0;
    for (const NetworkCard& card : host.nics) fastest = std::max(fastest, card.speed_mbit.value_or(0));
    speeds.insert(fastest);
  }
  if (speeds.empty() || *speeds.rbegin() == 0) return "";
  std::vector<std::string> words;
  for (const double speed : speeds) words.push_back(speed == 0 ? "unknown" : fmt::format("{:g} Mbit/s", speed));
  return joined(words, " + ");
}

std::string checkpoints(const Record& record) {
  if (!record.requested) return "";
  const Json& every = record.requested->checkpoint_every;
  if (every.is_null()) return "checkpoint at the end";
  return every.is_string() ? "checkpoint every " + every.get<std::string>()
                           : fmt::format("checkpoint every {} steps", every.dump());
}

// What was recorded beside the steps and took time.
std::string recording(const Record& record) {
  std::vector<std::string> words;
  if (record.requested && record.requested->profile == "time") words.emplace_back("profile");
  if (record.requested && record.requested->timeline == true) words.emplace_back("timeline");
  return words.empty() ? "no profile" : joined(words);
}

std::string storage(const Record& record) {
  std::vector<std::string> words;
  if (record.storage.kind != "not known") add_word(words, record.storage.kind);
  add_word(words, record.storage.endpoint);
  return joined(words);
}

}  // namespace values

const ComparisonKey kOwnKeys[] = {
    {"task", KeyKind::kFixed, values::task},
    {"overrides", KeyKind::kFixed, values::overrides},
    {"command", KeyKind::kFree, values::command},
    {"algorithm", KeyKind::kFree, values::algorithm},
    {"division", KeyKind::kFixed, values::division},
    {"goal", KeyKind::kFixed, values::goal},
    {"data", KeyKind::kFixed, values::data},
    {"compute", KeyKind::kFixed, values::compute},
    {"framework", KeyKind::kFree, values::framework},
    {"backend", KeyKind::kFree, values::backend},
    {"executor", KeyKind::kFree, values::executor},
    {"device", KeyKind::kFree, values::device},
    {"precision", KeyKind::kFree, values::precision},
    {"workers", KeyKind::kWorkers, values::workers},
    {"threads_per_worker", KeyKind::kFree, values::threads_per_worker},
    {"inter_op_threads", KeyKind::kFree, values::inter_op_threads},
    {"oversubscribed", KeyKind::kFree, values::oversubscribed},
    {"shared_host", KeyKind::kFixed, values::shared_host},
    {"hosts", KeyKind::kFollowsWorkers, values::hosts},
    {"hardware", KeyKind::kFree, values::hardware},
    {"network", KeyKind::kFree, values::network},
    {"storage", KeyKind::kFree, values::storage},
    {"checkpoints", KeyKind::kFree, values::checkpoints},
    {"recording", KeyKind::kFree, values::recording},
};

// What a command that declares a task chooses by itself, and its record does not tell: beside a run of that task it
// differs in the key `command` alone.
constexpr std::string_view kOfCommand[] = {"algorithm",        "division", "framework",   "backend",  "precision",
                                           "inter_op_threads", "storage",  "checkpoints", "recording"};

// The value of an engine's option, as the engine was told it; long texts are shown by their hash. Slurm's partition is
// the one that Slurm gave.
std::string told_to_engine(const Record& record, std::string_view option) {
  const bool asked = record.engine.is_object() && record.engine.contains(option);
  Json told = asked ? record.engine.at(std::string(option)) : Json(nullptr);
  std::string words(option);
  std::ranges::replace(words, '_', ' ');
  if (option == "slurm") {
    std::vector<std::string> given;
    for (const Json& one : told.is_array() ? told : Json::array()) {
      if (one.is_string()) given.push_back(one.get<std::string>());
    }
    const std::string partition = record.allocation ? record.allocation->partition : "";
    if (!partition.empty()) {
      std::erase_if(given, [](const std::string& one) { return one.starts_with("partition="); });
      given.push_back("partition=" + partition);
    }
    std::ranges::sort(given);
    told = joined(given, " ");
  }
  if (told.is_null() || told == Json(false) || told == Json("")) return words + " not set";
  if (told == Json(true)) return words;
  std::string value = told.is_string() ? told.get<std::string>() : told.dump();
  if (value.size() > kLongestTold || value.find('\n') != std::string::npos) value = sha256_hex(value);
  return words + " " + value;
}

// The keys of this file, and a key for each further option whose row says that the option is compared by itself.
std::vector<ComparisonKey> all_keys() {
  std::vector<ComparisonKey> keys(std::begin(kOwnKeys), std::end(kOwnKeys));
  for (const spec::RunOption& option : catalog::run_options()) {
    const std::string_view name = option.name;
    if (option.compared != name || std::ranges::count(keys, name, &ComparisonKey::name) > 0) continue;
    keys.push_back({name, KeyKind::kFree, [name](const Record& record) { return told_to_engine(record, name); }});
  }
  return keys;
}

const std::vector<ComparisonKey>& key_table() {
  static const std::vector<ComparisonKey> kKeys = all_keys();
  return kKeys;
}

std::vector<std::string> names_where(const auto& wanted) {
  std::vector<std::string> names;
  for (const ComparisonKey& key : key_table()) {
    if (wanted(key.kind)) names.emplace_back(key.name);
  }
  return names;
}

}  // namespace

std::span<const ComparisonKey> comparison_keys() { return key_table(); }

std::vector<std::string> keys_to_vary() {
  return names_where([](KeyKind kind) { return kind != KeyKind::kFixed; });
}

std::vector<std::string> keys_of_lines() {
  return names_where([](KeyKind kind) { return kind == KeyKind::kFree; });
}

bool Conditions::HostKind::operator==(const HostKind& other) const {
  if (text != other.text || (ram_bytes == 0) != (other.ram_bytes == 0)) return false;
  return std::abs(ram_bytes - other.ram_bytes) <= kMemoryTolerance * std::max(ram_bytes, other.ram_bytes);
}

Conditions::Conditions(const record::Record& given) {
  const Record record = with_algorithm(given);
  for (const ComparisonKey& key : key_table()) values_.push_back(key.value(record));
  for (const Host& host : record.hosts) {
    host_kinds_.push_back({values::cpu_and_gpus(host), static_cast<double>(host.ram_bytes.value_or(0))});
  }
  division_but_keys_ = values::division_but_keys(record);
  problem_ = record.problem_hash;
  declared_ = record.custom && record.custom->declared;
  if (!record.data.synthetic) data_name_ = record.data.name;
}

const std::string& Conditions::value(const ComparisonKey& key) const {
  return values_.at(static_cast<size_t>(&key - key_table().data()));
}

bool Conditions::equal(size_t key, const Conditions& other) const {
  if (values_[key] == other.values_[key]) return true;
  if (key_table()[key].name == "hardware") {
    const auto has_all = [](const auto& kinds, const auto& of) {
      return std::ranges::all_of(of, [&](const HostKind& kind) { return std::ranges::count(kinds, kind) > 0; });
    };
    return has_all(host_kinds_, other.host_kinds_) && has_all(other.host_kinds_, host_kinds_);
  }
  if (key_table()[key].name == "division") return division_but_keys_ == other.division_but_keys_;
  // A command tells no more than the name of what it reads.
  if (key_table()[key].name == "data") return declared_ != other.declared_ && data_name_ == other.data_name_;
  // Variants of a task that differ in their algorithm alone differ in that key.
  if (key_table()[key].name == "task") return !problem_.empty() && problem_ == other.problem_;
  return false;
}

bool Conditions::alike(const Conditions& other) const { return values_ == other.values_; }

Keys Conditions::differences(const Conditions& other) const {
  Keys keys;
  bool workers_differ = false;
  for (size_t i = 0; i < key_table().size(); ++i) {
    if (equal(i, other)) continue;
    keys.push_back(&key_table()[i]);
    workers_differ = workers_differ || key_table()[i].kind == KeyKind::kWorkers;
  }
  if (workers_differ) {
    std::erase_if(keys, [](const ComparisonKey* key) { return key->kind == KeyKind::kFollowsWorkers; });
  }
  if (declared_ != other.declared_) {
    std::erase_if(keys, [](const ComparisonKey* key) { return std::ranges::count(kOfCommand, key->name) > 0; });
  }
  return keys;
}

}  // namespace mlbench::report
