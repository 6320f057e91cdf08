#include "mlbench/spec/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/text.h"
#include "mlbench/spec/fields.h"

namespace mlbench::spec {

namespace {

constexpr auto kCollectives = std::to_array<CollectiveTraits>({
    {.operation = Collective::kAllReduce, .name = "all_reduce", .reduces = true},
    {.operation = Collective::kReduce, .name = "reduce", .reduces = true, .rooted = true},
    {.operation = Collective::kBroadcast, .name = "broadcast", .rooted = true},
    {.operation = Collective::kAllGather, .name = "all_gather", .sliced = true},
    {.operation = Collective::kReduceScatter, .name = "reduce_scatter", .reduces = true, .sliced = true},
    {.operation = Collective::kAllToAll, .name = "all_to_all", .sliced = true},
    {.operation = Collective::kAllToAllV, .name = "all_to_all_v", .sliced = true},
    {.operation = Collective::kGather, .name = "gather", .rooted = true, .sliced = true},
    {.operation = Collective::kScatter, .name = "scatter", .rooted = true, .sliced = true},
    {.operation = Collective::kSendRecv, .name = "sendrecv", .least_ranks = 2},
    {.operation = Collective::kBarrier, .name = "barrier"},
    {.operation = Collective::kLatency, .name = "latency", .point_to_point = true, .least_ranks = 2},
    {.operation = Collective::kBandwidth, .name = "bandwidth", .point_to_point = true, .least_ranks = 2},
    {.operation = Collective::kBidirectionalBandwidth,
     .name = "bidirectional_bandwidth",
     .point_to_point = true,
     .least_ranks = 2},
});

// Names of other programs that collective_named() needs beside those that alike() makes equal.
constexpr std::pair<std::string_view, Collective> kOtherNames[] = {
    {"bcast", Collective::kBroadcast},
    {"bw", Collective::kBandwidth},
    {"bibw", Collective::kBidirectionalBandwidth},
};

constexpr std::array<std::string_view, 5> kReductionNames = {"sum", "prod", "min", "max", "avg"};
constexpr std::array<std::string_view, 4> kAverageNames = {"rank0", "avg", "min", "max"};

struct TypeName {
  DType dtype;
  std::string_view nccl;
};
constexpr TypeName kTypeNames[] = {
    {DType::kFloat32, "float"}, {DType::kFloat64, "double"}, {DType::kFloat16, "half"}, {DType::kBFloat16, "bfloat16"},
    {DType::kInt8, "int8"},     {DType::kUInt8, "uint8"},    {DType::kInt32, "int32"},  {DType::kInt64, "int64"},
};
constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                            DType::kInt8,    DType::kUInt8,   DType::kInt32,   DType::kInt64};

constexpr Range kIterationRange{1, 1e6}, kWarmUpRange{0, 1e6}, kCycleRange{1, 1000}, kCheckRange{0, 1000};
constexpr Range kWindowRange{1, 4096}, kCollectiveSeconds{0, 86400}, kPairSeconds{0.001, 3600};
constexpr Range kMisalignedRange{0, 4096}, kRootRange{kEveryRoot, 1e6}, kFactorRange{1, 1e6};
constexpr Range kCollectiveBytes{0, static_cast<double>(kMostCollectiveBytes)};
constexpr Range kStepBytes{1, kCollectiveBytes.most};
constexpr Range kElementRange{0, kCollectiveBytes.most / 8};  // even with 8 bytes each, at most the most bytes

// The form in which names are compared: "allreduce" for "All_Reduce_perf".
std::string alike(std::string_view name) {
  std::string word;
  for (const char c : name) {
    if (c != '_' && c != '-') word += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  if (word.starts_with("osu")) word.erase(0, 3);
  if (word.ends_with("perf")) word.erase(word.size() - 4);
  return word;
}

template <size_t N>
size_t index_of(const std::array<std::string_view, N>& names, const std::string& given, std::string_view what) {
  const auto found = std::find(names.begin(), names.end(), given);
  if (found == names.end()) refuse_unknown(what, given, texts_of(names));
  return static_cast<size_t>(found - names.begin());
}

void check_in(int64_t value, std::string_view what, const Range& range) {
  if (range.contains(static_cast<double>(value))) return;
  throw UserError(fmt::format("{} is {}; expected a whole number {}", what, value, to_text(range)));
}

void check_seconds(double value, std::string_view what, const Range& range) {
  if (range.contains(value)) return;
  throw UserError(fmt::format("{} is {} s; expected {}", what, value, duration_text(range)));
}

template <typename T>
void check_unlike(const std::vector<T>& values, std::string_view what) {
  if (values.empty()) throw UserError(fmt::format("no {} is given", what));
  for (const T& value : values) {
    if (std::ranges::count(values, value) > 1) throw UserError(fmt::format("a {} is given twice", what));
  }
}

// Calls `use` with each size in bytes until it returns false.
template <typename Use>
void for_each_size(const SizeRange& sizes, Use&& use) {
  for (int64_t bytes = sizes.begin_bytes; bytes <= sizes.end_bytes;) {
    if (!use(bytes)) return;
    bytes = sizes.factor > 1 ? bytes * sizes.factor : bytes + sizes.step_bytes;
  }
}

void check_sizes(const SizeRange& sizes) {
  check_in(sizes.begin_bytes, "the smallest size (-b)", kCollectiveBytes);
  check_in(sizes.end_bytes, "the largest size (-e)", kCollectiveBytes);
  if (sizes.begin_bytes > sizes.end_bytes) {
    throw UserError(fmt::format("the smallest size (-b {}) is above the largest one (-e {})",
                                size_text(sizes.begin_bytes), size_text(sizes.end_bytes)));
  }
  check_in(sizes.factor, "the factor between sizes (-f)", kFactorRange);
  if (sizes.factor > 1 && sizes.begin_bytes == 0) {
    throw UserError("the smallest size (-b) is 0, which no factor (-f) makes larger: give a step (-i)");
  }
  if (sizes.factor == 1) check_in(sizes.step_bytes, "the step between sizes (-i)", kStepBytes);
  int64_t number = 0;
  for_each_size(sizes, [&](int64_t) { return ++number <= kMostCollectiveSizes; });
  if (number > kMostCollectiveSizes) {
    throw UserError(fmt::format("-b {} -e {} has more than {} sizes: give a larger step (-i) or a factor (-f)",
                                size_text(sizes.begin_bytes), size_text(sizes.end_bytes), kMostCollectiveSizes));
  }
}

void check_counts(const std::vector<int64_t>& counts) {
  if (std::ssize(counts) > kMostCollectiveSizes) {
    throw UserError(fmt::format("{} sizes in elements are given, at most {}", counts.size(), kMostCollectiveSizes));
  }
  for (const int64_t count : counts) check_in(count, "a size in elements", kElementRange);
}

// The members of a specification that are words in JSON.
struct CollectivesText {
  std::vector<std::string> operations, dtypes, reductions;
  std::string average;
};

template <typename V, typename Spec, typename Text>
void describe_collectives(V& v, Spec& spec, Text& text) {
  v.field("operations", text.operations, kRequired);
  v.field("dtypes", text.dtypes, {.required = true, .filled = true});
  v.field("reductions", text.reductions, {.required = true, .filled = true});
  v.field("root", spec.root, {.required = true, .range = kRootRange});
  v.table("sizes", [&] {
    v.field("begin_bytes", spec.sizes.begin_bytes, {.required = true, .range = kCollectiveBytes});
    v.field("end_bytes", spec.sizes.end_bytes, {.required = true, .range = kCollectiveBytes});
    v.field("step_bytes", spec.sizes.step_bytes, {.required = true, .range = kCollectiveBytes});
    v.field("factor", spec.sizes.factor, {.required = true, .range = kFactorRange});
  });
  v.field("counts", spec.counts, kRequired);
  v.field("out_of_place", spec.out_of_place, kRequired);
  v.field("in_place", spec.in_place, kRequired);
  v.field("iterations", spec.iterations, {.required = true, .range = kIterationRange});
  v.field("warm_up", spec.warm_up, {.required = true, .range = kWarmUpRange});
  v.field("aggregated", spec.aggregated, {.required = true, .range = kIterationRange});
  v.field("cycles", spec.cycles, {.required = true, .range = kCycleRange});
  v.field("window", spec.window, {.required = true, .range = kWindowRange});
  v.field("average", text.average, {.required = true, .choices = kAverageNames});
  v.field("blocking", spec.blocking, kRequired);
  v.field("check", spec.check, {.required = true, .range = kCheckRange});
  v.field("check_every", spec.check_every, {.required = true, .range = kWarmUpRange});
  v.field("most_seconds_per_size", spec.most_seconds_per_size, {.required = true, .range = kCollectiveSeconds});
  v.field("least_iterations", spec.least_iterations, {.required = true, .range = kIterationRange});
  v.field("timeout_s", spec.timeout_s, {.required = true, .range = kCollectiveSeconds});
  v.field("raw_times", spec.raw_times, kRequired);
  v.field("misaligned_elements", spec.misaligned_elements, {.required = true, .range = kMisalignedRange});
  v.field("misaligned_bytes", spec.misaligned_bytes, {.required = true, .range = kMisalignedRange});
  v.field("communicator_memory", spec.communicator_memory, kRequired);
  v.table("pairs", [&] {
    v.field("measure", spec.pairs.measure, kRequired);
    v.field("disjoint", spec.pairs.disjoint, kRequired);
    v.field("latency_bytes", spec.pairs.latency_bytes, {.required = true, .range = kCollectiveBytes});
    v.field("bandwidth_bytes", spec.pairs.bandwidth_bytes, {.required = true, .range = kCollectiveBytes});
    v.field("iterations", spec.pairs.iterations, {.required = true, .range = kIterationRange});
    v.field("most_seconds", spec.pairs.most_seconds, {.required = true, .range = kPairSeconds});
  });
}

}  // namespace

std::span<const CollectiveTraits> collectives() { return kCollectives; }

const CollectiveTraits& traits_of(Collective operation) { return kCollectives.at(static_cast<size_t>(operation)); }

Collective collective_named(const std::string& name) {
  const std::string wanted = alike(name);
  for (const CollectiveTraits& one : kCollectives) {
    if (alike(one.name) == wanted) return one.operation;
  }
  for (const auto& [other, operation] : kOtherNames) {
    if (other == wanted) return operation;
  }
  refuse_unknown("operation", name, names_of(kCollectives));
}

std::string_view name_of(Reduction reduction) { return kReductionNames.at(static_cast<size_t>(reduction)); }

Reduction reduction_named(const std::string& name) {
  return static_cast<Reduction>(index_of(kReductionNames, name, "reduction"));
}

std::string_view name_of(RankAverage average) { return kAverageNames.at(static_cast<size_t>(average)); }

std::string_view nccl_name_of(DType dtype) {
  for (const TypeName& one : kTypeNames) {
    if (one.dtype == dtype) return one.nccl;
  }
  MLBENCH_CHECK(false, fmt::format("no name for {}", mlbench::name_of(dtype)));
  return {};
}

DType dtype_named(const std::string& name) {
  std::vector<std::string> valid;
  for (const TypeName& one : kTypeNames) {
    if (name == one.nccl || name == mlbench::name_of(one.dtype)) return one.dtype;
    valid.emplace_back(mlbench::name_of(one.dtype));
  }
  refuse_unknown("type", name, valid);
}

std::span<const DType> collective_dtypes() { return kTypes; }

std::vector<CollectiveCase> cases_of(const CollectivesSpec& spec, int64_t ranks) {
  std::vector<CollectiveCase> cases;
  for (const Collective operation : spec.operations) {
    const CollectiveTraits& traits = traits_of(operation);
    std::vector<DType> dtypes = spec.dtypes;
    if (operation == Collective::kBarrier) dtypes = {DType::kUInt8};
    std::vector<std::optional<Reduction>> reductions = {std::nullopt};
    if (traits.reduces) reductions.assign(spec.reductions.begin(), spec.reductions.end());
    const bool every = traits.rooted && spec.root == kEveryRoot;
    const int64_t first = !traits.rooted ? -1 : every ? 0 : spec.root, last = every ? ranks - 1 : first;
    for (const DType dtype : dtypes) {
      for (const std::optional<Reduction>& reduction : reductions) {
        for (int64_t root = first; root <= last; ++root) cases.push_back({operation, dtype, reduction, root});
      }
    }
  }
  return cases;
}

std::vector<int64_t> counts_of(const CollectivesSpec& spec, const CollectiveCase& one) {
  if (one.operation == Collective::kBarrier) return {0};
  if (!spec.counts.empty()) return spec.counts;
  std::vector<int64_t> counts;
  for_each_size(spec.sizes, [&](int64_t bytes) {
    counts.push_back(bytes / static_cast<int64_t>(size_of(one.dtype)));
    return true;
  });
  return counts;
}

int64_t most_buffer_bytes(const CollectivesSpec& spec) {
  int64_t most = 0;
  for (const CollectiveCase& one : cases_of(spec, 1)) {
    for (const int64_t count : counts_of(spec, one)) {
      most = std::max(most, count * static_cast<int64_t>(size_of(one.dtype)));
    }
  }
  return most;
}

void check_collectives(const CollectivesSpec& spec) {
  if (spec.operations.empty() && !spec.pairs.measure) throw UserError("no operation is given");
  if (!spec.operations.empty()) check_unlike(spec.operations, "operation");
  check_unlike(spec.dtypes, "type");
  check_unlike(spec.reductions, "reduction");
  check_in(spec.root, "the root (-r)", kRootRange);
  if (spec.counts.empty()) check_sizes(spec.sizes);
  check_counts(spec.counts);
  if (!spec.out_of_place && !spec.in_place) throw UserError("neither out of place nor in place is asked for");
  check_in(spec.iterations, "the number of iterations (-n)", kIterationRange);
  check_in(spec.warm_up, "the number of warm-up iterations (-w)", kWarmUpRange);
  check_in(spec.aggregated, "the number of aggregated operations (-m)", kIterationRange);
  check_in(spec.cycles, "the number of cycles (-N)", kCycleRange);
  check_in(spec.window, "the window", kWindowRange);
  check_in(spec.check, "the number of checked operations (-c)", kCheckRange);
  check_in(spec.check_every, "the distance of checked iterations", kWarmUpRange);
  if (spec.check_every > 0 && spec.aggregated > 1) {
    throw UserError(
        fmt::format("{} operations are aggregated (-m), so that the results of an iteration cannot be checked: leave "
                    "one of both out",
                    spec.aggregated));
  }
  check_seconds(spec.most_seconds_per_size, "the most time of a size", kCollectiveSeconds);
  check_in(spec.least_iterations, "the least number of iterations", kIterationRange);
  check_seconds(spec.timeout_s, "the timeout (-T)", kCollectiveSeconds);
  check_in(spec.misaligned_elements, "the misalignment in elements", kMisalignedRange);
  check_in(spec.misaligned_bytes, "the misalignment in bytes", kMisalignedRange);
  check_in(spec.pairs.latency_bytes, "the size of a pair's latency", kCollectiveBytes);
  check_in(spec.pairs.bandwidth_bytes, "the size of a pair's messages", kCollectiveBytes);
  check_in(spec.pairs.iterations, "the number of a pair's iterations", kIterationRange);
  check_seconds(spec.pairs.most_seconds, "the most time of a pair", kPairSeconds);
}

void check_collectives(const CollectivesSpec& spec, int64_t ranks) {
  check_collectives(spec);
  for (const Collective operation : spec.operations) {
    const CollectiveTraits& traits = traits_of(operation);
    if (ranks < traits.least_ranks) {
      throw UserError(fmt::format("the operation '{}' needs at least {} ranks, this run has {}", traits.name,
                                  traits.least_ranks, ranks));
    }
    if (traits.rooted && spec.root >= ranks) {
      throw UserError(fmt::format("the root (-r) is {}; expected a rank from 0 to {}, or all", spec.root, ranks - 1));
    }
  }
  const int64_t forms = (spec.out_of_place ? 1 : 0) + (spec.in_place ? 1 : 0);
  if (spec.raw_times && spec.iterations > kMostRawTimes / (ranks * forms)) {
    throw UserError(
        fmt::format("--raw-times of {} iterations on {} ranks in {} are more than the {} times that a row holds: "
                    "at most {} iterations (-n)",
                    spec.iterations, ranks, counted(forms, "form"), kMostRawTimes, kMostRawTimes / (ranks * forms)));
  }
  if (spec.pairs.measure && (ranks < 2 || ranks > kMostPairRanks)) {
    throw UserError(
        fmt::format("the matrix of pairs is for 2 to {} ranks, this run has {}: one rank per host finds slow links and "
                    "hosts, too",
                    kMostPairRanks, ranks));
  }
}

int64_t parse_size(const std::string& text, std::string_view what) {
  double value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value, std::chars_format::fixed);
  const std::string_view unit(end, static_cast<size_t>(last - end));
  const double factor = unit.empty()                 ? 1
                        : unit == "K" || unit == "k" ? 1024
                        : unit == "M" || unit == "m" ? 1024.0 * 1024
                        : unit == "G" || unit == "g" ? 1024.0 * 1024 * 1024
                                                     : 0;
  const double bytes = value * factor;
  if (error != std::errc() || factor == 0 || !kCollectiveBytes.contains(bytes) || bytes != std::floor(bytes) ||
      std::signbit(value)) {
    throw UserError(
        fmt::format("{} '{}' is not a size: expected whole bytes from 0 to {}, such as 8, 4K, 1.5M or 1G (powers of "
                    "1024)",
                    what, shortened(text), size_text(kMostCollectiveBytes)));
  }
  return static_cast<int64_t>(bytes);
}

