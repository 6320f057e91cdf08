#include "mlbench/dataset/text/synthetic_text.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/sha256.h"
#include "mlbench/dataset/cached_tokens.h"
#include "mlbench/dataset/synthetic.h"
#include "mlbench/dataset/test_support.h"
#include "mlbench/dataset/text/prepared_text.h"
#include "mlbench/dataset/text/text_format.h"

namespace mlbench::dataset::text {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using ::testing::Contains;
using ::testing::HasSubstr;

DatasetDescription small(const std::string& name, int64_t samples) {
  DatasetDescription description = find_description(name);
  for (SplitSpec& split : description.splits) split.samples = samples;
  return description;
}

std::vector<int32_t> record_of(const PreparedDataset& data, const std::string& split, const std::string& column,
                               int64_t number) {
  const auto ids = data.split(split).column<TokenColumn>(column).record(number);
  return {ids.begin(), ids.end()};
}

TEST(SyntheticText, HasTheFormOfPreparedPairs) {
  const TemporaryFolder cache;
  const DatasetDescription description = small("wmt17", 500);
  std::vector<std::string> lines;
  const PreparedDataset data =
      make_synthetic(description, cache.path(), [&](const std::string& line) { lines.push_back(line); });
  EXPECT_TRUE(data.synthetic());
  EXPECT_FALSE(data.official());
  EXPECT_EQ(data.record()["generator"], "text 1, seed 42");
  EXPECT_EQ(data.classes(), description.classes);
  EXPECT_THAT(lines, Contains("making synthetic wmt17: text 1, seed 42"));
  EXPECT_THAT(lines, Contains("made 500 of 500 of wmt17 train"));
  EXPECT_EQ(data.text()->vocabulary().spec().size, description.classes);
  EXPECT_THAT(message_of<UserError>([&] { data.text()->references("test"); }), HasSubstr("no references"));

  const PairMaker train(description, 0), test(description, 1);
  for (const int64_t number : {0, 1, 499}) {
    EXPECT_EQ(record_of(data, "train", "source", number), train.make(number).source);
    EXPECT_EQ(record_of(data, "train", "target", number), train.make(number).target);
    EXPECT_EQ(record_of(data, "test", "target", number), test.make(number).target);
    EXPECT_NE(test.make(number).source, train.make(number).source);
  }
  EXPECT_EQ(data.split("train").samples, 500);

  const fs::path folder = data.text()->folder();
  std::string hashed = "text 1, seed 42" + read_file(vocabulary_path(folder));
  for (const char* split : {"train", "test"}) {
    for (const char* column : {"source", "target"}) hashed += CachedTokens(tokens_path(folder, split, column)).sha256();
  }
  EXPECT_EQ(data.fingerprint(), sha256_hex(hashed));
}

TEST(SyntheticText, DependsOnTheDescriptionAloneAndIsMadeOnce) {
  const TemporaryFolder cache, other_cache;
  const std::string fingerprint = make_synthetic(small("multi30k", 100), cache.path()).fingerprint();
  std::vector<std::string> lines;
  const auto say = [&](const std::string& line) { lines.push_back(line); };
  EXPECT_EQ(make_synthetic(small("multi30k", 100), cache.path(), say).fingerprint(), fingerprint);
  EXPECT_TRUE(lines.empty());
  EXPECT_EQ(make_synthetic(small("multi30k", 100), other_cache.path(), say).fingerprint(), fingerprint);
  EXPECT_FALSE(lines.empty());
  DatasetDescription other = small("multi30k", 100);
  other.synthetic_seed = 43;
  EXPECT_NE(make_synthetic(other, cache.path()).fingerprint(), fingerprint);
  other.synthetic_seed = 42;
  other.synthetic_length = 30;
  EXPECT_NE(make_synthetic(other, cache.path()).fingerprint(), fingerprint);
}

TEST(SyntheticText, ATextHasAsManyTokensAsTheDescriptionSays) {
  const TemporaryFolder cache;
  const PreparedDataset data = make_synthetic(small("wikitext2", 10'007), cache.path());
  const TokenColumn& tokens = data.split("train").column<TokenColumn>("tokens");
  EXPECT_EQ(tokens.records(), 1);
  ASSERT_EQ(tokens.elements.size(), 10'007U);
  const auto ends = std::ranges::count(tokens.elements, kEnd);
  EXPECT_GT(ends, 10'007 / 60);
  EXPECT_LT(ends, 10'007 / 10);
}

// Ids are within the vocabulary, lengths near the description's, and both rare and frequent words occur.
TEST(SyntheticText, SentencesAreAsTheHeaderSays) {
  constexpr int64_t kPairs = 4000;
  const DatasetDescription description = small("wmt16", kPairs);
  const PairMaker maker(description, 0);
  std::vector<size_t> lengths;
  std::map<int32_t, int64_t> counts;
  int64_t differ = 0, source_tokens = 0, target_tokens = 0;
  for (int64_t i = 0; i < kPairs; ++i) {
    const MadePair pair = maker.make(i);
    ASSERT_FALSE(pair.source.empty());
    ASSERT_FALSE(pair.target.empty());
    for (const auto* side : {&pair.source, &pair.target}) {
      const auto [least, most] = std::ranges::minmax(*side);
      ASSERT_GE(least, 4);
      ASSERT_LT(most, description.classes);
    }
    lengths.push_back(pair.source.size());
    for (const int32_t id : pair.source) ++counts[id];
    differ += pair.source.size() != pair.target.size() ? 1 : 0;
    source_tokens += std::ssize(pair.source);
    target_tokens += std::ssize(pair.target);
  }
  std::ranges::sort(lengths);
  EXPECT_NEAR(static_cast<double>(lengths[kPairs / 2]), description.synthetic_length, 2);
  EXPECT_LE(lengths.back(), 100U);
  EXPECT_GT(lengths.back(), 70U);
  EXPECT_GT(differ, kPairs / 2);
  EXPECT_NEAR(static_cast<double>(target_tokens) / static_cast<double>(source_tokens), 1, 0.1);
  // The most frequent word has the ranks from 1 to 2 of a frequency of 1 / rank, the next word the ranks from 2 to 3.
  const auto frequency = [&](int32_t id) { return static_cast<double>(counts[id]); };
  EXPECT_NEAR(frequency(5) / frequency(4), std::log(1.5) / std::log(2.0), 0.1);
  EXPECT_GT(counts.size(), 5000U);
}

// Each source id has the same image everywhere, and no two ids share one.
TEST(SyntheticText, TargetsFollowFromSources) {
  DatasetDescription description = small("multi30k", 3000);
  description.synthetic_length = 1;  // most sentences are one word
  const PairMaker maker(description, 0);
  std::map<int32_t, std::vector<int32_t>> images;
  std::set<int32_t> first_images;
  for (int64_t i = 0; i < 3000; ++i) {
    const MadePair pair = maker.make(i);
    if (pair.source.size() != 1) continue;
    const auto [known, is_new] = images.emplace(pair.source[0], pair.target);
    EXPECT_EQ(known->second, pair.target);
    EXPECT_EQ(pair.target.size(), pair.source[0] % 10 == 2 ? 2U : 1U);
    if (!is_new) continue;
    EXPECT_TRUE(first_images.insert(pair.target[0]).second) << pair.source[0];
  }
  EXPECT_GT(images.size(), 100U);
}

TEST(SyntheticText, WithoutIdsForWordsIsRefused) {
  const TemporaryFolder cache;
  DatasetDescription description = small("multi30k", 10);
  description.classes = 4;
  EXPECT_THAT(message_of<UserError>([&] { make_synthetic(description, cache.path()); }),
              HasSubstr("no synthetic data for multi30k"));
}

}  // namespace
}  // namespace mlbench::dataset::text
