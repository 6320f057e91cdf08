#pragma once

// Pieces of words, shared by both languages, by byte-pair encoding (Sennrich et al., "Neural Machine Translation of
// Rare Words with Subword Units", ACL 2016). SentencePiece (Kudo and Richardson, EMNLP 2018) learns them in a program
// of its own, mlbench-pieces: Debian's library exports a protobuf that is older than the one that mlbench links, and
// one process cannot hold both. Encoding needs only the list of pieces and is done here; `mlbench-pieces encode` uses
// SentencePiece's encoder, for comparison. Internal to dataset/.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/dataset/text/string_table.h"

namespace mlbench::dataset::text {

// The mark before the first piece of a word, U+2581, as SentencePiece writes it.
inline constexpr std::string_view kWordStart = "\u2581";

// Counts how often each word occurs, in bounded memory: beyond `most_words` different words, or `most_bytes` of them,
// the rarest are dropped. The learner takes up to 75 bytes of memory for each byte of these words.
class WordCounts {
 public:
  explicit WordCounts(size_t most_words = 3'000'000, size_t most_bytes = 24 << 20)
      : most_words_(most_words), most_bytes_(most_bytes) {}

  void add(std::string_view tokens);  // `tokens` have blanks between them
  bool empty() const { return counts_.empty(); }
  size_t size() const { return counts_.size(); }
  int64_t dropped() const { return dropped_; }  // occurrences of dropped words
  // Writes lines "word TAB count", the most frequent first, ties in the order of bytes. Throws IoError.
  void write(const std::filesystem::path& path) const;

 private:
  void prune();

  bool full() const { return counts_.size() > most_words_ || bytes_ > most_bytes_; }

  size_t most_words_, most_bytes_;
  size_t bytes_ = 0;  // total length of the different words
  int64_t dropped_ = 0;
  StringTable<int64_t> counts_;
};

// The path of mlbench-pieces, as program_beside() finds it. No file need exist at the path.
std::filesystem::path pieces_program();

// Has mlbench-pieces learn up to `size` pieces, including kPad, kUnknown, kBegin and kEnd, from the file `words` that
// WordCounts wrote; fewer where nothing is left to merge. Writes `model` (SentencePiece's own file, for other programs)
// and returns the pieces in the order of their ids. Throws UserError where the program is missing or fails.
std::vector<std::string> learn_pieces(const std::filesystem::path& words, int64_t size,
                                      const std::filesystem::path& model);

// Turns tokens into ids as SentencePiece does: of two neighbours whose union is a piece, the pair with the lowest id is
// merged, the leftmost of equal ones, until no union is a piece. Keeps the ids of words that it met, in bounded memory.
class PieceEncoder {
 public:
  explicit PieceEncoder(const std::vector<std::string>& pieces);

  // Replaces `ids` by those of `tokens`, which have blanks between them. A run of characters within a word that are no
  // pieces is one kUnknown, and so is a word of more than 4096 bytes.
  void encode(std::string_view tokens, std::vector<int32_t>& ids);

 private:
  std::vector<int32_t> encode_word(std::string_view word) const;

  StringTable<int32_t> ids_;
  StringTable<std::vector<int32_t>> known_;
  size_t known_bytes_ = 0;  // bytes of the words and ids in `known_`
};

}  // namespace mlbench::dataset::text
