#pragma once

// What `mlbench bench collectives` measures, frozen before it starts: operations, types, sizes, how often, and how the
// times of the ranks become one. Names follow nccl-tests where it has them; docs/communicators/collectives.md says what
// each means and where this differs.

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
  kSendRecv,  // a ring: each rank sends to the next one and receives from the one before
  kBarrier,
  // Between ranks 0 and 1 alone, as OSU's benchmarks have them.
  kLatency,                 // ping-pong, half the round trip
  kBandwidth,               // a window of messages from 0 to 1, then an acknowledgement
  kBidirectionalBandwidth,  // a window of messages each way at once
};

// What an operation takes.
struct CollectiveTraits {
  Collective operation;
  std::string_view name;        // "all_reduce"
  bool reduces = false;         // has a reduction
  bool rooted = false;          // has a root
  bool sliced = false;          // its size is that of the slices of all ranks together; all slices are equally long
  bool point_to_point = false;  // ranks 0 and 1 alone
  int least_ranks = 1;
};
// In the order of the enumeration.
std::span<const CollectiveTraits> collectives();
const CollectiveTraits& traits_of(Collective operation);
// "all_reduce", and as others write it: "AllReduce", "alltoall", "all_reduce_perf", "osu_bw". UserError with the valid
// names.
Collective collective_named(const std::string& name);

enum class Reduction : uint8_t { kSum, kProd, kMin, kMax, kAvg };
std::string_view name_of(Reduction reduction);  // "sum" ...
Reduction reduction_named(const std::string& name);

// "float32" as this program has it, "float" as nccl-tests has it; both are read.
std::string_view nccl_name_of(DType dtype);
DType dtype_named(const std::string& name);
std::span<const DType> collective_dtypes();

// How the times that the ranks took for an iteration become its time: nccl-tests' -a 0, 1, 2, 3.
enum class RankAverage : uint8_t { kRank0, kMean, kMin, kMax };
std::string_view name_of(RankAverage average);  // "rank0", "avg", "min", "max"

// Sizes in bytes from `begin` to `end`, each `factor` times the one before or, where the factor is 1, `step` more.
struct SizeRange {
  int64_t begin_bytes = 8;
  int64_t end_bytes = int64_t{32} << 20;
  int64_t step_bytes = int64_t{1} << 20;
  int64_t factor = 2;
  bool operator==(const SizeRange&) const = default;
};

// The matrix of all ordered pairs of ranks.
struct PairSpec {
  bool measure = false;
  bool disjoint = false;  // as many pairs at once as there are disjoint ones; default: one pair at a time
  int64_t latency_bytes = 8;
  int64_t bandwidth_bytes = int64_t{64} << 10;  // of each message of the window
  int64_t iterations = 20;
  double most_seconds = 1;  // of a pair's bandwidth
  bool operator==(const PairSpec&) const = default;
};

struct CollectivesSpec {
  std::vector<Collective> operations = {Collective::kAllReduce};
  std::vector<DType> dtypes = {DType::kFloat32};
  std::vector<Reduction> reductions = {Reduction::kSum};
  int64_t root = 0;  // kEveryRoot: each rank in turn
  SizeRange sizes;
  std::vector<int64_t> counts;  // elements; where there are some, instead of `sizes`
  bool out_of_place = true;
  bool in_place = true;

  int64_t iterations = 20;  // measured, of each size and form
  int64_t warm_up = 5;      // of each size and form
  int64_t aggregated = 1;   // operations between two looks at the clock
  int64_t cycles = 1;       // over all sizes
  int64_t window = 64;      // messages of kBandwidth and kBidirectionalBandwidth
  RankAverage average = RankAverage::kMax;
  bool blocking = false;    // a barrier behind every operation, within its time
  int64_t check = 1;        // operations on new data whose results are verified, behind the measured ones; 0: none
  int64_t check_every = 0;  // also the results of each so manyth measured iteration; 0: none
  double most_seconds_per_size = 0;  // of a size's warm-up and iterations, shared by its forms; 0: no cap
  int64_t least_iterations = 5;      // that the cap leaves
  double timeout_s = 0;              // of an operation; 0: that of the run
  bool raw_times = false;            // keep the time of every iteration on every rank

  // Where buffers begin, behind an address that is a multiple of 64.
  int64_t misaligned_elements = 0;
  int64_t misaligned_bytes = 0;
  bool communicator_memory = false;  // buffers that the communicator allocates, which some back ends are faster with

  PairSpec pairs;
  bool operator==(const CollectivesSpec&) const = default;
};

inline constexpr int64_t kEveryRoot = -1;
inline constexpr int64_t kMostCollectiveSizes = 10'000;
inline constexpr int64_t kMostCollectiveBytes = int64_t{1} << 40;
inline constexpr int64_t kMostRawTimes = 50'000;  // of a row: they are a line of the spool, which has its size
inline constexpr int64_t kMostPairRanks = 150;    // of the matrix of pairs: the same

// One line of the table but for its size.
struct CollectiveCase {
  Collective operation = Collective::kAllReduce;
  DType dtype = DType::kFloat32;                      // kBarrier: not looked at
  std::optional<Reduction> reduction = std::nullopt;  // of operations that reduce
  int64_t root = -1;                                  // of rooted ones, else -1
  bool operator==(const CollectiveCase&) const = default;
};
// Which combinations there are: every operation with every type; with every reduction where it reduces, with every root
// where it has one and all are asked for. A barrier has no type.
std::vector<CollectiveCase> cases_of(const CollectivesSpec& spec, int64_t ranks);

// The sizes in elements of a case, before they are cut into slices: those of `sizes` rounded down to whole elements. A
// barrier has one of 0.
std::vector<int64_t> counts_of(const CollectivesSpec& spec, const CollectiveCase& one);

// The bytes of the largest buffer that a rank needs; it has two.
int64_t most_buffer_bytes(const CollectivesSpec& spec);

// All that must hold whatever the number of ranks; and for so many ranks. UserError with what was given, and what can
// be.
void check_collectives(const CollectivesSpec& spec);
void check_collectives(const CollectivesSpec& spec, int64_t ranks);

// "8", "4K", "1.5M", "1G": bytes, powers of 1024. UserError naming `what`.
int64_t parse_size(const std::string& text, std::string_view what);
// "8", "4K", "1.5M": the inverse, for messages.
std::string size_text(int64_t bytes);

// Task 0a: all-reduce of float32 and float16, the 80 sizes np.logspace(0, 8, num=80) truncated to whole elements, 100
// iterations.
inline constexpr std::string_view kTask0a = "0a";
inline constexpr std::string_view kTask0aTitle = "Time of all-reduce over its size";
inline constexpr int64_t kTask0aWorkers[] = {2, 4, 8};  // official
std::vector<int64_t> task_0a_counts();
CollectivesSpec task_0a();
// In what a specification is not task 0a's, in words; empty: it is closed. A cap on time opens it; the order of the
// types, forms, checks beyond the first, cycles and where buffers lie don't.
std::vector<std::string> deviations_from_task_0a(const CollectivesSpec& spec);

Json to_json(const CollectivesSpec& spec);
// Exact inverse, checked. UserError "FILE: ..." naming the field.
CollectivesSpec collectives_from_json(const Json& json, const std::string& file = "spec.json");

}  // namespace mlbench::spec
