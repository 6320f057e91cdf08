#include "mlbench/dataset/tensorpack_row.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "mlbench/base/errors.h"

namespace mlbench::dataset {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string bytes_of_hex(const std::string& hexadecimal) {
  std::string bytes;
  for (size_t i = 0; i < hexadecimal.size(); i += 2) {
    bytes += static_cast<char>(std::strtol(hexadecimal.substr(i, 2).c_str(), nullptr, 16));
  }
  return bytes;
}

struct DecodedRow {
  std::vector<float> features;
  double label = 0;
};
DecodedRow decoded(const std::string& bytes, size_t features) {
  DecodedRow row{std::vector<float>(features), 0};
  row.label = read_tensorpack_row(bytes, row.features);
  return row;
}
// "" where the bytes are a row.
std::string error_of_row(const std::string& bytes, size_t features = 2) {
  try {
    decoded(bytes, features);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// What tensorpack 0.9.8 stores (the dumps() of msgpack 1.0.5 with msgpack-numpy 0.4.8) for the row
// [array([0.5, 0, -0.225, 7e-3]), 1.0], and for the same features as float32 with the label int64(-1) of NumPy.
constexpr const char* kRowOfDoubles =
    "9285c4026e64c3c40474797065a33c6638c4046b696e64c400c40573686170659104c40464617461c420000000000000e03f"
    "0000000000000000cdccccccccccccbf79e9263108ac7c3fcb3ff0000000000000";
constexpr const char* kRowOfFloats =
    "9285c4026e64c3c40474797065a33c6634c4046b696e64c400c40573686170659104c40464617461c4100000003f00000000"
    "666666be4260e53b83c4026e64c2c40474797065a33c6938c40464617461c408ffffffffffffffff";

TEST(TensorpackRow, IsWhatTensorpackWrites) {
  for (const char* kept : {kRowOfDoubles, kRowOfFloats}) {
    const DecodedRow row = decoded(bytes_of_hex(kept), 4);
    EXPECT_THAT(row.features, ElementsAre(0.5F, 0, -0.225F, 7e-3F));
    EXPECT_EQ(row.label, kept == kRowOfDoubles ? 1 : -1);
  }
}

// Two features, as a map without its values.
const std::string kArrayHead =
    "\x92\x85\xC4\x02nd\xC3\xC4\x04type\xA3<f4\xC4\x04kind\xC4"s + '\0' + "\xC4\x05shape\x91";
const std::string kArrayData =
    "\xC4\x04"
    "data\xC4\x08"s +
    "\0\0\0\x3F\0\0\0\xC0"s;
const std::string kTwoFeatures = kArrayHead + '\2' + kArrayData;

TEST(TensorpackRow, LabelsAreNumbersOfAnyKind) {
  EXPECT_THAT(decoded(kTwoFeatures + '\1', 2).features, ElementsAre(0.5F, -2));
  const auto label = [](const std::string& bytes) { return decoded(kTwoFeatures + bytes, 2).label; };
  EXPECT_EQ(label("\1"), 1);
  EXPECT_EQ(label("\xFF"), -1);
  EXPECT_EQ(label("\xCA\xBF\x80\0\0"s), -1);
  EXPECT_EQ(label("\xCB\x3F\xF0\0\0\0\0\0\0"s), 1);
  EXPECT_EQ(label("\xCC\xFF"), 255);
  EXPECT_EQ(label("\xCD\1\0"s), 256);
  EXPECT_EQ(label("\xCE\0\1\0\0"s), 65536);
  EXPECT_EQ(label("\xCF\0\0\0\0\0\0\0\7"s), 7);
  EXPECT_EQ(label("\xD0\x80"), -128);
  EXPECT_EQ(label("\xD1\xFF\xFE"), -2);
  EXPECT_EQ(label("\xD2\xFF\xFF\xFF\xFD"), -3);
  EXPECT_EQ(label("\xD3\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFC"), -4);
  EXPECT_EQ(label("\x83\xA2nd\xC2\xA4type\xA3<i4\xA4"
                  "data\xC4\4\5\0\0\0"s),
            5)
      << "with keys of text";
}

TEST(TensorpackRow, WhatEndsTooSoonOrLiesAboutItsLengthIsRefused) {
  const std::string whole = kTwoFeatures + "\xCB\x3F\xF0\0\0\0\0\0\0"s;
  EXPECT_EQ(error_of_row(whole), "");
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_THAT(error_of_row(whole.substr(0, bytes)), HasSubstr("ends within a value")) << bytes;
  }
  EXPECT_EQ(error_of_row(whole + "xyz"), "3 bytes follow the label");
  EXPECT_EQ(error_of_row("\xDD\xFF\xFF\xFF\xFF"), "a list of 4294967295 values, expected features and label");
  EXPECT_THAT(error_of_row("\x92\xDF\xFF\xFF\xFF\xFF"), HasSubstr("ends within a value"));
  EXPECT_THAT(error_of_row("\x92\x85\xC6\xFF\xFF\xFF\xFF"), HasSubstr("a value of 4294967295 bytes"));
  EXPECT_THAT(error_of_row(kArrayHead + "\3" + kArrayData + "\1"), StartsWith("the features are 3 numbers of 8 bytes"));
  EXPECT_THAT(error_of_row(kArrayHead + "\xCE\xFF\xFF\xFF\xFF" + kArrayData + "\1"),
              StartsWith("the features are 4294967295 num"));
  EXPECT_THAT(error_of_row(kTwoFeatures + "\1", 3), HasSubstr("expected an array of 3 numbers of 4 bytes each"));
}

TEST(TensorpackRow, WhatIsNoRowIsRefused) {
  EXPECT_THAT(error_of_row("\x80\x04\x95\0"s), StartsWith("a pickle of Python, which is never loaded"));
  EXPECT_THAT(error_of_row("\x80\x02]"), StartsWith("a pickle of Python, which is never loaded"));
  EXPECT_EQ(error_of_row("(lp0\n"), "byte 0 is 0x28, expected a list");
  EXPECT_EQ(error_of_row("\x93\1\1\1"), "a list of 3 values, expected features and label");
  EXPECT_EQ(error_of_row("\x92\1\1"), "byte 1 is 0x01, expected a map");
  EXPECT_EQ(error_of_row(kTwoFeatures + "\xC0"), "byte 50 is 0xc0, expected a number");
  EXPECT_THAT(error_of_row("\x92\x80\1"), HasSubstr("the features are no numbers of NumPy, with nd, type and data"));
  EXPECT_THAT(error_of_row("\x92\x81\xA1\n\1"), HasSubstr("has '\\n'; expected nd, type, kind, shape and data"));
  EXPECT_THAT(error_of_row("\x92\x82\xA2nd\xC3\xA2nd\xC3"), HasSubstr("has 'nd' twice"));
  EXPECT_THAT(error_of_row("\x92\x81\xA2nd\1"), HasSubstr("expected true or false"));
  EXPECT_THAT(error_of_row("\x92\x81\xA5shape\x92\2\1"), HasSubstr("the features have 2 dimensions, expected one"));
  const auto with_type = [](const std::string& type) {
    std::string row = kTwoFeatures + "\1";
    return error_of_row(row.replace(row.find("<f4"), 3, type));
  };
  EXPECT_EQ(with_type("<i4"), "");
  EXPECT_EQ(with_type(">f4"), "the features are of type '>f4', expected <f8, <f4, <i8 or <i4");
  EXPECT_THAT(with_type("|O8"), HasSubstr("of type '|O8'"));
  EXPECT_THAT(with_type("<f8"), HasSubstr("expected an array of 2 numbers of 8 bytes each"));
}

TEST(TensorpackRow, FeaturesAreFiniteIn32Bits) {
  const auto with_first = [](auto number) {
    std::string row = kArrayHead + "\1" +
                      "\xC4\x04"
                      "data\xC4"s +
                      static_cast<char>(sizeof number);
    row.replace(row.find("<f4"), 3, sizeof number == 8 ? "<f8" : "<f4");
    row.append(reinterpret_cast<const char*>(&number), sizeof number);
    return error_of_row(row + "\1", 1);
  };
  EXPECT_EQ(with_first(1e-60), "");
  EXPECT_EQ(with_first(3e38), "");
  EXPECT_EQ(with_first(4e38), "feature 1 is 4e+38, expected a finite number of 32 bits");
  EXPECT_THAT(with_first(std::numeric_limits<double>::quiet_NaN()), HasSubstr("feature 1 is nan"));
  EXPECT_THAT(with_first(-std::numeric_limits<float>::infinity()), HasSubstr("feature 1 is -inf"));
}

}  // namespace
}  // namespace mlbench::dataset
