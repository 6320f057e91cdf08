#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>

#include <cmath>
#include <tuple>

#include "mlbench/base/errors.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/random.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/prepare.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/dataset/test_support.h"

namespace mlbench::dataset {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using test::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

DatasetDescription description_of(int64_t train_samples, int64_t dimension = 4, int64_t classes = 2,
                                  const std::string& format = "libsvm") {
  return parse_description("rows.toml",
                           "name = \"rows\"\ntitle = \"Rows\"\nformat = \"" + format +
                               "\"\nfolder = \"rows\"\nsample_shape = [" + std::to_string(dimension) +
                               "]\nclasses = " + std::to_string(classes) +
                               "\n[[split]]\nname = \"train\"\nsamples = " + std::to_string(train_samples) +
                               "\n[[split.file]]\npattern = \"rows.train\"\n[[split]]\nname = \"test\"\nsamples = 1\n"
                               "[[split.file]]\npattern = \"rows.test\"\n");
}

std::string pack(const std::string& content, int filter) {
  std::string packed(content.size() + 4096, '\0');
  size_t used = 0;
  struct archive* writer = archive_write_new();
  archive_write_add_filter(writer, filter);
  archive_write_set_format_raw(writer);
  archive_write_set_bytes_in_last_block(writer, 1);
  archive_write_open_memory(writer, packed.data(), packed.size(), &used);
  archive_entry* entry = archive_entry_new();
  archive_entry_set_filetype(entry, AE_IFREG);
  archive_write_header(writer, entry);
  archive_write_data(writer, content.data(), content.size());
  archive_entry_free(entry);
  archive_write_close(writer);
  archive_write_free(writer);
  packed.resize(used);
  return packed;
}
std::string bzip2(const std::string& content) { return pack(content, ARCHIVE_FILTER_BZIP2); }
std::string xz(const std::string& content) { return pack(content, ARCHIVE_FILTER_XZ); }

class Libsvm : public ::testing::Test {
 protected:
  PreparedDataset prepare_rows(const DatasetDescription& description) {
    return prepare(description, {data_.path().string()}, cache_.path(), {});
  }
  PreparedDataset prepare_text(const std::string& train, int64_t samples, int64_t classes = 2) {
    test::write_file(data_ / "rows/rows.train", train);
    test::write_file(data_ / "rows/rows.test", "1 1:1\n");
    return prepare_rows(description_of(samples, 4, classes));
  }
  std::string error_of(const std::string& train, int64_t samples, int64_t classes = 2) {
    return message_of<UserError>([&] { prepare_text(train, samples, classes); });
  }
  static std::vector<float> values(const CachedSplit& split) {
    const auto all = split.column<FixedColumn>("features").as<float>();
    return {all.begin(), all.end()};
  }
  static std::vector<int64_t> labels(const CachedSplit& split) {
    return {split.labels().begin(), split.labels().end()};
  }

