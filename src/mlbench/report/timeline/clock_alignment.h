#pragma once

// How a rank's clock stands to the supervisor's, from round trips alone. Nothing is assumed about the two ways of a
// round trip: the supervisor read its clock somewhere between the rank's two readings, so that with
//
//   f(t) = t + offset + drift (t - t0)      what the supervisor's clock shows when the rank's shows t
//
// each sample says f(sent) <= server <= f(received). Both are half planes in (offset, drift), drift lies within +-1000
// ppm, and what all samples leave is a convex polygon: f(t) lies between its least and its greatest value over the
// polygon's corners. The middle is taken, half the width is the bound. This is the linear programme of Moon, Skelly and
// Towsley (Estimation and removal of clock skew from network delay measurements, INFOCOM 1999), with both directions.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mlbench/record/timeline.h"

namespace mlbench::report {

inline constexpr double kMostDriftPpm = 1000;

struct AlignedMoment {
  int64_t ns = 0;        // of the supervisor's clock
  int64_t bound_ns = 0;  // the true moment lies at most so far away, either way
};

class ClockAlignment {
 public:
  // In any order. Without samples nothing is known.
  explicit ClockAlignment(std::span<const record::ClockSample> samples);

  bool known() const { return !pieces_.empty(); }
  // How often the samples fit no straight line: a clock that was set, or a machine that slept. Each stretch between is
  // a line of its own.
  size_t steps() const { return known() ? pieces_.size() - 1 : 0; }
  size_t samples() const { return samples_; }

  // Never decreases with `rank_ns`. Only where known().
  AlignedMoment at(int64_t rank_ns) const;

  // In the middle of the samples of the longest stretch: what its clock lacks to the supervisor's; and how much faster
  // than the rank's that runs, with half the width of what is feasible.
  struct Figures {
    int64_t offset_ns = 0, bound_ns = 0;
    double drift_ppm = 0, drift_bound_ppm = 0;
  };
  Figures figures() const;

 private:
  // In nanoseconds at `Piece::zero`, and in nanoseconds per second: both of a size that arithmetic likes.
  struct Corner {
    long double offset = 0, drift = 0;
  };
  struct Interval {
    long double low = 0, high = 0;
  };
  struct Piece {
    int64_t zero = 0, base = 0;   // offsets are beside `base`, moments beside `zero`
    int64_t first = 0, last = 0;  // of the rank's clock: first sent, last received
    std::vector<Corner> corners;  // of the polygon
    int64_t least = INT64_MIN;    // at() gives no less
    Interval offset_at(int64_t rank_ns) const;
    AlignedMoment at(int64_t rank_ns) const;
    // False, and unchanged, when the sample leaves nothing.
    bool take(const record::ClockSample& sample);
  };
  static Piece piece_of(const record::ClockSample& sample, int64_t reach_ns);

  std::vector<Piece> pieces_;
  size_t samples_ = 0;
};

}  // namespace mlbench::report
