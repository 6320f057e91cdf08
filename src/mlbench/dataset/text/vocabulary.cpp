#include "mlbench/dataset/text/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/dataset/cached_tokens.h"
#include "mlbench/dataset/text/characters.h"
#include "mlbench/dataset/text/moses.h"
#include "mlbench/dataset/text/pieces.h"
#include "mlbench/dataset/text/subword_dictionary.h"

namespace mlbench::dataset::text {

namespace {

constexpr std::array<std::string_view, 4> kKindNames = {"words", "pieces", "marked", "subwords"};
constexpr std::string_view kContinues = "@@";
constexpr int kVocabularyVersion = 1;

[[noreturn]] void refuse_vocabulary(const std::filesystem::path& path, const std::string& reason) {
  throw UserError(fmt::format("{} is no vocabulary: {}", path.string(), reason));
}

}  // namespace

struct TextVocabulary::Languages {
  std::optional<MosesDetokenizer> source, target;
  std::unordered_map<std::string_view, int32_t> ids;  // ids of words or marked parts; keys are views of `tokens_`
};

TextVocabulary::TextVocabulary(VocabularySpec spec, std::vector<std::string> tokens)
    : spec_(std::move(spec)), tokens_(std::move(tokens)), languages_(std::make_unique<Languages>()) {
  if (std::ssize(tokens_) > spec_.size || std::ssize(tokens_) <= kEnd) {
    throw UserError(fmt::format("a vocabulary of {} tokens, expected {} to {}", tokens_.size(), kEnd + 1, spec_.size));
  }
  if (!spec_.source_language.empty()) languages_->source.emplace(spec_.source_language);
  if (!spec_.target_language.empty()) languages_->target.emplace(spec_.target_language);
  switch (spec_.kind) {
    case VocabularyKind::kPieces:
      pieces_ = std::make_unique<PieceEncoder>(tokens_);
      break;
    case VocabularyKind::kSubwords:
      subwords_ = std::make_unique<SubwordDictionary>(tokens_);
      break;
    case VocabularyKind::kWords:
    case VocabularyKind::kMarked:
      for (size_t id = 0; id < tokens_.size(); ++id) languages_->ids.emplace(tokens_[id], static_cast<int32_t>(id));
      break;
  }
}

TextVocabulary::~TextVocabulary() = default;
TextVocabulary::TextVocabulary(TextVocabulary&&) noexcept = default;
TextVocabulary& TextVocabulary::operator=(TextVocabulary&&) noexcept = default;

void TextVocabulary::encode(std::string_view line, std::vector<int32_t>& ids) {
  if (pieces_) {
    pieces_->encode(line, ids);
    return;
  }
  if (subwords_) {
    ids = subwords_->encode(line);
    return;
  }
  ids.clear();
  for_each_word(line, [&](std::string_view word) {
    const auto found = languages_->ids.find(word);
    ids.push_back(found == languages_->ids.end() ? kUnknown : found->second);
  });
}

std::string TextVocabulary::tokenized_text(std::span<const int64_t> ids) const {
  if (subwords_) return subwords_->decode(ids);
  std::string text;
  bool joins = false;  // the next part belongs to the word before
  for (const int64_t id : ids) {
    if (id < 0 || id >= std::ssize(tokens_)) continue;
    if (spec_.kind != VocabularyKind::kWords && (id == kPad || id == kBegin)) continue;
    std::string_view token = tokens_[static_cast<size_t>(id)];
    if (spec_.kind == VocabularyKind::kPieces) {
      const bool starts = token.starts_with(kWordStart);
      if (starts) token.remove_prefix(kWordStart.size());
      if (starts && !text.empty()) text += ' ';
      text += token;
      continue;
    }
    if (!text.empty() && !joins) text += ' ';
    joins = spec_.kind == VocabularyKind::kMarked && token.ends_with(kContinues);
    if (joins) token.remove_suffix(kContinues.size());
    text += token;
  }
  return text;
}

std::string TextVocabulary::text(std::span<const int64_t> ids, Side side) const {
  if (spec_.kind == VocabularyKind::kWords) return tokenized_text(ids);
  ids = ids.first(static_cast<size_t>(std::ranges::find(ids, int64_t{kEnd}) - ids.begin()));
  const std::string tokens = tokenized_text(ids);
  const auto& detokenizer = side == Side::kSource ? languages_->source : languages_->target;
  return detokenizer ? detokenizer->detokenize(tokens) : tokens;
}

void TextVocabulary::save(const std::filesystem::path& path) const {
  const Json head = {{"mlbench_vocabulary", kVocabularyVersion},
                     {"kind", kKindNames[static_cast<size_t>(spec_.kind)]},
                     {"size", spec_.size},
                     {"source_language", spec_.source_language},
                     {"target_language", spec_.target_language}};
  std::string content = head.dump() + "\n";
  for (const std::string& token : tokens_) {
    MLBENCH_CHECK(token.find('\n') == std::string::npos, "a token with a line end");
    content += token + "\n";
  }
  write_file_atomically(path, content);
}

TextVocabulary TextVocabulary::load(const std::filesystem::path& path) {
  const std::string content = read_file(path, inputs::kVocabulary);
  std::string_view rest = content;
  const auto next_line = [&] {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) refuse_vocabulary(path, "its last line has no end");
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    return line;
  };
  const auto head = try_parse_json(next_line(), inputs::kTextFacts);
  if (!head || !head->is_object() || head->value("mlbench_vocabulary", Json()) != kVocabularyVersion) {
    refuse_vocabulary(path, fmt::format("its first line is not that of version {}", kVocabularyVersion));
  }
  const auto text_member = [&](const char* name) {
    const Json value = head->value(name, Json());
    if (!value.is_string()) refuse_vocabulary(path, fmt::format("'{}' is no text", name));
    return value.get<std::string>();
  };
  const std::string kind_name = text_member("kind");
  const auto kind = std::ranges::find(kKindNames, kind_name);
  if (kind == kKindNames.end()) {
    refuse_vocabulary(path, unknown_text("kind", kind_name, texts_of(kKindNames)));
  }
  VocabularySpec spec{static_cast<VocabularyKind>(kind - kKindNames.begin()), integer_member(*head, "size"),
                      text_member("source_language"), text_member("target_language")};
  std::vector<std::string> tokens;
  while (!rest.empty()) tokens.emplace_back(next_line());
  return TextVocabulary(std::move(spec), std::move(tokens));
}

}  // namespace mlbench::dataset::text
