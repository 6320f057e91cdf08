#include "mlbench/tfrecord/records.h"

#include <gmock/gmock.h>

#include "mlbench/base/test_error.h"

namespace mlbench::tfrecord {
namespace {

using ::testing::HasSubstr;

// The values of RFC 3720, B.4, and the usual check value.
TEST(Checksum, IsThatOfCrc32cMasked) {
  const auto masked = [](uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8U; };
  EXPECT_EQ(masked_checksum(std::string(32, '\0')), masked(0x8a9136aaU));
  EXPECT_EQ(masked_checksum(std::string(32, '\xFF')), masked(0x62a8ab43U));
  EXPECT_EQ(masked_checksum("123456789"), masked(0xe3069283U));
}

std::string two_records() {
  std::string content;
  append_record(content, "first");
  append_record(content, "");
  return content;
}

std::string error_of_reading(const std::string& content, int64_t most_bytes = 100) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "x.tfrecord", content);
  return error_of([&] {
    RecordReader reader(folder / "x.tfrecord", most_bytes);
    while (reader.next()) {
    }
  });
}

TEST(RecordReader, GivesRecordsWithTheirOffsets) {
  const TemporaryFolder folder;
  ASSERT_EQ(two_records().size(), 12 + 5 + 4 + 12 + 0 + 4U);
  write_file_atomically(folder / "x.tfrecord", two_records());
  RecordReader reader(folder / "x.tfrecord", 5);
  const auto first = reader.next();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->offset, 12);
  EXPECT_EQ(first->bytes, "first");
  const auto second = reader.next();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->offset, 33);
  EXPECT_EQ(second->bytes, "");
  EXPECT_FALSE(reader.next());
  EXPECT_EQ(reader.checked().bytes, 5) << "lengths and their checksums are not counted";
  EXPECT_GT(reader.checked().ns, 0);
}

TEST(RecordReader, RefusesDamage) {
  const std::string good = two_records();
  EXPECT_EQ(error_of_reading(good), "no error");
  for (size_t at = 0; at < good.size(); ++at) {
    std::string changed = good;
    changed[at] ^= 1;
    EXPECT_THAT(error_of_reading(changed), HasSubstr("the checksum of its ")) << at;
  }
  EXPECT_THAT(error_of_reading(good.substr(0, 24)), HasSubstr("record at byte 21: the file ends in its length"));
  EXPECT_THAT(error_of_reading(good.substr(0, 20)),
              HasSubstr("its length is 5 bytes, but the file ends 8 bytes behind it"));
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { RecordReader(folder.path(), 5); }), HasSubstr("no plain file"));
}

// The checksum of the length is right: whoever wrote the file meant it.
TEST(RecordReader, TakesNoMemoryForALengthThatLies) {
  for (const uint64_t length : {uint64_t{6}, uint64_t{1} << 40, UINT64_MAX, UINT64_MAX - 3}) {
    std::string head(reinterpret_cast<const char*>(&length), sizeof length);
    const uint32_t checksum = masked_checksum(head);
    head += std::string(reinterpret_cast<const char*>(&checksum), sizeof checksum);
    EXPECT_THAT(error_of_reading(head + "abc", 5), HasSubstr("at most 5 are read")) << length;
  }
}

}  // namespace
}  // namespace mlbench::tfrecord
