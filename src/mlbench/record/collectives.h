#pragma once

// What a benchmark of collectives measured, as rank 0 of its run writes it and everybody else reads it: one row per
// operation, type, reduction, root and size, and the matrix of pairs. JSON names and units are those of nccl-tests
// where it has them (microseconds, GB/s with GB = 10^9 bytes); schema in api/collectives.schema.json.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::record {

// Of the times of the iterations of a size; microseconds.
struct TimeSummary {
  int64_t count = 0;
  double min_us = 0, p50_us = 0, p95_us = 0, p99_us = 0, max_us = 0;
  double mean_us = 0;
  double stdev_us = 0;  // of the sample (n - 1); 0 for one time
  double cv = 0;        // stdev / mean; 0 where the mean is
  // The median of all iterations that could be measured lies here, in at least 97.5 of 100 such samples, whatever their
  // distribution: two order statistics. None for fewer than 7 times.
  std::optional<double> p50_low_us, p50_high_us;
  bool operator==(const TimeSummary&) const = default;
};
// At least one time.
TimeSummary summarise(std::vector<double> times_us);

// The value below which a share of ascending values lies, from 0 to 1: linear between its two neighbours, as numpy's
// default. At least one value.
double percentile(std::span<const double> ascending, double share);

// The ranks (from 0) of the two order statistics of so many values between which their median lies with the confidence
// above.
std::optional<std::pair<size_t, size_t>> median_interval(size_t count);

// A row in one form: out of place, or in place.
struct CollectiveForm {
  double time_us = 0;  // mean of the iterations
  double alg_bw = 0;   // GB/s
  std::optional<double> bus_bw;
  std::optional<int64_t> wrong;  // elements that were not what they had to be, over all ranks; none: not checked
  std::optional<TimeSummary> iterations;
  bool copies = false;  // the interface has the other form alone: a copy makes this one, within the time
  bool capped = false;  // the cap on time ended it before all iterations
  std::vector<std::vector<double>> raw_times_us;  // [rank][iteration], on request
  bool operator==(const CollectiveForm&) const = default;
};

struct CollectiveRow {
  std::string operation;  // "all_reduce"
  int64_t cycle = 1;
  int64_t size_bytes = 0;  // of the larger of input and output of a rank; rooted ones: of the root
  int64_t count = 0;       // elements of that, or of one slice where it consists of slices
  std::string dtype;       // "float32"; "" for a barrier
  std::string reduction;   // "sum"; "" for operations without
  int64_t root = -1;       // -1: none
  std::optional<CollectiveForm> out_of_place, in_place;
  std::string device = "cpu";  // where the buffers lie: "cpu", "cuda"
  bool operator==(const CollectiveRow&) const = default;
};

// A part of the network that is slower than the rest.
struct SlowPart {
  std::string measure;         // "bandwidth", "latency"
  std::string kind;            // "host", "sending", "receiving" (of a host), "link", "direction" (of a link)
  std::vector<int64_t> ranks;  // of the host; of a link or direction those of both ends, the sender first
  std::vector<std::string> hosts;
  double ratio = 0;  // its bandwidth over that of the others, medians; of latency: theirs over its own
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

Json to_json(const CollectiveRow& row);
Json to_json(const PairMatrix& pairs);
// Exact inverses. UserError "WHERE: ..." naming the field; keys of later versions are ignored.
CollectiveRow collective_row_from_json(const Json& json, const std::string& where);
PairMatrix pair_matrix_from_json(const Json& json, const std::string& where);

}  // namespace mlbench::record
