#include "mlbench/collectives/exercise.h"

#include <algorithm>
#include <vector>

#include "mlbench/base/errors.h"

namespace mlbench::collectives {

namespace {

using comm::ReduceOp;
using spec::Collective;

constexpr int kRingTag = 2;

// Consecutive elements of a pattern.
struct Segment {
  Pattern pattern;
  int64_t first = 0;
  int64_t count = 0;
};

int64_t length_of(const std::vector<Segment>& segments) {
  int64_t count = 0;
  for (const Segment& segment : segments) count += segment.count;
  return count;
}

ReduceOp reduce_op(spec::Reduction reduction) {
  switch (reduction) {
    case spec::Reduction::kProd:
      return ReduceOp::kProd;
    case spec::Reduction::kMin:
      return ReduceOp::kMin;
    case spec::Reduction::kMax:
      return ReduceOp::kMax;
    case spec::Reduction::kAvg:
      return ReduceOp::kAvg;
    default:
      return ReduceOp::kSum;
  }
}

// The elements that rank `from` has for rank `to` in all_to_all_v, where an even cut would give `even`. A rank keeps
// `even` for itself. The next rank gets half more, the one after it half less, and so on, so that each rank sends and
// receives as much as with an even cut.
int64_t uneven(int64_t even, int from, int to, int ranks) {
  const int distance = (to - from + ranks) % ranks;
  const bool has_partner = distance % 2 == 0 || distance + 1 < ranks;
  if (distance == 0 || !has_partner) return even;
  return distance % 2 == 1 ? even + even / 2 : even - even / 2;
}

class CollectiveExercise final : public Exercise {
 public:
  CollectiveExercise(const Workplace& workplace, const spec::CollectiveCase& one, int64_t count, Form form)
      : at_(workplace),
        case_(one),
        in_place_(form == Form::kInPlace),
        rank_(workplace.comm.rank()),
        ranks_(workplace.comm.size()),
        is_root_(rank_ == one.root),
        slice_(spec::traits_of(one.operation).sliced ? count / ranks_ : count),
        whole_(spec::traits_of(one.operation).sliced ? slice_ * ranks_ : count),
        op_(reduce_op(one.reduction.value_or(spec::Reduction::kSum))) {
    for (int peer = 0; peer < ranks_; ++peer) {
      const bool even = one.operation != Collective::kAllToAllV;
      send_counts_.push_back(even ? slice_ : uneven(slice_, rank_, peer, ranks_));
      receive_counts_.push_back(even ? slice_ : uneven(slice_, peer, rank_, ranks_));
    }
    place_buffers();
  }

  void prepare(uint64_t seed) override {
    inputs_ = inputs(seed);
    outputs_ = outputs(seed);
    used_bytes_ = bytes_of(std::max(length_of(inputs_), length_of(outputs_)));
    at_.send.clear(used_bytes_);
    at_.receive.clear(used_bytes_);
    size_t at = input_at_;
    for (const Segment& segment : inputs_) {
      input().write(segment.pattern, case_.dtype, at, segment.first, segment.count);
      at += bytes_of(segment.count);
    }
    at_.memory.synchronize();
  }

  void run() override {
    switch (case_.operation) {
      case Collective::kAllReduce:
        if (!in_place_) copy(received(0), sent(0), whole_);
        return at_.comm.all_reduce(view(received(0), whole_), op_);
      case Collective::kReduce:
        // Afterwards the buffer is undefined on ranks other than the root: these keep their input, too.
        if (!in_place_) copy(received(0), sent(0), whole_);
        return at_.comm.reduce(view(received(0), whole_), op_, root());
      case Collective::kBroadcast:
        if (!in_place_ && is_root_) copy(received(0), sent(0), whole_);
        return at_.comm.broadcast(view(received(0), whole_), root());
      case Collective::kAllGather:
        if (in_place_) copy(sent(0), received(rank_ * slice_), slice_);
        return at_.comm.all_gather(view(sent(0), slice_), view(received(0), whole_));
      case Collective::kReduceScatter:
        return run_reduce_scatter();
      case Collective::kAllToAll:
        if (in_place_) copy(sent(0), received(0), whole_);
        return at_.comm.all_to_all(view(sent(0), whole_), view(received(0), whole_));
      case Collective::kAllToAllV:
        if (in_place_) copy(sent(0), received(0), whole_);
        return at_.comm.all_to_all_v(view(sent(0), whole_), view(received(0), whole_), send_counts_, receive_counts_);
      case Collective::kGather:
        return run_gather();
      case Collective::kScatter:
        return run_scatter();
      case Collective::kSendRecv:
        return run_ring();
      default:
        return at_.comm.barrier();
    }
  }