  TemporaryFolder data_, cache_;
};

constexpr const char* kRows = "-1 1:0.5 3:-2.25e-1\n+1 2:1e-3 4:+7\n0\n1 1:1 2:2 3:3 4:4\n";

void expect_rows(const PreparedDataset& data) {
  const CachedSplit& train = data.split("train");
  const auto& features = train.column<FixedColumn>("features");
  EXPECT_EQ(features.shape, std::vector<int64_t>{4});
  EXPECT_THAT(features.as<float>(), ElementsAre(0.5F, 0, -0.225F, 0, 0, 0.001F, 0, 7, 0, 0, 0, 0, 1, 2, 3, 4));
  EXPECT_THAT(train.labels(), ElementsAre(0, 1, 0, 1));
}

TEST_F(Libsvm, SparseLinesBecomeDenseRowsAndMinusOneBecomesZero) { expect_rows(prepare_text(kRows, 4)); }

TEST_F(Libsvm, LineEndsSpacesAndATinyValue) {
  const PreparedDataset data = prepare_text("1 1:1e-60\t2:2  \r\n -1 4:-1e-50", 2);
  EXPECT_THAT(values(data.split("train")), ElementsAre(0, 2, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(labels(data.split("train")), ElementsAre(1, 0));
}

// As with strtod, a number too small is zero, and one too large is refused.
TEST_F(Libsvm, NumbersBelowADoublesRangeAreZero) {
  const std::string zeros(400, '0');
  const auto read = [&](const std::string& value) { return values(prepare_text("1 1:" + value, 1).split("train"))[0]; };
  for (const std::string& value :
       {"1e-400"s, "0." + zeros + "1", "4.9e-325"s, "+1e-46"s, "1e-99999999999"s, "0.000001e-400"s}) {
    EXPECT_EQ(read(value), 0.0F) << value;
    EXPECT_EQ(read("-" + (value[0] == '+' ? value.substr(1) : value)), 0.0F) << value;
  }
  EXPECT_EQ(read("1e-40"), 1e-40F);
  EXPECT_EQ(read("1" + zeros + "e-400"), 1.0F);
  EXPECT_EQ(read("0." + zeros + "1e401"), 1.0F);
  for (const std::string& value : {"1e400"s, "-1e400"s, "1" + zeros, "3.5e38"s, "1e99999999999"s}) {
    EXPECT_THAT(error_of("1 1:" + value, 1), HasSubstr("a finite number")) << value;
  }
  for (const std::string& value : {"+-0.5"s, "+-0"s, "+-1e-46"s, "++1"s, "-+1"s, "--1"s, "+"s}) {
    EXPECT_THAT(error_of("1 1:" + value, 1), HasSubstr("a finite number")) << value;
  }
  for (const std::string& label : {"+-1"s, "++1"s, "-+1"s}) {
    EXPECT_THAT(error_of(label + " 1:1", 1), HasSubstr("'" + label + "' is no label"));
  }
}

TEST_F(Libsvm, TextIsUtf8WithOrWithoutItsMark) {
  const std::string fingerprint = prepare_text(kRows, 4).fingerprint();
  EXPECT_EQ(prepare_text("\xEF\xBB\xBF" + std::string(kRows), 4).fingerprint(), fingerprint);
  std::string wide;
  for (const char c : std::string(kRows)) wide += {c, '\0'};
  EXPECT_THAT(error_of("\xFF\xFE" + wide, 4), HasSubstr("rows.train is text in UTF-16"));
  EXPECT_THAT(error_of(wide, 4), HasSubstr("rows.train: byte 2 is zero"));
  // Only blanks and tabs separate numbers.
  for (const char* space : {"\v", "\f", "\r", "\u00A0"})
    EXPECT_NE(error_of("1 1:1" + std::string(space) + "2:1", 1), "");
}

TEST_F(Libsvm, ManyClassesKeepTheirNumbers) {
  EXPECT_THAT(labels(prepare_text("2 1:1\n0\n1\n", 3, 3).split("train")), ElementsAre(2, 0, 1));
}

TEST_F(Libsvm, EveryPackingGivesTheSameRecords) {
  std::string fingerprint;
  for (const auto& [suffix, packed] :
       {std::pair{"", std::string(kRows)}, {".gz", test::gzip(kRows)}, {".bz2", bzip2(kRows)}, {".xz", xz(kRows)}}) {
    SCOPED_TRACE(suffix);
    fs::remove_all(data_ / "rows");
    test::write_file(data_ / ("rows/rows.train" + std::string(suffix)), packed);
    test::write_file(data_ / "rows/rows.test", "1 1:1\n");
    const PreparedDataset data = prepare_rows(description_of(4));
    expect_rows(data);
    if (fingerprint.empty()) fingerprint = data.fingerprint();
    EXPECT_EQ(data.fingerprint(), fingerprint);
  }
}

// Reads more than one block, with lines that cross its border; every value must be as strtof reads it.
TEST_F(Libsvm, LongFilesComeInBlocks) {
  constexpr int64_t kSamples = 1500, kDimension = 400;
  std::string text;
  std::vector<float> expected;
  for (int64_t i = 0; i < kSamples; ++i) {
    text += i % 3 == 0 ? "-1" : "1";
    for (int64_t j = 0; j < kDimension; ++j) {
      const std::string value = std::to_string(std::sin(static_cast<double>(i * kDimension + j)));
      text += " " + std::to_string(j + 1) + ":" + value;
      expected.push_back(std::strtof(value.c_str(), nullptr));
    }
    text += "\n";
  }
  ASSERT_GT(text.size(), size_t{6} << 20);
  for (const auto& [suffix, packed] : {std::pair{"", text}, {".bz2", bzip2(text)}}) {
    fs::remove_all(data_ / "rows");
    test::write_file(data_ / ("rows/rows.train" + std::string(suffix)), packed);
    test::write_file(data_ / "rows/rows.test", "1 1:1\n");
    const PreparedDataset data = prepare_rows(description_of(kSamples, kDimension));
    EXPECT_EQ(values(data.split("train")), expected);
    EXPECT_EQ(data.split("train").labels()[3], 0);
    EXPECT_EQ(data.split("train").labels()[1499], 1);
  }
}

TEST_F(Libsvm, ErrorsNameFileAndLine) {
  const std::string file = (data_ / "rows/rows.train").string();
  EXPECT_EQ(error_of("1 1:1\n2 1:1\n", 2), file + ":2: label 2, expected -1 or 0, or 1");
  EXPECT_EQ(error_of("3 1:1\n", 1, 3), file + ":1: label 3, expected 0 to 2");
  EXPECT_EQ(error_of("-1 1:1\n", 1, 3), file + ":1: label -1, expected 0 to 2");
  EXPECT_EQ(error_of("0.5 1:1\n", 1), file + ":1: label 0.5, expected -1 or 0, or 1");
  EXPECT_EQ(error_of("spam 1:1\n", 1), file + ":1: 'spam' is no label");
  EXPECT_EQ(error_of("1 1:1\n\n1 1:1\n", 2), file + ":2: empty line, expected 'label index:value ...'");
  EXPECT_EQ(error_of("1 5:1\n", 1), file + ":1: index 5, expected 1 to 4");
  EXPECT_EQ(error_of("1 0:1\n", 1), file + ":1: index 0, expected 1 to 4");
  EXPECT_EQ(error_of("1 3:1 3:2\n", 1), file + ":1: index 3 after 3, expected rising indices");
  EXPECT_EQ(error_of("1 3:1 2:2\n", 1), file + ":1: index 2 after 3, expected rising indices");
  EXPECT_EQ(error_of("1 3\n", 1), file + ":1: '3', expected index:value");
  EXPECT_EQ(error_of("1 x:1\n", 1), file + ":1: 'x:1', expected index:value");
  for (const std::string value : {"", "x", "1x", "nan", "inf", "1e39", "1:2"}) {
    EXPECT_EQ(error_of("1 1:1\n1 2:" + value + "\n", 2),
              file + ":2: '2:" + value + "', expected index:value with a finite number");
  }
  EXPECT_EQ(error_of("1 1:1\n", 2), file + ": ends after 1 samples, expected 2");
  EXPECT_EQ(error_of("", 2), file + ": ends after 0 samples, expected 2");
  EXPECT_EQ(error_of("1 1:1\n1 1:1\n1 1:1\n", 2), file + ":3: goes on after its 2 samples");
}

TEST_F(Libsvm, DamagedAndMislabelledFiles) {
  test::write_file(data_ / "rows/rows.test", "1 1:1\n");
  const auto error_of_packed = [&](const std::string& suffix, const std::string& content, int64_t samples = 4) {
    for (const char* other : {"", ".gz", ".bz2", ".xz"}) fs::remove(data_ / ("rows/rows.train" + std::string(other)));
    test::write_file(data_ / ("rows/rows.train" + suffix), content);
    return message_of<UserError>([&] { prepare_rows(description_of(samples)); });
  };
  EXPECT_THAT(error_of_packed(".bz2", kRows), EndsWith("rows.train.bz2: no bzip2 data, which the name promises"));
  EXPECT_THAT(error_of_packed(".xz", bzip2(kRows)), EndsWith("rows.train.xz: no xz data, which the name promises"));
  EXPECT_THAT(error_of_packed(".gz", kRows), EndsWith("rows.train.gz: no gzip data, which the name promises"));
  EXPECT_THAT(error_of_packed(".bz2", bzip2(kRows).substr(0, 20)), HasSubstr("no bzip2 data, which the name promises"));

  // The content is long enough for damage that shows only after a good start.
  std::string text;
  RandomSequence random(1);
  for (int i = 0; i < 100000; ++i) text += "1 1:" + std::to_string(random.uniform()) + "\n";
  for (const auto& [suffix, packed] : {std::pair{".bz2", bzip2(text)}, {".xz", xz(text)}, {".gz", test::gzip(text)}}) {
    SCOPED_TRACE(suffix);
    const std::string file = "rows.train" + std::string(suffix);
    EXPECT_THAT(error_of_packed(suffix, packed.substr(0, packed.size() - 9), 100000),
                AllOf(HasSubstr(file), HasSubstr("truncated"), HasSubstr("unpacked bytes")));
    std::string damaged = packed;
    for (size_t i = 0; i < 8; ++i) damaged[damaged.size() * 9 / 10 + i] ^= 0x55;
    EXPECT_THAT(error_of_packed(suffix, damaged, 100000), AllOf(HasSubstr(file), HasSubstr("damaged")));
  }
}

// --- sparse rows

class LibsvmSparse : public Libsvm {
 protected:
  PreparedDataset prepare_sparse(const std::string& train, int64_t samples, int64_t dimension = 4) {
    test::write_file(data_ / "rows/rows.train", train);
    test::write_file(data_ / "rows/rows.test", "1 1:1\n");
    return prepare_rows(description_of(samples, dimension, 2, "libsvm-sparse"));
  }
  static std::vector<SparseEntry> row(const CachedSplit& split, int64_t number) {
    const SparseRow entries = split.column<SparseColumn>("features").record(number);
    return {entries.begin(), entries.end()};
  }
};

TEST_F(LibsvmSparse, KeepValuesThatAreNotZeroAndHaveAFingerprintOfTheirOwn) {
  const std::string written = "-1 1:0.5 3:-2.25e-1\n+1 2:1e-3 3:0 4:+7\n0 1:-0 2:1e-60\n1 1:1 2:2 3:3 4:4\n";
  const PreparedDataset data = prepare_sparse(written, 4);
  const CachedSplit& train = data.split("train");
  EXPECT_TRUE(train.sparse());
  EXPECT_EQ(train.column<SparseColumn>("features").dimension, 4);
  EXPECT_THAT(row(train, 0), ElementsAre(SparseEntry{0, 0.5F}, SparseEntry{2, -0.225F}));
  EXPECT_THAT(row(train, 1), ElementsAre(SparseEntry{1, 0.001F}, SparseEntry{3, 7}));
  EXPECT_TRUE(row(train, 2).empty());
  EXPECT_EQ(row(train, 3).size(), 4U);
  EXPECT_THAT(train.labels(), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(row(data.split("test"), 0), ElementsAre(SparseEntry{0, 1}));
  EXPECT_THAT(message_of<UserError>([&] { train.column<FixedColumn>("features"); }),
              HasSubstr("it has features (sparse rows [4]), labels (int64 [])"));

  // The records are the same however zeros are written; the dense ones are others, and not sparse.
  EXPECT_EQ(prepare_sparse(kRows, 4).fingerprint(), data.fingerprint());
  const PreparedDataset dense = prepare_text(kRows, 4);
  EXPECT_FALSE(dense.split("train").sparse());
  // By Python's struct and hashlib, from prepared_dataset.h's definition.
  EXPECT_EQ(dense.fingerprint(), "2bb0038ef41644c9253e6648f119737af172f1fc63cf7fe8d0bd9996740eecb1");
  EXPECT_EQ(data.fingerprint(), "4ad580d0691261615cf09f90844958f23add4f001bcf58a1de8aab511afb3ff3");
}

TEST_F(LibsvmSparse, ErrorsAreThoseOfDenseRows) {
  const auto error = [&](const std::string& train) { return message_of<UserError>([&] { prepare_sparse(train, 1); }); };
  for (const char* line : {"1 5:1", "1 0:1", "1 2:1 2:1", "1 2:x", "1 2", "2 1:1", "", "1 1:1\n1 1:1"}) {
    EXPECT_EQ(error(line), error_of(line, 1)) << line;
  }
  EXPECT_THAT(error("1 3:1 2:1"), EndsWith("rows.train:1: index 2 after 3, expected rising indices"));
}

// As many columns as the URL set has: the cache has the values that are not zero, offsets and labels, and no more.
TEST_F(LibsvmSparse, TheCacheIsProportionalToTheValuesThatAreNotZero) {
  constexpr int64_t kSamples = 4000, kDimension = 3'231'961, kEntries = 30, kPage = 4096;
  std::string text;
  for (int64_t i = 0; i < kSamples; ++i) {
    text += i % 2 == 0 ? "-1" : "1";
    for (int64_t j = 0; j < kEntries; ++j) {
      text += " " + std::to_string(1 + i + j * (kDimension - kSamples) / kEntries) + ":0." + std::to_string(j + 1);
    }
    text += "\n";
  }
  const PreparedDataset data = prepare_sparse(text, kSamples, kDimension);
  EXPECT_EQ(row(data.split("train"), 3999)[29], (SparseEntry{3999 + 29 * (kDimension - kSamples) / kEntries, 0.3F}));
  std::vector<int64_t> sizes;
  for (const auto& file : fs::directory_iterator(cache_.path())) {
    if (file.path().extension() == ".cache") sizes.push_back(static_cast<int64_t>(file.file_size()));
  }
  ASSERT_EQ(sizes.size(), 1U);
  const auto pages = [](int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; };
  const int64_t known = kPage + pages((kSamples + 1) * 8) + pages(kSamples * 8) + pages(2 * 8) + pages(8);
  EXPECT_EQ(sizes[0], known + (kSamples * kEntries + 1) * 8);

  // The same cache is found again, and one that is cut is made anew.
  const std::string fingerprint = data.fingerprint();
  EXPECT_EQ(prepare_sparse(text, kSamples, kDimension).fingerprint(), fingerprint);
  for (const auto& file : fs::directory_iterator(cache_.path())) {
    if (file.path().extension() == ".cache") fs::resize_file(file.path(), file.file_size() - 8);
  }
  EXPECT_EQ(prepare_rows(description_of(kSamples, kDimension, 2, "libsvm-sparse")).fingerprint(), fingerprint);
}

// --- the real sets: an independent count of what the reader must find

void expect_real(const std::string& name, int64_t samples_of_class_1, double first, double norm) {
  const auto folder = environment_variable("MLBENCH_DATA_DIR");
  if (!folder) GTEST_SKIP() << "missing capability: MLBENCH_DATA_DIR is not set";
  if (!fs::exists(fs::path(*folder) / "svm")) GTEST_SKIP() << "missing capability: MLBENCH_DATA_DIR has no svm";
  const TemporaryFolder cache;
  const PreparedDataset data = prepare(find_description(name), {*folder}, cache.path(), {});
  EXPECT_FALSE(data.official());
  const CachedSplit& train = data.split("train");
  int64_t ones = 0;
  for (const int64_t label : train.labels()) ones += label;
  EXPECT_EQ(ones, samples_of_class_1);
  const auto& features = train.column<FixedColumn>("features");
  const auto row = features.as<float>().first(static_cast<size_t>(features.volume()));
  EXPECT_EQ(row[0], static_cast<float>(first));
  double squares = 0;
  for (const float value : row) squares += double{value} * value;
  EXPECT_NEAR(std::sqrt(squares), norm, 1e-5 * norm);
}

TEST(RealData, EpsilonSample) { expect_real("epsilon-sample", 46, -0.0108282, 1); }
// The counts are those of awk over the text: lines, "+1" at their begin, fields behind that, and the largest index.
TEST(RealData, A9aIsTheSameSparseAndDense) {
  const auto folder = environment_variable("MLBENCH_DATA_DIR");
  if (!folder) GTEST_SKIP() << "missing capability: MLBENCH_DATA_DIR is not set";
  if (!fs::exists(fs::path(*folder) / "svm")) GTEST_SKIP() << "missing capability: MLBENCH_DATA_DIR has no svm";
  const TemporaryFolder cache;
  DatasetDescription description = find_description("a9a");
  const PreparedDataset sparse = prepare(description, {*folder}, cache.path(), {});
  description.format = "libsvm";
  const PreparedDataset dense = prepare(description, {*folder}, cache.path(), {});
  for (const auto& [name, ones, entries] : {std::tuple{"train", 7841, 451592}, {"test", 3846, 225731}}) {
    SCOPED_TRACE(name);
    const CachedSplit &split = sparse.split(name), &whole = dense.split(name);
    const auto& column = split.column<SparseColumn>("features");
    EXPECT_EQ(std::ranges::count(split.labels(), 1), ones);
    EXPECT_EQ(std::ssize(column.elements), entries);
    EXPECT_TRUE(std::ranges::equal(split.labels(), whole.labels()));
    const auto& features = whole.column<FixedColumn>("features");
    std::vector<float> values(static_cast<size_t>(features.values.count));
    for (int64_t i = 0; i < column.records(); ++i) {
      for (const SparseEntry& entry : column.record(i)) {
        values[static_cast<size_t>(i * column.dimension + entry.column)] = entry.value;
      }
    }
    EXPECT_TRUE(std::ranges::equal(values, features.as<float>()));
  }
}

TEST(RealData, Madelon) { expect_real("madelon", 1000, 485, std::sqrt(119540360.0)); }

}  // namespace
}  // namespace mlbench::dataset
