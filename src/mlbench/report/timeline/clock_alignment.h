#pragma once

// Relates a rank's clock to the supervisor's, from round trips alone. Nothing is assumed about how long the two ways of
// a round trip take. The supervisor read its clock at some moment between the rank's two readings, so that with
//
//   f(t) = t + offset + drift (t - t0)      what the supervisor's clock shows when the rank's shows t
//
// each sample says f(sent) <= server <= f(received). Both inequalities are half planes in (offset, drift), and the
// drift lies within +-1000 ppm. What all samples leave is a convex polygon, and f(t) lies between its least and
// greatest value over the polygon's corners. The middle of these two is taken, and half their distance is the bound.
// This is the linear programme of Moon, Skelly and Towsley (Estimation and removal of clock skew from network delay
// measurements, INFOCOM 1999), with both directions.

#include <cstdint>
#include <span>
#include <vector>

#include "mlbench/record/timeline.h"

namespace mlbench::report {

inline constexpr double kMostDriftPpm = 1000;

struct AlignedMoment {
  int64_t ns = 0;        // on the supervisor's clock
  int64_t bound_ns = 0;  // the true moment lies at most so far before or after
};

class ClockAlignment {
 public:
  // Takes the samples of one rank in any order. Without samples, known() is false.
  explicit ClockAlignment(std::span<const record::ClockSample> samples);

  bool known() const { return !pieces_.empty(); }
  // How often the samples left their straight line, because a clock was set or a machine slept. Each stretch between
  // such moments has a line of its own.
  size_t steps() const { return known() ? pieces_.size() - 1 : 0; }
  size_t samples() const { return samples_; }

  // The moment at which the rank's clock shows `rank_ns`; it never decreases with `rank_ns`. Precondition: known().
  AlignedMoment at(int64_t rank_ns) const;

  // The alignment in the middle of the longest stretch. Precondition of figures(): known().
  struct Figures {
    int64_t offset_ns = 0, bound_ns = 0;        // the supervisor's clock minus the rank's
    double drift_ppm = 0, drift_bound_ppm = 0;  // how much faster the supervisor's clock runs than the rank's
  };
  Figures figures() const;

 private:
  // The offset in nanoseconds at `Piece::zero`, and the drift in nanoseconds per second. In these units, both numbers
  // have sizes at which the arithmetic is accurate.
  struct Corner {
    long double offset = 0, drift = 0;
  };
  struct Interval {
    long double low = 0, high = 0;
  };
  struct Piece {
    int64_t zero = 0, base = 0;   // corners hold offsets minus `base`, at moments minus `zero`
    int64_t first = 0, last = 0;  // on the rank's clock: first reading and last reading
    std::vector<Corner> corners;  // of the polygon
    int64_t least = INT64_MIN;    // at() gives no earlier moment
    Interval offset_at(int64_t rank_ns) const;
    AlignedMoment at(int64_t rank_ns) const;
    // Cuts the polygon by a sample. Returns false, with the polygon unchanged, when nothing would be left of it.
    bool take(const record::ClockSample& sample);
  };
  static Piece piece_of(const record::ClockSample& sample, int64_t reach_ns);

  std::vector<Piece> pieces_;
  size_t samples_ = 0;
};

}  // namespace mlbench::report
