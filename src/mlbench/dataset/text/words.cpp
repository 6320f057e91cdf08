#include <fmt/format.h>

#include <algorithm>
#include <array>

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

// Every line of the files, with white space, as Python's str.split() takes it, as blanks; a line that is too long or no
// UTF-8 is counted and left out.
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

struct CountedWord {
  std::string word;
  int64_t count = 0, first = 0;  // its place among the new words
};

// The most frequent first, those that came first before others; <unk> and <eos> at their ids.
std::vector<std::string> order_words(const StringTable<CountedWord>& counted) {
  std::vector<const CountedWord*> order;
  for (const auto& [word, one] : counted) {
    if (word != kUnknownWord && word != kEndWord) order.push_back(&one);
  }
  std::ranges::sort(order, [](const CountedWord* a, const CountedWord* b) {
    return a->count != b->count ? a->count > b->count : a->first < b->first;
  });
  std::vector<std::string> words;
  for (const CountedWord* one : order) words.push_back(one->word);
  words.insert(words.begin() + std::min<std::ptrdiff_t>(kUnknown, std::ssize(words)), std::string(kUnknownWord));
  words.insert(words.begin() + std::min<std::ptrdiff_t>(kEnd, std::ssize(words)), std::string(kEndWord));
  return words;
}

}  // namespace

Json make_words(const TextJob& job) {
  const DatasetDescription& description = job.description;
  StringTable<CountedWord> counted;
  ProgressLines counting(job, "counting words");
  for (const auto& files : job.files) {
    TextCounts ignored;
    visit_lines(files, ignored, [&](std::string_view line) {
      for_each_word(line, [&](std::string_view word) {
        auto known = counted.find(word);
        if (known == counted.end()) {
          known = counted.emplace(word, CountedWord{std::string(word), 0, std::ssize(counted)}).first;
        }
        ++known->second.count;
      });
      counting.count();
    });
  }
  std::vector<std::string> words = order_words(counted);
  counted.clear();
  if (std::ssize(words) > description.classes) {
    job.say(fmt::format("{} of {} words do not fit into a vocabulary of {}: the rarest become {}",
                        std::ssize(words) - description.classes, words.size(), description.classes, kUnknownWord));
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
