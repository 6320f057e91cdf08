#pragma once

// What a benchmark of collectives measured; rank 0 of its run writes it, and everybody else reads it. A result has one
// row per operation, type, reduction, root and size, and the matrix of pairs. JSON names and units are those of
// nccl-tests where that has them (microseconds; GB/s with GB = 10^9 bytes). The schema is api/collectives.schema.json.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/spec/collectives.h"

namespace mlbench::record {

// Statistics of the times of the iterations of one size, in microseconds.
struct TimeSummary {
  int64_t count = 0;
  double min_us = 0, p50_us = 0, p95_us = 0, p99_us = 0, max_us = 0;
  double mean_us = 0;
  double stdev_us = 0;  // the sample's (n - 1); 0 for one time
  double cv = 0;        // stdev / mean; 0 where the mean is 0
  // An interval in which the median of all iterations that could be measured lies, in at least 97.5 of 100 such
  // samples, whatever their distribution. Its ends are two order statistics. Empty for fewer than 7 times.
  std::optional<double> p50_low_us, p50_high_us;
  bool operator==(const TimeSummary&) const = default;
};
// Precondition: there is at least one time.
TimeSummary summarise(std::vector<double> times_us);

// The value below which the share `share` (0 to 1) of the ascending values lies, interpolated linearly between its two
// neighbours, which is numpy's default. Precondition: there is at least one value.
double percentile(std::span<const double> ascending, double share);

// The ranks (from 0) of the two order statistics of `count` values between which their median lies with the confidence
// of TimeSummary::p50_low_us.
std::optional<std::pair<size_t, size_t>> median_interval(size_t count);

// A row in one form: out of place or in place.
struct CollectiveForm {
  double time_us = 0;  // mean of the iterations
  double alg_bw = 0;   // GB/s
  std::optional<double> bus_bw;
  std::optional<int64_t> wrong;  // wrong elements over all ranks; empty: not checked
  std::optional<TimeSummary> iterations;
  bool copies = false;  // the interface has only the other form: a copy makes this one, within the time
  bool capped = false;  // the cap on time ended it before all iterations
  std::vector<std::vector<double>> raw_times_us;  // [rank][iteration], on request
  bool operator==(const CollectiveForm&) const = default;
};

struct CollectiveRow {
  std::string operation;  // "all_reduce"
  int64_t cycle = 1;
  int64_t size_bytes = 0;  // of a rank's input or output, whichever is larger; of rooted operations: the root's
  int64_t count = 0;       // elements in that, or in one slice where it consists of slices
  std::string dtype;       // "float32"; "" for a barrier
  std::string reduction;   // "sum"; "" for operations without a reduction
  int64_t root = -1;       // -1: none
  std::optional<CollectiveForm> out_of_place, in_place;
  std::string device = "cpu";  // where the buffers lie: "cpu", "cuda"
  bool operator==(const CollectiveRow&) const = default;
};

// A part of the network that is slower than the rest.
struct SlowPart {
  std::string measure;         // "bandwidth", "latency"
  std::string kind;            // "host", "sending", "receiving" (of a host), "link", "direction" (of a link)
  std::vector<int64_t> ranks;  // a host's ranks; of a link or direction, the ranks of both ends, the sender's first
  std::vector<std::string> hosts;
  double ratio = 0;  // its median bandwidth over that of the others; of latency: that of the others over its own
  bool operator==(const SlowPart&) const = default;
};

struct PairMatrix {
  std::vector<std::string> hosts;  // of each rank
  int64_t latency_bytes = 0, bandwidth_bytes = 0, window = 0;
  bool disjoint = false;
  // [from][to]: medians; the diagonal is 0.
  std::vector<std::vector<double>> latency_us;
  std::vector<std::vector<double>> bandwidth;  // GB/s
  std::vector<SlowPart> slow;                  // worst first
  std::string verdict;                         // in words
  bool operator==(const PairMatrix&) const = default;
};

// The section of a benchmark of collectives in its record.
struct Collectives {
  std::optional<spec::CollectivesSpec> spec = {};  // what was asked for; archives of MLBench do not tell it
  std::vector<CollectiveRow> rows = {};            // measured so far
  std::optional<PairMatrix> pairs = {};
  Json others = nullptr;
};

Json to_json(const CollectiveRow& row);
Json to_json(const PairMatrix& pairs);
// Exact inverses of to_json(). Throw UserError "WHERE: ..." naming the field; keys of later versions are ignored.
CollectiveRow collective_row_from_json(const Json& json, const std::string& where);
PairMatrix pair_matrix_from_json(const Json& json, const std::string& where);

// The number of iterations of a row's forms, the smaller one; 0 where none is known.
int64_t fewest_iterations(const CollectiveRow& row);
std::string nccl_type_of(const CollectiveRow& row);  // "float"; "none" for a barrier
// UserError for an operation, reduction or type that there is not, and for matrices of another size than their hosts.
void check_names(const CollectiveRow& row);
void check_square(const PairMatrix& pairs);

}  // namespace mlbench::record
