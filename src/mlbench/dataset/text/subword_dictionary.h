#pragma once

// The subwords of tensor2tensor (Vaswani et al., "Tensor2Tensor for Neural Machine Translation", AMTA 2018), as
// MLBench's WMT17 uses them. The text is not tokenised: it falls into runs of letters and digits, and runs of all else;
// a single blank between two runs is not written. Each run, escaped and with "_" behind it, is split into subwords from
// left to right, each the longest that fits. Internal to dataset/.

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
  // `subwords` are in the order of their ids; the first four are names of kPad, kUnknown, kBegin and kEnd. Throws
  // UserError where a subword is empty or there twice, or the characters of escapes ("\", "u", "_", ";", digits) are
  // missing.
  explicit SubwordDictionary(std::vector<std::string> subwords);

  // Ids of `text`, without kBegin and kEnd; a text of white space has none.
  std::vector<int32_t> encode(std::string_view text) const;
  // The text of `ids`; special ids and those beyond the dictionary are left out.
  std::string decode(std::span<const int64_t> ids) const;

  const std::vector<std::string>& subwords() const { return subwords_; }

 private:
  void encode_run(std::u32string_view run, std::vector<int32_t>& ids) const;

  std::vector<std::string> subwords_;
  StringTable<int32_t> ids_;
  std::unordered_set<char32_t> alphabet_;
  size_t longest_ = 0;  // bytes of the longest subword
};

// A file of quoted subwords, one per line ('the_'), such as reference_dictionary.ende.txt and dict.en.txt. The entries
// "<lua_index_compat>", "<pad>_", "<EOS>_" and "<bypass_unk>" are the special ids, wherever they stand; the others get
// ids from 4 on, in the file's order.
struct DictionaryFile {
  std::vector<std::string> subwords;  // the constructor argument of SubwordDictionary
  // Maps an id of MLBench's own files (0: lua_index_compat, then the file's order) to this program's id.
  std::vector<int32_t> from_file_ids;
};
// Throws UserError naming file and line.
DictionaryFile read_dictionary(const std::filesystem::path& path);

}  // namespace mlbench::dataset::text
