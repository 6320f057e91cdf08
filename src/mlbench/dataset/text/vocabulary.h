#pragma once

// What the ids of prepared text stand for: from lines of text to ids, and back to text as people write it.

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

// How tokens make a text.
enum class VocabularyKind {
  kWords,     // words between blanks; "<unk>" is kUnknown and "<eos>" is kEnd
  kPieces,    // pieces of words, U+2581 before the first of a word (pieces.h)
  kMarked,    // parts of words, "@@" behind all but the last of a word (subword-nmt)
  kSubwords,  // subwords of text that is not tokenised (subword_dictionary.h)
};

struct VocabularySpec {
  VocabularyKind kind = VocabularyKind::kWords;
  int64_t size = 0;  // ids are in [0, size); those at the end may stand for nothing
  // Of Moses' tokeniser, escapes included, where the text was tokenised; "": it was not.
  std::string source_language, target_language;
};

enum class Side { kSource, kTarget };

// kPad, kUnknown, kBegin and kEnd of cached_tokens.h are the first four, but of words of a text, which is never padded
// or begun: there ids 0 and 2 are the two most frequent words. Used by one thread, or by several that only call text().
class TextVocabulary {
 public:
  // Tokens in the order of their ids. UserError when there are more than spec.size.
  TextVocabulary(VocabularySpec spec, std::vector<std::string> tokens);
  ~TextVocabulary();
  TextVocabulary(TextVocabulary&&) noexcept;
  TextVocabulary& operator=(TextVocabulary&&) noexcept;

  const VocabularySpec& spec() const { return spec_; }
  const std::vector<std::string>& tokens() const { return tokens_; }

  // Of a line that was tokenised already, where the vocabulary is of such; without begin and end. `ids` is replaced.
  void encode(std::string_view line, std::vector<int32_t>& ids);
  // Up to the first kEnd; tokenisation of that side's language is undone. Ids that stand for nothing are left out.
  std::string text(std::span<const int64_t> ids, Side side = Side::kTarget) const;

  // A line of JSON (kind, size, languages), then the tokens, one per line.
  void save(const std::filesystem::path& path) const;
  static TextVocabulary load(const std::filesystem::path& path);  // UserError naming path and what is wrong

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
