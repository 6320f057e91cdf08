#pragma once

// The algorithm that a run trained with, for what compares runs by it.

#include <string>
#include <vector>

#include "mlbench/record/record.h"

namespace mlbench::report {

// The record with its algorithm and its problem_hash (spec/algorithm.h). A record of an earlier program, which lacks
// them, gets those of the official task of its hash, with its overrides; both stay empty where no such task is known.
// The algorithm of a command is its own: nothing is added to the record of a custom run.
record::Record with_algorithm(record::Record record);

// All that makes two algorithms different: "sgd with top_k, momentum=0.9, share=0.01, lr=0.1, multistep 1f3a9c02".
std::string in_words(const record::Algorithm& algorithm);

// Says of runs that differ in their algorithm how the rates of each were chosen:
// "learning rates were not tuned alike: a the task's; b given by --set". "" where no two differ, or where all rates are
// their task's.
std::string rates_note(const std::vector<const record::Record*>& records);

}  // namespace mlbench::report
