#include "mlbench/report/timeline/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <variant>

#include "mlbench/base/errors.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/report/records.h"

namespace mlbench::report {

namespace fs = std::filesystem;

namespace {

using record::Span;
using record::SpanKind;

struct ActivityRow {
  std::string_view name, group;
};

constexpr std::array<ActivityRow, kActivities> kActivityRows = {{{"batch_load", "input"},
                                                                 {"init", "compute"},
                                                                 {"fwd_pass", "compute"},
                                                                 {"comp_loss", "compute"},
                                                                 {"backprop", "compute"},
                                                                 {"agg", "exchange"},
                                                                 {"opt_step", "compute"},
                                                                 {"comp_metrics", "compute"},
                                                                 {"checkpoint", "checkpoint"},
                                                                 {"evaluation", "evaluation"},
                                                                 {"prepare", "prepare"},
                                                                 {"program", "compute"},
                                                                 {"unattributed", "unattributed"}}};

struct ActivitySpan {
  int64_t begin_ns = 0, end_ns = 0;
  Activity activity = kUnattributedActivity;
};

Activity activity_of(const Span& span) {
  if (span.kind == SpanKind::kEvaluation) return kEvaluationActivity;
  if (span.kind == SpanKind::kCheckpoint) return kCheckpointActivity;
  if (span.kind == SpanKind::kPrepare) return kPrepareActivity;
  const auto known = std::ranges::find(record::kStepKindNames, span.name);
  return known == record::kStepKindNames.end() ? kUnattributedActivity
                                               : static_cast<Activity>(known - record::kStepKindNames.begin());
}

// Turns spans, which may lie within each other, into stretches without gaps from `first_ns` to `last_ns`: the innermost
// span counts, and `between` where there is none.
std::vector<Stretch> flatten(std::vector<ActivitySpan> spans, int64_t first_ns, int64_t last_ns, Activity between) {
  std::ranges::sort(spans, [](const ActivitySpan& a, const ActivitySpan& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
  std::vector<Stretch> flat;
  std::vector<ActivitySpan> open = {{first_ns, last_ns, between}};
  int64_t at = first_ns;
  const auto go_to = [&](int64_t ns) {
    if (ns > at) flat.push_back({at, ns, open.back().activity});
    at = std::max(at, ns);
  };
  for (ActivitySpan& span : spans) {
    while (open.size() > 1 && open.back().end_ns <= span.begin_ns) {
      go_to(open.back().end_ns);
      open.pop_back();
    }
    go_to(span.begin_ns);
    open.push_back({span.begin_ns, std::min(span.end_ns, open.back().end_ns), span.activity});
  }
  for (; !open.empty(); open.pop_back()) go_to(open.back().end_ns);
  return flat;
}

// Whether the training thread has nothing else to do in this activity while communication goes on.
bool waits_in(Activity activity) {
  return activity == kAggregateActivity || activity == kProgramActivity || activity == kUnattributedActivity;
}

// Gives the operations their part of the stretches. An operation on the training thread that lies within one stretch is
// a call that blocks the thread. Any other operation costs the thread only the time in which it has nothing else to do.
void expose_operations(RankPart& part) {
  const std::vector<Stretch> flat = std::move(part.stretches);
  part.stretches.clear();
  size_t next = 0;
  int64_t at = part.first_ns;
  const auto go_on = [&](int64_t until, int64_t operation, bool blocks) {
    while (next < flat.size() && at < until) {
      const int64_t end = std::min(until, flat[next].end_ns);
      const bool exposed = operation >= 0 && (blocks || waits_in(flat[next].activity));
      if (end > at) part.stretches.push_back({at, end, flat[next].activity, exposed ? operation : -1});
      if (operation >= 0 && !exposed && at >= part.begin_ns) part.hidden_ns += end - at;
      at = end;
      if (at >= flat[next].end_ns) ++next;
    }
  };
  for (size_t i = 0; i < part.operations.size(); ++i) {
    TimelineOperation& operation = part.operations[i];
    go_on(operation.begin_ns, -1, false);
    const bool within =
        next < flat.size() && operation.begin_ns >= flat[next].begin_ns && operation.end_ns <= flat[next].end_ns;
    const bool blocks = within && operation.thread == record::SpanThread::kTraining;
    operation.nests = blocks;
    go_on(operation.end_ns, static_cast<int64_t>(i), blocks);
  }
  go_on(part.last_ns, -1, false);
}

// Turns names into numbers, which are the same for all ranks.
class Names {
 public:
  explicit Names(std::vector<std::string>& names) : names_(names) {}
  uint32_t operator()(const std::string& name) {
    const auto [found, is_new] = numbers_.try_emplace(name, static_cast<uint32_t>(names_.size()));
    if (is_new) names_.push_back(name);
    return found->second;
  }

 private:
  std::vector<std::string>& names_;
  std::map<std::string, uint32_t> numbers_;
};

// Spans on the rank's own clock, until the clocks of all ranks are known and finish_part() can convert them.
struct RawPart {
  std::vector<ActivitySpan> activities;
  int64_t first_step_ns = INT64_MAX, first_ns = INT64_MAX, last_ns = INT64_MIN;
};

RankPart read_part(const fs::path& run_dir, int64_t segment, int64_t rank, Names& names, RawPart& raw) {
  record::TimelineReader reader(run_dir, segment, rank);
  std::vector<record::ClockSample> samples;
  std::vector<TimelineOperation> operations;
  while (const auto entry = reader.next()) {
    if (const auto* sample = std::get_if<record::ClockSample>(&*entry)) {
      samples.push_back(*sample);
      continue;
    }
    const Span& span = std::get<Span>(*entry);
    raw.first_ns = std::min(raw.first_ns, span.begin_ns);
    raw.last_ns = std::max(raw.last_ns, span.end_ns);
    if (span.kind == SpanKind::kLayer) continue;
    if (span.kind == SpanKind::kOperation) {
      operations.push_back({.name = names(span.name),
                            .thread = span.thread,
                            .begin_ns = span.begin_ns,
                            .end_ns = span.end_ns,
                            .step = span.step,
                            .sequence = span.sequence,
                            .root_peer = span.root_peer,
                            .bytes = span.bytes});
      continue;
    }
    if (span.kind == SpanKind::kPhase) raw.first_step_ns = std::min(raw.first_step_ns, span.begin_ns);
    raw.activities.push_back({span.begin_ns, span.end_ns, activity_of(span)});
  }
  RankPart part{.segment = segment, .rank = rank, .header = reader.header(), .clock = ClockAlignment(samples)};
  part.left_out = reader.left_out();
  part.operations = std::move(operations);
  part.has_steps = raw.first_step_ns != INT64_MAX;
  return part;
}

void finish_part(RankPart& part, RawPart& raw) {
  for (TimelineOperation& operation : part.operations) {
    const AlignedMoment begin = part.at(operation.begin_ns);
    operation.begin_ns = begin.ns;
    operation.bound_ns = begin.bound_ns;
    operation.end_ns = part.at(operation.end_ns).ns;
    operation.ready_ns = operation.start_until_ns = operation.begin_ns;
  }
  std::ranges::stable_sort(part.operations, {}, &TimelineOperation::begin_ns);
  for (ActivitySpan& span : raw.activities) {
    span.begin_ns = part.at(span.begin_ns).ns;
    span.end_ns = part.at(span.end_ns).ns;
  }
  part.first_ns = part.at(raw.first_ns).ns;
  part.end_ns = part.last_ns = part.at(raw.last_ns).ns;
  part.begin_ns = part.has_steps            ? part.at(raw.first_step_ns).ns
                  : part.operations.empty() ? part.first_ns
                                            : part.operations.front().begin_ns;
  part.stretches = flatten(std::move(raw.activities), part.first_ns, part.last_ns,
                           part.has_steps ? kUnattributedActivity : kProgramActivity);
  expose_operations(part);
}

void read_segment(TimelineRun& run, int64_t segment, Names& names) {
  std::vector<RankPart> parts;
  std::vector<RawPart> raws(static_cast<size_t>(run.workers));
  std::optional<int64_t> zero;
  for (int64_t rank = 0; rank < run.workers; ++rank) {
    RawPart& raw = raws[static_cast<size_t>(rank)];
    const RankPart& part = parts.emplace_back(read_part(run.run_dir, segment, rank, names, raw));
    if (raw.first_ns == INT64_MAX || !part.clock.known()) continue;
    const int64_t first = part.clock.at(raw.first_ns).ns;
    zero = std::min(zero.value_or(first), first);
  }
  for (RankPart& part : parts) {
    RawPart& raw = raws[static_cast<size_t>(part.rank)];
    if (raw.first_ns == INT64_MAX) continue;
    if (!part.clock.known()) part.shift_ns = zero.value_or(0) - raw.first_ns;
    finish_part(part, raw);
  }
  run.zero_ns.push_back(zero.value_or(0));
  run.parts.push_back(std::move(parts));
}

// Places the segments on the trace's axis: as far behind the first as the wall clock says, but not before the end of
// the segment before. Throws UserError where times are too long to be true.
void place_segments(TimelineRun& run) {
  // With this limit, sums over all ranks do not overflow.
  const int64_t most_ns = INT64_MAX / 2 / run.workers;
  std::optional<int64_t> first_wall_us;
  int64_t end_ns = 0;
  for (size_t segment = 0; segment < run.parts.size(); ++segment) {
    int64_t origin_ns = end_ns, length_ns = 0;
    bool placed = false;
    for (const RankPart& part : run.parts[segment]) {
      if (part.stretches.empty()) continue;
      length_ns = std::max(length_ns, part.last_ns - run.zero_ns[segment]);
      if (placed) continue;
      placed = true;
      if (!first_wall_us) first_wall_us = part.header.start_wall_us;
      const int64_t behind_us = part.header.start_wall_us - *first_wall_us;
      if (behind_us < record::kMostInteger / 1000) origin_ns = std::max(origin_ns, behind_us * 1000);
    }
    if (length_ns > most_ns || origin_ns > most_ns - length_ns) {
      throw UserError(fmt::format("{}: damaged: {} ranks with {} s", timeline_dir(run.run_dir).string(), run.workers,
                                  (origin_ns + length_ns) / 1'000'000'000));
    }
    run.origin_ns.push_back(origin_ns);
    end_ns = origin_ns + length_ns;
  }
}

}  // namespace

std::string_view activity_name(Activity activity) { return kActivityRows[activity].name; }
std::string_view activity_group(Activity activity) { return kActivityRows[activity].group; }

std::string_view verdict_name(TimelineVerdict verdict) {
  constexpr std::array<std::string_view, 4> kNames = {"transfer", "skew", "mixed", "inconclusive"};
  return kNames[static_cast<size_t>(verdict)];
}

AlignedMoment RankPart::at(int64_t rank_ns) const {
  return clock.known() ? clock.at(rank_ns) : AlignedMoment{rank_ns + shift_ns, record::kMostInteger};
}

bool TimelineRun::any() const {
  return std::ranges::any_of(parts, [](const std::vector<RankPart>& ranks) {
    return std::ranges::any_of(ranks, [](const RankPart& part) { return !part.stretches.empty(); });
  });
}

bool has_timeline(const fs::path& run_dir) {
  std::error_code error;
  return fs::is_directory(timeline_dir(run_dir), error);
}

TimelineRun read_timeline_run(const fs::path& run_dir, const record::Record& record) {
  const std::string name = run_dir.filename().string();
  TimelineRun run{.run_dir = run_dir, .record = record};
  run.workers = std::max<int64_t>(1, record.workers.value_or(1));
  run.segments = record::segment_count(record);
  if (has_timeline(run_dir)) {
    Names names(run.names);
    for (int64_t segment = 1; segment <= run.segments; ++segment) read_segment(run, segment, names);
    place_segments(run);
  }
  if (run.any()) return run;
  if (record::is_active(record) && has_timeline(run_dir)) {
    throw UserError(fmt::format("the timeline of run '{}' has nothing yet: the run is {}", name, record.state));
  }
  throw UserError(fmt::format("run '{}' has no timeline: record one with 'mlbench run NAME K --timeline FILE'", name));
}

}  // namespace mlbench::report
