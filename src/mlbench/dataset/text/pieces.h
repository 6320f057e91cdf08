#pragma once

// Shared pieces of words by byte-pair encoding (Sennrich et al., "Neural Machine Translation of Rare Words with Subword
// Units", ACL 2016). Learned by SentencePiece (Kudo and Richardson, EMNLP 2018), in a program of its own: Debian's
// library holds and exports a protobuf that is older than the one that mlbench links, and one process cannot hold both.
// Encoding needs the list of pieces alone and is done here; `mlbench-pieces encode` is SentencePiece's, for comparison.
// Internal to dataset/.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/dataset/text/string_table.h"

namespace mlbench::dataset::text {

// Before the first piece of a word, as SentencePiece writes it: U+2581.
inline constexpr std::string_view kWordStart = "\u2581";

// How often each word occurs, in bounded memory: above `most_words` different ones, or `most_bytes` of them, the rarest
// are dropped. The learner takes up to 75 bytes for each byte of them.
class WordCounts {
 public:
  explicit WordCounts(size_t most_words = 3'000'000, size_t most_bytes = 24 << 20)
      : most_words_(most_words), most_bytes_(most_bytes) {}

  void add(std::string_view tokens);  // with blanks between them
  bool empty() const { return counts_.empty(); }
  size_t size() const { return counts_.size(); }
  int64_t dropped() const { return dropped_; }  // occurrences
  // Lines "word TAB count", the most frequent first, ties by bytes.
  void write(const std::filesystem::path& path) const;

 private:
  void prune();

  bool full() const { return counts_.size() > most_words_ || bytes_ > most_bytes_; }

  size_t most_words_, most_bytes_;
  size_t bytes_ = 0;  // of the different words
  int64_t dropped_ = 0;
  StringTable<int64_t> counts_;
};

// mlbench-pieces beside this program or, of a test, in the folder bin beside its own; may not be there.
std::filesystem::path pieces_program();

// Has mlbench-pieces learn up to `size` pieces, kPad, kUnknown, kBegin and kEnd among them, from words written by
// WordCounts (fewer where there is nothing left to merge). Leaves `model` (SentencePiece's own file, for other
// programs) and returns the pieces in the order of their ids. UserError when it is not there or refuses.
std::vector<std::string> learn_pieces(const std::filesystem::path& words, int64_t size,
                                      const std::filesystem::path& model);

// From tokens to ids, as SentencePiece does it: the pair of neighbours whose union is the piece of the lowest id is
// merged, the leftmost of equal ones, until no union is a piece. Keeps the words that it met, in bounded memory.
class PieceEncoder {
 public:
  explicit PieceEncoder(const std::vector<std::string>& pieces);

  // Of tokens with blanks between them. A run of characters that are no pieces within a word is one kUnknown, and so is
  // a word of more than 4096 bytes.
  void encode(std::string_view tokens, std::vector<int32_t>& ids);

 private:
  std::vector<int32_t> encode_word(std::string_view word) const;

  StringTable<int32_t> ids_;
  StringTable<std::vector<int32_t>> known_;
  size_t known_bytes_ = 0;  // of their words and ids
};

}  // namespace mlbench::dataset::text
