#include "mlbench/report/timeline/accounts.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace mlbench::report {

namespace {

// The length of the part of [begin, end) that lies before `until`; `begin` moves to its end.
int64_t take_until(int64_t& begin, int64_t end, int64_t until) {
  const int64_t to = std::clamp(until, begin, end);
  return to - std::exchange(begin, to);
}

void add_part(RankPart& part, RankAccount& account) {
  account.hidden += part.hidden_ns;
  int64_t start = 0;
  for (const Stretch& stretch : part.stretches) {
    int64_t begin = std::max(stretch.begin_ns, part.begin_ns);
    if (begin >= stretch.end_ns) continue;
    if (stretch.operation < 0) {
      account.own[stretch.activity] += stretch.end_ns - begin;
      continue;
    }
    TimelineOperation& operation = part.operations[static_cast<size_t>(stretch.operation)];
    if (!operation.matched) {
      account.unmatched += stretch.end_ns - begin;
      continue;
    }
    start += take_until(begin, stretch.end_ns, operation.start_until_ns);
    const int64_t wait = take_until(begin, stretch.end_ns, operation.ready_ns);
    operation.exposed_wait_ns += wait;
    operation.exposed_transfer_ns += stretch.end_ns - begin;
    account.wait += wait;
    account.transfer += stretch.end_ns - begin;
    if (wait > 0) account.waits_for[operation.late_rank] += wait;
  }
  account.start += start;
  account.elapsed += part.end_ns - part.begin_ns - start;
}

// Goes through a rank's time once, from its beginning to its end.
class Walk {
 public:
  explicit Walk(const RankPart& part) : part_(part), at_(part.begin_ns) {
    while (next_ < part.stretches.size() && part.stretches[next_].end_ns <= at_) ++next_;
  }
  struct Time {
    std::array<int64_t, kActivities> own{};
    int64_t communication = 0;
    int64_t useful() const { return std::accumulate(own.begin(), own.end(), int64_t{0}); }
  };
  // Goes on to the moment `ns` and returns how the time until then was spent.
  Time go_to(int64_t ns) {
    Time time;
    while (next_ < part_.stretches.size() && at_ < ns) {
      const Stretch& stretch = part_.stretches[next_];
      const int64_t end = std::min(stretch.end_ns, ns);
      (stretch.operation < 0 ? time.own[stretch.activity] : time.communication) += end - at_;
      at_ = end;
      if (at_ >= stretch.end_ns) ++next_;
    }
    return time;
  }

 private:
  const RankPart& part_;
  size_t next_ = 0;
  int64_t at_;
};

// Goes through the collectives of a segment one after the other. Finds what the late ranks did meanwhile, and when each
// rank would be done if bytes moved in no time.
class Replay {
 public:
  Replay(TimelineRun& run, size_t segment, TimelineAccounts& accounts)
      : parts_(run.parts[segment]),
        accounts_(accounts),
        before_(parts_.size()),
        exits_(parts_.size()),
        ideal_(parts_.size()) {
    for (const RankPart& part : parts_) walks_.emplace_back(part);
  }

  void add(const OperationGroup& group) {
    if (group.rule == WaitRule::kNobody) return;
    for (size_t rank = 0; rank < parts_.size(); ++rank) {
      before_[rank] = walks_[rank].go_to(operation(group, rank).begin_ns);
      ideal_[rank] += before_[rank].useful();
    }
    for (size_t rank = 0; rank < parts_.size(); ++rank) blame(group, rank);
    const std::vector<int64_t> entry = ideal_;
    const int64_t last = *std::ranges::max_element(entry);
    for (size_t rank = 0; rank < parts_.size(); ++rank) {
      const TimelineOperation& own = operation(group, rank);
      exits_[rank] = own.end_ns;
      ideal_[rank] += walks_[rank].go_to(own.end_ns).useful();
      if (own.exposed_wait_ns + own.exposed_transfer_ns == 0) continue;
      const bool is_root = own.root_peer == static_cast<int64_t>(rank);
      if (group.rule == WaitRule::kAll || (group.rule == WaitRule::kRoot && is_root)) {
        ideal_[rank] = std::max(ideal_[rank], last);
      } else if (group.rule == WaitRule::kForRoot && own.root_peer >= 0 && own.root_peer < std::ssize(entry)) {
        ideal_[rank] = std::max(ideal_[rank], entry[static_cast<size_t>(own.root_peer)]);
      }
    }
  }

  int64_t end() {
    for (size_t rank = 0; rank < parts_.size(); ++rank)
      ideal_[rank] += walks_[rank].go_to(parts_[rank].end_ns).useful();
    return *std::ranges::max_element(ideal_);
  }

 private:
  const TimelineOperation& operation(const OperationGroup& group, size_t rank) const {
    return parts_[rank].operations[static_cast<size_t>(group.of_rank[rank])];
  }

