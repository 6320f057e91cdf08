#pragma once

// What tables and charts call the kinds of steps and the parts of communication, in the order in which they show them.
// A word's place here is its colour in all charts.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace mlbench::report {

struct StepWord {
  std::string_view kind;  // its name in records (record/spool.h); "" for a part of communication
  std::string_view word;
};
inline constexpr std::array<StepWord, 13> kStepWords = {{{"batch_load", "loading"},
                                                         {"init", "initialising"},
                                                         {"fwd_pass", "forward"},
                                                         {"comp_loss", "loss"},
                                                         {"backprop", "backward"},
                                                         {"", "hidden communication"},
                                                         {"agg", "communication"},
                                                         {"", "waiting"},
                                                         {"", "transfer"},
                                                         {"", "exposed communication"},
                                                         {"opt_step", "optimizer"},
                                                         {"comp_metrics", "metrics"},
                                                         {"checkpoint", "checkpoint"}}};

// The word for a kind of step; the kind itself where it is none of these.
inline std::string word_of_kind(std::string_view kind) {
  const auto found = std::ranges::find(kStepWords, kind, &StepWord::kind);
  return std::string(found == kStepWords.end() ? kind : found->word);
}

// The colour of a word. Precondition: it is one of kStepWords.
constexpr size_t colour_of_word(std::string_view word) {
  return static_cast<size_t>(std::ranges::find(kStepWords, word, &StepWord::word) - kStepWords.begin());
}

}  // namespace mlbench::report
