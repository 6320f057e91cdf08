#include "mlbench/report/timeline/matching.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "mlbench/base/clock.h"

namespace mlbench::report {

namespace {

struct RuleRow {
  std::string_view operation;
  WaitRule rule;
};

constexpr std::array<RuleRow, 8> kRuleRows = {{{"broadcast", WaitRule::kForRoot},
                                               {"scatter", WaitRule::kForRoot},
                                               {"reduce", WaitRule::kRoot},
                                               {"gather", WaitRule::kRoot},
                                               {"send", WaitRule::kMessage},
                                               {"recv", WaitRule::kMessage},
                                               {"allocate", WaitRule::kNobody},
                                               {"split", WaitRule::kAll}}};

// The collectives of one rank as {number, index in part.operations}. The number is the same on all ranks: it counts the
// sequence without messages, of which ranks have different numbers.
std::vector<std::pair<int64_t, int64_t>> collectives_of(const TimelineRun& run, const RankPart& part) {
  std::vector<int64_t> order(part.operations.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  const auto operation = [&](int64_t i) -> const TimelineOperation& { return part.operations[static_cast<size_t>(i)]; };
  std::ranges::stable_sort(order, {}, [&](int64_t i) { return operation(i).sequence; });
  std::vector<std::pair<int64_t, int64_t>> found;
  int64_t messages = 0;
  for (const int64_t i : order) {
    const bool message = wait_rule(run.names[operation(i).name]) == WaitRule::kMessage;
    if (message) {
      ++messages;
    } else {
      found.emplace_back(operation(i).sequence - messages, i);
    }
  }
  return found;
}

class Matching {
 public:
  Matching(TimelineRun& run, size_t segment) : run_(run), parts_(run.parts[segment]) {}

  MatchedSegment match() {
    match_collectives();
    match_messages();
    int64_t all = 0, matched = 0;
    for (const RankPart& part : parts_) {
      all += std::ssize(part.operations);
      matched += std::ranges::count(part.operations, true, &TimelineOperation::matched);
    }
    found_.unmatched = all - matched;
    return std::move(found_);
  }

 private:
  TimelineOperation& operation(size_t rank, int64_t index) {
    return parts_[rank].operations[static_cast<size_t>(index)];
  }
  std::string_view name_of(size_t rank, int64_t index) { return run_.names[operation(rank, index).name]; }

  void note(std::string text) {
    if (found_.notes.size() < 5) found_.notes.push_back(std::move(text));
  }

  void match_collectives() {
    std::vector<std::vector<std::pair<int64_t, int64_t>>> lists;
    for (const RankPart& part : parts_) lists.push_back(collectives_of(run_, part));
    std::vector<size_t> next(lists.size());
    for (;;) {
      int64_t latest = INT64_MIN;
      for (size_t rank = 0; rank < lists.size(); ++rank) {
        if (next[rank] == lists[rank].size()) return;
        latest = std::max(latest, lists[rank][next[rank]].first);
      }
      bool same = true;
      for (size_t rank = 0; rank < lists.size(); ++rank) {
        while (next[rank] < lists[rank].size() && lists[rank][next[rank]].first < latest) ++next[rank];
        same = same && next[rank] < lists[rank].size() && lists[rank][next[rank]].first == latest;
      }
      if (!same) continue;
      OperationGroup group;
      for (size_t rank = 0; rank < lists.size(); ++rank) group.of_rank.push_back(lists[rank][next[rank]++].second);
      if (!agree(group)) continue;
      if (name_of(0, group.of_rank[0]) == "split" && lists.size() > 1) {
        note("the communicator is split: which ranks belong together from there on is not known");
        return;
      }
      judge(std::move(group));
    }
  }

  // Whether name and root are the same on all ranks.
  bool agree(const OperationGroup& group) {
    const TimelineOperation& first = operation(0, group.of_rank[0]);
    for (size_t rank = 1; rank < group.of_rank.size(); ++rank) {
      const TimelineOperation& other = operation(rank, group.of_rank[rank]);
      if (other.name == first.name && other.root_peer == first.root_peer) continue;
      note(fmt::format("segment {}: operation {} is {} on rank 0, {} on rank {}", parts_[rank].segment, first.sequence,
                       described(first), described(other), rank));
      return false;
    }
    return true;
  }
  std::string described(const TimelineOperation& operation) const {
    return operation.root_peer < 0 ? run_.names[operation.name]
                                   : fmt::format("{} of root {}", run_.names[operation.name], operation.root_peer);
  }

  // Messages between two ranks arrive in the order in which they are sent.
  void match_messages() {
    std::map<std::pair<int64_t, int64_t>, std::array<std::vector<int64_t>, 2>>
        ways;  // by {sender, receiver}: operations that send, operations that receive
    for (const RankPart& part : parts_) {
      for (size_t i = 0; i < part.operations.size(); ++i) {
        const TimelineOperation& one = part.operations[i];
        if (wait_rule(run_.names[one.name]) != WaitRule::kMessage || one.root_peer < 0) continue;
        const bool sends = run_.names[one.name] == "send";
        const auto way = sends ? std::pair(part.rank, one.root_peer) : std::pair(one.root_peer, part.rank);
        ways[way][sends ? 0 : 1].push_back(static_cast<int64_t>(i));
      }
    }
    for (const auto& [way, messages] : ways) {
      const auto& [sender, receiver] = way;
      if (std::max(sender, receiver) >= std::ssize(parts_) || sender == receiver) continue;
      for (size_t i = 0; i < std::min(messages[0].size(), messages[1].size()); ++i) {
        OperationGroup group{.of_rank = std::vector<int64_t>(parts_.size(), -1), .rule = WaitRule::kMessage};
        group.of_rank[static_cast<size_t>(sender)] = messages[0][i];
        group.of_rank[static_cast<size_t>(receiver)] = messages[1][i];
        judge(std::move(group));
      }
    }
  }

  // The rank for which `rank` waits if that came later; -1: none. `last` is the last rank that entered.
  int64_t awaited(const OperationGroup& group, size_t rank, int64_t last) {
    const TimelineOperation& own = operation(rank, group.of_rank[rank]);
    switch (group.rule) {
      case WaitRule::kAll:
        return last;
      case WaitRule::kForRoot:
        return own.root_peer >= 0 && own.root_peer < std::ssize(parts_) ? own.root_peer : -1;
      case WaitRule::kRoot:
        return own.root_peer == static_cast<int64_t>(rank) ? last : -1;
      case WaitRule::kMessage:
        return run_.names[own.name] == "recv" ? own.root_peer : -1;
      case WaitRule::kNobody:
        break;
    }
    return -1;
  }

  void judge(OperationGroup group) {
    size_t first = 0;
    while (group.of_rank[first] < 0) ++first;
    if (group.rule != WaitRule::kMessage) group.rule = wait_rule(name_of(first, group.of_rank[first]));
    int64_t last = -1, last_entry = INT64_MIN, first_exit = INT64_MAX, last_exit = INT64_MIN;
    for (size_t rank = 0; rank < group.of_rank.size(); ++rank) {
      if (group.of_rank[rank] < 0) continue;
      const TimelineOperation& one = operation(rank, group.of_rank[rank]);
      if (one.begin_ns > last_entry) {
        last = static_cast<int64_t>(rank);
        last_entry = one.begin_ns;
      }
      first_exit = std::min(first_exit, one.end_ns);
      last_exit = std::max(last_exit, one.end_ns);
    }
    bool possible = true;
    int64_t clocks_ns = 0;
    for (size_t rank = 0; rank < group.of_rank.size(); ++rank) {
      if (group.of_rank[rank] >= 0) wait(group, rank, awaited(group, rank, last), clocks_ns, possible);
    }
    group.uncertainty_ns = clocks_ns;
    if (group.rule == WaitRule::kAll) group.uncertainty_ns = std::max(clocks_ns, last_exit - first_exit);
    group.verdict = possible ? verdict_of(to_seconds(group.wait_ns), to_seconds(group.transfer_ns),
                                          to_seconds(group.uncertainty_ns))
                             : TimelineVerdict::kInconclusive;
    bool in_all = true;
    for (size_t rank = 0; rank < group.of_rank.size(); ++rank) {
      if (group.of_rank[rank] < 0) continue;
      TimelineOperation& one = operation(rank, group.of_rank[rank]);
      one.verdict = group.verdict;
      in_all = in_all && one.begin_ns >= parts_[rank].begin_ns;
    }
    started_ = started_ || (in_all && group.rule == WaitRule::kAll);
    found_.groups.push_back(std::move(group));
  }

  // Finds the wait of `rank` for the rank `other` and adds it to the group's.
  void wait(OperationGroup& group, size_t rank, int64_t other, int64_t& clocks_ns, bool& possible) {
    TimelineOperation& own = operation(rank, group.of_rank[rank]);
    own.matched = true;
    own.ready_ns = own.start_until_ns = own.begin_ns;
    const bool alone =
        other < 0 || other == static_cast<int64_t>(rank) || group.of_rank[static_cast<size_t>(other)] < 0;
    if (!alone) {
      const TimelineOperation& late = operation(static_cast<size_t>(other), group.of_rank[static_cast<size_t>(other)]);
      const int64_t bound_ns =
          std::min(own.bound_ns, record::kMostInteger) + std::min(late.bound_ns, record::kMostInteger);
      possible = possible && late.begin_ns <= own.end_ns + bound_ns;
      const bool waits = late.begin_ns > own.begin_ns;
      if (waits) {
        own.late_rank = other;
        own.ready_ns = std::min(late.begin_ns, own.end_ns);
        own.start_until_ns = std::min(own.ready_ns, own.begin_ns + later_start(rank, static_cast<size_t>(other)));
      }
      const int64_t wait_ns = own.ready_ns - own.start_until_ns;
      if (wait_ns > group.wait_ns) {
        group.wait_ns = wait_ns;
        group.late_rank = other;
        clocks_ns = bound_ns;
      } else if (group.late_rank < 0) {  // no rank has waited so far: within the bounds, each might have
        clocks_ns = std::max(clocks_ns, bound_ns);
      }
    }
    group.transfer_ns = std::max(group.transfer_ns, own.end_ns - own.ready_ns);
  }

  // How much later the rank `other` began what is accounted for; 0 once an operation has brought all ranks together.
  int64_t later_start(size_t rank, size_t other) const {
    return started_ ? 0 : std::max<int64_t>(0, parts_[other].begin_ns - parts_[rank].begin_ns);
  }

  TimelineRun& run_;
  std::vector<RankPart>& parts_;
  MatchedSegment found_;
  bool started_ = false;  // all ranks have met in an operation since their beginnings
};

}  // namespace

WaitRule wait_rule(std::string_view operation) {
  const auto row = std::ranges::find(kRuleRows, operation, &RuleRow::operation);
  return row == kRuleRows.end() ? WaitRule::kAll : row->rule;
}

TimelineVerdict verdict_of(double wait_s, double transfer_s, double uncertainty_s) {
  if (wait_s + uncertainty_s <= transfer_s / 10) return TimelineVerdict::kTransfer;
  if (uncertainty_s > wait_s / 10) return TimelineVerdict::kInconclusive;
  const double share = wait_s / (wait_s + transfer_s);
  if (share >= 2.0 / 3) return TimelineVerdict::kSkew;
  return share <= 1.0 / 3 ? TimelineVerdict::kTransfer : TimelineVerdict::kMixed;
}

MatchedSegment match_operations(TimelineRun& run, size_t segment) { return Matching(run, segment).match(); }

}  // namespace mlbench::report
