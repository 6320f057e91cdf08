// Databases of LMDB, made here by liblmdb, on their way into a cache.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <lmdb.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <sstream>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/random.h"
#include "mlbench/dataset/input_file.h"
#include "mlbench/dataset/lmdb_entries.h"
#include "mlbench/dataset/locate.h"
#include "mlbench/dataset/prepare.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/dataset/test_support.h"

namespace mlbench::dataset {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

using Entries = std::map<std::string, std::string>;

void check(int code) { ASSERT_EQ(code, 0) << mdb_strerror(code); }

void write_database(const fs::path& path, const Entries& entries) {
  fs::create_directories(path.parent_path());
  MDB_env* env = nullptr;
  MDB_txn* transaction = nullptr;
  MDB_dbi database = 0;
  check(mdb_env_create(&env));
  check(mdb_env_set_mapsize(env, size_t{256} << 20));
  check(mdb_env_open(env, path.c_str(), MDB_NOSUBDIR | MDB_NOLOCK, 0644));
  check(mdb_txn_begin(env, nullptr, 0, &transaction));
  check(mdb_dbi_open(transaction, nullptr, 0, &database));
  for (const auto& [key, value] : entries) {
    MDB_val name{key.size(), const_cast<char*>(key.data())}, data{value.size(), const_cast<char*>(value.data())};
    check(mdb_put(transaction, database, &name, &data, 0));
  }
  check(mdb_txn_commit(transaction));
  mdb_env_close(env);
}

std::string key_of(size_t row) { return fmt::format("{:08}", row); }

std::string big_endian_16(size_t value) { return {static_cast<char>(value >> 8), static_cast<char>(value)}; }

// A row as tensorpack stores it: tensorpack_row_test.cpp has the bytes of the original.
std::string stored_row(const std::vector<double>& features, double label) {
  std::string data(features.size() * sizeof(double), '\0');
  std::memcpy(data.data(), features.data(), data.size());
  std::string row = "\x92\x85\xC4\x02nd\xC3\xC4\x04type\xA3<f8\xC4\x04kind\xC4";
  row += std::string(1, '\0') + "\xC4\x05shape\x91\xCD" + big_endian_16(features.size());
  row += "\xC4\x04" + std::string("data\xC5") + big_endian_16(data.size()) + data + "\xCB";
  const auto bits = std::bit_cast<uint64_t>(label);
  return row + test::big_endian(static_cast<uint32_t>(bits >> 32)) + test::big_endian(static_cast<uint32_t>(bits));
}

DatasetDescription description_of(const std::string& format, int64_t samples, int64_t dimension) {
  return parse_description(
      "rows.toml",
      fmt::format("name = \"rows\"\ntitle = \"Rows\"\nformat = \"{}\"\nfolder = \"rows\"\nsample_shape = [{}]\n"
                  "classes = 2\n[[split]]\nname = \"train\"\nsamples = {}\n[[split.file]]\npattern = "
                  "\"rows.train\"\n[[split]]\nname = \"test\"\nsamples = 1\n[[split.file]]\npattern = "
                  "\"rows.test\"\n",
                  format, dimension, samples));
}

class Lmdb : public ::testing::Test {
 protected:
  PreparedDataset prepare_database(const Entries& train, int64_t samples) {
    fs::remove(file());
    write_database(file(), train);
    return prepare_file(samples);
  }
  PreparedDataset prepare_file(int64_t samples) {
    if (!fs::exists(data_ / "rows/rows.test")) write_database(data_ / "rows/rows.test", {{key_of(0), row(0)}});
    return prepare(description_of("lmdb", samples, 3), {data_.path().string()}, cache_.path(), {});
  }
  std::string error_of(const Entries& train, int64_t samples) {
    return message_of<UserError>([&] { prepare_database(train, samples); });
  }
  static std::string row(size_t number) { return stored_row({double(number), 0.5, -1.25}, number % 2 == 0 ? 0 : 1); }
  static Entries rows(size_t count) {
    Entries entries;
    for (size_t i = 0; i < count; ++i) entries[key_of(i)] = row(i);
    return entries;
  }
  fs::path file() const { return data_ / "rows/rows.train"; }

