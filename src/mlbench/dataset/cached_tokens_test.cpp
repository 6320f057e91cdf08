#include "mlbench/dataset/cached_tokens.h"

#include <gmock/gmock.h>
#include <malloc.h>

#include <numeric>
#include <span>

#include "mlbench/dataset/test_support.h"

namespace mlbench::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int32_t> values_of(std::span<const int32_t> tokens) { return {tokens.begin(), tokens.end()}; }

void write_three(const std::filesystem::path& path) {
  TokenWriter writer(path, 100);
  writer.add(std::vector<int32_t>{5, 6, 7});
  writer.add({});
  writer.append(std::vector<int32_t>{99});
  writer.append(std::vector<int32_t>{4, 4, 4});
  writer.commit();  // ends the third record
}

TEST(CachedTokens, AreTheRecordsThatWereWritten) {
  const TemporaryFolder folder;
  write_three(folder / "train.source");
  const CachedTokens cached(folder / "train.source");
  cached.verify();
  EXPECT_EQ(cached.records(), 3);
  EXPECT_EQ(cached.vocabulary(), 100);
  EXPECT_EQ(cached.longest(), 4);
  const TokenColumn column = cached.column("source");
  EXPECT_EQ(column.records(), 3);
  EXPECT_THAT(values_of(column.record(0)), ElementsAre(5, 6, 7));
  EXPECT_TRUE(column.record(1).empty());
  EXPECT_THAT(values_of(column.record(2)), ElementsAre(99, 4, 4, 4));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(column.elements.data()) % 64, 0U);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(column.offsets.data()) % 64, 0U);
}

TEST(CachedTokens, MayBeManyOrNone) {
  const TemporaryFolder folder;
  std::vector<int32_t> text(200'001);  // more than a writer keeps in memory
  std::iota(text.begin(), text.end(), 0);
  TokenWriter writer(folder / "text", 200'001);
  writer.append(text);
  const std::string hash = writer.commit();
  const CachedTokens cached(folder / "text");
  cached.verify();
  EXPECT_EQ(cached.sha256(), hash);
  EXPECT_EQ(cached.records(), 1);
  EXPECT_EQ(values_of(cached.tokens()), text);

  TokenWriter(folder / "none", 10).commit();
  const CachedTokens none(folder / "none");
  none.verify();
  EXPECT_EQ(none.records(), 0);
}

TEST(CachedTokens, MillionsOfRecordsTakeNoMemory) {
  constexpr int64_t kRecords = 2'000'000;
  const TemporaryFolder folder;
  TokenWriter writer(folder / "train", 10);
  const size_t before = mallinfo2().uordblks;
  const std::vector<int32_t> one = {7};
  for (int64_t i = 0; i < kRecords; ++i) writer.add(std::span(one).first(static_cast<size_t>(i % 2)));
  EXPECT_LT(mallinfo2().uordblks, before + (1 << 20)) << "of " << kRecords << " records";
  writer.commit();
  const CachedTokens cached(folder / "train");
  cached.verify();
  ASSERT_EQ(cached.records(), kRecords);
  const TokenColumn column = cached.column("tokens");
  EXPECT_EQ(column.offsets.back(), kRecords / 2);
  for (const int64_t record :
       {int64_t{0}, int64_t{32766}, int64_t{32767}, int64_t{32768}, int64_t{65535}, kRecords - 1}) {
    EXPECT_EQ(column.offsets[static_cast<size_t>(record)], record / 2) << record;
    EXPECT_EQ(column.length(record), record % 2) << record;
  }
}

TEST(CachedTokens, WithoutACommitNothingIsLeft) {
  const TemporaryFolder folder;
  TokenWriter(folder / "train", 10).add(std::vector<int32_t>{1});
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(CachedTokens, ATokenBeyondTheVocabularyIsABugOfTheWriter) {
  const TemporaryFolder folder;
  TokenWriter writer(folder / "train", 10);
  EXPECT_THROW(writer.append(std::vector<int32_t>{10}), InternalError);
  EXPECT_THROW(writer.append(std::vector<int32_t>{-1}), InternalError);
}

// A flipped bit of any byte but padding is seen, by the constructor or by verify().
TEST(CachedTokens, AnyChangeIsSeen) {
  const TemporaryFolder folder;
  const auto path = folder / "train";
  write_three(path);
  const std::string whole = read_file(path);
  const size_t tokens_end = 128 + 7 * sizeof(int32_t), offsets = 192;
  ASSERT_EQ(whole.size(), offsets + 4 * sizeof(int64_t));
  for (size_t i = 0; i < whole.size(); ++i) {
    if ((i >= 120 && i < 128) || (i >= tokens_end && i < offsets)) continue;
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    test::write_file(path, changed);
    EXPECT_THROW(CachedTokens(path).verify(), DamagedTokens) << "byte " << i;
  }
  for (const size_t size : {size_t{0}, size_t{127}, size_t{128}, whole.size() - 1}) {
    test::write_file(path, whole.substr(0, size));
    EXPECT_THROW(CachedTokens{path}, DamagedTokens) << size << " bytes";
  }
  test::write_file(path, whole + " ");
  EXPECT_THAT(test::message_of<DamagedTokens>([&] { CachedTokens{path}; }), HasSubstr("225 bytes instead of 224"));
  std::filesystem::remove(path);
  EXPECT_THAT(test::message_of<DamagedTokens>([&] { CachedTokens{path}; }), HasSubstr("is not there"));
}

}  // namespace
}  // namespace mlbench::dataset
