#pragma once

// What `mlbench bench collectives` measures, frozen before it starts: operations, types, sizes, how often each is
// measured, and how the times of the ranks become one time. Names are those of nccl-tests where that has them.
// docs/communicators/collectives.md says what each means and where this program differs.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/base/json.h"

namespace mlbench::spec {

enum class Collective : uint8_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kAllToAllV,
  kGather,
  kScatter,
  kSendRecv,  // a ring: each rank sends to the next rank and receives from the rank before
  kBarrier,
  // These run only between ranks 0 and 1, as in OSU's benchmarks.
  kLatency,                 // ping-pong, half the round trip
  kBandwidth,               // a window of messages from 0 to 1, then an acknowledgement
  kBidirectionalBandwidth,  // a window of messages each way at once
};

// What an operation is like.
struct CollectiveTraits {
  Collective operation;
  std::string_view name;        // "all_reduce"
  bool reduces = false;         // it has a reduction
  bool rooted = false;          // it has a root
  bool sliced = false;          // its size is that of all ranks' slices together; all slices are equally long
  bool point_to_point = false;  // only ranks 0 and 1 take part
  int least_ranks = 1;
};
// The traits of all operations, in the order of the enumeration.
std::span<const CollectiveTraits> collectives();
const CollectiveTraits& traits_of(Collective operation);
// The operation named "all_reduce", or as other programs write it: "AllReduce", "alltoall", "all_reduce_perf",
// "osu_bw". Throws UserError with the valid names.
Collective collective_named(const std::string& name);

enum class Reduction : uint8_t { kSum, kProd, kMin, kMax, kAvg };
std::string_view name_of(Reduction reduction);  // "sum" ...
// Throws UserError with the valid names.
Reduction reduction_named(const std::string& name);

// nccl-tests' name of a type: "float", which is "float32" in this program. dtype_named() reads both names, and throws
// UserError with the valid ones for another.
std::string_view nccl_name_of(DType dtype);
DType dtype_named(const std::string& name);
std::span<const DType> collective_dtypes();

// How the times of the ranks for an iteration become the iteration's time: nccl-tests' -a 0, 1, 2, 3.
enum class RankAverage : uint8_t { kRank0, kMean, kMin, kMax };
std::string_view name_of(RankAverage average);  // "rank0", "avg", "min", "max"

// Sizes from `begin_bytes` to `end_bytes`: each is `factor` times the size before or, where the factor is 1,
// `step_bytes` more.
struct SizeRange {
  int64_t begin_bytes = 8;
  int64_t end_bytes = int64_t{32} << 20;
  int64_t step_bytes = int64_t{1} << 20;
  int64_t factor = 2;
  bool operator==(const SizeRange&) const = default;
};

// How the matrix of all ordered pairs of ranks is measured.
struct PairSpec {
  bool measure = false;
  bool disjoint = false;  // as many disjoint pairs at once as possible; false: one pair at a time
  int64_t latency_bytes = 8;
  int64_t bandwidth_bytes = int64_t{64} << 10;  // of each message of the window
  int64_t iterations = 20;
  double most_seconds = 1;  // for the bandwidth of a pair
  bool operator==(const PairSpec&) const = default;
};

struct CollectivesSpec {
  std::vector<Collective> operations = {Collective::kAllReduce};
  std::vector<DType> dtypes = {DType::kFloat32};
  std::vector<Reduction> reductions = {Reduction::kSum};
  int64_t root = 0;  // kEveryRoot: each rank in turn
  SizeRange sizes;
  std::vector<int64_t> counts;  // sizes in elements; unless empty, they replace `sizes`
  bool out_of_place = true;
  bool in_place = true;

