#include "mlbench/report/timeline/clock_alignment.h"

#include <algorithm>
#include <cmath>

#include "mlbench/base/errors.h"

namespace mlbench::report {

namespace {

using record::ClockSample;

constexpr long double kMostDrift = kMostDriftPpm * 1000;  // ns per second

long double seconds_between(int64_t from, int64_t to) { return static_cast<long double>(to - from) / 1e9L; }

}  // namespace

ClockAlignment::Piece ClockAlignment::piece_of(const ClockSample& sample, int64_t reach_ns) {
  Piece piece;
  piece.zero = piece.first = sample.sent_ns;
  piece.last = sample.received_ns;
  piece.base = sample.server_ns - sample.sent_ns;
  // But for the drift, the sample says -round trip <= offset <= 0. The box is wider, and take() cuts it to that.
  const long double wide = static_cast<long double>(sample.received_ns - sample.sent_ns) +
                           static_cast<long double>(reach_ns) * kMostDrift / 1e9L + 1;
  piece.corners = {{-wide, -kMostDrift}, {wide, -kMostDrift}, {wide, kMostDrift}, {-wide, kMostDrift}};
  piece.take(sample);
  return piece;
}

bool ClockAlignment::Piece::take(const ClockSample& sample) {
  // The part of a convex polygon where `excess` is not positive, by the algorithm of Sutherland and Hodgman.
  const auto cut = [](const std::vector<Corner>& polygon, const auto& excess) {
    std::vector<Corner> left;
    for (size_t i = 0; i < polygon.size(); ++i) {
      const Corner &a = polygon[i], &b = polygon[(i + 1) % polygon.size()];
      const long double at_a = excess(a), at_b = excess(b);
      if (at_a <= 0) left.push_back(a);
      if ((at_a < 0 && at_b > 0) || (at_a > 0 && at_b < 0)) {
        const long double part = at_a / (at_a - at_b);
        left.push_back({a.offset + part * (b.offset - a.offset), a.drift + part * (b.drift - a.drift)});
      }
    }
    return left;
  };
  const auto offset = [&](int64_t rank_ns) { return static_cast<long double>(sample.server_ns - rank_ns - base); };
  const long double sent_s = seconds_between(zero, sample.sent_ns),
                    received_s = seconds_between(zero, sample.received_ns);
  const long double most = offset(sample.sent_ns), least = offset(sample.received_ns);
  // Readings are nanoseconds, rounded down: a difference below kRounding is no contradiction.
  constexpr long double kRounding = 1;
  auto left = cut(corners, [&](const Corner& one) { return one.offset + one.drift * sent_s - most - kRounding; });
  if (!left.empty()) {
    left = cut(left, [&](const Corner& one) { return least - kRounding - one.offset - one.drift * received_s; });
  }
  if (left.empty()) return false;
  corners = std::move(left);
  last = std::max(last, sample.received_ns);
  return true;
}

ClockAlignment::Interval ClockAlignment::Piece::offset_at(int64_t rank_ns) const {
  const long double s = seconds_between(zero, rank_ns);
  Interval found{corners.front().offset + corners.front().drift * s, 0};
  found.high = found.low;
  for (const Corner& one : corners) {
    const long double value = one.offset + one.drift * s;
    found.low = std::min(found.low, value);
    found.high = std::max(found.high, value);
  }
  return found;
}

AlignedMoment ClockAlignment::Piece::at(int64_t rank_ns) const {
  const Interval offset = offset_at(rank_ns);
  const auto middle = static_cast<int64_t>(std::floor((offset.low + offset.high) / 2));
  AlignedMoment moment{rank_ns + base + middle, static_cast<int64_t>(std::ceil((offset.high - offset.low) / 2)) + 1};
  if (moment.ns < least) {
    moment.bound_ns += least - moment.ns;
    moment.ns = least;
  }
  return moment;
}

ClockAlignment::ClockAlignment(std::span<const ClockSample> samples) : samples_(samples.size()) {
  std::vector<ClockSample> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted, {}, &ClockSample::sent_ns);
  if (sorted.empty()) return;
  const int64_t reach_ns = sorted.back().received_ns - sorted.front().sent_ns;
  for (const ClockSample& sample : sorted) {
    if (pieces_.empty()) {
      pieces_.push_back(piece_of(sample, reach_ns));
    } else if (!pieces_.back().take(sample)) {
      pieces_.push_back(piece_of(sample, reach_ns));
    }
  }
  for (size_t i = 1; i < pieces_.size(); ++i) pieces_[i].least = pieces_[i - 1].at(pieces_[i - 1].last).ns;
}

AlignedMoment ClockAlignment::at(int64_t rank_ns) const {
  MLBENCH_CHECK(known(), "a clock with samples");
  const auto after = std::ranges::upper_bound(pieces_, rank_ns, {}, &Piece::first);
  if (after == pieces_.begin()) return after->at(rank_ns);
  const Piece& before = *(after - 1);
  if (rank_ns <= before.last || after == pieces_.end()) return before.at(rank_ns);
  // The moment lies between two stretches, where the clock was set: it is interpolated between the ends of both lines.
  const AlignedMoment from = before.at(before.last), to = after->at(after->first);
  const long double part = seconds_between(before.last, rank_ns) / seconds_between(before.last, after->first);
  const int64_t ns = from.ns + static_cast<int64_t>(part * static_cast<long double>(to.ns - from.ns));
  return {ns, std::max(ns - from.ns + from.bound_ns, to.ns - ns + to.bound_ns)};
}

ClockAlignment::Figures ClockAlignment::figures() const {
  MLBENCH_CHECK(known(), "a clock with samples");
  const Piece& piece = *std::ranges::max_element(pieces_, {}, [](const Piece& one) { return one.last - one.first; });
  const int64_t middle = piece.first + (piece.last - piece.first) / 2;
  const AlignedMoment moment = piece.at(middle);
  const auto [low, high] = std::ranges::minmax(piece.corners, {}, &Corner::drift);
  return {moment.ns - middle, moment.bound_ns, static_cast<double>((low.drift + high.drift) / 2 / 1000),
          static_cast<double>((high.drift - low.drift) / 2 / 1000)};
}

}  // namespace mlbench::report
