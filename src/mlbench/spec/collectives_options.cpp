#include "mlbench/spec/collectives_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/text.h"
#include "mlbench/spec/fields.h"

namespace mlbench::spec {

namespace {

using Given = CollectivesOptions;
constexpr const char *kMeasured = "What to measure", *kSizeGroup = "Sizes", *kRepetition = "How often",
                     *kBuffers = "Buffers", *kPairGroup = "Pairs of ranks", *kOutcome = "Outcome";

// clang-format off
constexpr CollectivesOption kCollectivesRows[] = {
    {.flags = "OP", .member = &Given::operations, .group = kMeasured,
     .help = "operations, or 'all': all_reduce reduce broadcast all_gather reduce_scatter all_to_all all_to_all_v "
             "gather scatter sendrecv barrier latency bandwidth bidirectional_bandwidth"},
    {.flags = "-o,--op", .member = &Given::reduction, .value = "OP[,OP]", .usual = "sum", .group = kMeasured,
     .help = "reductions: sum, prod, min, max, avg or all"},
    {.flags = "-d,--datatype", .member = &Given::dtype, .value = "TYPE[,TYPE]", .usual = "float", .group = kMeasured,
     .help = "types: float32 float64 float16 bfloat16 int8 uint8 int32 int64 (or float, double, half), or all"},
    {.flags = "-r,--root", .member = &Given::root, .value = "RANK|all", .usual = "0", .group = kMeasured,
     .help = "of operations that have one; all: each rank in turn"},

    {.flags = "-b,--minbytes", .member = &Given::begin, .value = "SIZE", .usual = "8", .group = kSizeGroup,
     .help = "smallest size in bytes: 8, 4K, 32M, 1G (powers of 1024)"},
    {.flags = "-e,--maxbytes", .member = &Given::end, .value = "SIZE", .usual = "32M, or the smallest size if larger",
     .group = kSizeGroup, .help = "largest size"},
    {.flags = "-i,--stepbytes", .member = &Given::step, .value = "SIZE", .group = kSizeGroup,
     .help = "sizes grow by so many bytes"},
    {.flags = "-f,--stepfactor", .member = &Given::factor, .value = "N", .usual = "2", .group = kSizeGroup,
     .help = "sizes grow by this factor; 1: by the step"},
    {.flags = "--counts", .member = &Given::counts, .value = "N[,N]|0a", .group = kSizeGroup,
     .help = "sizes in elements instead; 0a: the 80 sizes of task 0a"},

    {.flags = "-n,--iters", .member = &Given::iterations, .value = "N", .usual = "20", .group = kRepetition,
     .help = "measured iterations of each size"},
    {.flags = "-w,--warmup-iters,--warmup_iters", .member = &Given::warm_up, .value = "N", .usual = "5",
     .group = kRepetition, .help = "iterations before them"},
    {.flags = "-m,--agg-iters,--agg_iters", .member = &Given::aggregated, .value = "N", .usual = "1",
     .group = kRepetition, .help = "operations within an iteration, between two looks at the clock"},
    {.flags = "-N,--run-cycles,--run_cycles", .member = &Given::cycles, .value = "N", .usual = "1",
     .group = kRepetition, .help = "go through all sizes so often"},
    {.flags = "-a,--average", .member = &Given::average, .value = "0|1|2|3", .usual = "3", .group = kRepetition,
     .help = "an iteration's time: 0 that of rank 0, 1 mean, 2 least, 3 most of the ranks'"},
    {.flags = "--max-time-per-size", .member = &Given::most_time, .value = "TIME", .group = kRepetition,
     .help = "stop measuring a size after this time (opens task 0a)"},
    {.flags = "--min-iters", .member = &Given::least_iterations, .value = "N", .usual = "5", .group = kRepetition,
     .help = "but not before so many iterations"},
    {.flags = "-z,--blocking", .member = &Given::blocking, .value = "0|1", .usual = "0", .group = kRepetition,
     .help = "1: a barrier behind every operation, within its time"},
    {.flags = "-T,--timeout", .member = &Given::timeout, .value = "TIME", .group = kRepetition,
     .help = "how long an operation may take (default: that of the run)"},
    {.flags = "--window", .member = &Given::window, .value = "N", .usual = "64", .group = kRepetition,
     .help = "messages under way at once in bandwidth and bidirectional_bandwidth"},

    {.flags = "--form", .member = &Given::form, .value = "both|out_of_place|in_place", .usual = "both",
     .group = kBuffers, .help = "where results are written"},
    {.flags = "--misalign", .member = &Given::misaligned, .value = "N", .usual = "0", .group = kBuffers,
     .help = "buffers begin so many elements behind a multiple of 64 bytes"},
    {.flags = "--misalign-bytes", .member = &Given::misaligned_bytes, .value = "N", .usual = "0", .group = kBuffers,
     .help = "and so many bytes"},
    {.flags = "-R,--local-register,--local_register", .member = &Given::local_register, .value = "0|1", .usual = "0",
     .group = kBuffers, .help = "1: buffers that the back end allocates"},

    {.flags = "--pairs", .member = &Given::pairs, .group = kPairGroup,
     .help = "measure latency and bandwidth of every pair of ranks, and name the slow link or host"},
    {.flags = "--pairs-disjoint", .member = &Given::pairs_disjoint, .group = kPairGroup,
     .help = "several pairs at once (default: one, which nothing disturbs)"},
    {.flags = "--pair-bytes", .member = &Given::pair_bytes, .value = "SIZE", .usual = "64K", .group = kPairGroup,
     .help = "of each message of the window, for bandwidth"},
    {.flags = "--pair-latency-bytes", .member = &Given::pair_latency_bytes, .value = "SIZE", .usual = "8",
     .group = kPairGroup, .help = "of the message, for latency"},
    {.flags = "--pair-iters", .member = &Given::pair_iterations, .value = "N", .usual = "20", .group = kPairGroup,
     .help = "measured iterations of each pair"},
    {.flags = "--pair-time", .member = &Given::pair_time, .value = "TIME", .usual = "1s", .group = kPairGroup,
     .help = "most time for the bandwidth of a pair"},

    {.flags = "-c,--check", .member = &Given::check, .value = "N", .usual = "1", .group = kOutcome,
     .help = "verify the results of so many operations on new data; 0: none"},
    {.flags = "--check-every", .member = &Given::check_every, .value = "N", .group = kOutcome,
     .help = "and those of every Nth measured iteration"},
    {.flags = "--raw-times", .member = &Given::raw_times, .group = kOutcome,
     .help = "keep the time of every iteration on every rank"},
    {.flags = "-J,--output-file,--output_file", .member = &Given::output_file, .value = "FILE", .group = kOutcome,
     .help = "write the result as JSON"},
};
// clang-format on

std::string flag_of(CollectivesOption::Member member) {
  for (const CollectivesOption& row : kCollectivesRows) {
    if (row.member != member) continue;
    const size_t start = row.flags.find("--");
    return std::string(row.flags.substr(start, row.flags.find(',', start) - start));
  }
  MLBENCH_CHECK(false, "every member of CollectivesOptions has a row");
  return {};
}

// Reads what was given of one specification.
class CollectivesReader {
 public:
  explicit CollectivesReader(const CollectivesOptions& options) : options_(options) {}

