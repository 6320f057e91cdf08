#pragma once

// The subwords of tensor2tensor (Vaswani et al., "Tensor2Tensor for Neural Machine Translation", AMTA 2018), as
// MLBench's WMT17 has them: no tokenisation; a text falls into runs of letters and digits and runs of all else, a
// single blank between two of which is not written; each run, escaped and with "_" behind it, is the longest subwords
// from left to right. Internal to dataset/.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "mlbench/dataset/text/string_table.h"

namespace mlbench::dataset::text {

class SubwordDictionary {
 public:
  // Of subwords in the order of their ids, the first four being the names of kPad, kUnknown, kBegin and kEnd.
  // UserError when one is there twice or empty, or the characters of escapes ("\", "u", "_", ";", digits) are missing.
  explicit SubwordDictionary(std::vector<std::string> subwords);

  // Ids without begin and end. Every text has some.
  std::vector<int32_t> encode(std::string_view text) const;
  // The text; ids beyond the dictionary and the special ones are left out.
  std::string decode(std::span<const int64_t> ids) const;

  const std::vector<std::string>& subwords() const { return subwords_; }

 private:
  void encode_run(std::u32string_view run, std::vector<int32_t>& ids) const;

  std::vector<std::string> subwords_;
  StringTable<int32_t> ids_;
  std::unordered_set<char32_t> alphabet_;
  size_t longest_ = 0;  // bytes
};

// A file of quoted subwords, one per line ('the_'), as reference_dictionary.ende.txt and dict.en.txt are. Entries
// "<lua_index_compat>", "<pad>_", "<EOS>_" and "<bypass_unk>" are the special ids, wherever they stand; the others
// follow in the file's order from 4 on.
struct DictionaryFile {
  std::vector<std::string> subwords;  // for SubwordDictionary
  // From an id of MLBench's own files (0: lua_index_compat, then the file's order) to ours.
  std::vector<int32_t> from_file_ids;
};
// UserError naming file and line.
DictionaryFile read_dictionary(const std::filesystem::path& path);

}  // namespace mlbench::dataset::text
