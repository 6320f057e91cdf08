#pragma once

// The tokeniser and detokeniser of Moses (Koehn et al., "Moses: Open Source Toolkit for Statistical Machine
// Translation", ACL 2007; scripts/tokenizer/{tokenizer,detokenizer}.perl) for English and German, as in sacremoses 0.2.
// Where the two differ in a character's class, ICU's Unicode decides: the table of sacremoses is older, and has Han and
// all beyond the first 65,536 code points as no letters. tests/sacremoses/ compares the results.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mlbench::dataset::text {

// The languages that have rules: "en", "de".
std::vector<std::string> moses_languages();

struct TokenizeOptions {
  bool escape = true;          // whether & | < > ' " [ ] become &amp; &#124; &lt; &gt; &apos; &quot; &#91; &#93;
  bool split_hyphens = false;  // tokenizer.perl -a: "a-b" is "a @-@ b"
};

class MosesTokenizer {
 public:
  // Throws UserError listing moses_languages() where `language` is none of them.
  explicit MosesTokenizer(std::string_view language);
  ~MosesTokenizer();
  MosesTokenizer(MosesTokenizer&&) noexcept;
  MosesTokenizer& operator=(MosesTokenizer&&) noexcept;

  // The tokens of `sentence` with one blank between them; "" for white space alone. Bytes that are not UTF-8 become
  // U+FFFD. Escapes are made last, so that a token never has a blank.
  std::string tokenize(std::string_view sentence, const TokenizeOptions& options = {}) const;

 private:
  struct Language;
  std::unique_ptr<const Language> language_;
};

class MosesDetokenizer {
 public:
  explicit MosesDetokenizer(std::string_view language);  // Throws as MosesTokenizer's does.

  // Makes a sentence of `tokens`, which have blanks between them, and undoes escapes. It is no exact inverse, since the
  // tokeniser loses where blanks were.
  std::string detokenize(std::string_view tokens) const;

 private:
  bool english_;
};

}  // namespace mlbench::dataset::text
