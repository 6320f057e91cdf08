#include "mlbench/dataset/verified_mark.h"

#include <gmock/gmock.h>

#include "mlbench/base/environment.h"
#include "mlbench/dataset/cached_tokens.h"
#include "mlbench/dataset/prepare.h"
#include "mlbench/dataset/test_support.h"

namespace mlbench::dataset {
namespace {

namespace fs = std::filesystem;

fs::path mark_of(const fs::path& file) { return file.string() + ".checked-" + host_name(); }

// Damages a file so that all that a mark names stays the same.
void damage_unseen(const fs::path& file, size_t at) {
  const auto changed = fs::last_write_time(file);
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(stream.get() ^ 1);
  stream.seekp(static_cast<std::streamoff>(at));
  stream.put(byte);
  stream.close();
  fs::last_write_time(file, changed);
}

class Mark : public ::testing::Test {
 protected:
  void SetUp() override { test::write_file(file_, "content"); }
  void mark() const { VerifiedMark(file_).write({{"found", 7}}); }
  bool counts() const { return VerifiedMark(file_).facts().has_value(); }

  const TemporaryFolder folder_;
  const fs::path file_ = folder_ / "cache";
};

TEST_F(Mark, KeepsWhatWasFound) {
  EXPECT_FALSE(counts());
  mark();
  EXPECT_EQ(VerifiedMark(file_).facts(), Json({{"found", 7}}));
}

TEST_F(Mark, IsVoidWhenTheFileChanges) {
  mark();
  test::write_file(file_, "another");  // the size is the same
  EXPECT_FALSE(counts());
  mark();
  test::write_file(file_, "longer than before");
  EXPECT_FALSE(counts());
  mark();
  fs::copy_file(file_, folder_ / "copy");
  fs::last_write_time(folder_ / "copy", fs::last_write_time(file_));
  fs::rename(folder_ / "copy", file_);
  EXPECT_FALSE(counts()) << "another file in its place";
  mark();
  EXPECT_TRUE(counts());
  fs::remove(file_);
  EXPECT_FALSE(counts());
}

// The changes follow each other as fast as possible: none has the modification time of the check.
TEST_F(Mark, SeesAChangeWithinTheSameTick) {
  for (int i = 0; i < 20; ++i) {
    test::write_file(file_, "content" + std::to_string(i % 10));
    mark();
    test::write_file(file_, "damaged" + std::to_string(i % 10));
    EXPECT_FALSE(counts()) << i;
  }
}

TEST_F(Mark, OfAnotherBuildOrDamagedDoesNotCount) {
  mark();
  const Json whole = read_json_file(mark_of(file_));
  Json other = whole;
  other["file"]["build"] = std::string(40, '0');
  write_json_file(mark_of(file_), other);
  EXPECT_FALSE(counts());
  for (const char* text : {"", "{", "[]", "7", R"({"file": 7, "facts": {}})"}) {
    test::write_file(mark_of(file_), text);
    EXPECT_FALSE(counts()) << text;
  }
  write_json_file(mark_of(file_), whole);
  EXPECT_TRUE(counts());
}

TEST_F(Mark, SparesASecondCheck) {
  int checks = 0;
  const auto check = [&] {
    if (++checks == 1) throw DamagedTokens("the first time");
    return Json(checks);
  };
  EXPECT_THROW(check_once(file_, check), DamagedTokens);
  EXPECT_EQ(check_once(file_, check), 2);
  EXPECT_EQ(check_once(file_, check), 2);
  test::write_file(file_, "another content");
  EXPECT_EQ(check_once(file_, check), 3);
}

TEST_F(Mark, OfAnotherHostDoesNotCount) {
  mark();
  fs::rename(mark_of(file_), file_.string() + ".checked-elsewhere");
  EXPECT_FALSE(counts());
}

// --- marks of a data cache

class MarkedCache : public ::testing::Test {
 protected:
  void SetUp() override {
    test::write_tiny(data_ / "tiny");
    prepare_tiny();
    for (const auto& entry : fs::directory_iterator(cache_.path())) {
      if (entry.path().extension() == ".cache") file_ = entry.path();
    }
    ASSERT_TRUE(fs::exists(mark_of(file_)));
  }
  PreparedDataset prepare_tiny() {
    lines_.clear();
    return prepare(test::tiny(), {data_.path().string()}, cache_.path(),
                   [&](const std::string& line) { lines_.push_back(line); });
  }

  const TemporaryFolder data_, cache_;
  std::vector<std::string> lines_;
  fs::path file_;
};

TEST_F(MarkedCache, IsNotReadAgainAsAWhole) {
  damage_unseen(file_, 4096);
  prepare_tiny();
  EXPECT_TRUE(lines_.empty()) << "nobody has looked at the records";
  fs::remove(mark_of(file_));
  prepare_tiny();
  EXPECT_THAT(lines_, testing::ElementsAre(testing::HasSubstr("is damaged"), testing::HasSubstr("decoding")));
}

TEST_F(MarkedCache, IsCheckedWhenItsHeaderIsNotItsMarks) {
  damage_unseen(file_, 10);
  prepare_tiny();
  EXPECT_THAT(lines_, testing::ElementsAre(testing::HasSubstr("is damaged"), testing::HasSubstr("decoding")));
}

TEST_F(MarkedCache, OfTokensIsCheckedOnce) {
  const fs::path path = cache_ / "train.source";
  TokenWriter writer(path, 10);
  writer.add(std::vector<int32_t>{1, 2, 3});
  writer.commit();
  CachedTokens(path).verify_once();
  damage_unseen(path, 128);
  CachedTokens(path).verify_once();
  fs::remove(mark_of(path));
  EXPECT_THROW(CachedTokens(path).verify_once(), DamagedTokens);
  EXPECT_FALSE(fs::exists(mark_of(path)));
}

}  // namespace
}  // namespace mlbench::dataset
