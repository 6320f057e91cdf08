#pragma once

// The splits of a data set that a task uses, by the names that they have in descriptions, goals and records. A data set
// may have others, which no task reads.

#include <string_view>

namespace mlbench::spec {

inline constexpr const char* kTrainSplit = "train";  // is trained on
inline constexpr const char* kTestSplit = "test";    // is evaluated
inline constexpr std::string_view kSplits[] = {kTestSplit, kTrainSplit};

}  // namespace mlbench::spec