std::string size_text(int64_t bytes) {
  static constexpr std::pair<int, char> kUnits[] = {{30, 'G'}, {20, 'M'}, {10, 'K'}};
  for (const auto& [shift, unit] : kUnits) {
    const int64_t half = int64_t{1} << (shift - 1);
    if (bytes < 2 * half || bytes % half != 0) continue;
    return fmt::format("{}{}", static_cast<double>(bytes) / static_cast<double>(2 * half), unit);
  }
  return fmt::format("{}", bytes);
}

std::vector<int64_t> task_0a_counts() {
  constexpr int kSizes = 80;
  std::vector<int64_t> counts;
  // As in numpy, exponents go from 0 in equal steps, and the last one is exactly 8.
  const double step = 8.0 / (kSizes - 1);
  for (int i = 0; i < kSizes; ++i) {
    counts.push_back(static_cast<int64_t>(std::pow(10.0, i == kSizes - 1 ? 8.0 : i * step)));
  }
  return counts;
}

CollectivesSpec task_0a() {
  CollectivesSpec spec;
  spec.dtypes = {DType::kFloat32, DType::kFloat16};
  spec.counts = task_0a_counts();
  spec.out_of_place = false;
  spec.iterations = 100;
  return spec;
}

std::vector<std::string> deviations_from_task_0a(const CollectivesSpec& spec) {
  const CollectivesSpec official = task_0a();
  std::vector<std::string> words;
  const auto differ = [&](bool differs, const char* what) {
    if (differs) words.emplace_back(what);
  };
  differ(spec.operations != official.operations, "operations");
  differ(spec.reductions != official.reductions, "reductions");
  differ(std::any_of(spec.dtypes.begin(), spec.dtypes.end(),
                     [&](DType dtype) { return std::ranges::count(official.dtypes, dtype) == 0; }),
         "types");
  differ(spec.counts != official.counts, "sizes");
  differ(!spec.in_place, "not in place");
  differ(spec.iterations != official.iterations, "iterations");
  differ(spec.warm_up == 0, "no warm-up");
  differ(spec.aggregated != 1, "aggregated operations");
  differ(spec.average != official.average, "average over ranks");
  differ(spec.blocking, "blocking");
  differ(spec.check == 0, "no check");
  differ(spec.most_seconds_per_size > 0, "a cap on the time of a size");
  differ(spec.misaligned_elements > 0 || spec.misaligned_bytes > 0, "unaligned buffers");
  return words;
}