  void count(std::string Given::*member, int64_t& value, const Range& range) const {
    if (const std::string& text = options_.*member; !text.empty()) value = parse_count(text, flag_of(member), range);
  }
  void size(std::string Given::*member, int64_t& value) const {
    if (const std::string& text = options_.*member; !text.empty()) value = parse_size(text, flag_of(member));
  }
  void seconds(std::string Given::*member, double& value, const Range& range) const {
    if (const std::string& text = options_.*member; !text.empty()) value = parse_duration(text, flag_of(member), range);
  }
  // "0" or "1", as nccl-tests takes it.
  void truth(std::string Given::*member, bool& value) const {
    int64_t number = value ? 1 : 0;
    count(member, number, {0, 1});
    value = number == 1;
  }
  // A list of names, or "all".
  template <typename T>
  void names(std::string Given::*member, std::vector<T>& values, const std::vector<T>& all,
             const std::function<T(const std::string&)>& named) const {
    const std::string& text = options_.*member;
    if (text.empty()) return;
    if (text == "all") {
      values = all;
      return;
    }
    values.clear();
    for (const std::string& one : split_at(text, ',')) {
      try {
        values.push_back(named(one));
      } catch (const UserError& error) {
        throw UserError(flag_of(member) + ": " + error.what() + ", all");
      }
    }
  }

