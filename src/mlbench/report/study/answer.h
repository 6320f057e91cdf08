#pragma once

// The answer for whoever asks whether more workers are worth it.

#include <string>
#include <vector>

#include "mlbench/report/study/study.h"

namespace mlbench::report {

// Sentences about one line of a study: how much faster its most workers are and at which cost, what the last step
// gained, where the knee is, and where efficiency is lost. Where a figure does not exist, a sentence says which run is
// missing. There is at least one sentence.
std::vector<std::string> answer_of(const Study& study, const StudyLine& line);

}  // namespace mlbench::report