Json to_json(const CollectivesSpec& spec) {
  CollectivesText text;
  for (const Collective one : spec.operations) text.operations.emplace_back(traits_of(one).name);
  for (const DType one : spec.dtypes) text.dtypes.emplace_back(mlbench::name_of(one));
  for (const Reduction one : spec.reductions) text.reductions.emplace_back(name_of(one));
  text.average = name_of(spec.average);
  Json json;
  FieldWriter writer(json);
  describe_collectives(writer, spec, text);
  return json;
}

CollectivesSpec collectives_from_json(const Json& json, const std::string& file) {
  if (!json.is_object()) throw UserError(file + ": expected an object, got " + describe_value(json));
  CollectivesSpec spec;
  CollectivesText text;
  FieldReader reader(json, [&](const std::string&, Part) { return file; });
  describe_collectives(reader, spec, text);
  reader.finish();
  try {
    spec.operations.clear();
    spec.dtypes.clear();
    spec.reductions.clear();
    for (const std::string& one : text.operations) spec.operations.push_back(collective_named(one));
    for (const std::string& one : text.dtypes) spec.dtypes.push_back(dtype_named(one));
    for (const std::string& one : text.reductions) spec.reductions.push_back(reduction_named(one));
    spec.average = static_cast<RankAverage>(index_of(kAverageNames, text.average, "average"));
    check_collectives(spec);
  } catch (const UserError& error) {
    throw UserError(file + ": " + error.what());
  }
  return spec;
}

}  // namespace mlbench::spec
