#pragma once

// Which host or link of a matrix of pairs is slower than the rest. This is a pure function of the matrix.
//
// Where the ranks are on several hosts, hosts are compared: the speed between two hosts is the median over their ranks,
// and links within a host are ignored. Otherwise ranks are compared. With x the logarithm of each directed link's
// speed, a *part* is a set of links that may be slow for one cause:
//
//   host        all links of one host, both ways          link        both directions between two
//   sending     all links from it                         direction   one of them
//   receiving   all links to it
//
// A part is slow when
// - the median of its x is below that of all other links by more than log(1 / below),
// - each of its links is on its own side of the middle between the two medians (one bad link makes no bad host), and
// - the distance is more than deviations_among(links) times the noise. The noise is the median of all links' distances
//   from the median of their own side, as a standard deviation (x 1.4826), which is larger the fewer links there are (x
//   (1 + 4 / links)). Among at most 6 links, those of three hosts, the middle distance is small by chance too often.
//   There the noise is the largest distance (x (1 / 4 + 4 / links)). A second slow part then hides the first, and noise
//   of 20 % to 60 % names a part in 6 of 100 matrices.
// Among several such parts, the one that explains the matrix best (least sum of distances) is named; its links are left
// out, and the rest is looked at again. Fewer than three hosts or ranks cannot be compared.

#include <cstddef>
#include <string>
#include <vector>

#include "mlbench/record/collectives.h"

namespace mlbench::collectives {

struct SlowRule {
  double below = 0.75;    // of the speed of the others
  double deviations = 4;  // among the 12 links of four hosts

  // The more links there are, the farther from the others the farthest link is by chance. This limit is such that, of
  // normal noise, as many links are beyond it as are beyond `deviations` among 12 links; that share falls as
  // exp(-deviations^2 / 2). Among fewer links it is `deviations`.
  double deviations_among(size_t links) const;
};
inline constexpr SlowRule kSlowBandwidth{};
// Latencies differ more than bandwidths without a cause.
inline constexpr SlowRule kSlowLatency{.below = 0.5, .deviations = 5};

// The search ends after so many parts: where so many are slow, the rest is no standard.
inline constexpr size_t kMostSlowParts = 100;

// `speed` is [from][to], the larger the better, above 0 except on the diagonal. `hosts` has the host of each rank.
// `measure` is what the parts are named with. The worst part comes first, and there are at most kMostSlowParts. Of n
// nodes, each part takes a time that grows as n^2 log n.
std::vector<record::SlowPart> slow_parts(const std::vector<std::vector<double>>& speed,
                                         const std::vector<std::string>& hosts, const std::string& measure,
                                         const SlowRule& rule);

// Sets `slow` and `verdict` of a measured matrix. Where the search ended early, the verdict says so.
void find_slow_parts(record::PairMatrix& pairs);

}  // namespace mlbench::collectives