  TemporaryFolder data_, cache_;
};

// The rows of a text of LIBSVM, read without this program's reader.
struct TextRows {
  TextRows(const std::string& text, size_t dimension) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::vector<double> features(dimension);
      double label = 0;
      words >> label;
      for (std::string word; words >> word;) {
        const size_t colon = word.find(':');
        features.at(std::stoul(word.substr(0, colon)) - 1) = std::strtod(word.c_str() + colon + 1, nullptr);
      }
      const size_t number = entries.size();
      entries[key_of(number)] = stored_row(features, label == -1 ? 0 : label);
    }
  }
  Entries entries;
};

TEST_F(Lmdb, RowsAndFingerprintAreThoseOfTheText) {
  constexpr size_t kRows = 700, kDimension = 60;
  RandomSequence random(5);
  std::string text;
  for (size_t i = 0; i < kRows; ++i) {
    text += i % 3 == 0 ? "-1" : "+1";
    for (size_t j = 0; j < kDimension; j += 1 + random.below(3))
      text += fmt::format(" {}:{:.7g}", j + 1, random.normal());
    text += "\n";
  }
  const std::string one = text.substr(0, text.find('\n') + 1);
  test::write_file(data_ / "text/rows/rows.train", text);
  test::write_file(data_ / "text/rows/rows.test", one);
  const PreparedDataset expected =
      prepare(description_of("libsvm", kRows, kDimension), {(data_ / "text").string()}, cache_.path(), {});

  Entries train = TextRows(text, kDimension).entries;
  train["__keys__"] = "not read";
  write_database(data_ / "stored/rows/rows.train", train);
  write_database(data_ / "stored/rows/rows.test", TextRows(one, kDimension).entries);
  const PreparedDataset data =
      prepare(description_of("lmdb", kRows, kDimension), {(data_ / "stored").string()}, cache_.path(), {});
  EXPECT_EQ(data.fingerprint(), expected.fingerprint());
  const auto values = [](const PreparedDataset& of) {
    const auto all = of.split("train").column<FixedColumn>("features").as<float>();
    return std::vector<float>(all.begin(), all.end());
  };
  EXPECT_EQ(values(data), values(expected));
  EXPECT_EQ(data.split("train").labels()[0], 0);
  EXPECT_EQ(data.split("train").labels()[1], 1);
  EXPECT_EQ(std::distance(fs::directory_iterator(data_ / "stored/rows"), fs::directory_iterator()), 2)
      << "nothing is left beside them";
}

TEST(RealData, EpsilonSampleInADatabaseHasTheFingerprintOfItsText) {
  const auto folder = environment_variable("MLBENCH_DATA_DIR");
  if (!folder) GTEST_SKIP() << "missing capability: MLBENCH_DATA_DIR is not set";
  if (!fs::exists(fs::path(*folder) / "svm")) GTEST_SKIP() << "missing capability: MLBENCH_DATA_DIR has no svm";
  const TemporaryFolder data, cache;
  DatasetDescription description = find_description("epsilon-sample");
  const PreparedDataset text = prepare(description, {*folder}, cache.path(), {});
  const LocatedDataset located = locate(description, {*folder});
  for (size_t split = 0; split < 2; ++split) {
    InputFile input(located.files[split][0]);
    std::string bytes(size_t{8} << 20, '\0');
    bytes.resize(input.read(std::as_writable_bytes(std::span(bytes))));
    const SplitSpec& spec = description.splits[split];
    write_database(data / description.folder / spec.files[0].pattern, TextRows(bytes, 2000).entries);
  }
  description.format = "lmdb";
  for (SplitSpec& split : description.splits) split.files[0].content_sha256.clear();
  EXPECT_EQ(prepare(description, {data.path().string()}, cache.path(), {}).fingerprint(), text.fingerprint());
}

