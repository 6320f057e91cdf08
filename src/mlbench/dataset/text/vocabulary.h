#pragma once

// What the ids of prepared text stand for. A vocabulary turns lines of text into ids, and ids back into text as people
// write it.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mlbench::dataset::text {

class PieceEncoder;
class SubwordDictionary;

// How tokens form a text.
enum class VocabularyKind {
  kWords,     // words between blanks; "<unk>" is kUnknown and "<eos>" is kEnd
  kPieces,    // pieces of words, with U+2581 before the first of a word (pieces.h)
  kMarked,    // parts of words, with "@@" behind all but the last of a word (subword-nmt)
  kSubwords,  // subwords of text that is not tokenised (subword_dictionary.h)
};

struct VocabularySpec {
  VocabularyKind kind = VocabularyKind::kWords;
  int64_t size = 0;  // ids are in [0, size); the last ones may stand for nothing
  // The languages of Moses' tokeniser, with escapes, where the text was tokenised; "" where it was not.
  std::string source_language, target_language;
};

enum class Side { kSource, kTarget };

// The first four ids are kPad, kUnknown, kBegin and kEnd of cached_tokens.h. A text of words (make_words()) is never
// padded or begun, so ids 0 and 2 there are its two most frequent words. Used by one thread, or by several that only
// call text().
class TextVocabulary {
 public:
  // `tokens` are in the order of their ids. Throws UserError where there are fewer than 4 or more than spec.size.
  TextVocabulary(VocabularySpec spec, std::vector<std::string> tokens);
  ~TextVocabulary();
  TextVocabulary(TextVocabulary&&) noexcept;
  TextVocabulary& operator=(TextVocabulary&&) noexcept;

  const VocabularySpec& spec() const { return spec_; }
  const std::vector<std::string>& tokens() const { return tokens_; }

  // Replaces `ids` by those of `line`, without kBegin and kEnd. Precondition: where the vocabulary is of tokenised
  // text, `line` is tokenised.
  void encode(std::string_view line, std::vector<int32_t>& ids);
  // The text of `ids` up to the first kEnd, with the tokenisation of that side's language undone. Ids that stand for
  // nothing are left out. For kWords, `ids` are taken to their end.
  std::string text(std::span<const int64_t> ids, Side side = Side::kTarget) const;

  // Writes a line of JSON (kind, size, languages), then the tokens, one per line.
  void save(const std::filesystem::path& path) const;
  static TextVocabulary load(const std::filesystem::path& path);  // throws UserError naming path and what is wrong

 private:
  struct Languages;
  std::string tokenized_text(std::span<const int64_t> ids) const;

  VocabularySpec spec_;
  std::vector<std::string> tokens_;
  std::unique_ptr<PieceEncoder> pieces_;
  std::unique_ptr<SubwordDictionary> subwords_;
  std::unique_ptr<Languages> languages_;
};

}  // namespace mlbench::dataset::text