  int64_t wrong() override {
    int64_t wrong = at_.send.trespasses(used_bytes_) + at_.receive.trespasses(used_bytes_);
    size_t at = output_at_;
    for (const Segment& segment : outputs_) {
      wrong += at_.receive.differing(segment.pattern, case_.dtype, at, segment.first, segment.count);
      at += bytes_of(segment.count);
    }
    if (in_place_) return wrong;
    at = input_at_;
    for (const Segment& segment : inputs_) {
      wrong += at_.send.differing(segment.pattern, case_.dtype, at, segment.first, segment.count);
      at += bytes_of(segment.count);
    }
    return wrong;
  }

 private:
  int root() const { return static_cast<int>(case_.root); }
  size_t bytes_of(int64_t count) const { return static_cast<size_t>(count) * size_of(case_.dtype); }
  std::byte* sent(int64_t first) const { return at_.send.data() + bytes_of(first); }
  std::byte* received(int64_t first) const { return at_.receive.data() + bytes_of(first); }
  BufferView view(std::byte* data, int64_t count) const { return {data, count, case_.dtype, at_.memory.stream()}; }
  BufferView nothing() const { return view(nullptr, 0); }
  void copy(std::byte* to, const std::byte* from, int64_t count) const { at_.memory.copy(to, from, bytes_of(count)); }
  BufferWithMargins& input() const { return in_place_ ? at_.receive : at_.send; }

  // In place, input and output lie in `receive`; copies go through `send`.
  void place_buffers() {
    if (!in_place_) return;
    const size_t own = bytes_of(rank_ * slice_);
    if (case_.operation == Collective::kAllGather) input_at_ = own;
    if (case_.operation == Collective::kGather && is_root_) input_at_ = own;
    if (case_.operation == Collective::kReduceScatter) output_at_ = own;
    if (case_.operation == Collective::kScatter && is_root_) output_at_ = own;
  }

  Segment moved(int source, int destination, int64_t count, uint64_t seed) const {
    return {moved_pattern(case_.dtype, source, destination, seed), 0, count};
  }
  spec::Reduction reduction() const { return case_.reduction.value_or(spec::Reduction::kSum); }

  std::vector<Segment> inputs(uint64_t seed) const {
    const Reduced reduced{case_.dtype, reduction(), ranks_, seed};
    std::vector<Segment> segments;
    switch (case_.operation) {
      case Collective::kAllReduce:
      case Collective::kReduce:
      case Collective::kReduceScatter:
        segments.push_back({given_pattern(reduced, rank_), 0, whole_});
        break;
      case Collective::kBroadcast:
        if (is_root_) segments.push_back(moved(rank_, 0, whole_, seed));
        break;
      case Collective::kAllGather:
      case Collective::kGather:
      case Collective::kSendRecv:
        segments.push_back(moved(rank_, 0, slice_, seed));
        break;
      case Collective::kAllToAll:
      case Collective::kAllToAllV:
        for (int peer = 0; peer < ranks_; ++peer)
          segments.push_back(moved(rank_, peer, send_counts_[index(peer)], seed));
        break;
      case Collective::kScatter:
        for (int peer = 0; is_root_ && peer < ranks_; ++peer) segments.push_back(moved(rank_, peer, slice_, seed));
        break;
      default:
        break;
    }
    return segments;
  }