TEST_F(Lmdb, RowsAreCountedAndFollowEachOther) {
  EXPECT_EQ(prepare_database(rows(300), 300).split("train").samples, 300);
  EXPECT_EQ(error_of(rows(2), 3), file().string() + ": ends after 2 samples, expected 3");
  EXPECT_EQ(error_of(rows(4), 3), file().string() + ": goes on after its 3 samples");
  Entries gap = rows(3);
  gap.erase(key_of(1));
  EXPECT_EQ(error_of(gap, 3), file().string() + ": the key '00000002' is in the place of '00000001'");
  Entries named = rows(1);
  named["0000000\n"] = row(0);
  EXPECT_THAT(error_of(named, 2), HasSubstr("in the place of"));
}

TEST_F(Lmdb, ARowThatIsNoneIsNamed) {
  Entries bad = rows(3);
  bad[key_of(2)] = "\x80\x04\x95.";
  EXPECT_THAT(error_of(bad, 3), AllOf(HasSubstr("rows.train: row 00000002: a pickle of Python, which is never loaded"),
                                      HasSubstr("TENSORPACK_SERIALIZE=msgpack")));
  bad[key_of(2)] = stored_row({1, 2, 3}, 2);
  EXPECT_THAT(error_of(bad, 3), EndsWith("row 00000002: the label is 2, expected -1 or 0, or 1"));
  bad[key_of(2)] = stored_row({1, 2}, 1);
  EXPECT_THAT(error_of(bad, 3),
              HasSubstr("row 00000002: the features are 2 numbers of 16 bytes, expected an array of 3"));
}

TEST_F(Lmdb, ARowBeyondTheLimitIsRefused) {
  Entries large = rows(2);
  large[key_of(1)].assign(inputs::kStoredRow.most_bytes + 1, 'x');
  EXPECT_THAT(error_of(large, 2), HasSubstr("a key or a row of a database has at most"));
}

TEST_F(Lmdb, AFileThatIsNoDatabaseOrIsCutShortIsRefused) {
  for (const std::string& content : {std::string(), std::string("1 1:0.5\n"), std::string(20000, '\0')}) {
    test::write_file(file(), content);
    EXPECT_THAT(message_of<UserError>([&] { prepare_file(1); }),
                HasSubstr("rows.train is no whole database of LMDB: "));
  }
  fs::remove(file());
  write_database(file(), rows(300));
  const std::string whole = read_file(file());
  ASSERT_GT(whole.size(), size_t{6} << 12);
  for (size_t bytes = 4096; bytes < whole.size(); bytes += 4096) {
    for (const size_t cut : {bytes, bytes + 100}) {
      test::write_file(file(), whole.substr(0, cut));
      EXPECT_THAT(message_of<UserError>([&] { prepare_file(300); }), HasSubstr("is no whole database of LMDB: "))
          << cut << " of " << whole.size() << " bytes";
    }
  }
}

// liblmdb reads wherever a damaged page points: in another process, whose end is an error like others.
TEST_F(Lmdb, DamagedPagesAreRefusedOrGiveRows) {
  write_database(file(), rows(300));
  const std::string whole = read_file(file());
  RandomSequence random(3);
  int refused = 0;
  for (int i = 0; i < 150; ++i) {
    std::string damaged = whole;
    for (int j = 0; j < 8; ++j) {
      const size_t page = random.below(damaged.size() >> 12) << 12;
      damaged[page + random.below(i % 2 == 0 ? 64 : 4096)] = static_cast<char>(random.below(256));
    }
    test::write_file(file(), damaged);
    try {
      EXPECT_EQ(prepare_file(300).split("train").samples, 300);
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rows.train"));
      ++refused;
    }
    fs::remove_all(cache_.path());
    fs::create_directories(cache_.path());
  }
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace mlbench::dataset
