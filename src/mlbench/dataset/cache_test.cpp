// Columns on their way through the cache file. Features and labels of real formats are in prepare_test.cpp.

#include "mlbench/dataset/cache.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/sha256.h"
#include "mlbench/dataset/test_support.h"

namespace mlbench::dataset {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
template <typename T>
std::string raw_bytes(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// Splits of 3 and 2 records, whose columns are bytes, two values of 16 bits, bytes again, and a label.
class MixedCache : public ::testing::Test {
 protected:
  MixedCache() {
    description_.name = "mixed";
    description_.splits = {{"train", 3, {}}, {"test", 2, {}}};
  }

  static std::string encoded(size_t split, size_t record) { return std::string(record * 5000, char('a' + split)); }
  static std::string caption(size_t split, size_t record) { return record == 1 ? "" : "caption " + encoded(split, 1); }
  static uint8_t value_of(size_t split, size_t at) { return static_cast<uint8_t>(100 * split + at); }
  static int64_t label_of(size_t split, size_t record) { return static_cast<int64_t>(10 * split + record); }

  PreparedDataset open() {
    fills_ = 0;
    lines_.clear();
    return open_or_make_cache(
        {description_, columns_, "", "a key of more than 16 characters"}, cache_.path(),
        [&](size_t split, SplitWriter& out) {
          ++fills_;
          fill(split, out);
        },
        "making it", [&](const std::string& line) { lines_.push_back(line); });
  }

  static void append(SplitWriter& out, std::string_view column, const std::string& record) {
    out.append(column, std::as_bytes(std::span(record.data(), record.size())));
  }
  static void fill(size_t split, SplitWriter& out) {
    const size_t records = split == 0 ? 3 : 2;
    for (size_t i = 0; i < records; ++i) append(out, "encoded", encoded(split, i));
    const std::span<std::byte> values = out.values("values");
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::byte{value_of(split, i)};
    for (size_t i = 0; i < records; ++i) append(out, "caption", caption(split, i));
    for (size_t i = 0; i < records; ++i) {
      const int64_t label = label_of(split, i);
      std::memcpy(out.values("labels").data() + i * sizeof label, &label, sizeof label);
    }
  }

  static void expect_records(const PreparedDataset& data) {
    for (size_t split = 0; split < 2; ++split) {
      const CachedSplit& found = data.splits()[split];
      const auto& values = found.column<FixedColumn>("values");
      EXPECT_EQ(values.records(), found.samples);
      EXPECT_EQ(found.column<BytesColumn>("encoded").records(), found.samples);
      for (int64_t i = 0; i < found.samples; ++i) {
        const auto record = static_cast<size_t>(i);
        EXPECT_EQ(as_text(found.column<BytesColumn>("encoded").record(i)), encoded(split, record));
        EXPECT_EQ(as_text(found.column<BytesColumn>("caption").record(i)), caption(split, record));
        EXPECT_EQ(found.labels()[record], label_of(split, record));
        const auto* bytes = static_cast<const uint8_t*>(values.record(i).data);
        for (size_t at = 0; at < 4; ++at) EXPECT_EQ(bytes[at], value_of(split, 4 * record + at));
      }
    }
  }

  fs::path file() const {
    for (const auto& entry : fs::directory_iterator(cache_.path())) {
      if (entry.path().extension() == ".cache") return entry.path();
    }
    return {};
  }

  DatasetDescription description_;
  std::vector<ColumnSpec> columns_ = {{.name = "encoded", .type = ColumnSpec::Type::kBytes},
                                      {.name = "values", .shape = {1, 2}, .dtype = DType::kFloat16},
                                      {.name = "caption", .type = ColumnSpec::Type::kBytes},
                                      {.name = "labels", .dtype = DType::kInt64}};
  TemporaryFolder cache_;
  int fills_ = 0;
  std::vector<std::string> lines_;
};

TEST_F(MixedCache, GivesWhatWasWritten) {
  expect_records(open());
  EXPECT_EQ(fills_, 2);
  expect_records(open());
  EXPECT_EQ(fills_, 0) << "the cache is whole";
}

TEST_F(MixedCache, FingerprintIsTheHashOfAllRecords) {
  std::string records;
  for (size_t split = 0; split < 2; ++split) {
    for (size_t i = 0; i < (split == 0 ? 3 : 2); ++i) {
      records += raw_bytes(std::ssize(encoded(split, i))) + encoded(split, i);
      for (size_t at = 0; at < 4; ++at) records += static_cast<char>(value_of(split, 4 * i + at));
      records += raw_bytes(std::ssize(caption(split, i))) + caption(split, i) + raw_bytes(label_of(split, i));
    }
  }
  EXPECT_EQ(open().fingerprint(), sha256_hex(records));
}

TEST_F(MixedCache, AColumnIsAskedForByItsType) {
  const PreparedDataset data = open();
  EXPECT_THAT(message_of<UserError>([&] { data.split("train").column<FixedColumn>("encoded"); }),
              HasSubstr("split 'train' has no values 'encoded'; it has encoded (bytes), values (float16 [1, 2]), "
                        "caption (bytes), labels (int64 [])"));
  EXPECT_THAT(message_of<UserError>([&] { data.split("test").column<BytesColumn>("image"); }),
              HasSubstr("split 'test' has no bytes 'image'"));
}

TEST_F(MixedCache, IsMadeAnewWhereItIsDamagedOrHasOtherColumns) {
  open();
  const std::string whole = read_file(file());
  const auto with_changed_byte = [&](size_t at) {
    std::string changed = whole;
    changed[at] ^= 1;
    return changed;
  };
  std::string far = whole;  // an offset beyond the file
  const int64_t lie = int64_t{1} << 60;
  std::memcpy(far.data() + 4096 + 3 * sizeof lie, &lie, sizeof lie);
  for (const std::string& damaged : {whole.substr(0, whole.size() - 1), whole + "x", with_changed_byte(4096),
                                     with_changed_byte(4096 + 8), far, with_changed_byte(whole.size() - 1)}) {
    test::write_file(file(), damaged);
    expect_records(open());
    EXPECT_THAT(lines_, ElementsAre(HasSubstr("is damaged"), "making it"));
    EXPECT_EQ(read_file(file()), whole);
  }
  columns_[1] = {.name = "values", .shape = {4}, .dtype = DType::kInt8};
  expect_records(open());
  EXPECT_EQ(fills_, 2);
}

TEST_F(MixedCache, FileSizeLimitWithinTheBytes) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const size_t known = 4096 * 9;
    const rlimit limit{known + 6000, known + 6000};
    int code = 1;
    try {
      if (setrlimit(RLIMIT_FSIZE, &limit) == 0) open();
    } catch (const IoError& error) {
      code = std::strstr(error.what(), cache_.path().c_str()) != nullptr && file().empty() ? 0 : 2;
    }
    _exit(code);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const auto& entry : fs::directory_iterator(cache_.path())) EXPECT_NE(entry.path().extension(), ".tmp");
  expect_records(open());
}

}  // namespace
}  // namespace mlbench::dataset