  int64_t iterations = 20;  // measured iterations of each size and form
  int64_t warm_up = 5;      // iterations before these, of each size and form
  int64_t aggregated = 1;   // operations between two readings of the clock
  int64_t cycles = 1;       // times that all sizes are measured
  int64_t window = 64;      // messages under way in kBandwidth and kBidirectionalBandwidth
  RankAverage average = RankAverage::kMax;
  bool blocking = false;    // a barrier follows every operation, within the operation's time
  int64_t check = 1;        // operations on new data behind the measured ones, whose results are verified; 0: none
  int64_t check_every = 0;  // every how many measured iterations results are verified, too; 0: never
  double most_seconds_per_size = 0;  // for a size's warm-up and iterations in both forms together; 0: no cap
  int64_t least_iterations = 5;      // iterations that are measured in spite of that cap
  double timeout_s = 0;              // of an operation; 0: the run's timeout
  bool raw_times = false;            // keep the time of every iteration on every rank

  // How far buffers begin behind an address that is a multiple of 64.
  int64_t misaligned_elements = 0;
  int64_t misaligned_bytes = 0;
  bool communicator_memory = false;  // the communicator allocates the buffers, which makes some back ends faster

  PairSpec pairs;
  bool operator==(const CollectivesSpec&) const = default;
};

inline constexpr int64_t kEveryRoot = -1;
inline constexpr int64_t kMostCollectiveSizes = 10'000;
inline constexpr int64_t kMostCollectiveBytes = int64_t{1} << 40;
inline constexpr int64_t kMostRawTimes = 50'000;  // of a row, which is one line of the spool: its length is limited
inline constexpr int64_t kMostPairRanks = 150;    // of the matrix of pairs, which is one line, too

// What a line of the table says without its size.
struct CollectiveCase {
  Collective operation = Collective::kAllReduce;
  DType dtype = DType::kFloat32;                      // ignored for kBarrier
  std::optional<Reduction> reduction = std::nullopt;  // only for operations that reduce
  int64_t root = -1;                                  // -1 for operations without a root
  bool operator==(const CollectiveCase&) const = default;
};
// All cases of a specification: every operation with every type, with every reduction where it reduces, and, where it
// is rooted, with the root (kEveryRoot: each of `ranks` roots). A barrier has no type: one case.
std::vector<CollectiveCase> cases_of(const CollectivesSpec& spec, int64_t ranks);

// The sizes of a case in elements, before they are cut into slices: `counts`, or `sizes` rounded down to whole
// elements. A barrier has one size, 0.
std::vector<int64_t> counts_of(const CollectivesSpec& spec, const CollectiveCase& one);

// The bytes of the largest buffer that a rank needs; each rank has two such buffers.
int64_t most_buffer_bytes(const CollectivesSpec& spec);

// Checks a specification for any number of ranks, and for `ranks` ranks. Throws UserError with what was given and what
// is valid.
void check_collectives(const CollectivesSpec& spec);
void check_collectives(const CollectivesSpec& spec, int64_t ranks);

// Reads a size in bytes: "8", "4K", "1.5M", "1G" (powers of 1024). Throws UserError naming `what`.
int64_t parse_size(const std::string& text, std::string_view what);
// The inverse, for messages: "8", "4K", "1.5M".
std::string size_text(int64_t bytes);

// Task 0a: all-reduce of float32 and float16, the 80 sizes np.logspace(0, 8, num=80) truncated to whole elements, 100
// iterations.
inline constexpr std::string_view kTask0a = "0a";
inline constexpr std::string_view kTask0aTitle = "Time of all-reduce over its size";
inline constexpr int64_t kTask0aWorkers[] = {2, 4, 8};  // the official worker counts
std::vector<int64_t> task_0a_counts();
CollectivesSpec task_0a();
// How a specification differs from task 0a's, in words; empty: it is closed. A cap on time opens it. It stays closed
// with fewer types or another order of them, when it is also measured out of place, with more checks, more cycles, and
// buffers of the communicator.
std::vector<std::string> deviations_from_task_0a(const CollectivesSpec& spec);

Json to_json(const CollectivesSpec& spec);
// The exact inverse, which also checks the specification. Throws UserError "FILE: ..." naming the field.
CollectivesSpec collectives_from_json(const Json& json, const std::string& file = "spec.json");

}  // namespace mlbench::spec
