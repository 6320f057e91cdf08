#pragma once

// The algorithm that a run trained with, for what compares runs by it.

#include <optional>
#include <string>
#include <vector>

#include "mlbench/record/record.h"

namespace mlbench::report {

// As the record tells it; for records of earlier programs as the official task of their hash says, with their
// overrides. Empty where neither tells.
std::optional<record::Algorithm> algorithm_of(const record::Record& record);

// All that makes two algorithms different: "sgd with top_k, momentum=0.9, share=0.01, lr=0.1, multistep 1f3a9c02".
std::string in_words(const record::Algorithm& algorithm);

// The record's problem_hash (spec/algorithm.h); for records of earlier programs that of the official task of their
// hash. "" where neither tells.
std::string problem_of(const record::Record& record);

// Says of runs that differ in their algorithm how the rates of each were chosen:
// "learning rates were not tuned alike: a the task's; b given by --set". "" where no two differ, or where all rates are
// their task's.
std::string rates_note(const std::vector<const record::Record*>& records);

}  // namespace mlbench::report