 private:
  const CollectivesOptions& options_;
};

void read_operations(const CollectivesOptions& options, CollectivesSpec& spec) {
  if (options.operations.empty()) {
    if (!options.pairs) throw UserError("no operation is given: give some, such as all_reduce, or --pairs");
    spec.operations.clear();
    return;
  }
  spec.operations.clear();
  for (const std::string& one : options.operations) {
    if (one == "all" && options.operations.size() == 1) {
      for (const CollectiveTraits& traits : collectives()) spec.operations.push_back(traits.operation);
    } else {
      spec.operations.push_back(collective_named(one));
    }
  }
}

void read_sizes(const CollectivesOptions& options, const CollectivesReader& reader, CollectivesSpec& spec) {
  if (!options.counts.empty()) {
    for (const auto member : {&Given::begin, &Given::end, &Given::step, &Given::factor}) {
      if (!(options.*member).empty()) {
        throw UserError(fmt::format("{} gives sizes in elements, {} in bytes: leave one out", flag_of(&Given::counts),
                                    flag_of(member)));
      }
    }
    if (options.counts == "0a") {
      spec.counts = task_0a_counts();
      return;
    }
    for (const std::string& one : split_at(options.counts, ',')) {
      spec.counts.push_back(parse_count(one, flag_of(&Given::counts), {0, static_cast<double>(kMostCollectiveBytes)}));
    }
    return;
  }
  reader.size(&Given::begin, spec.sizes.begin_bytes);
  if (options.end.empty()) spec.sizes.end_bytes = std::max(spec.sizes.end_bytes, spec.sizes.begin_bytes);
  reader.size(&Given::end, spec.sizes.end_bytes);
  if (options.begin.empty()) spec.sizes.begin_bytes = std::min(spec.sizes.begin_bytes, spec.sizes.end_bytes);
  reader.size(&Given::step, spec.sizes.step_bytes);
  if (!options.step.empty()) spec.sizes.factor = 1;
  reader.count(&Given::factor, spec.sizes.factor, {1, 1e6});
  if (!options.step.empty() && spec.sizes.factor > 1) {
    throw UserError(fmt::format("{} and {} are given: sizes grow by a step or by a factor", flag_of(&Given::step),
                                flag_of(&Given::factor)));
  }
}

void read_form(const CollectivesOptions& options, CollectivesSpec& spec) {
  if (options.form.empty() || options.form == "both") return;
  check_choice(flag_of(&Given::form), options.form, {"both", "out_of_place", "in_place"});
  spec.out_of_place = options.form == "out_of_place";
  spec.in_place = options.form == "in_place";
}

}  // namespace

std::span<const CollectivesOption> collectives_options() { return kCollectivesRows; }

CollectivesSpec collectives_spec(const CollectivesOptions& options) {
  constexpr Range kAny{0, 1e15};  // check_collectives has the ranges
  constexpr Range kAnySeconds{0, 86400};
  CollectivesSpec spec;
  const CollectivesReader reader(options);
  read_operations(options, spec);
  reader.names<Reduction>(&Given::reduction, spec.reductions,
                          {Reduction::kSum, Reduction::kProd, Reduction::kMin, Reduction::kMax, Reduction::kAvg},
                          reduction_named);
  reader.names<DType>(&Given::dtype, spec.dtypes, {collective_dtypes().begin(), collective_dtypes().end()},
                      dtype_named);
  if (options.root == "all") {
    spec.root = kEveryRoot;
  } else {
    reader.count(&Given::root, spec.root, kAny);
  }
  read_sizes(options, reader, spec);
  reader.count(&Given::iterations, spec.iterations, kAny);
  reader.count(&Given::warm_up, spec.warm_up, kAny);
  reader.count(&Given::aggregated, spec.aggregated, kAny);
  if (options.cycles == "0") throw UserError("--run-cycles 0 would never end: give a number of cycles from 1 to 1000");
  reader.count(&Given::cycles, spec.cycles, kAny);
  int64_t average = static_cast<int64_t>(spec.average);
  reader.count(&Given::average, average, {0, 3});
  spec.average = static_cast<RankAverage>(average);
  reader.seconds(&Given::most_time, spec.most_seconds_per_size, kAnySeconds);
  reader.count(&Given::least_iterations, spec.least_iterations, kAny);
  reader.truth(&Given::blocking, spec.blocking);
  reader.seconds(&Given::timeout, spec.timeout_s, kAnySeconds);
  reader.count(&Given::window, spec.window, kAny);
  read_form(options, spec);
  reader.count(&Given::misaligned, spec.misaligned_elements, kAny);
  reader.count(&Given::misaligned_bytes, spec.misaligned_bytes, kAny);
  reader.truth(&Given::local_register, spec.communicator_memory);
  spec.pairs.measure = options.pairs;
  spec.pairs.disjoint = options.pairs_disjoint;
  if (options.pairs_disjoint && !options.pairs) throw UserError("--pairs-disjoint is an option of --pairs: give both");
  reader.size(&Given::pair_bytes, spec.pairs.bandwidth_bytes);
  reader.size(&Given::pair_latency_bytes, spec.pairs.latency_bytes);
  reader.count(&Given::pair_iterations, spec.pairs.iterations, kAny);
  reader.seconds(&Given::pair_time, spec.pairs.most_seconds, kAnySeconds);
  reader.count(&Given::check, spec.check, kAny);
  reader.count(&Given::check_every, spec.check_every, kAny);
  spec.raw_times = options.raw_times;
  check_collectives(spec);
  return spec;
}

}  // namespace mlbench::spec
