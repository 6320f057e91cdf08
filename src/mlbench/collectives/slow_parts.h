#pragma once

// Which host or link of a matrix of pairs is slower than the rest. A pure function of the matrix.
//
// Compared are hosts, where the ranks stand on several (the speed between two of them is the median over their ranks;
// what goes on within a host is left out), else ranks. With x the logarithm of each directed link's speed, a *part* is
// a set of links that may have one cause:
//
//   host        all links of one host, both ways          link        both directions between two
//   sending     all links from it                         direction   one of them
//   receiving   all links to it
//
// A part is slow when
//   the median of its x is below that of all other links by more than log(1 / below),
//   each of its links is on its own side of the middle between the two medians (one bad link makes no bad host),
//   and the distance is more than deviations_among(links) times the noise: the median of all links' distances from the
//   median of their own side, as a standard deviation (x 1.4826), the more the fewer links there are (x (1 + 4 /
//   links)). Of at most 6 links, those of three hosts, the middle distance is small by chance too often: there the
//   noise is the largest distance (x (1 / 4 + 4 / links)). A second slow part then hides the first, and noise of 20 %
//   to 60 % names somebody in 6 of 100 matrices.
// Of several such parts that one is named which explains the matrix best (least sum of distances); its links are left
// out, and the rest is looked at again. Fewer than three hosts or ranks have nothing to compare with.

#include <cstddef>
#include <string>
#include <vector>

#include "mlbench/record/collectives.h"

namespace mlbench::collectives {

struct SlowRule {
  double below = 0.75;    // of the speed of the others
  double deviations = 4;  // among the 12 links of four hosts

  // The more links, the farther from the others the farthest is by chance: of normal noise as many are beyond this as
  // are beyond `deviations` among 12, whose share falls as exp(-deviations^2 / 2). Among fewer it is `deviations`.
  double deviations_among(size_t links) const;
};
inline constexpr SlowRule kSlowBandwidth{};
// Latencies differ more without a cause.
inline constexpr SlowRule kSlowLatency{.below = 0.5, .deviations = 5};

// The search ends there: where so many are slow, the rest is no rule.
inline constexpr size_t kMostSlowParts = 100;

// `speed` [from][to], the larger the better, above 0 beside the diagonal; `hosts` of each rank; `measure` is what the
// parts are named with. Worst first, at most kMostSlowParts. Of n nodes each part takes a time that grows as n^2 log n.
std::vector<record::SlowPart> slow_parts(const std::vector<std::vector<double>>& speed,
                                         const std::vector<std::string>& hosts, const std::string& measure,
                                         const SlowRule& rule);

// Sets `slow` and `verdict` of a measured matrix. Where a search ended early, the verdict says so.
void find_slow_parts(record::PairMatrix& pairs);

}  // namespace mlbench::collectives
