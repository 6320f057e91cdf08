#pragma once

// Which runs may be compared: the one rule behind `mlbench compare`, the studies and charts of `mlbench charts`, tables
// of results, REST /compare and the page that shows it. docs/rules.md explains the rule.
//
// A *key* is a condition under which a run was made, with the name that --vary and --lines take. Two runs *differ* in a
// key when their records tell different values. A run whose record tells no value equals only one that tells none. Two
// runs
//   repeat each other   when they differ in no key: only such runs share a median;
//   make a speed-up     when they differ only in `workers` and in keys that follow from it;
//   have a ratio        when they differ in no fixed key, and in at most one other key or only in keys named by --vary.
// All other runs stand side by side, without a common ratio, verdict or line. Seed, repeat and names are no keys. Nor
// is the version of the program, but a note says where it differs.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/record/record.h"

namespace mlbench::report {

enum class KeyKind {
  kFixed,           // must be equal for a ratio
  kWorkers,         // what a speed-up varies
  kFollowsWorkers,  // counts as no difference where the workers differ
  kFree,            // one such key may vary
};

struct ComparisonKey {
  std::string_view name;
  KeyKind kind;
  std::function<std::string(const record::Record& record)>
      value;  // as people read it; "" where the record does not tell
};

// All keys, in the order in which names of lines show them. The row of each option (spec/run_options.h) says by which
// key the option is compared, or why by none.
std::span<const ComparisonKey> comparison_keys();
std::vector<std::string> keys_to_vary();   // names that --vary takes: all keys that are not fixed
std::vector<std::string> keys_of_lines();  // names that --lines takes: the free keys

using Keys = std::vector<const ComparisonKey*>;  // in the order of comparison_keys()
using KeyChoice = std::function<bool(const ComparisonKey&)>;

// The names of keys as words: "framework and threads per worker".
std::string in_words(const Keys& keys);

// The values of all keys of a record.
class Conditions {
 public:
  explicit Conditions(const record::Record& record);
  const std::string& value(const ComparisonKey& key) const;
  Keys differences(const Conditions& other) const;
  // Whether all values are the same, so that a third run differs from both in the same keys.
  bool alike(const Conditions& other) const;

 private:
  // A kind of host. Hosts of one kind report slightly different amounts of memory, so that a difference of up to 5 % of
  // the larger amount does not count.
  struct HostKind {
    std::string text;      // CPU, cores, GPUs
    double ram_bytes = 0;  // 0: not told
    bool operator==(const HostKind& other) const;
  };
  bool equal(size_t key, const Conditions& other) const;

  std::vector<std::string> values_;
  std::vector<HostKind> host_kinds_;
  std::string division_but_keys_;
  std::string problem_;    // "" where the record does not tell
  bool declared_ = false;  // of a command that declares a task
  std::string data_name_;  // "" of made data
};

// Why runs that differ in these keys have no speed-up, "no speed-up: hardware differs"; "" where nothing forbids one.
std::string why_no_speed_up(const Keys& differences);

// Why two runs that differ in these keys have no ratio, with the --vary that would allow one; "" where nothing forbids
// one. `vary` holds the keys that --vary names.
std::string why_no_ratio(const Keys& differences, const std::vector<std::string>& vary);

// Divides `members` (indices into `runs`) into groups. Two runs of one group differ in no key for which `apart` is
// true. Groups are ordered by the values of these keys.
std::vector<std::vector<size_t>> grouped(const std::vector<Conditions>& runs, const std::vector<size_t>& members,
                                         const KeyChoice& apart);

// Divides `members` (indices into `runs`) into lines over numbers of workers. Two runs of one line make a speed-up with
// each other, or they are repeats where they have the same number of workers. Where runs of one number of workers had
// several numbers of hosts, each number of hosts is a line of its own.
std::vector<std::vector<size_t>> grouped_to_lines(const std::vector<Conditions>& runs,
                                                  const std::vector<size_t>& members);

// What tells groups of runs from each other.
struct Distinction {
  Keys keys;                       // keys in which the groups differ
  std::vector<std::string> names;  // a different name for each group: its values of these keys, "mpi, 2 threads"
};
// Considers only keys for which `apart` is true.
Distinction distinguish(const std::vector<Conditions>& runs, const std::vector<std::vector<size_t>>& groups,
                        const KeyChoice& apart);

// Adds what whoever reads a comparison of these runs must know: that their commands vary, that the rates of their
// algorithms were not chosen alike (study/algorithm.h), and that their programs were different versions:
// "different versions of the program: 0.1.0 v1 (r-1), 0.1.0 v2 (r-2, r-4)".
void add_comparison_notes(const std::vector<const record::Record*>& records, std::vector<std::string>& notes);

}  // namespace mlbench::report
