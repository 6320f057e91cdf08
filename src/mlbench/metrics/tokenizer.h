#pragma once

// The tokenisers by which translations are scored, to the last token those of sacreBLEU 2 (Post, "A Call for Clarity in
// Reporting BLEU Scores", WMT 2018):
//   13a    mteval-v13a, the scorer of WMT: SGML entities &quot; &amp; &lt; &gt; replaced, ASCII punctuation and symbols
//          apart from words, but not ' - and no . , between digits
//   intl   mteval-v14's international tokenisation: Unicode's punctuation apart from words, but not between numbers or
//          behind one that ends the sentence; symbols always
//   none   words as they are written, between white space

#include <string>
#include <string_view>
#include <vector>

namespace mlbench::metrics {

enum class Tokenizer { k13a, kIntl, kNone };

// "13a", "intl", "none": as in signatures.
const char* name_of(Tokenizer tokenizer);
std::vector<std::string> tokenizer_names();
// UserError listing the valid names.
Tokenizer tokenizer_named(const std::string& name);

// One sentence with white space between its tokens: unicode::words() gives them.
std::u32string tokenize(Tokenizer tokenizer, std::u32string_view sentence);

}  // namespace mlbench::metrics
