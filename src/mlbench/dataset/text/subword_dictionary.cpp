#include "mlbench/dataset/text/subword_dictionary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/dataset/cached_tokens.h"
#include "mlbench/dataset/text/characters.h"
#include "mlbench/dataset/text/lines.h"

namespace mlbench::dataset::text {

namespace {

constexpr std::u32string_view kEscapeCharacters = U"\\_u;0123456789";
constexpr char32_t kUndefined = U'\u3013';
constexpr std::string_view kLuaEntry = "<lua_index_compat>";

// Which special id an entry of a dictionary file stands for; -1: none.
int32_t special_id(std::string_view entry) {
  struct Special {
    std::string_view entry;
    int32_t id;
  };
  static constexpr std::array kSpecials = {Special{"<pad>_", kPad}, Special{"<bypass_unk>", kUnknown},
                                           Special{kLuaEntry, kBegin}, Special{"<EOS>_", kEnd}};
  const auto found = std::ranges::find(kSpecials, entry, &Special::entry);
  return found == kSpecials.end() ? -1 : found->id;
}

// Undoes escapes: "\u" is "_", "\\" is "\", "\123;" the character with that number.
std::u32string unescape_run(std::u32string_view run) {
  std::u32string result;
  for (size_t i = 0; i < run.size(); ++i) {
    if (run[i] != U'\\' || i + 1 == run.size()) {
      result += run[i];
      continue;
    }
    if (run[i + 1] == U'u' || run[i + 1] == U'\\') {
      result += run[i + 1] == U'u' ? U'_' : U'\\';
      ++i;
      continue;
    }
    size_t end = i + 1;
    char32_t number = 0;
    while (end < run.size() && run[end] >= U'0' && run[end] <= U'9') {
      number = std::min<char32_t>(number * 10 + (run[end] - U'0'), 0x110000);
      ++end;
    }
    if (end == i + 1 || end == run.size() || run[end] != U';') {
      result += run[i];
      continue;
    }
    const bool character = number < 0x110000 && (number < 0xD800 || number > 0xDFFF);
    result += character ? number : kUndefined;
    i = end;
  }
  return result;
}

}  // namespace

SubwordDictionary::SubwordDictionary(std::vector<std::string> subwords) : subwords_(std::move(subwords)) {
  for (size_t id = kEnd + 1; id < subwords_.size(); ++id) {
    const std::string& subword = subwords_[id];
    if (subword.empty() || !ids_.emplace(subword, static_cast<int32_t>(id)).second) {
      throw UserError(fmt::format("subword {} of the dictionary, '{}', is {}", id, subword,
                                  subword.empty() ? "empty" : "there twice"));
    }
    longest_ = std::max(longest_, subword.size());
    for (const char32_t c : code_points(subword)) alphabet_.insert(c);
  }
  for (const char32_t c : kEscapeCharacters) {
    alphabet_.insert(c);
    std::string one;
    append_utf8(one, c);
    if (!ids_.contains(one)) {
      throw UserError(
          fmt::format("the dictionary has no subword '{}', without which not every text can be written: "
                      "expected all of \\ _ u ; and the digits",
                      one));
    }
  }
}

void SubwordDictionary::encode_run(std::u32string_view run, std::vector<int32_t>& ids) const {
  std::string escaped;
  for (const char32_t c : run) {
    if (c == U'\\') {
      escaped += "\\\\";
    } else if (c == U'_') {
      escaped += "\\u";
    } else if (alphabet_.contains(c) && c != U'\n') {
      append_utf8(escaped, c);
    } else {
      escaped += fmt::format("\\{};", static_cast<uint32_t>(c));
    }
  }
  escaped += '_';
  for (size_t begin = 0; begin < escaped.size();) {
    size_t length = std::min(longest_, escaped.size() - begin);
    const std::string_view rest(escaped.data() + begin, escaped.size() - begin);
    auto found = ids_.find(rest.substr(0, length));
    while (found == ids_.end() && length > 1) found = ids_.find(rest.substr(0, --length));
    if (found == ids_.end()) {
      // The character occurs only within longer subwords: the reference cannot write it either.
      ids.push_back(kUnknown);
      while (begin + length < escaped.size() && (escaped[begin + length] & 0xC0) == 0x80) ++length;
    } else {
      ids.push_back(found->second);
    }
    begin += length;
  }
}

std::vector<int32_t> SubwordDictionary::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  const std::u32string all = code_points(text);
  const std::u32string_view line = stripped(all);
  for (size_t begin = 0; begin < line.size();) {
    const bool letters = is_letter_or_number(line[begin]);
    size_t end = begin + 1;
    while (end < line.size() && is_letter_or_number(line[end]) == letters) ++end;
    const std::u32string_view run = line.substr(begin, end - begin);
    if (run != U" " || begin == 0 || end == line.size()) encode_run(run, ids);
    begin = end;
  }
  return ids;
}

std::string SubwordDictionary::decode(std::span<const int64_t> ids) const {
  std::string escaped;
  for (const int64_t id : ids) {
    if (id > kEnd && id < std::ssize(subwords_)) escaped += subwords_[static_cast<size_t>(id)];
  }
  std::u32string text;
  bool letters_before = false;
  for (size_t begin = 0; begin < escaped.size();) {
    const size_t end = std::min(escaped.find('_', begin), escaped.size());
    const std::u32string run = unescape_run(code_points(std::string_view(escaped).substr(begin, end - begin)));
    begin = end + 1;
    if (run.empty()) continue;
    const bool letters = is_letter_or_number(run.front());
    if (letters_before && letters) text += U' ';
    text += run;
    letters_before = letters;
  }
  return to_utf8(text);
}

DictionaryFile read_dictionary(const std::filesystem::path& path) {
  DictionaryFile file;
  file.subwords = {"<pad>", "<unk>", "<s>", "</s>"};
  TextLines lines(path);
  size_t bytes = 0;
  for (std::string line;;) {
    const TextLines::Kind kind = lines.next(line);
    if (kind == TextLines::Kind::kEnd) break;
    bytes += line.size();
    if (bytes > inputs::kSubwords.most_bytes) refuse_size(path.string(), bytes, inputs::kSubwords);
    const std::string_view quoted = stripped_ascii(line);
    const bool good = quoted.size() >= 3 && (quoted.front() == '\'' || quoted.front() == '"') &&
                      quoted.front() == quoted.back() && is_utf8(quoted);
    if (!good) {
      throw UserError(
          fmt::format("{}:{}: expected a subword in quotation marks, as 'the_'", path.string(), lines.number()));
    }
    const std::string_view entry = quoted.substr(1, quoted.size() - 2);
    if (file.from_file_ids.empty() && entry != kLuaEntry) file.from_file_ids.push_back(special_id(kLuaEntry));
    const int32_t special = special_id(entry);
    file.from_file_ids.push_back(special >= 0 ? special : static_cast<int32_t>(file.subwords.size()));
    if (special < 0) file.subwords.emplace_back(entry);
  }
  if (file.from_file_ids.empty()) throw UserError(path.string() + " is empty: expected a subword a line");
  return file;
}

}  // namespace mlbench::dataset::text