  // Divides the wait of `rank` among the activities that the late rank has done for longer than `rank` since the
  // operation before, in proportion to the differences.
  void blame(const OperationGroup& group, size_t rank) {
    const TimelineOperation& own = operation(group, rank);
    if (own.exposed_wait_ns == 0 || own.late_rank < 0) return;
    const auto late = static_cast<size_t>(own.late_rank);
    std::array<int64_t, kActivities> more{};
    for (size_t i = 0; i < kActivities; ++i) {
      more[i] = std::max<int64_t>(0, before_[late].own[i] - before_[rank].own[i]);
    }
    int64_t communication = std::max<int64_t>(0, before_[late].communication - before_[rank].communication);
    if (exits_[late] && exits_[rank]) communication += std::max<int64_t>(0, *exits_[late] - *exits_[rank]);
    const int64_t all = std::accumulate(more.begin(), more.end(), communication);
    if (all == 0) return;
    RankAccount& account = accounts_.ranks[late];
    const auto share = [&](int64_t part) {
      return static_cast<int64_t>(static_cast<double>(own.exposed_wait_ns) * static_cast<double>(part) /
                                  static_cast<double>(all));
    };
    for (size_t i = 0; i < kActivities; ++i) account.causes[i] += share(more[i]);
    account.blamed_on_communication += share(communication);
  }

  std::vector<RankPart>& parts_;
  TimelineAccounts& accounts_;
  std::vector<Walk> walks_;
  std::vector<Walk::Time> before_;             // the time between the operation before and this one, by rank
  std::vector<std::optional<int64_t>> exits_;  // when each rank left the operation before
  std::vector<int64_t> ideal_;                 // when each rank would be where its walk is, on an ideal network
};

void add_group(const TimelineRun& run, const std::vector<RankPart>& parts, const OperationGroup& group,
               TimelineAccounts& accounts) {
  int64_t wait = 0, transfer = 0;
  uint64_t bytes = 0;
  const TimelineOperation* first = nullptr;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    if (group.of_rank[rank] < 0) continue;
    const TimelineOperation& one = parts[rank].operations[static_cast<size_t>(group.of_rank[rank])];
    if (first == nullptr || run.names[one.name] == "recv") first = &one;
    bytes = std::max(bytes, one.bytes);
    wait = std::max(wait, one.exposed_wait_ns);
    transfer = std::max(transfer, one.exposed_transfer_ns);
    if (one.late_rank >= 0) accounts.ranks[static_cast<size_t>(one.late_rank)].blame += one.exposed_wait_ns;
  }
  ++accounts.matched;
  const bool conclusive = group.verdict != TimelineVerdict::kInconclusive;
  (conclusive ? accounts.wait : accounts.inconclusive) += wait;
  (conclusive ? accounts.transfer : accounts.inconclusive) += transfer;
  OperationAccount& account = accounts.operations[{run.names[first->name], bytes}];
  ++account.count;
  account.inconclusive += conclusive ? 0 : 1;
  account.wait += wait;
  account.transfer += transfer;
  if (wait > account.worst_wait) {
    account.worst_wait = wait;
    account.worst_step = first->step;
    account.worst_rank = group.late_rank;
  }
}

bool accounted(const std::vector<RankPart>& parts, const OperationGroup& group) {
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    if (group.of_rank[rank] < 0) continue;
    const RankPart& part = parts[rank];
    if (part.operations[static_cast<size_t>(group.of_rank[rank])].begin_ns < part.begin_ns) return false;
  }
  return true;
}

void add_segment(TimelineRun& run, size_t segment, TimelineAccounts& accounts) {
  std::vector<RankPart>& parts = run.parts[segment];
  const MatchedSegment matched = match_operations(run, segment);
  accounts.unmatched += matched.unmatched;
  accounts.notes.insert(accounts.notes.end(), matched.notes.begin(), matched.notes.end());
  int64_t longest = 0;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const int64_t before = accounts.ranks[rank].elapsed;
    add_part(parts[rank], accounts.ranks[rank]);
    longest = std::max(longest, accounts.ranks[rank].elapsed - before);
  }
  Replay replay(run, segment, accounts);
  for (const OperationGroup& group : matched.groups) {
    if (!accounted(parts, group)) continue;
    add_group(run, parts, group, accounts);
    if (group.rule != WaitRule::kMessage) replay.add(group);
  }
  accounts.runtime += longest;
  accounts.ideal += std::min(longest, replay.end());
}

}  // namespace

int64_t RankAccount::useful() const { return std::accumulate(own.begin(), own.end(), int64_t{0}); }

int64_t RankAccount::group(std::string_view name) const {
  int64_t sum = 0;
  for (size_t i = 0; i < kActivities; ++i) sum += activity_group(static_cast<Activity>(i)) == name ? own[i] : 0;
  return sum;
}

TimelineAccounts account_for(TimelineRun& run) {
  TimelineAccounts accounts;
  accounts.ranks.resize(static_cast<size_t>(run.workers));
  for (size_t segment = 0; segment < run.parts.size(); ++segment) add_segment(run, segment, accounts);
  int64_t communication = 0, unclear = 0;
  for (const RankAccount& rank : accounts.ranks) {
    communication += rank.wait + rank.transfer + rank.unmatched;
    unclear += rank.unmatched;
  }
  for (const auto& [key, operation] : accounts.operations) {
    if (wait_rule(key.first) == WaitRule::kMessage) unclear += operation.wait + operation.transfer;
  }
  accounts.ideal_known = unclear <= communication / 10;
  return accounts;
}

}  // namespace mlbench::report
