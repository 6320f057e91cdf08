#pragma once

// The tokenisers for scoring translations; to the last token they are those of sacreBLEU 2 (Post, "A Call for Clarity
// in Reporting BLEU Scores", WMT 2018):
//   13a    mteval-v13a, the scorer of WMT: replaces the SGML entities &quot; &amp; &lt; &gt;, and splits ASCII
//          punctuation and symbols from words, but not ' - and no . , between digits
//   intl   mteval-v14's international tokenisation: splits Unicode's punctuation from words, but not between numbers or
//          after a number that ends the sentence; always splits symbols
//   none   words as they are written, between white space

#include <string>
#include <string_view>
#include <vector>

namespace mlbench::metrics {

enum class Tokenizer { k13a, kIntl, kNone };

// The name as in signatures: "13a", "intl" or "none".
const char* name_of(Tokenizer tokenizer);
std::vector<std::string> tokenizer_names();
// Throws UserError listing the valid names.
Tokenizer tokenizer_named(const std::string& name);

// Returns one sentence with white space between its tokens; unicode::words() splits it.
std::u32string tokenize(Tokenizer tokenizer, std::u32string_view sentence);

}  // namespace mlbench::metrics
