#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/dataset/text/characters.h"
#include "mlbench/dataset/text/cleaning.h"
#include "mlbench/dataset/text/lines.h"
#include "mlbench/dataset/text/string_table.h"
#include "mlbench/dataset/text/text_format.h"
#include "mlbench/dataset/text/text_writer.h"

namespace mlbench::dataset::text {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kUnknownWord = "<unk>", kEndWord = "<eos>";

// Calls `visit` with every line, in which white space (as in Python's str.split()) is replaced by blanks. A line that
// is too long or no UTF-8 is counted and left out.
template <typename Visit>
void visit_lines(const std::vector<fs::path>& files, TextCounts& counts, const Visit& visit) {
  for (const fs::path& file : files) {
    TextLines lines(file);
    for (std::string line;;) {
      const TextLines::Kind kind = lines.next(line);
      if (kind == TextLines::Kind::kEnd) break;
      const Verdict verdict = kind == TextLines::Kind::kTooLong ? Verdict::kTooLong
                              : is_utf8(line)                   ? Verdict::kKept
                                                                : Verdict::kBadUtf8;
      counts.add(verdict);
      if (verdict != Verdict::kKept) continue;
      make_blanks(line);
      visit(line);
    }
    if (lines.number() == 0) throw UserError(file.string() + " is empty: expected text");
  }
}

// All different words are counted, since a rare word may get an id, too: up to these limits, within 1 GB.
constexpr size_t kMostWords = 4'000'000, kMostWordBytes = 128 << 20;

struct CountedWord {
  int64_t count = 0, first = 0;  // `first`: place in the order of first occurrence
};
using CountedWords = StringTable<CountedWord>;

// Counts every word of the files. Throws UserError where there are more words than these limits.
CountedWords count_words(const TextJob& job) {
  CountedWords counted;
  size_t bytes = 0;
  ProgressLines counting(job, "counting words");
  for (const auto& files : job.files) {
    TextCounts ignored;
    visit_lines(files, ignored, [&](std::string_view line) {
      for_each_word(line, [&](std::string_view word) {
        auto known = counted.find(word);
        if (known == counted.end()) {
          known = counted.emplace(word, CountedWord{0, std::ssize(counted)}).first;
          bytes += word.size();
        }
        ++known->second.count;
      });
      if (counted.size() > kMostWords || bytes > kMostWordBytes) {
        throw UserError(
            fmt::format("{} has more than {} different words of {} MiB: expected at most {} of {} MiB, with "
                        "blanks between words",
                        job.description.name, counted.size() - 1, bytes >> 20, kMostWords, kMostWordBytes >> 20));
      }
      counting.count();
    });
  }
  return counted;
}

// The `most` most frequent words, ties in the order of first occurrence, with <unk> and <eos> put in at their ids.
std::vector<std::string> order_words(const CountedWords& counted, int64_t most) {
  using Entry = CountedWords::value_type;
  std::vector<const Entry*> order;
  for (const Entry& one : counted) {
    if (one.first != kUnknownWord && one.first != kEndWord) order.push_back(&one);
  }
  std::ranges::sort(order, [](const Entry* a, const Entry* b) {
    return a->second.count != b->second.count ? a->second.count > b->second.count : a->second.first < b->second.first;
  });
  std::vector<std::string> words;
  for (const Entry* one : order) {
    if (std::ssize(words) < most) words.push_back(one->first);
  }
  words.insert(words.begin() + std::min<std::ptrdiff_t>(kUnknown, std::ssize(words)), std::string(kUnknownWord));
  words.insert(words.begin() + std::min<std::ptrdiff_t>(kEnd, std::ssize(words)), std::string(kEndWord));
  return words;
}

}  // namespace

Json make_words(const TextJob& job) {
  const DatasetDescription& description = job.description;
  CountedWords counted = count_words(job);
  std::vector<std::string> words = order_words(counted, description.classes);
  const int64_t different =
      std::ssize(counted) + (counted.contains(kUnknownWord) ? 0 : 1) + (counted.contains(kEndWord) ? 0 : 1);
  counted = {};
  if (different > description.classes) {
    job.say(fmt::format("{} of {} words do not fit into a vocabulary of {}: the rarest become {}",
                        different - description.classes, different, description.classes, kUnknownWord));
    words.resize(static_cast<size_t>(description.classes));
  }
  TextVocabulary vocabulary({VocabularyKind::kWords, description.classes, "", ""}, std::move(words));
  vocabulary.save(vocabulary_path(job.folder));

  Json facts = Json::object();
  ProgressLines writing(job, "writing tokens");
  std::vector<int32_t> ids;
  for (size_t i = 0; i < description.splits.size(); ++i) {
    const std::string& split = description.splits[i].name;
    TokenWriter tokens(tokens_path(job.folder, split, "tokens"), description.classes);
    TextCounts counts;
    int64_t count = 0;
    visit_lines(job.files[i], counts, [&](std::string_view line) {
      vocabulary.encode(line, ids);
      ids.push_back(kEnd);
      tokens.append(ids);
      count += std::ssize(ids);
      writing.count();
    });
    tokens.commit();
    facts[split] = counts.json();
    facts[split]["tokens"] = count;
  }
  return facts;
}

}  // namespace mlbench::dataset::text