  std::vector<Segment> outputs(uint64_t seed) const {
    const bool on_device = at_.memory.stream().device.kind != Device::Kind::kCpu;
    const Reduced reduced{case_.dtype, reduction(), ranks_, seed, on_device};
    std::vector<Segment> segments;
    switch (case_.operation) {
      case Collective::kAllReduce:
        segments.push_back({outcome_pattern(reduced), 0, whole_});
        break;
      case Collective::kReduce:
        if (is_root_) segments.push_back({outcome_pattern(reduced), 0, whole_});
        break;
      case Collective::kReduceScatter:
        segments.push_back({outcome_pattern(reduced), rank_ * slice_, slice_});
        break;
      case Collective::kBroadcast:
        segments.push_back(moved(root(), 0, whole_, seed));
        break;
      case Collective::kAllGather:
        for (int peer = 0; peer < ranks_; ++peer) segments.push_back(moved(peer, 0, slice_, seed));
        break;
      case Collective::kGather:
        for (int peer = 0; is_root_ && peer < ranks_; ++peer) segments.push_back(moved(peer, 0, slice_, seed));
        break;
      case Collective::kAllToAll:
      case Collective::kAllToAllV:
        for (int peer = 0; peer < ranks_; ++peer) {
          segments.push_back(moved(peer, rank_, receive_counts_[index(peer)], seed));
        }
        break;
      case Collective::kScatter:
        segments.push_back(moved(root(), rank_, slice_, seed));
        break;
      case Collective::kSendRecv:
        segments.push_back(moved((rank_ - 1 + ranks_) % ranks_, 0, slice_, seed));
        break;
      default:
        break;
    }
    return segments;
  }

  static size_t index(int rank) { return static_cast<size_t>(rank); }

  void run_reduce_scatter() {
    if (in_place_) {
      at_.comm.reduce_scatter(view(received(0), whole_), view(sent(0), slice_), op_);
      copy(received(rank_ * slice_), sent(0), slice_);
    } else {
      at_.comm.reduce_scatter(view(sent(0), whole_), view(received(0), slice_), op_);
    }
  }

  void run_gather() {
    if (!is_root_) {
      at_.comm.gather(view(in_place_ ? received(0) : sent(0), slice_), nothing(), root());
      return;
    }
    if (in_place_) copy(sent(0), received(rank_ * slice_), slice_);
    at_.comm.gather(view(sent(0), slice_), view(received(0), whole_), root());
  }

  void run_scatter() {
    if (!is_root_) {
      at_.comm.scatter(nothing(), view(received(0), slice_), root());
    } else if (in_place_) {
      // The root's slice stays where it is; what the operation makes of it is not used.
      at_.comm.scatter(view(received(0), whole_), view(sent(0), slice_), root());
    } else {
      at_.comm.scatter(view(sent(0), whole_), view(received(0), slice_), root());
    }
  }

  void run_ring() {
    if (in_place_) copy(sent(0), received(0), slice_);
    const auto receive = at_.comm.recv_async(view(received(0), slice_), (rank_ - 1 + ranks_) % ranks_, kRingTag);
    const auto send = at_.comm.send_async(view(sent(0), slice_), (rank_ + 1) % ranks_, kRingTag);
    send->synchronize();
    receive->synchronize();
  }

  Workplace at_;
  spec::CollectiveCase case_;
  bool in_place_;
  int rank_, ranks_;
  bool is_root_;
  int64_t slice_, whole_;  // elements
  ReduceOp op_;
  std::vector<int64_t> send_counts_, receive_counts_;
  size_t input_at_ = 0, output_at_ = 0;  // bytes
  std::vector<Segment> inputs_, outputs_;
  size_t used_bytes_ = 0;
};

}  // namespace

bool makes_copies(Collective operation, Form form) {
  switch (operation) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kBroadcast:
      return form == Form::kOutOfPlace;
    case Collective::kScatter:
      return false;
    default:
      return form == Form::kInPlace;
  }
}

bool has_form(Collective operation, Form form) {
  if (form == Form::kOutOfPlace) return true;
  return operation != Collective::kBarrier && !spec::traits_of(operation).point_to_point;
}

std::unique_ptr<Exercise> make_exercise(const Workplace& workplace, const spec::CollectiveCase& one, int64_t count,
                                        Form form) {
  MLBENCH_CHECK(has_form(one.operation, form) && !spec::traits_of(one.operation).point_to_point,
                "a form that the operation has");
  return std::make_unique<CollectiveExercise>(workplace, one, count, form);
}

}  // namespace mlbench::collectives
