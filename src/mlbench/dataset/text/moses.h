#pragma once

// The tokeniser and detokeniser of Moses (Koehn et al., "Moses: Open Source Toolkit for Statistical Machine
// Translation", ACL 2007; scripts/tokenizer/{tokenizer,detokenizer}.perl) for English and German, as sacremoses 0.2 has
// them. Where the two differ in a character's class, ICU's Unicode decides (sacremoses has a table of an older one, in
// which Han and what lies beyond the first 65,536 code points are no letters). tests/sacremoses/ compares.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mlbench::dataset::text {

// "en", "de".
std::vector<std::string> moses_languages();

struct TokenizeOptions {
  bool escape = true;          // & | < > ' " [ ] as &amp; &#124; &lt; &gt; &apos; &quot; &#91; &#93;
  bool split_hyphens = false;  // tokenizer.perl -a: "a-b" is "a @-@ b"
};

class MosesTokenizer {
 public:
  // UserError listing the valid ones.
  explicit MosesTokenizer(std::string_view language);
  ~MosesTokenizer();
  MosesTokenizer(MosesTokenizer&&) noexcept;
  MosesTokenizer& operator=(MosesTokenizer&&) noexcept;

  // One sentence with one blank between its tokens; "" of white space. Bytes that are no UTF-8 become U+FFFD.
  // `options.escape` applies last, so that a token never has a blank.
  std::string tokenize(std::string_view sentence, const TokenizeOptions& options = {}) const;

 private:
  struct Language;
  std::unique_ptr<const Language> language_;
};

class MosesDetokenizer {
 public:
  explicit MosesDetokenizer(std::string_view language);  // as above

  // Tokens with blanks between them as a sentence; escapes are undone. No inverse: the tokeniser forgets where blanks
  // were.
  std::string detokenize(std::string_view tokens) const;

 private:
  bool english_;
};

}  // namespace mlbench::dataset::text
