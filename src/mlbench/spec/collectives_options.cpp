#include "mlbench/spec/collectives_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/text.h"
#include "mlbench/spec/fields.h"

namespace mlbench::spec {

namespace {

using Spec = CollectivesSpec;
constexpr Range kAny{0, 1e15};  // check_collectives() checks the true ranges
constexpr Range kAnySeconds{0, 86400};

// These read the values of rows into the member at `Path`: a member, or a member of a member.
template <auto... Path>
void read_count(const GivenValue& given, Spec& spec) {
  (spec.*....*Path) = parse_count(given.text, given.flag, kAny);
}
template <auto... Path>
void read_size(const GivenValue& given, Spec& spec) {
  (spec.*....*Path) = parse_size(given.text, given.flag);
}
template <auto... Path>
void read_seconds(const GivenValue& given, Spec& spec) {
  (spec.*....*Path) = parse_duration(given.text, given.flag, kAnySeconds);
}
// Reads "0" or "1", as nccl-tests does.
template <auto... Path>
void read_truth(const GivenValue& given, Spec& spec) {
  (spec.*....*Path) = parse_count(given.text, given.flag, {0, 1}) == 1;
}
template <auto... Path>
void set_true(const GivenValue&, Spec& spec) {
  (spec.*....*Path) = true;
}

std::vector<Reduction> all_reductions() {
  return {Reduction::kSum, Reduction::kProd, Reduction::kMin, Reduction::kMax, Reduction::kAvg};
}

// Reads a list of names, or "all".
template <auto Member, auto kAll, auto kNamed>
void read_names(const GivenValue& given, Spec& spec) {
  auto& values = spec.*Member;
  values.clear();
  if (given.text == "all") {
    for (const auto value : kAll()) values.push_back(value);
    return;
  }
  for (const std::string& one : split_at(given.text, ',')) {
    try {
      values.push_back(kNamed(one));
    } catch (const UserError& error) {
      throw UserError(given.flag + ": " + error.what() + ", all");
    }
  }
}

void read_root(const GivenValue& given, Spec& spec) {
  spec.root = given.text == "all" ? kEveryRoot : parse_count(given.text, given.flag, kAny);
}

void read_step(const GivenValue& given, Spec& spec) {
  read_size<&Spec::sizes, &SizeRange::step_bytes>(given, spec);
  spec.sizes.factor = 1;
}

void read_counts(const GivenValue& given, Spec& spec) {
  if (given.text == "0a") {
    spec.counts = task_0a_counts();
    return;
  }
  for (const std::string& one : split_at(given.text, ',')) {
    spec.counts.push_back(parse_count(one, given.flag, {0, static_cast<double>(kMostCollectiveBytes)}));
  }
}

void read_cycles(const GivenValue& given, Spec& spec) {
  if (given.text == "0") throw UserError("--run-cycles 0 would never end: give a number of cycles from 1 to 1000");
  spec.cycles = parse_count(given.text, given.flag, kAny);
}

void read_average(const GivenValue& given, Spec& spec) {
  spec.average = static_cast<RankAverage>(parse_count(given.text, given.flag, {0, 3}));
}

void read_form(const GivenValue& given, Spec& spec) {
  check_choice(given.flag, given.text, {"both", "out_of_place", "in_place"});
  if (given.text == "both") return;
  spec.out_of_place = given.text == "out_of_place";
  spec.in_place = given.text == "in_place";
}

constexpr const char *kMeasured = "What to measure", *kSizeGroup = "Sizes", *kRepetition = "How often",
                     *kBuffers = "Buffers", *kPairGroup = "Pairs of ranks", *kOutcome = "Outcome";

// clang-format off
constexpr CollectivesOption kCollectivesRows[] = {
    {.flags = "OP", .group = kMeasured,
     .help = "operations, or 'all': all_reduce reduce broadcast all_gather reduce_scatter all_to_all all_to_all_v "
             "gather scatter sendrecv barrier latency bandwidth bidirectional_bandwidth"},
    {.flags = "-o,--op", .read = read_names<&Spec::reductions, all_reductions, reduction_named>, .value = "OP[,OP]",
     .usual = "sum", .group = kMeasured, .help = "reductions: sum, prod, min, max, avg or all"},
    {.flags = "-d,--datatype", .read = read_names<&Spec::dtypes, collective_dtypes, dtype_named>,
     .value = "TYPE[,TYPE]", .usual = "float", .group = kMeasured,
     .help = "types: float32 float64 float16 bfloat16 int8 uint8 int32 int64 (or float, double, half), or all"},
    {.flags = "-r,--root", .read = read_root, .value = "RANK|all", .usual = "0", .group = kMeasured,
     .help = "of operations that have one; all: each rank in turn"},

    {.flags = "-b,--minbytes", .read = read_size<&Spec::sizes, &SizeRange::begin_bytes>, .value = "SIZE", .usual = "8",
     .group = kSizeGroup, .help = "smallest size in bytes: 8, 4K, 32M, 1G (powers of 1024)"},
    {.flags = "-e,--maxbytes", .read = read_size<&Spec::sizes, &SizeRange::end_bytes>, .value = "SIZE",
     .usual = "32M, or the smallest size if larger", .group = kSizeGroup, .help = "largest size"},
    {.flags = "-i,--stepbytes", .read = read_step, .value = "SIZE", .group = kSizeGroup,
     .help = "sizes grow by so many bytes"},
    {.flags = "-f,--stepfactor", .read = read_count<&Spec::sizes, &SizeRange::factor>, .value = "N", .usual = "2",
     .group = kSizeGroup, .help = "sizes grow by this factor; 1: by the step"},
    {.flags = "--counts", .read = read_counts, .value = "N[,N]|0a", .group = kSizeGroup,
     .help = "sizes in elements instead; 0a: the 80 sizes of task 0a"},

    {.flags = "-n,--iters", .read = read_count<&Spec::iterations>, .value = "N", .usual = "20", .group = kRepetition,
     .help = "measured iterations of each size"},
    {.flags = "-w,--warmup-iters,--warmup_iters", .read = read_count<&Spec::warm_up>, .value = "N", .usual = "5",
     .group = kRepetition, .help = "iterations before them"},
    {.flags = "-m,--agg-iters,--agg_iters", .read = read_count<&Spec::aggregated>, .value = "N", .usual = "1",
     .group = kRepetition, .help = "operations within an iteration, between two looks at the clock"},
    {.flags = "-N,--run-cycles,--run_cycles", .read = read_cycles, .value = "N", .usual = "1",
     .group = kRepetition, .help = "go through all sizes so often"},
    {.flags = "-a,--average", .read = read_average, .value = "0|1|2|3", .usual = "3", .group = kRepetition,
     .help = "an iteration's time: 0 that of rank 0, 1 mean, 2 least, 3 most of the ranks'"},
    {.flags = "--max-time-per-size", .read = read_seconds<&Spec::most_seconds_per_size>, .value = "TIME",
     .group = kRepetition, .help = "stop measuring a size after this time (opens task 0a)"},
    {.flags = "--min-iters", .read = read_count<&Spec::least_iterations>, .value = "N", .usual = "5",
     .group = kRepetition, .help = "but not before so many iterations"},
    {.flags = "-z,--blocking", .read = read_truth<&Spec::blocking>, .value = "0|1", .usual = "0", .group = kRepetition,
     .help = "1: a barrier behind every operation, within its time"},
    {.flags = "-T,--timeout", .read = read_seconds<&Spec::timeout_s>, .value = "TIME", .group = kRepetition,
     .help = "how long an operation may take (default: that of the run)"},
    {.flags = "--window", .read = read_count<&Spec::window>, .value = "N", .usual = "64", .group = kRepetition,
     .help = "messages under way at once in bandwidth and bidirectional_bandwidth"},

    {.flags = "--form", .read = read_form, .value = "both|out_of_place|in_place", .usual = "both",
     .group = kBuffers, .help = "where results are written"},
    {.flags = "--misalign", .read = read_count<&Spec::misaligned_elements>, .value = "N", .usual = "0",
     .group = kBuffers, .help = "buffers begin so many elements behind a multiple of 64 bytes"},
    {.flags = "--misalign-bytes", .read = read_count<&Spec::misaligned_bytes>, .value = "N", .usual = "0",
     .group = kBuffers, .help = "and so many bytes"},
    {.flags = "-R,--local-register,--local_register", .read = read_truth<&Spec::communicator_memory>, .value = "0|1",
     .usual = "0", .group = kBuffers, .help = "1: buffers that the back end allocates"},

    {.flags = "--pairs", .read = set_true<&Spec::pairs, &PairSpec::measure>, .group = kPairGroup,
     .help = "measure latency and bandwidth of every pair of ranks, and name the slow link or host"},
    {.flags = "--pairs-disjoint", .read = set_true<&Spec::pairs, &PairSpec::disjoint>, .group = kPairGroup,
     .help = "several pairs at once (default: one, which nothing disturbs)"},
    {.flags = "--pair-bytes", .read = read_size<&Spec::pairs, &PairSpec::bandwidth_bytes>, .value = "SIZE",
     .usual = "64K", .group = kPairGroup, .help = "of each message of the window, for bandwidth"},
    {.flags = "--pair-latency-bytes", .read = read_size<&Spec::pairs, &PairSpec::latency_bytes>, .value = "SIZE",
     .usual = "8", .group = kPairGroup, .help = "of the message, for latency"},
    {.flags = "--pair-iters", .read = read_count<&Spec::pairs, &PairSpec::iterations>, .value = "N", .usual = "20",
     .group = kPairGroup, .help = "measured iterations of each pair"},
    {.flags = "--pair-time", .read = read_seconds<&Spec::pairs, &PairSpec::most_seconds>, .value = "TIME",
     .usual = "1s", .group = kPairGroup, .help = "most time for the bandwidth of a pair"},

    {.flags = "-c,--check", .read = read_count<&Spec::check>, .value = "N", .usual = "1", .group = kOutcome,
     .help = "verify the results of so many operations on new data; 0: none"},
    {.flags = "--check-every", .read = read_count<&Spec::check_every>, .value = "N", .group = kOutcome,
     .help = "and those of every Nth measured iteration"},
    {.flags = "--raw-times", .read = set_true<&Spec::raw_times>, .group = kOutcome,
     .help = "keep the time of every iteration on every rank"},
    {.flags = "-J,--output-file,--output_file", .value = "FILE", .group = kOutcome,
     .help = "write the result as JSON"},
};
// clang-format on

bool is_given(const CollectivesOptions& options, std::string_view name) {
  const auto found = options.given.find(name);
  return found != options.given.end() && !found->second.empty();
}

void read_operations(const CollectivesOptions& options, CollectivesSpec& spec) {
  if (options.operations.empty()) {
    if (!is_given(options, "pairs"))
      throw UserError("no operation is given: give some, such as all_reduce, or --pairs");
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

}  // namespace

std::span<const CollectivesOption> collectives_options() { return kCollectivesRows; }

std::string CollectivesOption::name() const {
  const size_t start = flags.find("--");
  return start == std::string_view::npos ? ""
                                         : std::string(flags.substr(start + 2, flags.find(',', start) - start - 2));
}

CollectivesSpec collectives_spec(const CollectivesOptions& options) {
  const auto given = [&](std::string_view name) { return is_given(options, name); };
  CollectivesSpec spec;
  read_operations(options, spec);
  for (const char* name : {"minbytes", "maxbytes", "stepbytes", "stepfactor"}) {
    if (!given("counts") || !given(name)) continue;
    throw UserError(fmt::format("--counts gives sizes in elements, --{} in bytes: leave one out", name));
  }
  for (const CollectivesOption& row : kCollectivesRows) {
    const std::string name = row.name();
    if (row.read != nullptr && given(name)) row.read({options.given.at(name), "--" + name}, spec);
  }
  SizeRange& sizes = spec.sizes;
  if (!given("maxbytes")) sizes.end_bytes = std::max(sizes.end_bytes, sizes.begin_bytes);
  if (!given("minbytes")) sizes.begin_bytes = std::min(sizes.begin_bytes, sizes.end_bytes);
  if (given("stepbytes") && sizes.factor > 1) {
    throw UserError("--stepbytes and --stepfactor are given: sizes grow by a step or by a factor");
  }
  if (spec.pairs.disjoint && !spec.pairs.measure) {
    throw UserError("--pairs-disjoint is an option of --pairs: give both");
  }
  check_collectives(spec);
  return spec;
}

}  // namespace mlbench::spec
