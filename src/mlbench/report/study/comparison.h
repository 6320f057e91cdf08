#pragma once

// What may be compared: the one rule behind `mlbench compare`, the studies and charts of `mlbench charts`, tables of
// results, REST /compare and the page that shows it. In words: docs/rules.md.
//
// A *key* is something that a run was made under, by the name that --vary and --lines take. Two runs *differ* in it
// when their records tell different values; one that tells none equals only another that tells none. Two runs
//   repeat each other   when they differ in no key: only such runs share a median;
//   make a speed-up     when they differ in `workers` alone, and in what follows from it;
//   have a ratio        when they differ in no fixed key, and in one other at most or in named ones only (--vary).
// All else stands side by side, without a ratio, verdict or line in common. Seed, repeat and names are no keys, nor is
// the version of the program, which gets a note.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/record/record.h"

namespace mlbench::report {

enum class KeyKind {
  kFixed,           // equal in whatever has a ratio
  kWorkers,         // what a speed-up varies
  kFollowsWorkers,  // no difference where the workers differ
  kFree,            // one of them may vary
};

struct ComparisonKey {
  std::string_view name;
  KeyKind kind;
  std::function<std::string(const record::Record& record)>
      value;  // as people read it; "" where the record does not tell
};

// Every key, in the order in which names of lines show them. What options are compared by, and why some by none, their
// rows say (spec/run_options.h).
std::span<const ComparisonKey> comparison_keys();
std::vector<std::string> keys_to_vary();   // those that --vary may name: all that are not fixed
std::vector<std::string> keys_of_lines();  // those that --lines may name: the free ones

using Keys = std::vector<const ComparisonKey*>;  // in the order of comparison_keys()
using KeyChoice = std::function<bool(const ComparisonKey&)>;

// "framework and threads per worker"
std::string in_words(const Keys& keys);

// The values of all keys of a record.
class Conditions {
 public:
  explicit Conditions(const record::Record& record);
  const std::string& value(const ComparisonKey& key) const;
  Keys differences(const Conditions& other) const;
  bool alike(const Conditions& other) const;  // to each third run

 private:
  // A kind of host. Hosts of one kind report slightly different amounts of memory: 5 % of the larger one are no
  // difference.
  struct HostKind {
    std::string text;      // CPU, cores, GPUs
    double ram_bytes = 0;  // 0: not told
    bool operator==(const HostKind& other) const;
  };
  bool equal(size_t key, const Conditions& other) const;

  std::vector<std::string> values_;
  std::vector<HostKind> host_kinds_;
  std::string division_but_keys_;
};

// Why runs that differ in these have no speed-up, "no speed-up: hardware differs"; "" where nothing forbids one.
std::string why_no_speed_up(const Keys& differences);

// Why runs that differ in these have no ratio, with the --vary that gives one; "" where nothing forbids one.
std::string why_no_ratio(const Keys& differences, const std::vector<std::string>& vary);

// `members` (indices into `runs`) in groups of which no two differ in a key that keeps them `apart`; ordered by their
// values.
std::vector<std::vector<size_t>> grouped(const std::vector<Conditions>& runs, const std::vector<size_t>& members,
                                         const KeyChoice& apart);

// Those of `members` that may share a line over numbers of workers: they make speed-ups with each other, and those of
// one number of workers are repeats. Where one number of workers stood on several numbers of hosts, each of these is a
// line.
std::vector<std::vector<size_t>> grouped_to_lines(const std::vector<Conditions>& runs,
                                                  const std::vector<size_t>& members);

// What tells groups of runs from each other, of the keys that keep them `apart`.
struct Distinction {
  Keys keys;                       // in which any two groups differ
  std::vector<std::string> names;  // of each group, all unlike: its values of these, "mpi, 2 threads"
};
Distinction distinguish(const std::vector<Conditions>& runs, const std::vector<std::vector<size_t>>& groups,
                        const KeyChoice& apart);

// "different versions of the program: 0.1.0 v1 (r-1), 0.1.0 v2 (r-2, r-4)"; "" where it is one.
std::string version_note(const std::vector<const record::Record*>& records);

}  // namespace mlbench::report
