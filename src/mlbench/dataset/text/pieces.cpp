#include "mlbench/dataset/text/pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/process.h"
#include "mlbench/dataset/cached_tokens.h"
#include "mlbench/dataset/program_beside.h"
#include "mlbench/dataset/text/characters.h"

namespace mlbench::dataset::text {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::hours kLearningTimeout{6};
constexpr size_t kMostKnownWords = 500'000, kMostKnownBytes = 64 << 20;
constexpr size_t kLongestMergedWord = 4096;  // bytes; the time of merging grows with their square

// Bytes of the code point that begins at `at`.
size_t length_at(std::string_view text, size_t at) {
  size_t end = at + 1;
  while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
  return end - at;
}

}  // namespace

void WordCounts::add(std::string_view tokens) {
  for_each_word(tokens, [&](std::string_view word) {
    const auto known = counts_.find(word);
    if (known != counts_.end()) {
      ++known->second;
    } else {
      counts_.emplace(word, 1);
      bytes_ += word.size();
      if (full()) prune();
    }
  });
}

void WordCounts::prune() {
  for (int64_t least = 2; counts_.size() > most_words_ / 2 || bytes_ > most_bytes_ / 2; ++least) {
    std::erase_if(counts_, [&](const auto& entry) {
      if (entry.second >= least) return false;
      dropped_ += entry.second;
      bytes_ -= entry.first.size();
      return true;
    });
  }
}

void WordCounts::write(const fs::path& path) const {
  std::vector<const std::pair<const std::string, int64_t>*> order;
  order.reserve(counts_.size());
  for (const auto& entry : counts_) order.push_back(&entry);
  std::ranges::sort(order, [](const auto* a, const auto* b) {
    return a->second != b->second ? a->second > b->second : a->first < b->first;
  });
  std::ofstream out(path, std::ios::binary);
  for (const auto* entry : order) out << entry->first << '\t' << entry->second << '\n';
  out.close();
  if (!out) throw IoError("cannot write " + path.string());
}

fs::path pieces_program() { return program_beside("mlbench-pieces"); }

std::vector<std::string> learn_pieces(const fs::path& words, int64_t size, const fs::path& model) {
  const fs::path program = pieces_program();
  if (!fs::exists(program)) {
    throw UserError(
        fmt::format("{} is not there: pieces of words are learned by it. It is built where SentencePiece is (Debian: "
                    "libsentencepiece-dev)",
                    program.string()));
  }
  std::ofstream created(model, std::ios::binary);  // made here with our umask, since the child has the user's
  ProcessOptions options;
  options.arguments = {program.string(), "learn", words.string(), std::to_string(size), model.string()};
  options.die_with_parent = true;
  const ProcessOutput output = run_process(options, kLearningTimeout);
  if (output.end.code != 0) {
    throw UserError(fmt::format("cannot learn {} pieces of words: {}", size, stripped_ascii(output.standard_error)));
  }
  std::vector<std::string> pieces;
  std::string_view rest = output.standard_output;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    pieces.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  MLBENCH_CHECK(std::ssize(pieces) > kEnd && std::ssize(pieces) <= size,
                fmt::format("{} pieces of {}", pieces.size(), size));
  return pieces;
}

PieceEncoder::PieceEncoder(const std::vector<std::string>& pieces) {
  ids_.reserve(pieces.size());
  for (size_t id = kEnd + 1; id < pieces.size(); ++id) ids_.emplace(pieces[id], static_cast<int32_t>(id));
}

void PieceEncoder::encode(std::string_view tokens, std::vector<int32_t>& ids) {
  ids.clear();
  for_each_word(tokens, [&](std::string_view word) {
    if (word.size() > kLongestMergedWord) {
      ids.push_back(kUnknown);
      return;
    }
    auto known = known_.find(word);
    if (known == known_.end()) {
      if (known_.size() >= kMostKnownWords || known_bytes_ >= kMostKnownBytes) {
        known_.clear();
        known_bytes_ = 0;
      }
      known = known_.emplace(word, encode_word(word)).first;
      known_bytes_ += word.size() + known->second.size() * sizeof(int32_t);
    }
    ids.insert(ids.end(), known->second.begin(), known->second.end());
  });
}

std::vector<int32_t> PieceEncoder::encode_word(std::string_view word) const {
  const std::string text = std::string(kWordStart) + std::string(word);
  std::vector<std::string_view> symbols;
  for (size_t at = 0; at < text.size();) {
    const size_t length = length_at(text, at);
    symbols.push_back(std::string_view(text).substr(at, length));
    at += length;
  }
  // A merge at `at` is the union of symbols[at] and its right neighbour; -1: none.
  const auto merged = [&](size_t at) {
    const std::string_view both(symbols[at].data(), symbols[at].size() + symbols[at + 1].size());
    const auto found = ids_.find(both);
    return found == ids_.end() ? -1 : found->second;
  };
  std::vector<int32_t> merges;
  for (size_t i = 0; i + 1 < symbols.size(); ++i) merges.push_back(merged(i));
  for (;;) {
    size_t best = merges.size();
    for (size_t i = 0; i < merges.size(); ++i) {
      if (merges[i] >= 0 && (best == merges.size() || merges[i] < merges[best])) best = i;
    }
    if (best == merges.size()) break;
    symbols[best] = std::string_view(symbols[best].data(), symbols[best].size() + symbols[best + 1].size());
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    merges.erase(merges.begin() + static_cast<std::ptrdiff_t>(best));
    if (best < merges.size()) merges[best] = merged(best);
    if (best > 0) merges[best - 1] = merged(best - 1);
  }
  std::vector<int32_t> ids;
  for (const std::string_view symbol : symbols) {
    const auto found = ids_.find(symbol);
    const int32_t id = found == ids_.end() ? kUnknown : found->second;
    if (id != kUnknown || ids.empty() || ids.back() != kUnknown) ids.push_back(id);
  }
  return ids;
}

}  // namespace mlbench::dataset::text
